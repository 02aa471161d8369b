"""Copies of what people said are recognised by content: under any file name, when put back, and in a dry run."""

import json
import os
import shutil
import tarfile
import zlib
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from annotation.tools.tasks_and_answers import Task
from exports import formats
from saferec_builder.core.progress import Bar
from saferec_builder.erasure import forget as stage, places
from saferec_builder.storage import tables, workspace as store
from tests.conftest import Cli
from tests.worlds import once, reddit_dump, release_world as world
from tests.worlds.dialogues import TALK, tsv
from tests.worlds.reddit_dump import comment, submission
from tests.worlds.source_lines import REDIAL

MINE, OTHER = (
    {"id": f"talk-{who}", "user": who, "messages": [{"role": "user", "content": f"Hi, {n}"}]}
    for n, who in enumerate(("person4", "person5"))
)
PARTS = "dialog_id,utterance_index,speaker,text\n"


def jsonl(*rows: object) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture(scope="module")
def of_messages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    ws = store.Workspace.create(tmp_path_factory.mktemp("messages") / "ws")
    (ws.root.parent / "own.jsonl").write_text(jsonl(MINE, OTHER))
    once.command("mine", "messages", ws.root.parent / "own.jsonl", "-C", ws.root)
    return ws.root


@pytest.fixture
def mined(of_messages: Path, workspace: store.Workspace, tmp_path: Path) -> store.Workspace:
    """A workspace with the mined file beside it."""
    shutil.copy(of_messages.parent / "own.jsonl", tmp_path)
    return once.copied(of_messages, workspace)


@pytest.fixture(scope="module")
def of_reddit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    ws = store.Workspace.create(tmp_path_factory.mktemp("reddit") / "ws")
    posts, comments = [submission(1, author="Seeker1")], [comment(10, "s1", author="LeaverX")]
    dumps = [("RS.ndjson", posts), ("RC.ndjson", comments)]
    once.command("mine", "reddit", *(reddit_dump.write(ws.root.parent / n, x) for n, x in dumps), "-C", ws.root)
    return ws.root


