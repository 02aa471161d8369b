"""Somebody who asked to be forgotten is in no byte of the workspace, even after kills, and never comes back."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from annotation.tools.tasks_and_answers import Task
from saferec_builder.cli.app import app
from saferec_builder.core.locks import file_lock
from saferec_builder.erasure import forget as stage, people
from saferec_builder.mining import removals as wishes
from saferec_builder.mining.conversations import pseudonym
from saferec_builder.sources import messages
from saferec_builder.storage import shards, tables, workspace as store
from tests.conftest import Cli, Injected
from tests.servers.llm_stub import running, says
from tests.worlds import calm, line, release_world as world
from tests.worlds.csv_rows import as_proposed, edit

pytestmark = pytest.mark.slow  # on a workspace with every output of the pipeline

ID, USER, WORDS = "canary-id-7", "canary_user_7", "quetzalwing over zanzibarolith"  # of the person to be forgotten
SUNG = [f"kweldrix{n:02}" for n in range(32)]  # with ids and names, 40 strings that may be nowhere
SUBJECT = tables.digest("messages", ID)
CONFIG = """
[dataset]
name = "canaries"
[review]
gold = "gold/known.jsonl"
decoys = 0.5
[release]
min_seekers = 1
consent = ["ann"]
"""


def words(folder: Path) -> Iterator[list[object]]:
    people = ["--reviewer", "ann", "--reviewer", "bo", "--adjudicator", "cy"]
    push = ["review", "push", "--tool", "files", *people, "--all"]
    yield ["mine", "messages", folder / "input" / "talk.jsonl"]
    yield ["propose"]
    yield push
    yield ["review", "pull", "--tool", "files", *(folder / "review" / f"{who}.csv" for who in ("ann", "bo"))]
    yield push
    yield ["adjudicate"]
    yield ["release", "1.0.0"]
    yield ["publish", "1.0.0", "--to", folder / "published"]
    yield ["report"]


@pytest.fixture(scope="session")
def lived_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with every output of the pipeline, its input inside, and one canary among 24 people."""
    folder = tmp_path_factory.mktemp("forget") / "ws"
    ws = store.Workspace.create(folder)
    (folder / "saferec.toml").write_text(CONFIG)
    rows = [world.messages(row) for row in world.requests(24)[0]]
    rows[7] |= {"id": ID, "user": USER, "accepted": [world.film("D")]}
    rows[7]["messages"][0]["content"] += f" It is like a {WORDS}. {' '.join(SUNG)}"
    (folder / "input").mkdir()
    (folder / "input" / "talk.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    shutil.copy(folder / "input" / "talk.jsonl", folder.parent / "talk.jsonl")
    gold = [{"conversation": name, "traits": ["gore"]} for name in (SUBJECT, tables.digest("messages", "c009"))]
    (folder / "gold").mkdir()
    (folder / "gold" / "known.jsonl").write_text("".join(json.dumps(row) + "\n" for row in gold))
    store.append(ws, tables.CATALOG_ROWS, world.catalog())
    store.append(ws, tables.WARNINGS, world.warnings())
    for command in words(folder):
        for path in folder.glob("review/*.csv") if "pull" in command else ():
            edit(path, as_proposed)
        run(folder, *command)
    with running() as stub:
        stub.usual = says('{"claims": []}')
        run(folder, "propose", "--proposer", "openai", "--model", "m", "--base-url", stub.url)
    (folder / "runs" / "m").mkdir(parents=True)
    outputs = [{"id": name, "text": "1. Film A"} for name in (*world.released(open_(folder), SUBJECT), "other")]
    (folder / "runs" / "m" / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in outputs))
    quoted = ("review", "files", "review/ann.csv:3", "quote not found", f"{WORDS + ' and so on'!r} stands in no turn")
    store.append(ws, tables.DROPS, tables.DROPS.frame([quoted]))
    return folder


def run(folder: Path, *words: object) -> None:
    result = CliRunner().invoke(app, [*map(str, words), "-C", str(folder)])
    assert result.exit_code == 0, f"{words}\n{result.output}\n{result.exception}"


