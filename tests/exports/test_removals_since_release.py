"""A person who asks to be removed after a release was made is in no published copy of it."""

import shutil
from pathlib import Path

import polars as pl
import pytest

from annotation.waiting import Waiting
from exports import folder as write, released_ids
from saferec_builder import summary
from saferec_builder.mining import conversations as mine
from saferec_builder.proposing import pending
from saferec_builder.storage import tables, workspace as store
from tests.worlds import once, release_world as world
from tests.worlds.any_rows import rows


@pytest.fixture(scope="session")
def of_messages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with 40 people, as if mined from a file of messages, and 1.0.0 with all of them."""
    ws = store.Workspace.create(tmp_path_factory.mktemp("messages") / "ws")
    return once.released(as_mined(ws, "messages"))


def as_mined(ws: store.Workspace, source: str) -> store.Workspace:
    """The workspace with the 40 requests, under the ids and pseudonyms that mining gives to those of the source."""
    rows, labels = world.requests()
    for row, label in zip(rows, labels, strict=True):
        row |= {"source": source, "seeker": mine.pseudonym(source, row["seeker"], ws.secret)}
        row["conversation"] = label["subject"] = tables.digest(source, row["source_id"])
    return world.fill(ws, rows, labels)


@pytest.fixture
def ws(of_messages: Path, workspace: store.Workspace, monkeypatch: pytest.MonkeyPatch) -> store.Workspace:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # no server: a refusal makes no request
    return once.copied(of_messages, workspace)


def remove(ws, row):
    (ws.root / "removals.csv").write_text(f"source,source_id,author\n{row}\n")


TO_HUB = ("--hub", "--repo", "ann/safe")
ASKED = ["messages,c007,", ",c007,", "messages,,p7", "messages,,@P7"]


@pytest.mark.slow
@pytest.mark.parametrize("asked", ASKED)
def test_a_release_that_holds_them_is_refused_with_the_version_to_make(ws, cli, asked, monkeypatch):
    monkeypatch.chdir(ws.root)
    remove(ws, asked)
    first = f"first {ws.released_id(tables.digest('messages', 'c007'))}: make 2.0.0 (`saferec-build release 2.0.0`) and"
    for where in (("--to", "out"), (*TO_HUB, "--dry-run")):
        refused = cli("publish", "1.0.0", *where, "-C", ws.root)
        assert refused.code == 1 and refused.err.count("\n") == 1 and not (ws.root / "out").exists()
        assert "holds 1 conversation whose removal removals.csv asks for, or was carried out" in refused.err
        assert first in refused.err


@pytest.mark.slow
def test_the_version_that_it_names_can_be_made_and_published(ws, cli, tmp_path):
    remove(ws, "messages,c007,")
    assert cli("release", "1.0.1", "-C", ws.root).code == 1  # rows are gone: too small a version
    assert cli("release", "2.0.0", "-C", ws.root).code == 0
    message = cli("publish", "1.0.0", "--to", tmp_path / "out", "-C", ws.root).err
    assert "first " in message and ": publish 2.0.0, which is without them" in message
    assert cli("publish", "--to", tmp_path / "out", "-C", ws.root).code == 0
    assert write.facts_of(tmp_path / "out")["version"] == "2.0.0"


@pytest.mark.parametrize("asked", ASKED)
def test_they_are_found_when_the_tables_were_made_anew_without_them(ws, cli, tmp_path, asked):
    """The docs advise this for facts that changed: delete tables/conversations, and mine all files again."""
    remaining = store.read(ws, tables.CONVERSATIONS).filter(source_id="c008")
    shutil.rmtree(ws.root / "tables" / "conversations")
    store.append(ws, tables.CONVERSATIONS, remaining)
    remove(ws, asked)
    assert cli("publish", "--to", tmp_path / "out", "-C", ws.root).code == 1


@pytest.mark.slow
@pytest.mark.parametrize("asked", ["hf:chats,c007,", "hf:chats,,p7"])
def test_whose_text_stays_with_its_source_is_found_by_the_key_file(workspace, cli, tmp_path, asked):
    """Released rows name no person: after the tables were made again, `publish` missed removals by author."""
    as_mined(workspace, "hf:chats")
    world.for_few(workspace)
    once.released(workspace)
    shutil.rmtree(workspace.root / "tables" / "conversations")
    remove(workspace, asked)
    assert "1 conversation whose removal" in cli("publish", "--to", tmp_path / "out", "-C", workspace.root).err
    key = released_ids.path_of(workspace.releases / "1.0.0")
    if "p7" in asked:
        key.unlink()
        result = cli("publish", "--to", tmp_path / "out", "-C", workspace.root)
        assert result.code == 1 and "key.parquet: missing, and nobody else can tell who is in it" in result.err
        report = cli("report", "-C", workspace.root)  # it warns and goes on
        assert report.code == 0 and "key.parquet: missing, and nobody else can tell" in report.err
    else:  # without `.secret` a pseudonym can't be made any more, a name of the key file is there
        (workspace.root / ".secret").write_bytes(bytes(64))
        assert "1 conversation whose removal" in cli("publish", "--to", tmp_path / "out", "-C", workspace.root).err


@pytest.mark.slow
@pytest.mark.parametrize(("wish", "again"), [("c007", ["c007"]), ("c007", []), ("p7", ["p8"])])
def test_a_release_that_was_put_back_after_an_erasure_goes_nowhere_and_is_emptied_again(ws, cli, tmp_path, wish, again):
    """Only a digest of an erased id remains here: such a release was published, and its data stayed. Later, `forget`
    found them only if their owner named them again."""
    shutil.copytree(ws.releases, tmp_path / "backup")
    assert cli("forget", wish, "-C", ws.root).code == 0
    shutil.rmtree(ws.releases)
    shutil.copytree(tmp_path / "backup", ws.releases)
    refused = cli("publish", "--to", tmp_path / "out", "-C", ws.root).err
    assert "or was carried out before (`saferec-build forget` empties" in refused
    result = cli("forget", *again, "-C", ws.root, "--json")
    assert result.code == 0 and result.json["releases"] == ["releases/1.0.0"], result.err
    assert not (ws.releases / "1.0.0" / "data").exists()
    assert "c007" not in released_ids.read(released_ids.path_of(ws.releases / "1.0.0"))["source_id"]


@pytest.mark.slow
def test_a_thread_that_was_mined_again_without_a_forgotten_post_is_nobody_elses_erasure(workspace, cli, tmp_path):
    """The thread of another person was erased with the post, and its id counted as erased for good: no later release
    could be published, and each `forget`, of whomever, deleted its data."""
    ws, thread = as_mined(workspace, "reddit"), tables.digest("reddit", "c009")
    world.for_few(ws)
    row = store.read(ws, tables.CONVERSATIONS).filter(conversation=thread).to_dicts()[0]
    label = store.read(ws, tables.LABELS).filter(subject=thread).to_dicts()[0]
    post = {"conversation": thread, "digest": row["digest"], "turn": 1, "source_id": "t1_x"}
    post["author"] = mine.pseudonym("reddit", "leaver", ws.secret)
    store.append(ws, tables.ORIGINS, tables.ORIGINS.frame([post]))
    shutil.copytree(once.released(ws) / "releases", tmp_path / "backup")
    assert cli("forget", "leaver", "-C", ws.root).code == 0
    again = world.conversation(thread, row["turns"][0]["text"], "Try Film K", "Thanks!", source="reddit", accepted="K")
    again |= {name: row[name] for name in ("source_id", "seeker", "time")}
    store.append(ws, tables.CONVERSATIONS, tables.CONVERSATIONS.frame([again]))
    store.append(ws, tables.LABELS, tables.LABELS.frame([label | {"digest": again["digest"]}]))
    once.command("release", "2.0.0", "-C", ws.root)
    once.command("publish", "--to", tmp_path / "out", "--found-again", "-C", ws.root)
    assert "releases" not in cli("forget", "elsewhere", "-C", ws.root, "--json").json
    shutil.rmtree(ws.releases / "1.0.0")
    shutil.copytree(tmp_path / "backup", ws.releases, dirs_exist_ok=True)
    assert cli("forget", "elsewhere", "-C", ws.root, "--json").json["releases"] == ["releases/1.0.0"]
    keys = {version: released_ids.read(ws.releases / f"{version}.key.parquet") for version in ("1.0.0", "2.0.0")}
    assert {version: thread in rows["subject"] for version, rows in keys.items()} == {"1.0.0": False, "2.0.0": True}
    shutil.rmtree(ws.releases / "1.0.0")  # now without its key file: nothing says which text of the thread it holds
    shutil.copytree(tmp_path / "backup" / "1.0.0", ws.releases / "1.0.0")
    assert cli("forget", "elsewhere", "-C", ws.root, "--json").json["releases"] == ["releases/1.0.0"]
    for table, old in ((tables.CONVERSATIONS, row), (tables.ORIGINS, post)):  # from a backup, like the release
        store.append(ws, table, table.frame([old]))
    shutil.rmtree(ws.releases / "1.0.0")
    shutil.copytree(tmp_path / "backup", ws.releases, dirs_exist_ok=True)
    assert cli("forget", "elsewhere", "-C", ws.root, "--json").json["releases"] == ["releases/1.0.0"]


def test_so_does_one_without_its_key_file(ws, cli, tmp_path):
    """Only the key file tells which conversation an erased id was: it was published until `forget` ran again."""
    shutil.copytree(ws.releases / "1.0.0", tmp_path / "backup")
    assert cli("forget", "c007", "-C", ws.root).code == 0
    shutil.rmtree(ws.releases)
    shutil.copytree(tmp_path / "backup", ws.releases / "1.0.0")
    assert "1 conversation whose removal" in cli("publish", "--to", tmp_path / "out", "-C", ws.root).err


def test_a_post_of_somebody_in_a_thread_counts_and_removals_that_cannot_be_read_publish_nothing(ws, cli, tmp_path):
    (ws.root / "removals.csv").write_text("source,author\nmessages,p7\n")
    result = cli("publish", "--to", tmp_path / "out", "-C", ws.root)
    assert result.code == 1 and "removals.csv: column 'source_id' is missing" in result.err
    row = store.read(ws, tables.CONVERSATIONS).filter(source_id="c009").to_dicts()[0]
    post = {"conversation": row["conversation"], "digest": row["digest"], "turn": 1, "source_id": "p9", "author": "x"}
    store.append(ws, tables.ORIGINS, tables.ORIGINS.frame([post]))
    remove(ws, "messages,p9,")
    name = ws.released_id(row["conversation"])
    assert name in cli("publish", "--to", tmp_path / "out", "-C", ws.root).err
    assert not (tmp_path / "out").exists()


def test_who_is_not_in_it_keeps_nothing_back(ws, cli, tmp_path):
    remove(ws, "\n".join(["redial,c007,", "reddit,,p7", "messages,c0071,"]))
    assert cli("publish", "--to", tmp_path / "out", "-C", ws.root).code == 0


@pytest.mark.slow
def test_the_next_step_is_the_version_without_them_and_the_report_says_why(ws, cli):
    """`status` advised to look at the report of a release that must not be published any more."""
    mined, readings = store.read(ws, tables.CONVERSATIONS), tables.READINGS
    reading_rows = pl.concat([rows(readings, 1)] * mined.height).with_columns(
        subject=mined["conversation"],
        digest=mined["digest"],
        kind=pl.lit("sensitivity"),
        taxonomy=pl.lit(ws.taxonomy.digest),
    )
    store.append(ws, readings, reading_rows)
    store.append(ws, tables.ASKED, pending.rows(ws.taxonomy))
    for table in (tables.CATALOG_ROWS, tables.WARNINGS, tables.ASSIGNMENTS, tables.REVIEWS):
        if not store.count(ws, table):
            store.append(ws, table, rows(table, 1))
    waiting = Waiting(0, 0, 0, 0, 0)
    assert summary.next_step(ws, waiting) == "look at the result: `saferec-build report`"
    remove(ws, "messages,c007,")
    assert summary.next_step(ws, waiting, labels=1).endswith("who asked to be removed: `saferec-build release 2.0.0`")
    warnings = cli("report", "-C", ws.root).err
    assert warnings.startswith("warning: release 1.0.0 holds 1 conversation whose removal was asked for since: ")
    for damaged in (ws.releases / "1.0.0" / "data" / "conversations").iterdir():
        damaged.write_bytes(b"")
    assert summary.next_step(ws, waiting).startswith("train on it")  # no traceback: `verify` names the damage
