"""Copies of what people said are known by their content: under any name, once more, and in a dry run, too."""

import json
import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from saferec_builder.core.progress import Bar
from saferec_builder.erasure import forget as stage, places
from saferec_builder.storage import tables, workspace as store
from tests.conftest import Cli
from tests.worlds import release_world as world
from tests.worlds.dialogues import TALK, tsv
from tests.worlds.source_lines import REDIAL

MINE, OTHER = (
    {"id": f"talk-{who}", "user": who, "messages": [{"role": "user", "content": f"Hi, {n}"}]}
    for n, who in enumerate(("person4", "person5"))
)
PARTS = "dialog_id,utterance_index,speaker,text\n"


def jsonl(*rows: object) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def mined(workspace: store.Workspace, tmp_path: Path, cli: Cli) -> store.Workspace:
    """The file that was mined lies beside the workspace."""
    (tmp_path / "own.jsonl").write_text(jsonl(MINE, OTHER))
    assert cli("mine", "messages", tmp_path / "own.jsonl", "-C", workspace.root).code == 0
    return workspace


@pytest.mark.parametrize("name", ["own_copy.jsonl", "old/own.jsonl.bak", "mine.txt", "review/own.ndjson"])
@pytest.mark.parametrize("wish", ["person4", "talk-person4", tables.digest("messages", "talk-person4")])
def test_a_copy_of_the_input_is_known_by_what_it_says(mined: store.Workspace, cli: Cli, name: str, wish: str) -> None:
    copy = mined.root / name
    copy.parent.mkdir(exist_ok=True)
    copy.write_text(jsonl(MINE, OTHER))
    looked = cli("forget", wish, "--dry-run", "-C", mined.root, "--json").json
    assert looked["files"] == [name] and looked["where"]["lines"] == 1 and copy.read_text() == jsonl(MINE, OTHER)
    ran = cli("forget", wish, "-C", mined.root, "--json")
    assert ran.code == 0 and ran.json["where"] == looked["where"] and copy.read_text() == jsonl(OTHER)


def test_of_an_author_copies_without_authors_go_too(mined: store.Workspace, cli: Cli) -> None:
    """The wish names an author; which conversations are theirs the workspace knows as long as it has them."""
    nameless = [{key: value for key, value in row.items() if key != "user"} for row in (MINE, OTHER)]
    (mined.root / "nameless.jsonl").write_text(jsonl(*nameless))
    assert cli("forget", "person4", "-C", mined.root).code == 0
    assert (mined.root / "nameless.jsonl").read_text() == jsonl(nameless[1])


@pytest.mark.parametrize(
    ("source", "text", "wish", "left"),
    [
        ("redial", jsonl(REDIAL, REDIAL | {"conversationId": 9}), "9", jsonl(REDIAL)),
        ("ccpe", f'{PARTS}CC-1,0,USER,"a\nb"\nCC-2,0,USER,CC-1\n', "CC-1", f"{PARTS}CC-2,0,USER,CC-1\n"),
        ("inspired", tsv(TALK), TALK[0][0], None),
    ],
)
def test_so_are_those_of_other_sources(
    workspace: store.Workspace, tmp_path: Path, cli: Cli, source: str, text: str, wish: str, left: str | None
) -> None:
    (tmp_path / f"own{'.tsv' if source == 'inspired' else '.csv' if source == 'ccpe' else '.jsonl'}").write_text(text)
    path = next(tmp_path.glob("own.*"))
    assert cli("mine", source, path, "-C", workspace.root).code == 0
    copy = workspace.root / f"another{path.suffix}"
    shutil.copy(path, copy)
    cli("forget", wish, "-C", workspace.root)
    assert left is None or copy.read_text() == left
    assert not [row for row in copy.read_text().splitlines() if row.startswith(f"{wish}\t")]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("note.txt", "they wrote: 'u/person4' wants to be out"),
        ("table.csv", "who,said\nperson4,Hi\n"),
        ("list.json", json.dumps([{"by": "person4"}])),
        ("own.json", json.dumps({"samples": [MINE, {"by": "person4"}]})),
        ("broken.jsonl", jsonl(MINE)[:-30]),
        ("ids.txt", "talk-person5\ntalk-person4.\n"),
    ],
)
def test_other_files_with_a_name_of_theirs_are_listed(mined: store.Workspace, cli: Cli, name: str, text: str) -> None:
    (mined.root / name).write_text(text)
    (mined.root / "others.txt").write_text("person45, person, talk-person5 and 4")
    ran = cli("forget", "person4", "-C", mined.root, "--json")
    assert ran.code == 1 and ran.json["still_in"] == [name] and f"still named in {mined.root / name}: look" in ran.err
    assert (mined.root / name).read_text() == text