@pytest.fixture(scope="module")
def of_release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Release 1.0.0 of forty conversations, with ids as mining makes them: `c001` stood in a checksum by chance."""
    ws = store.Workspace.create(tmp_path_factory.mktemp("release") / "ws")
    rows, labels = world.requests(40)
    people = [row | {name: tables.digest(row[name]) for name in ("conversation", "seeker")} for row in rows]
    world.fill(ws, people, [row | {"subject": tables.digest(row["subject"])} for row in labels])
    return once.released(ws)


@pytest.mark.slow
@pytest.mark.parametrize("wish", ["person4", "talk-person4", tables.digest("messages", "talk-person4")])
def test_a_copy_of_the_input_is_known_by_what_it_says(mined: store.Workspace, cli: Cli, wish: str) -> None:
    names = ["mine.txt", "old/own.jsonl.bak", "own_copy.jsonl", "review/own.ndjson"]
    for copy in (copies := [mined.root / name for name in names]):
        copy.parent.mkdir(exist_ok=True)
        copy.write_text(jsonl(MINE, OTHER))
    dry_run = cli("forget", wish, "--dry-run", "-C", mined.root, "--json").json
    assert sorted(dry_run["files"]) == names and dry_run["where"]["lines"] == 4
    assert [copy.read_text() for copy in copies] == [jsonl(MINE, OTHER)] * 4
    run = cli("forget", wish, "-C", mined.root, "--json")
    assert run.code == 0 and run.json["where"] == dry_run["where"]
    assert [copy.read_text() for copy in copies] == [jsonl(OTHER)] * 4


def test_of_an_author_copies_without_authors_go_too(mined: store.Workspace, cli: Cli) -> None:
    """The request names an author; the workspace knows their conversations until they are erased."""
    nameless = [{key: value for key, value in row.items() if key != "user"} for row in (MINE, OTHER)]
    (mined.root / "nameless.jsonl").write_text(jsonl(*nameless))
    assert cli("forget", "person4", "-C", mined.root).code == 0
    assert (mined.root / "nameless.jsonl").read_text() == jsonl(nameless[1])


@pytest.mark.slow
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
    path = tmp_path / f"own{'.tsv' if source == 'inspired' else '.csv' if source == 'ccpe' else '.jsonl'}"
    path.write_text(text)
    assert cli("mine", source, path, "-C", workspace.root).code == 0
    copy = workspace.root / f"another{path.suffix}"
    shutil.copy(path, copy)
    os.utime(copy, (10, 10))
    cli("forget", wish, "-C", workspace.root)
    assert copy.stat().st_mtime == 10  # of two versions of a reviewer's file the one saved last counts
    assert left is None or copy.read_text() == left
    assert not [row for row in copy.read_text().splitlines() if row.startswith(f"{wish}\t")]


def test_a_copy_that_is_one_json_value_stays(workspace: store.Workspace, tmp_path: Path, cli: Cli) -> None:
    """Its second row was taken for its second line, and that line was removed."""
    rows = [{"prompt": f"Hi, {n}", "completion": f"Film {n}"} for n in range(2)]
    (tmp_path / "own.jsonl").write_text(jsonl(*rows))
    cli("mine", "saferec", tmp_path / "own.jsonl", "-C", workspace.root)
    wish = store.read(workspace, tables.CONVERSATIONS).filter(pl.col("turns").list.first().struct[1] == "Hi, 1")
    (copy := workspace.root / "copy.json").write_text(text := json.dumps({"v": 1, "samples": rows}, indent=1))
    run = cli("forget", wish["conversation"][0], "-C", workspace.root, "--json")
    assert run.code == 1 and run.json["still_in"] == ["copy.json"] and copy.read_text() == text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("note.txt", "they wrote: 'u/person4' wants to be out"),
        ("table.csv", "who,said\nperson4,Hi\n"),
        ("list.json", json.dumps([{"by": "person4"}])),
        ("own.json", json.dumps({"samples": [MINE, {"by": "person4"}]})),
        ("broken.jsonl", jsonl(MINE)[:-30]),
        ("twice.json", jsonl(OTHER, MINE).replace("{", '{"id": "x", ', 1)),  # a key that came twice broke it off
        ("ids.txt", "talk-person5\ntalk-person4.\n"),
        ("person4.txt", "they want to be out"),
    ],
)
def test_other_files_with_a_name_of_theirs_are_listed(mined: store.Workspace, cli: Cli, name: str, text: str) -> None:
    (mined.root / name).write_text(text)
    (mined.root / "others.txt").write_text("person45, person, talk-person5 and 4")
    run = cli("forget", "person4", "-C", mined.root, "--json")
    assert run.code == 1 and run.json["still_in"] == [name] and f"still named in {mined.root / name}: look" in run.err
    assert (mined.root / name).read_text() == text


@pytest.mark.slow
@pytest.mark.parametrize("wish", ["u/LeaverX", "leaverx", "LeaverX", "t1_c10", "c10", "Seeker1", "s1"])
def test_a_dump_of_reddit_that_names_them_is_listed(
    of_reddit: Path, workspace: store.Workspace, cli: Cli, wish: str
) -> None:
    """Reddit's dumps have names in any case, and ids without the prefix of the kind that a request may have."""
    once.copied(of_reddit, workspace)
    shutil.copy(of_reddit.parent / "RC.ndjson", workspace.root / "copy.ndjson")
    run = cli("forget", wish, "-C", workspace.root, "--json")
    assert run.code == 1 and run.json["still_in"] == ["copy.ndjson"]
    assert "RS.ndjson: the file" in run.json["do_1"] and "dumps of comments" in run.json["do_2"]


def test_outputs_are_not_listed_for_a_word_that_somebody_is_called(mined: store.Workspace, cli: Cli) -> None:
    """The page and sheets have no names from sources, but a dry run said to look there for `person4`."""
    (mined.root / "report.html").write_text("<p>What person4 means to recommenders</p>")
    (mined.root / "review").mkdir()
    (mined.root / "review" / "ann.csv").write_text("task,text\n1,person4 is a word\n")
    assert "files" not in cli("forget", "person4", "--dry-run", "-C", mined.root, "--json").json


@pytest.mark.slow
def test_what_nobody_can_read_is_listed_and_stops_nothing(mined: store.Workspace, cli: Cli) -> None:
    """It ended in a traceback after the intent was written, and every later command refused to run."""
    (mined.root / "half.parquet").write_bytes(b"PAR1 half of a download")
    (mined.root / "note.txt").write_text("of person4")
    assert cli("forget", "person4", "--dry-run", "-C", mined.root, "--json").json["not_read"] == ["half.parquet"]
    run = cli("forget", "person4", "-C", mined.root, "--json")
    assert run.code == 1 and run.json["not_read"] == ["half.parquet"] and run.json["still_in"] == ["note.txt"]
    (mined.root / "note.txt").unlink()
    run = cli("forget", "person4", "-C", mined.root)
    assert run.code == 1 and f"nobody can read {mined.root / 'half.parquet'}: look there" in run.err
    assert cli("propose", "-C", mined.root).code == 0


