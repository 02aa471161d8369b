"""Copies of conversations as their makers publish them: known by content, listed, and left whole."""

import json
import shutil
from pathlib import Path

import polars as pl
import pytest

from saferec_builder.storage import tables, workspace as store
from tests.conftest import Cli

SPOKEN = [{"type": "chat", "sender": "user", "message": "Hi, you"}]
UTTERED = [{"index": 0, "speaker": "USER", "text": "Hi, you"}]
SESSIONS = [json.dumps([*SPOKEN, {"type": "chat", "sender": "assistant", "message": f"Film {n}"}]) for n in (1, 2)]
PUBLISHED = {
    "ccpe": json.dumps([{"conversationId": f"CC-{n}", "utterances": UTTERED} for n in (1, 2)], indent=1),
    "opendialkg": pl.DataFrame({"Messages": SESSIONS, "User Rating": "5", "Assistant Rating": "5"}).write_csv(),
}


@pytest.mark.slow
@pytest.mark.parametrize("source", PUBLISHED)
def test_a_copy_of_what_is_published_is_listed(
    workspace: store.Workspace, tmp_path: Path, cli: Cli, source: str
) -> None:
    """A line of such a list is no row, and a row of such a table has no id: neither may be cut at a guess."""
    (tmp_path / "own").write_text(PUBLISHED[source])
    assert cli("mine", source, tmp_path / "own", "-C", workspace.root).code == 0
    copy = shutil.copy(tmp_path / "own", workspace.root / "copy")
    wish = store.read(workspace, tables.CONVERSATIONS)["source_id"][0]
    run = cli("forget", wish, "-C", workspace.root, "--json")
    assert run.code == 1 and run.json["still_in"] == ["copy"] and copy.read_text() == PUBLISHED[source]
