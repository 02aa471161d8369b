"""A workspace whose model `m` answers in batches, by a double of the Batch endpoints."""

from collections.abc import Callable, Iterator

import pytest

from saferec_builder.storage import workspace as store
from tests.conftest import Ran
from tests.servers.batch_stub import Batches, running
from tests.worlds.batched import TEXTS, model
from tests.worlds.model_replies import Cli, fill, options


@pytest.fixture
def double() -> Iterator[Batches]:
    with running(model) as server:
        yield server


@pytest.fixture
def ask(blank: Callable[..., Ran], workspace: store.Workspace) -> Callable[..., Ran]:
    fill(workspace, *TEXTS)
    return blank


@pytest.fixture
def blank(cli: Cli, workspace: store.Workspace, double: Batches) -> Callable[..., Ran]:
    options(workspace, "batch_poll = 0.01")
    toml = workspace.root / "saferec.toml"
    section = f'[propose.models.m]\nbase_url = "{double.url}"\ninput = 2.0\noutput = 4.0\n\n[splits]'
    toml.write_text(toml.read_text().replace("[splits]", section))
    return lambda *words: cli("propose", "-C", workspace.root, "--proposer", "batch:m", "--json", *words)
