"""A workspace on each of the two supported databases."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from saferec_builder.storage import config, workspace as store


@pytest.fixture(params=["sqlite", "postgresql"])
def either(request: pytest.FixtureRequest, workspace: store.Workspace) -> Iterator[store.Workspace]:
    """A workspace on each of the two supported databases."""
    if request.param == "sqlite":
        yield workspace
        return
    url = request.getfixturevalue("postgres")
    yield replace(workspace, config=workspace.config.model_copy(update={"store": config.Store(url=url)}))