def open_(folder: Path) -> store.Workspace:
    return store.Workspace.open(folder)


@pytest.fixture
def ws(lived_in: Path, tmp_path: Path) -> store.Workspace:
    shutil.copytree(lived_in, tmp_path / "ws")
    return open_(tmp_path / "ws")


def canaries(ws: store.Workspace) -> list[str]:
    """All names and words of the person to be forgotten: also parts of `WORDS`, as quotes are parts."""
    seeker = pseudonym("messages", USER, ws.secret)
    return [ID, USER, *WORDS.split()[::2], *SUNG, SUBJECT, seeker, *world.released(ws, SUBJECT), f"{WORDS}. {SUNG[0]}"]


def sung(ws: store.Workspace) -> dict[str, list[Path]]:
    """Canary -> the files that contain it; parquet files are unpacked."""
    places: dict[str, list[Path]] = {}
    for path in (path for path in ws.root.rglob("*") if path.is_file()):
        content = path.read_bytes()
        if path.suffix == ".parquet":
            content += json.dumps(pl.read_parquet(path).to_dicts(), default=str, ensure_ascii=False).encode()
        for canary in canaries(ws):
            if canary.encode() in content:
                places.setdefault(canary, []).append(path.relative_to(ws.root))
    return places


def left(ws: store.Workspace) -> dict[str, list[Path]]:
    """The canaries that are still there, without the pseudonym by which the table forgotten knows an author."""
    pseudonyms, places = set(store.read(ws, tables.FORGOTTEN)["who"]), sung(ws)
    return {name: paths for name, paths in places.items() if name not in pseudonyms or paths != [Path("workspace.db")]}


def test_whatever_names_them_the_same_is_erased_and_left_out(ws: store.Workspace, lived_in: Path) -> None:
    talk, erased = messages.read(lived_in.parent / "talk.jsonl").rows, list[object]()
    for name in (ID, USER, SUBJECT, world.released(ws, SUBJECT)[0], pseudonym("messages", USER, ws.secret)):
        erasure, _ = people.find(ws, [name], "")
        kept = wishes.without(talk, wishes.Removals(forgotten=frozenset(erasure.forgotten), secret=ws.secret))[0]
        assert kept.height == 23 and ID not in kept["source_id"], name
        erased.append(replace(erasure, forgotten=[], whole=dict.fromkeys(erasure.whole, "")))
    assert erased == erased[:1] * 5 and erased[0] != people.Erasure()


def test_no_byte_of_them_is_left_and_no_mining_brings_them_back(ws: store.Workspace, lived_in: Path, cli: Cli) -> None:
    places = sung(ws)
    assert {*places} == {*canaries(ws)} and len(places) >= 40
    assert len({path for paths in places.values() for path in paths}) > 20
    (ws.root / "removals.csv").write_text(f"source,source_id,author\nmessages,{ID},\nmessages,c011x,\n")
    rows = {table.name: store.read(ws, table).height for table in tables.TABLES.values()}
    (shard,) = shards.names(ws.root, tables.CONVERSATIONS)  # its name has a digest of all ids and texts in it
    dry_run = cli("forget", "--dry-run", "-C", ws.root, "--json")
    assert {table.name: store.read(ws, table).height for table in tables.TABLES.values()} == rows
    result = cli("forget", "-C", ws.root, "--json")
    assert result.code == 1, result.err  # c011x is nobody
    for told in (dry_run.json, result.json):
        assert any(str(text).startswith("report.html, which is deleted too") for text in told.values())
    assert not (ws.root / "report.html").exists()
    assert left(ws) == {}
    assert shard not in f"{[*ws.root.rglob('*')]}{(ws.root / store.COMPARED).read_text()}"
    counts = result.json["where"]
    assert counts == dry_run.json["where"] and min(counts.values()) > 0 and counts["lines"] > 2
    assert counts["conversations"] == counts["gold"] == 1 and counts["replies"] == 1  # the other replies stay
    assert result.json["releases"] == ["published", "releases/1.0.0"] and "still_in" not in result.json
    # of 24 one is removed; from the table forgotten, mining recognises them again
    shutil.copy(lived_in.parent / "talk.jsonl", ws.root.parent)
    rerun = cli("mine", "messages", ws.root.parent / "talk.jsonl", "-C", ws.root, "--json").json
    assert (rerun["in"], rerun["added"], rerun["dropped"]) == (24, 0, {"removed on request": 1})
    assert cli("adjudicate", "-C", ws.root).code == cli("release", "2.0.0", "-C", ws.root).code == 0
    for folder in (ws.releases / "1.0.0", ws.root / "published"):
        reason = f"{folder}: `saferec-build forget` deleted its data, as it held somebody who asked to be forgotten"
        assert f"error: {reason}: make the next version\n" == cli("verify", folder).err
    assert "releases: 1.0.0 (its data was deleted), 2.0.0\n" in cli("status", "-C", ws.root).out
    assert cli("report", "-C", ws.root).code == 0  # it compares with a version whose data is deleted
    assert "2.0.0 cannot be compared with it" in (ws.root / "report.html").read_text(encoding="utf-8")
    assert "its data was deleted" in cli("publish", "1.0.0", "--to", ws.root / "out", "-C", ws.root).err
    assert cli("publish", "--to", ws.root / "out", "-C", ws.root).code == 0 and left(ws) == {}