@pytest.mark.parametrize("head", [b"\0\0\0\0", b"PARE", b""])
def test_a_table_that_does_not_begin_as_one_cannot_be_read(mined: store.Workspace, cli: Cli, head: bytes) -> None:
    """A damaged or encrypted table was searched as raw bytes, which hold no name in clear, and counted as clean."""
    (mined.root / "other.PARQUET").write_bytes(head + bytes(300))
    run = cli("forget", "person4", "-C", mined.root, "--json")
    assert run.code == 1 and run.json["not_read"] == ["other.PARQUET"]


def test_a_file_that_one_may_not_read_is_listed(
    mined: store.Workspace, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    (mined.root / "colleagues.jsonl").write_text(jsonl(MINE))

    def refuse(path: Path) -> None:
        if path.name == "colleagues.jsonl":
            raise PermissionError(13, "Permission denied", path)

    blocks, likely = places._blocks, places.likely
    monkeypatch.setattr(places, "_blocks", lambda path: refuse(path) or blocks(path))
    monkeypatch.setattr(places, "likely", lambda path: refuse(path) or likely(path))
    run = cli("forget", "person4", "-C", mined.root, "--json")
    assert run.code == 1 and run.json["not_read"] == ["colleagues.jsonl"]


@pytest.mark.slow
@pytest.mark.parametrize("what", ["shard", "release", "key file"])
def test_what_is_damaged_stops_it_before_it_begins(
    of_release: Path, workspace: store.Workspace, cli: Cli, what: str
) -> None:
    """Otherwise the command that restores it would refuse to run."""
    once.copied(of_release, workspace)
    release = workspace.releases / "1.0.0"
    folders = {"shard": workspace.root / "tables" / "conversations", "release": release / "data" / "conversations"}
    path = next(folders[what].glob("*.parquet")) if what in folders else workspace.releases / "1.0.0.key.parquet"
    path.chmod(0o600)
    path.write_bytes(b"PAR1 half of it")
    run = cli("forget", tables.digest("c001"), "-C", workspace.root)
    assert run.code == 1 and run.err.count("\n") <= 2 and "Traceback" not in run.err, run.err
    assert not (workspace.root / store.FORGETTING).exists()


@pytest.mark.slow
@pytest.mark.parametrize("wish", ["here", "released", "pseudonym"])
def test_a_release_of_before_the_dataset_had_another_name_names_them_too(
    of_release: Path, workspace: store.Workspace, cli: Cli, wish: str
) -> None:
    ws, mined = once.copied(of_release, workspace), tables.digest("c001")
    seeker = store.read(ws, tables.CONVERSATIONS).filter(conversation=mined)["seeker"][0]
    names = {"released": world.released(ws, mined)[0], "pseudonym": formats.pseudonym(ws.config.dataset.name, seeker)}
    (ws.root / "runs").mkdir()
    (ws.root / "runs" / "answers.jsonl").write_text(jsonl(*({"id": name} for name in (*names.values(), "other"))))
    (ws.root / "saferec.toml").write_text('[dataset]\nname = "another"\n')
    run = cli("forget", names.get(wish, mined), "-C", ws.root, "--json")
    assert run.code == 0 and run.json["where"]["lines"] == 2, run.err
    assert (ws.root / "runs" / "answers.jsonl").read_text() == jsonl({"id": "other"})


def test_copies_of_what_is_ours_are_like_any_other_file(mined: store.Workspace, cli: Cli) -> None:
    conversation, root = tables.digest("messages", "talk-person4"), mined.root
    shutil.copytree(root / "tables" / "conversations", root / "tables" / "conversations.old")
    (root / "old").mkdir()
    (root / "old" / "removals.csv").write_text("messages,talk-person4,\n")
    for name in ("workspace.db.bak", "notes.lock", "old/saferec.toml"):
        (root / name).write_text(conversation)
    run = cli("forget", "person4", "-C", root, "--json")
    shards = [str(path.relative_to(root)) for path in (root / "tables").rglob("conversations.old/*.parquet")]
    expected = ["notes.lock", "old/removals.csv", "old/saferec.toml", *shards, "workspace.db.bak"]
    assert run.code == 1 and run.json["still_in"] == expected


def test_a_table_is_searched_in_whatever_kind_its_columns_are(mined: store.Workspace, cli: Cli) -> None:
    """A category is stored in a dictionary, and a name of the source in a list with others."""
    theirs, another = (tables.digest("messages", f"talk-person{n}") for n in (4, 5))
    kinds = {
        "plain": pl.Series([theirs, another]),
        "category": pl.Series([theirs, another], dtype=pl.Categorical),
        "nested": pl.Series([[{"by": "person5"}, {"by": "person4"}], []]),
        "others": pl.Series([["talk-person5"], ["person", "4"]]),
    }
    for name, column in kinds.items():
        column.to_frame("x").write_parquet(mined.root / f"{name}.parquet")
    pl.DataFrame({theirs: [1]}).write_parquet(mined.root / "column.parquet")
    (mined.root / "plain.parquet").rename(mined.root / "plain.parquet.bak")
    assert not any(b"PAR1" in block for block in places._blocks(mined.root / "column.parquet"))  # packed: noise
    run = cli("forget", "person4", "-C", mined.root, "--json")
    expected = ["category.parquet", "column.parquet", "nested.parquet", "plain.parquet.bak"]
    assert run.code == 1 and run.json["still_in"] == expected


def test_what_is_packed_and_what_a_link_leads_to_is_told(mined: store.Workspace, tmp_path: Path, cli: Cli) -> None:
    """A backup.tgz held their words, and no message named it."""
    (mined.root / "data").symlink_to(tmp_path)
    (mined.root / "inside.toml").symlink_to(mined.root / "saferec.toml")
    (mined.root / "nowhere").symlink_to(tmp_path / "nothing")
    with tarfile.open(mined.root / "backup.tgz", "w:gz") as archive:
        archive.add(mined.root / "tables")
    (mined.root / "notes.docx").write_bytes(b"PK\x03\x04")
    for name in ("12", "34"):
        (mined.root / ".git" / "objects").mkdir(parents=True, exist_ok=True)
        (mined.root / ".git" / "objects" / name).write_bytes(zlib.compress(b"blob of theirs"))
    summary = cli("forget", "person4", "-C", mined.root, "--json").json
    assert summary["do_2"] == "data: links out of here, so nobody looked there: take them out there"
    assert summary["do_3"].startswith(".git, backup.tgz, notes.docx: packed, so nobody looked into it")


def test_a_note_on_somebody_else_loses_an_id_of_theirs(mined: store.Workspace, cli: Cli) -> None:
    theirs, another = (tables.digest("messages", f"talk-person{n}") for n in (4, 5))
    rows = store.read(mined, tables.CONVERSATIONS).filter(conversation=another).to_dicts()
    store.append(mined, tables.REVIEWS, world.reviews(world.review(rows[0], note=f"personal data, as in {theirs}")))
    assert cli("forget", "person4", "-C", mined.root).code == 0
    assert store.read(mined, tables.REVIEWS)["note"].to_list() == ["personal data, as in [forgotten]"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["auth0|65f1ab", "talk:2024/77q", "a=="])
def test_a_name_may_hold_what_parts_words(workspace: store.Workspace, tmp_path: Path, cli: Cli, name: str) -> None:
    (tmp_path / "own.jsonl").write_text(jsonl(MINE | {"user": name}, OTHER))
    assert cli("mine", "messages", tmp_path / "own.jsonl", "-C", workspace.root).code == 0
    for n, text in enumerate(['{{"id": "{}"}}', "mail about {}: out", "user={}, please", r"(by:{})"]):
        (workspace.root / f"note{n}.txt").write_text(text.format(name))
    (workspace.root / "other.txt").write_text("auth0 65f1ab talk: 2024/77 a=")
    still_in = cli("forget", name, "-C", workspace.root, "--json").json["still_in"]
    assert sorted(still_in) == [f"note{n}.txt" for n in range(4)]


@pytest.mark.slow
@pytest.mark.parametrize("wish", ["person4", "talk-person4", "here", "released"])
def test_who_is_forgotten_is_looked_for_again(mined: store.Workspace, cli: Cli, wish: str) -> None:
    """Files were put back: input files, and files that name them by an id of the workspace or of a release."""
    conversation = tables.digest("messages", "talk-person4")
    seeker = store.read(mined, tables.CONVERSATIONS).filter(conversation=conversation)["seeker"][0]
    other_names = {"person4": [seeker], "released": world.released(mined, conversation)}
    restored = other_names.get(wish, [conversation, *other_names["released"]])
    name = {"here": conversation, "released": restored[0]}.get(wish, wish)
    assert cli("forget", name, "-C", mined.root).code == 0
    (mined.root / "own.jsonl").write_text(jsonl(MINE, OTHER))
    (mined.root / "answers.jsonl").write_text(jsonl({"id": "x"}, *({"id": name} for name in restored)))
    dry_run = cli("forget", name, "--dry-run", "-C", mined.root, "--json").json
    run = cli("forget", name, "-C", mined.root, "--json")
    assert run.code == 0 and run.json[name] == "0 conversations, known before"
    assert run.json["where"] == dry_run["where"] == {"lines": 1 + len(restored)}
    assert (mined.root / "own.jsonl").read_text() == jsonl(OTHER)
    assert (mined.root / "answers.jsonl").read_text() == jsonl({"id": "x"})


@pytest.mark.slow
def test_what_nobody_looks_into_is_told_whenever_somebody_is_looked_for(
    mined: store.Workspace, tmp_path: Path, cli: Cli
) -> None:
    """A packed copy that was put back, and a link to one, were reported at the first erasure only."""
    summary = cli("forget", "person4", "-C", mined.root, "--json").json
    assert len([line for name, line in summary.items() if name.startswith("do_")]) == 2  # the file, and backups
    with tarfile.open(mined.root / "backup.tgz", "w:gz") as archive:
        archive.add(tmp_path / "own.jsonl")
    (mined.root / "data").symlink_to(tmp_path)
    for options in (("--dry-run",), ()):
        summary = cli("forget", "person4", *options, "-C", mined.root, "--json").json
        todo = [line.partition(":")[0] for name, line in summary.items() if name.startswith("do_")]
        assert todo == ["data", "backup.tgz"]


@pytest.mark.slow
def test_a_reviewers_file_is_found_again_whatever_it_was_saved_as(mined: store.Workspace, cli: Cli) -> None:
    """Their tasks were searched only in rows: the second time, in a file without rows, they were overlooked."""
    row = store.read(mined, tables.CONVERSATIONS).filter(conversation=tables.digest("messages", "talk-person4"))
    revision = row.select("conversation", "digest").row(0)
    task = {"kind": "sensitivity", "subject": revision[0], "digest": revision[1], "reviewer": "ann", "role": "reviewer"}
    store.append(mined, tables.ASSIGNMENTS, tables.ASSIGNMENTS.frame([task | {"why": "proposed", "batch": "b"}]))
    assert cli("forget", "person4", "-C", mined.root).code == 0
    sheet = f"task,text\n{Task('sensitivity', *revision, 'ann', 'reviewer').id}-0123-csv,theirs\n"
    (mined.root / "review").mkdir()
    for name, encoding, end in (("a.txt", "utf-8", ""), ("b.csv", "utf-16", ""), ("c.csv", "utf-8", '"open\n')):
        (mined.root / "review" / name).write_text(sheet + end, encoding)
    (mined.root / "review" / "d.txt").write_text("task-0123456789abcdef-0123-csv,another")
    dry_run, run = (cli("forget", "person4", *dry, "-C", mined.root, "--json") for dry in (["--dry-run"], []))
    assert dry_run.json["files"] == run.json["still_in"] == ["review/a.txt", "review/b.csv", "review/c.csv"]
    assert run.code == 1


def test_whoever_waits_sees_what_is_searched(mined: store.Workspace, cli: Cli) -> None:
    (mined.root / "own.jsonl").write_text(jsonl(MINE))
    files, totals, steps = [*places.files(mined.root)], list[int](), list[int]()

    class Counting(nullcontext[Any]):
        def update(self, n: int = 1, /) -> None:
            steps.append(n)

        def __enter__(self) -> "Counting":
            return self

    def bar(total: int) -> Bar:
        totals.append(total)
        return Counting()

    assert "searching the tables, the releases and every file" in cli("forget", "x", "--dry-run", "-C", mined.root).err
    stage.forget(mined, ["person4"], dry=True, progress=bar)  # once for lines, once for names
    assert totals == [len(files)] * 2 and sum(steps) == sum(totals) > 0
