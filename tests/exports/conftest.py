"""Workspaces from which a release can be made, and two with one: made once, and copied for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from saferec_builder.storage import tables, workspace as store
from tests.servers.hub import WRITER, Hub
from tests.worlds import once, release_world as world
from tests.worlds.hub_world import quick
from tests.worlds.release_rows import reviews


@pytest.fixture
def ws(workspace: store.Workspace) -> store.Workspace:
    return world.fill(workspace, *world.requests())


@pytest.fixture
def reviewed(of_reviews: Path, workspace: store.Workspace) -> store.Workspace:
    """Two people read every request; release 1.0.0 is there."""
    return once.copied(of_reviews, workspace)


@pytest.fixture
def home(reviewed: store.Workspace) -> Path:
    return reviewed.releases / "1.0.0"


@pytest.fixture
def released(of_labels: Path, workspace: store.Workspace) -> store.Workspace:
    """Labels without reviews; release 1.0.0 is there."""
    return once.copied(of_labels, workspace)


@pytest.fixture(scope="session")
def of_reviews(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = store.Workspace.create(tmp_path_factory.mktemp("reviewed") / "ws")
    rows, said = world.requests()
    world.fill(made, rows, [row | {"reviews": [f"{who}-{row['subject']}" for who in ("ann", "bo")]} for row in said])
    for who in ("ann", "bo"):
        store.append(made, tables.REVIEWS, reviews(said, who))
    toml = made.root / "saferec.toml"
    toml.write_text(toml.read_text().replace('# consent = ["ann"]', 'consent = ["ann"]'))
    return once.released(made)


@pytest.fixture(scope="session")
def of_labels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = store.Workspace.create(tmp_path_factory.mktemp("released") / "ws")
    return once.released(world.fill(made, *world.requests()))


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    quick(monkeypatch)
    monkeypatch.setenv("HF_TOKEN", WRITER)
    monkeypatch.delenv("HUGGING_FACE_HUB_TOKEN", raising=False)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)  # which training sets for its process
    with Hub() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        yield hub