KILLS = range(3, 103, 2) if calm.SOAK else range(10, 80, 12)
DIES = """
import os, sys
left = int(sys.argv.pop(1))
def count(event, args):
    global left
    names = ("os.rename", "os.remove", "os.rmdir", "sqlite3.connect")
    if event in names or (event == "open" and args[1] in ("w", "wb")):
        left -= 1
        if left == 0:
            os._exit(137)
sys.addaudithook(count)
from saferec_builder.cli.app import main
main()
"""


def test_whoever_is_killed_runs_it_again(lived_in: Path, tmp_path: Path, cli: Cli, injected: Injected) -> None:
    """Killed before each change of a file in turn: it ends like an undisturbed run, except random names."""
    shutil.copytree(lived_in, tmp_path / "calm")
    assert cli("forget", USER, "-C", tmp_path / "calm").code == 0
    expected, died = line.contents(tmp_path / "calm"), 0
    for n in KILLS:
        folder = tmp_path / f"{n}"
        shutil.copytree(lived_in, folder)
        command = [sys.executable, "-c", DIES, n, "forget", USER, "-C", folder]
        process = subprocess.run([*map(str, command)], capture_output=True, text=True)
        assert process.returncode in (0, 137), process.stderr
        died += process.returncode == 137
        if interrupted := (folder / store.FORGETTING).exists():
            assert "run it again" in cli("adjudicate", "-C", folder).err  # no command works on a half-erased workspace
        result = cli("forget", USER, "-C", folder, "--json")
        assert result.code == 0 and (not interrupted or result.json["releases"] == ["published", "releases/1.0.0"])
        assert left(open_(folder)) == {}
        actual = line.contents(folder)
        assert all(actual[name].equals(expected[name]) for name in actual if name != "tombstones")
    injected("kills of forget", died)
    assert died >= len(KILLS) - 2


def test_nobody_else_is_at_work_meanwhile(ws: store.Workspace, cli: Cli) -> None:
    with file_lock(ws.root / ".forget.lock", "x", wait=False, shared=True):
        result = cli("forget", ID, "-C", ws.root)
    assert result.code == 1 and "another command is at work" in result.err and sung(ws)


