"""No byte of a real review server's folder, or of what is made later, names a forgotten person."""

from pathlib import Path

import pytest

from annotation.tools import local_label_studio as managed
from saferec_builder.storage import tables, workspace as store
from tests.conftest import Cli, Patch
from tests.worlds import review_world
from tests.worlds.review_world import Verdict, reviewing

pytestmark = pytest.mark.servers
SUNG = [f"quillmarsh{n:02}" for n in range(40)]  # words that reviewers see in the text, quote and write in notes
TWO = ("--reviewer", "ann", "--reviewer", "bo")


@pytest.fixture
def ws(workspace: store.Workspace, monkeypatch: Patch) -> store.Workspace:
    """A workspace in which c1 is to be forgotten."""
    monkeypatch.setattr(review_world, "TEXTS", review_world.TEXTS | {"c1": f"I see blood. {' '.join(SUNG)}"})
    review_world.fill(workspace)
    return workspace


def sung(*folders: Path) -> dict[str, list[Path]]:
    """Returns each word of SUNG that is in some file's bytes, with the files that have it."""
    files = {path: path.read_bytes() for folder in folders for path in folder.resolve().rglob("*") if path.is_file()}
    return {word: [*paths] for word in SUNG if (paths := [path for path, raw in files.items() if word.encode() in raw])}


def reviewed(ws: store.Workspace, tool: review_world.LabelStudio | review_world.Argilla, cli: Cli) -> None:
    """Gives both reviewers all tasks; ann answers hers with words of c1, and her answers are pulled."""
    run = reviewing(cli, ws)
    run("push", *TWO, "--all", *tool.push_words)
    verdict = Verdict({"gore": SUNG[0]}, note=f"she said {SUNG[1]}")
    tool.answer("ann", lambda subject, asked: verdict if subject == "c1" else Verdict())
    run("pull", *tool.pull_words)
    assert store.read(ws, tables.REVIEWS).filter(subject="c1").height


def test_no_byte_of_the_own_label_studio_names_them(
    ws: store.Workspace, label_studio: tuple[Path, dict[str, object]], cli: Cli
) -> None:
    home, _ = label_studio
    reviewed(ws, review_world.LabelStudio.own(ws, label_studio), cli)
    assert len(sung(home)) == 40
    assert cli("forget", "c1", "-C", ws.root).code == 0
    assert sung(ws.root, home) == {}
    managed.up(home, print)  # `forget` stopped it
    reviewing(cli, ws)("pull")
    assert sung(ws.root, home) == {}


def test_no_byte_of_argilla_names_them(ws: store.Workspace, argilla_server: review_world.Argilla, cli: Cli) -> None:
    reviewed(ws, tool := review_world.Argilla(ws, argilla_server.url, argilla_server.key), cli)
    assert len(sung(argilla_server.folder)) == 40
    result = cli("forget", "c1", *tool.push_words, "-C", ws.root)
    assert result.code == 0 and "the database of the review server, its log and backups" in result.out
    reviewing(cli, ws)("pull", *tool.pull_words)
    assert sung(ws.root, argilla_server.folder) == {}
