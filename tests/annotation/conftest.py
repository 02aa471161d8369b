"""Workspaces and servers that several tests of review begin with."""

import pytest

from saferec_builder.storage import workspace as store
from tests.worlds import review_world


@pytest.fixture
def ws(workspace: store.Workspace) -> store.Workspace:
    review_world.fill(workspace)
    return workspace