@pytest.mark.parametrize("names", [[], ["c001"]])
def test_who_ends_a_broken_off_erasure_erases_nobody_else_and_hears_all_that_is_left_to_do(
    ws: store.Workspace, cli: Cli, monkeypatch: pytest.MonkeyPatch, names: list[str]
) -> None:
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(stage.database, "scrub", lambda place: (_ for _ in ()).throw(KeyboardInterrupt))
        stage.forget(ws, [ID])
    (ws.root / "removals.csv").write_text("source,source_id,author\nmessages,c003,\n")  # removed, not forgotten
    (ws.root / "notes.zip").write_bytes(b"PK\x03\x04")
    result = cli("forget", *names, "-C", ws.root, "--json")
    assert (result.code, result.json["resumed"], result.json["releases"]) == (0, 1, ["published", "releases/1.0.0"])
    advice = "\n".join(str(result.json[name]) for name in result.json if name.startswith("do_"))
    assert "withdraw 1.0.0" in advice and "notes.zip" in advice and ("removals.csv" in advice) == (not names)
    remaining = set(store.read(ws, tables.CONVERSATIONS)["source_id"])
    assert "c003" in remaining and remaining.isdisjoint([ID, *names]) and left(ws) == {}
    assert '"c003"' in (ws.root / "input" / "talk.jsonl").read_text()


def test_a_removal_is_kept_until_all_of_its_row_are_erased(ws: store.Workspace, cli: Cli) -> None:
    rows = ["source,source_id,author", f"messages,{ID},somebody", f"messages,{ID},", f",,{USER}", "messages,c003,"]
    (ws.root / "removals.csv").write_text("\n".join(rows))
    assert cli("forget", ID, "-C", ws.root).code == 0
    assert (ws.root / "removals.csv").read_text().split("\n") == [rows[0], rows[1], *rows[3:]]


TSV = ("dialog_id\tutt_id\tspeaker\tturn_id\ttext\tmovies", '7\t1\tSEEKER\t1\t"No blood\t', '8\t7\tSEEKER\t7\tHi "x"\t')


@pytest.mark.parametrize("name", ["talk.tsv", "talk [1].tsv"])
def test_a_copy_of_the_input_loses_their_lines_and_no_others(workspace: store.Workspace, cli: Cli, name: str) -> None:
    """In TSV a quote is a plain character, brackets are no pattern, and a number counts only in the dialogue's id."""
    path = workspace.root / name
    path.write_text("\n".join(TSV))
    assert cli("mine", "inspired", path, "-C", workspace.root).code == 0
    assert cli("forget", "7", "--dry-run", "-C", workspace.root, "--json").json["files"] == [name]
    assert cli("forget", "7", "-C", workspace.root).code == 0
    assert "files" not in cli("forget", "7", "--dry-run", "-C", workspace.root, "--json").json
    assert path.read_text() == "\n".join([TSV[0], TSV[2]])


def test_a_file_whose_quotes_do_not_close_is_left_to_its_owner(ws: store.Workspace, cli: Cli) -> None:
    """If an open quote of somebody else joins two rows, nobody can tell where one ends."""
    text = f'task,text\ntask-1,"open\n{task_of(ws, "ann")},theirs\ntask-2,"mine" too\n'
    (ws.root / "review" / "ann.csv").write_text(text)
    result = cli("forget", ID, "-C", ws.root)
    assert result.code == 1 and "ann.csv" in result.err and (ws.root / "review" / "ann.csv").read_text() == text


def task_of(ws: store.Workspace, reviewer: str) -> str:
    task = store.read(ws, tables.ASSIGNMENTS).filter(subject=SUBJECT, reviewer=reviewer)
    return Task(*task.select("kind", "subject", "digest", "reviewer", "role").row(0)).id


def test_a_server_that_is_named_wrongly_is_refused(ws: store.Workspace, cli: Cli) -> None:
    for tool, told in (("argila", "argila"), ("argilla", "its --url")):
        result = cli("forget", ID, "--tool", tool, "-C", ws.root)
        assert result.code == 1 and told in result.err and sung(ws)


def test_a_dry_run_shows_all_that_it_can_see_and_names_the_server_that_it_needs(ws: store.Workspace, cli: Cli) -> None:
    """It was refused, so nobody could see where a person stands without the server's token."""
    sent = ("argilla", "team", f"{task_of(ws, 'ann')}-x", "1", "there")
    store.append(ws, tables.SENT, tables.SENT.frame([sent]))
    problem = "1 task about them is on a review server (argilla): give it with --tool argilla, --url and --token"
    assert f"error: forget: {problem}" in cli("forget", ID, "-C", ws.root).err and sung(ws)
    dry_run = cli("forget", ID, "--dry-run", "-C", ws.root, "--json")
    where = dry_run.json["where"]
    assert dry_run.code == 0 and dry_run.json["do_1"].startswith(problem) and where["conversations"] == 1
    assert "tasks" not in where  # of the server nothing is known