def test_what_people_write_is_no_name_where_the_tool_has_written_it(mined: store.Workspace, cli: Cli) -> None:
    """Somebody is called as a word of a reviewer's sheet; a sheet has no names of sources."""
    (mined.root / "review").mkdir()
    (mined.root / "review" / "ann.csv").write_text("task,text\n1,person4 is a word\n")
    assert cli("forget", "person4", "-C", mined.root).code == 0


@pytest.mark.parametrize("wish", ["person4", "talk-person4", "here", "released"])
def test_who_is_forgotten_is_looked_for_again(mined: store.Workspace, cli: Cli, wish: str) -> None:
    """After files came back: of their input, and of what named them here or in a release."""
    here = tables.digest("messages", "talk-person4")
    seeker = store.read(mined, tables.CONVERSATIONS).filter(conversation=here)["seeker"][0]
    known = {"person4": [seeker], "released": world.released(mined, here)}
    back = known.get(wish, [here, *known["released"]])
    name = {"here": here, "released": back[0]}.get(wish, wish)
    assert cli("forget", name, "-C", mined.root).code == 0
    (mined.root / "own.jsonl").write_text(jsonl(MINE, OTHER))
    (mined.root / "answers.jsonl").write_text(jsonl({"id": "x"}, *({"id": name} for name in back)))
    looked = cli("forget", name, "--dry-run", "-C", mined.root, "--json").json
    ran = cli("forget", name, "-C", mined.root, "--json")
    assert ran.code == 0 and ran.json[name] == "0 conversations, known before"
    assert ran.json["where"] == looked["where"] == {"lines": 1 + len(back)}
    assert (mined.root / "own.jsonl").read_text() == jsonl(OTHER)
    assert (mined.root / "answers.jsonl").read_text() == jsonl({"id": "x"})


def test_a_dry_run_and_the_run_say_the_same_of_rows_and_lines(mined: store.Workspace, cli: Cli) -> None:
    # person4 has a row in conversations and one in marks = 2, and a line in each of two files
    for name in ("one.jsonl", "two.jsonl"):
        (mined.root / name).write_text(jsonl(MINE, OTHER))
    looked, ran = (cli("forget", "person4", *words, "-C", mined.root) for words in (["--dry-run"], []))
    assert "\nforget: 2 rows of tables, 2 lines of files would be erased; nothing was changed\n" in looked.out
    assert "\nforget: 2 rows of tables, 2 lines of files erased\n" in ran.out


def test_whoever_waits_sees_what_is_searched(mined: store.Workspace, cli: Cli) -> None:
    (mined.root / "own.jsonl").write_text(jsonl(MINE))
    files, totals, done = [*places.files(mined.root)], list[int](), list[int]()

    class Counting(nullcontext[Any]):
        def update(self, n: int = 1, /) -> None:
            done.append(n)

        def __enter__(self) -> "Counting":
            return self

    def bar(total: int) -> Bar:
        totals.append(total)
        return Counting()

    assert "searching the tables, the releases and every file" in cli("forget", "x", "--dry-run", "-C", mined.root).err
    stage.forget(mined, ["person4"], dry=True, progress=bar)  # once for lines, once for names
    assert totals == [len(files)] * 2 and sum(done) == sum(totals) > 0
