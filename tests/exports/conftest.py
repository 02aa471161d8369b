"""A workspace from which a release can be made."""

import pytest

from saferec_builder.storage import tables, workspace as store
from tests.servers.hub import WRITER, Hub
from tests.worlds import release_world as world
from tests.worlds.hub_world import quick
from tests.worlds.release_rows import reviews


@pytest.fixture
def ws(workspace):
    return world.fill(workspace, *world.requests())


@pytest.fixture
def reviewed(workspace):
    said = world.requests()[1]
    named = [row | {"reviews": [f"{who}-{row['subject']}" for who in ("ann", "bo")]} for row in said]
    world.fill(workspace, world.requests()[0], named)
    for who in ("ann", "bo"):
        store.append(workspace, tables.REVIEWS, reviews(said, who))
    toml = workspace.root / "saferec.toml"
    toml.write_text(toml.read_text().replace('# consent = ["ann"]', 'consent = ["ann"]'))
    return workspace


@pytest.fixture
def home(reviewed, cli):
    assert cli("release", "1.0.0", "-C", reviewed.root).code == 0
    return reviewed.releases / "1.0.0"


@pytest.fixture
def released(ws, cli):
    assert cli("release", "1.0.0", "-C", ws.root).code == 0
    return ws


@pytest.fixture
def hub(monkeypatch):
    quick(monkeypatch)
    monkeypatch.setenv("HF_TOKEN", WRITER)
    monkeypatch.delenv("HUGGING_FACE_HUB_TOKEN", raising=False)
    with Hub() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        yield hub