@pytest.mark.parametrize("path", ["review/ann.csv", "review/bo.csv"])
def test_a_reviewers_file_loses_their_rows_and_keeps_all_others_as_they_are(
    ws: store.Workspace, cli: Cli, path: str
) -> None:
    """Cells have line breaks and quotes; a spreadsheet saved one file with semicolons."""
    task = task_of(ws, Path(path).stem)
    mark = ";" if "bo" in path else ","
    rows = [f'"task-1"{mark}"two{mark}\n ""lines"""\r\n', f'"{task}"{mark}"{WORDS}\nmore"\r\n', f'"task-2"{mark}""\r\n']
    (ws.root / path).write_bytes("".join([f"task{mark}text\r\n", *rows]).encode())
    dry_run = cli("forget", ID, "--dry-run", "-C", ws.root).out
    assert "nothing was changed" in dry_run and "CSVs that reviewers have" in dry_run
    result = cli("forget", ID, "-C", ws.root)
    assert result.code == 0 and "copies of these releases" in result.out
    assert " lines of files erased, and the data of 2 copies of releases deleted\n" in result.out
    assert "\nnext: " in result.out and "next: " not in dry_run
    assert (ws.root / path).read_bytes().decode() == "".join([f"task{mark}text\r\n", rows[0], rows[2]])


@pytest.mark.parametrize(("wish", "name"), [(ID, "ann.csv"), (USER, "ANN.CSV")])
def test_a_reviewers_file_that_is_put_back_loses_their_rows_again(
    ws: store.Workspace, cli: Cli, wish: str, name: str
) -> None:
    """It names them only by the task, which nothing in the workspace referred to any more."""
    path, rows = ws.root / "review" / name, ["task,text", f"{task_of(ws, 'ann')}-csv,theirs", "task-0a,mine"]
    assert cli("forget", wish, "-C", ws.root).code == 0
    path.write_text("\n".join(rows))
    dry_run = cli("forget", wish, "--dry-run", "-C", ws.root, "--json").json
    assert dry_run["files"] == [f"review/{name}"] and path.read_text() == "\n".join(rows)
    result = cli("forget", wish, "-C", ws.root, "--json")
    assert result.code == 0 and result.json["where"] == dry_run["where"] == {"lines": 1}
    assert path.read_text() == f"{rows[0]}\n{rows[2]}"


def test_of_a_hundred_wishes_each_receipt_is_right(workspace: store.Workspace) -> None:
    """Twenty each by id, by our id, by released id and by pseudonym; twenty have an extra letter and match nobody."""
    rows, labels = world.requests(110)
    people = [row | {"seeker": pseudonym("messages", row["seeker"], workspace.secret)} for row in rows]
    ws = world.fill(workspace, people, labels)
    names = [row["conversation"] for row in rows]
    wishes = names[:40] + world.released(ws, *names[40:60]) + [row["seeker"] for row in people[60:80]]
    wishes[:20] = [row["source_id"] for row in rows[:20]]
    nobody = [wish + "z" for wish in wishes[::4]]
    result = stage.forget(ws, [*wishes, *nobody])
    matches = {receipt.wish: receipt.conversations for receipt in result.receipts}
    assert matches == {wish: [name] for wish, name in zip(wishes, names, strict=False)} | {wish: [] for wish in nobody}
    assert [receipt.wish for receipt in result.receipts if not receipt.met] == nobody and len(matches) == 100
    assert store.read(ws, tables.CONVERSATIONS)["conversation"].to_list() == names[80:]
    assert [entry.wish for entry in stage.forget(ws, names[81], dry=True).receipts] == [names[81]]  # not its letters
    repeated = stage.forget(ws, wishes[:1])
    assert repeated.receipts[0].before and repeated.receipts[0].conversations == []


