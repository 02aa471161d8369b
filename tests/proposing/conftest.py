"""A workspace with a stub for its models: `small` is unsure about texts that `large` decides."""

from typing import Any

import pytest

from saferec_builder.storage import workspace as store
from tests.servers.llm_stub import Stub
from tests.worlds.model_replies import TEXTS, Cli, fill, options, speaks


@pytest.fixture
def ask(blank: Any, workspace: store.Workspace) -> Any:
    """Runs `propose` on the three TEXTS."""
    fill(workspace, *TEXTS)
    return blank


@pytest.fixture
def blank(cli: Cli, workspace: store.Workspace, stub: Stub) -> Any:
    """Runs `propose` in a workspace without conversations."""
    stub.usual = speaks
    options(workspace, f'base_url = "{stub.url}"\nconcurrency = 1\njury = ["openai:small", "openai:large"]')
    return lambda *words: cli("propose", "-C", workspace.root, "--json", *words)
