"""Workspaces that are ready for a release, and two that have one: built once, and copied for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from saferec_builder.storage import workspace as store
from tests.servers.hub import WRITER, Hub
from tests.worlds import once, release_world as world
from tests.worlds.hub_world import quick
from tests.worlds.release_rows import reviewed as reviewed_by_two


@pytest.fixture
def ws(workspace: store.Workspace) -> store.Workspace:
    return world.fill(workspace, *world.requests())


@pytest.fixture
def reviewed(of_reviews: Path, workspace: store.Workspace) -> store.Workspace:
    """Two people reviewed every request; release 1.0.0 exists."""
    return once.copied(of_reviews, workspace)


@pytest.fixture
def home(reviewed: store.Workspace) -> Path:
    return reviewed.releases / "1.0.0"


@pytest.fixture
def released(of_labels: Path, workspace: store.Workspace) -> store.Workspace:
    """Labels without reviews; release 1.0.0 exists."""
    return once.copied(of_labels, workspace)


@pytest.fixture(scope="session")
def of_reviews(tmp_path_factory: pytest.TempPathFactory) -> Path:
    ws = store.Workspace.create(tmp_path_factory.mktemp("reviewed") / "ws")
    return once.released(reviewed_by_two(ws, *world.requests()))


@pytest.fixture(scope="session")
def of_labels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    ws = store.Workspace.create(tmp_path_factory.mktemp("released") / "ws")
    return once.released(world.fill(ws, *world.requests()))


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    quick(monkeypatch)
    monkeypatch.setenv("HF_TOKEN", WRITER)
    monkeypatch.delenv("HUGGING_FACE_HUB_TOKEN", raising=False)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)  # training sets it for its own process
    with Hub() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        yield hub