def test_a_wish_that_names_nobody_is_kept_and_told(ws: store.Workspace, cli: Cli) -> None:
    assert stage.forget(ws, "c0l2", dry=True).outside == stage.forget(ws, "c0l2").outside == []
    assert (ws.root / "report.html").exists()  # a typo deleted it
    result = cli("forget", "c0l1", "c001", "--source", "messages", "-C", ws.root)
    assert result.code == 1 and "nobody here is meant by c0l1" in result.err and "c001: 1 conversation\n" in result.out
    result = cli("forget", "c002", "--source", "mesages", "-C", ws.root)
    assert result.code == 1 and "--source mesages: no such source: did you mean messages?" in result.err
    ids = store.read(ws, tables.CONVERSATIONS)["source_id"]
    assert ids.len() == 23 and "c001" not in ids


def test_a_release_in_which_nobody_can_be_recognised_is_told(ws: store.Workspace, cli: Cli) -> None:
    """Whom an id of a source means, only the key file tells: a release put back without it was passed over silently."""
    (key := ws.releases / "1.0.0.key.parquet").rename(ws.root / "key")
    (ws.root / "report.html").unlink()  # else it is told, too
    options: tuple[str, ...]
    for options in (("--dry-run",), ()):
        told = cli("forget", "elsewhere", *options, "-C", ws.root, "--json").json["do_1"]
        assert told.startswith("published, releases/1.0.0: the key file is missing, so whoever was forgotten by an id")
    (ws.root / "key").rename(key)
    assert "do_1" not in cli("forget", "elsewhere", "-C", ws.root, "--json").json


def test_an_id_of_here_or_of_a_release_is_enough_where_no_turn_has_one(workspace: store.Workspace, cli: Cli) -> None:
    """ReDial names the author of a turn, but its turns have no ids: the id that a release's card asks for ended in a
    traceback."""
    rows, labels = world.requests(8)
    ws = world.fill(workspace, rows, labels)
    turn = {"conversation": "c003", "digest": rows[3]["digest"], "turn": 0, "source_id": None, "author": "f" * 16}
    store.append(ws, tables.ORIGINS, tables.ORIGINS.frame([turn]))
    for name in ("c003", *world.released(ws, "c003")):
        result = cli("forget", name, "--dry-run", "-C", ws.root, "--json")
        assert result.code == 0 and result.json["where"]["conversations"] == 1, result.out + result.err


@pytest.mark.parametrize(("only", "staying"), [("id", ["b2", "c3"]), ("author", ["7", "c3"])])
def test_a_number_of_a_talk_and_of_somebody_else_is_asked_about(
    workspace: store.Workspace, tmp_path: Path, cli: Cli, only: str, staying: list[str]
) -> None:
    """ReDial numbers both conversations and workers: all of worker 611 was erased with conversation 611."""
    words = [{"role": "user", "content": "Hi"}]
    people = (("7", "ann"), ("b2", "7"), ("c3", "c3"))
    rows = [json.dumps({"id": name, "user": author, "messages": words}) for name, author in people]
    (tmp_path / "own.jsonl").write_text("\n".join(rows))
    assert cli("mine", "messages", tmp_path / "own.jsonl", "-C", workspace.root).code == 0
    run = cli("forget", "7", "-C", workspace.root)
    assert run.code == 1 and "forget 7: an id (of 1 conversation), and the name of an author (in 1)" in run.err
    for options, message in (
        (("7", "--only", "name"), "--only name: expected id or author"),
        (("--only", "id"), "--only id says what names are: give some"),
        ((), "whom to forget? Name somebody, or write them into removals.csv"),
    ):
        assert message in cli("forget", *options, "-C", workspace.root).err
    assert "c3: 1 conversation\n" in cli("forget", "c3", "--dry-run", "-C", workspace.root).out  # both are one
    assert cli("forget", "7", "--only", only, "-C", workspace.root).code == 0
    assert sorted(store.read(workspace, tables.CONVERSATIONS)["source_id"]) == staying
