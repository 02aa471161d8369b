"""Secrets do not leak: a canary is put in every secret place, every command runs, all output and files are searched.

Three kinds. Keys and tokens are in no output and in no file but the one that their owner wrote. The authors of
conversations are in no output and in no file that a command made. Reviewers and their notes are in nothing that leaves
the workspace. The servers of this test are the worst case: their error messages repeat every key that they receive.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import polars as pl
import pytest

from saferec_builder.storage import tables, workspace as store
from tests import ROOT, cli_doc
from tests.conftest import Cli, Patch, Ran
from tests.servers import loopback
from tests.worlds import release_world as world
from tests.worlds.csv_rows import as_proposed, edit

KEYS = {
    "OPENAI_API_KEY": "canary-openai-7d1f",
    "MODELS_KEY": "canary-models-82ac",
    "HF_TOKEN": "hf_canary0hub5b19",
    "DDD_API_KEY": "canary-ddd-3e77",
    "SAFEREC_REVIEW_TOKEN": "canary-review-90be",
}
PASSWORD, TYPED = "canary-password-11d4", "canary-typed-66aa"  # in an address; on the command line
PEOPLE = ("Canaria Authorsdottir", "canary.author@example.org", "+1 415 555 0177", "canary_seeker_17")
REVIEWERS = ("canreva", "canrevb", "canrevc")
NOTE = "canary-note-5511"


@pytest.fixture
def parrot() -> Iterator[str]:
    with loopback.parrot(401) as url:
        yield url.removeprefix("http://")


WATCHED: set[Path] | None = None  # files that a command opened to write, in any folder
WRITES = os.O_WRONLY | os.O_RDWR


def watch(event: str, args: tuple[object, ...]) -> None:
    if WATCHED is not None and event in ("open", "os.rename", "sqlite3.connect"):
        place = args[1] if event == "os.rename" else args[0]
        is_write = event != "open" or set(str(args[1] or "")) & set("wax+") or int(args[2] or 0) & WRITES  # type: ignore[call-overload]
        if is_write and isinstance(place, str | bytes | os.PathLike):
            WATCHED.add(Path(os.fsdecode(place)).absolute())


@pytest.fixture
def touched(tmp_path: Path, monkeypatch: Patch) -> Iterator[set[Path]]:
    """Files that commands write to. Home, working folder, temporary files and caches lie in the test's folder, where
    the files of child processes are found too; an audit hook records what a command itself opens elsewhere.
    """
    for name in ("HOME", "PWD", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "HF_HOME"):
        (tmp_path / "machine" / name).mkdir(parents=True)
        monkeypatch.setenv(name, str(tmp_path / "machine" / name))
    monkeypatch.chdir(tmp_path / "machine" / "PWD")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # for child processes
    monkeypatch.setattr(tempfile, "tempdir", None)
    sys.addaudithook(watch)  # a hook cannot be removed: it records only while WATCHED is a set
    monkeypatch.setattr(sys.modules[__name__], "WATCHED", set[Path]())
    yield sys.modules[__name__].WATCHED
    tempfile.tempdir = None


@pytest.fixture
def home(tmp_path: Path, workspace: store.Workspace, parrot: str, monkeypatch: Patch) -> Path:
    """A workspace with every secret in its place, and conversations with personal data beside it."""
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HF_ENDPOINT", f"http://{parrot}")
    config = f"""
        [dataset]
        name = "canaries"
        repo = "a/b"
        [propose]
        retries = 0
        [propose.models.refused]
        base_url = "http://{parrot}/v1"
        key_env = "MODELS_KEY"
        [propose.models.far]
        base_url = "https://someone:{PASSWORD}@models.invalid/v1"
        key_env = "MODELS_KEY"
        [propose.models.spelt]
        base_url = "http://someone:{PASSWORD}@{parrot}/v1"
        [review]
        accounts = {{ {REVIEWERS[0]} = "a@example.org" }}
        [release]
        min_seekers = 1
    """
    (workspace.root / "saferec.toml").write_text(config)
    name, email, phone, user = PEOPLE
    lines = []
    for n, row in enumerate(world.requests(30)[0]):
        record = world.messages(row) | {"user": f"{user}_{n}", "accepted": [world.film("D")]}
        record["messages"][0]["content"] += f" My name is {name}, write to {email} or call {phone}."
        lines.append(json.dumps(record))
    (tmp_path / "talk.jsonl").write_text("\n".join(lines))
    (tmp_path / "lists.jsonl").write_text(json.dumps({"id": "one", "titles": [world.film("A"), world.film("D")]}))
    (tmp_path / "items.csv").write_text("domain,title,year\nfilm,Film M,2013\n")
    store.append(workspace, store.tables.CATALOG_ROWS, world.catalog())
    store.append(workspace, store.tables.WARNINGS, world.warnings())
    return workspace.root


def fill(path: Path) -> None:
    edit(path, lambda row: as_proposed(row) | {"note": NOTE})


def line(home: Path, parrot: str) -> Iterator[tuple[int | None, list[object]]]:
    """Yields (exit code, command), with None where any code is right. `train` is python -m training.safecrs."""
    a, b, c = REVIEWERS
    answers = home.parent / "answers.jsonl"
    push = ["review", "push", "--reviewer", a, "--reviewer", b, "--adjudicator", c]
    yield 0, ["init", home]
    yield 0, ["mine", "messages", home.parent / "talk.jsonl"]
    yield 0, ["propose"]
    yield 1, ["propose", "--proposer", "openai:refused"]
    yield 1, ["propose", "--proposer", "batch:refused"]
    yield 1, ["propose", "--proposer", "openai:far"]
    yield 1, ["propose", "--proposer", "openai:spelt"]
    yield 1, ["propose", "--proposer", "openai:x", "--base-url", f"http://someone:{PASSWORD}@{parrot}/v1"]
    yield None, ["propose", "--proposer", "openai:refused", "--dry-run"]
    yield None, ["propose", "--items"]
    yield None, ["propose-score"]
    yield 1, ["catalog", "fetch", "ddd", "--base", f"http://{parrot}", "--pause", "0"]
    yield 0, ["catalog", "add", "csv", home.parent / "items.csv"]
    yield 0, ["catalog", "merges"]
    yield 0, ["catalog", "apart", "csv:film:film m:2013"]
    yield 1, ["catalog", "join", "csv:film:film m:2013", "csv:film:film m:2013"]
    yield 0, ["catalog", "gaps"]
    yield 0, ["plan"]
    yield 0, ["browse"]
    yield 0, ["catalog", "show", world.film("A")]
    yield 0, ["catalog", "check", world.film("A"), "--trait", "gore"]
    yield 0, ["screen", home.parent / "lists.jsonl"]
    yield 1, [*push, "--url", f"http://{parrot}"]
    yield 1, [*push, "--url", f"http://{parrot}", "--token", TYPED]
    yield 1, [*push, "--url", f"http://{parrot}", "--tool", "argilla", "--token", TYPED]
    yield 1, ["review", "pull", "--url", f"http://{parrot}", "--token", TYPED]
    yield 0, ["review", "opt-out", a, "torture"]
    yield 0, [*push, "--tool", "files", "--all"]
    yield 0, [*push, "--tool", "page"]
    yield 1, ["review", "serve", "--url", f"http://someone:{PASSWORD}@{parrot}/v1"]
    yield 1, ["review", "link", a]
    yield 0, ["review", "link", a, "--revoke"]
    yield 0, ["review", "pull", "--tool", "files", *(home / "review" / f"{name}.csv" for name in (a, b))]
    yield 0, ["review", "status"]
    yield 0, ["review", "set-aside", a, "--reason", NOTE]
    yield 0, ["review", "set-aside", a, "--undo"]
    yield 0, ["review", "hand-back", a]
    yield from after_review(home, answers)


def after_review(home: Path, answers: Path) -> Iterator[tuple[int | None, list[object]]]:
    yield 0, ["adjudicate"]
    yield 0, ["release", "--explain"]
    yield 0, ["release", "1.0.0"]
    yield 0, ["publish", "1.0.0", "--to", home / "published"]
    yield 0, ["verify", home / "published"]
    yield 0, ["linkage", home / "releases/1.0.0"]
    yield 0, ["diff", "1.0.0", "1.0.0"]
    yield None, ["rebuild", home / "published", "--to", home / "rebuilt"]
    yield 0, ["train", "evaluate", "--release", home / "published", "--predictions", answers, "--output", home / "runs"]
    yield 1, ["train", "evaluate", "--release", "a/b@1.0.0", "--predictions", answers, "--output", home / "runs"]
    yield None, ["review", "down"]
    yield 0, ["demo", "--inputs-only", "--generated", "1", "--to", home / "demo"]
    yield 1, ["publish", "1.0.0", "--hub"]
    yield 1, ["verify", "a/b@1.0.0"]
    yield 1, ["doctor"]
    yield 0, ["report"]
    yield 0, ["status"]
    yield 0, ["forget", tables.digest("messages", "c007"), "--dry-run"]
    yield 0, ["forget", tables.digest("messages", "c007")]
    yield 0, ["withdraw", "1.0.0", "--reason", "a test"]
    yield 1, ["withdraw", "1.0.0", "--reason", "a test", "--hub"]


ALONE = ("verify", "init", "demo")  # commands without the option for the workspace


def train(home: Path, words: list[object]) -> Ran:
    """Runs the training command in another process, with answers for every row of the test split."""
    rows = pl.read_parquet(home / "published/data/grpo/test.parquet", columns=["conversation"])["conversation"]
    lines = [json.dumps({"id": row, "text": f"1. {world.film('A')}"}) for row in rows]
    (home.parent / "answers.jsonl").write_text("\n".join(lines))
    command = [sys.executable, "-m", "training.safecrs", *map(str, words[1:])]
    run = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    return Ran(run.returncode, run.stdout, run.stderr)


def test_every_command_is_among_them(tmp_path: Path) -> None:
    commands = {" ".join(map(str, words)) for _, words in line(tmp_path, "x")}
    missing = [name for name, _ in cli_doc.commands() if not any(command.startswith(name) for command in commands)]
    assert missing == ["review up"]  # starts a real server: its files are checked in test_review_contract.py


def found(text: bytes, canaries: tuple[str, ...]) -> list[str]:
    return [canary for canary in canaries if canary.encode() in text]


@pytest.mark.slow
def test_no_canary_sings(touched: set[Path], home: Path, parrot: str, cli: Cli, tmp_path: Path) -> None:
    keys = (*KEYS.values(), PASSWORD, TYPED)
    for code, words in line(home, parrot):
        for path in (home / "review").glob("*.csv") if words[:2] == ["review", "pull"] else ():
            fill(path)
        run = train(home, words) if words[0] == "train" else cli(*words, *([] if words[0] in ALONE else ["-C", home]))
        assert code in (None, run.code), f"{words}: {run.code}\n{run.out}{run.err}"
        assert "Traceback" not in run.err
        assert not found((run.out + run.err).encode(), (*keys, *PEOPLE, store.Workspace.open(home).secret.hex())), words
    secret = (home / ".secret").read_bytes()
    files = sorted(written(tmp_path, touched))
    assert len(files) > 30 and any(home / "workspace.db" == path for path in touched)
    for path in files:
        content = path.read_bytes() + as_text(path)
        assert secret not in content and not found(content, (*keys, *PEOPLE)), path
        if {"releases", "published"} & set(path.parts) or path.name == "report.html":
            assert not found(content, (*REVIEWERS, NOTE)), path


def written(folder: Path, touched: set[Path]) -> Iterator[Path]:
    """Yields files in the test's folder and those touched elsewhere, except those that the canaries belong in."""
    for path in {*folder.rglob("*"), *touched}:
        is_source = path.name in ("saferec.toml", ".secret", "talk.jsonl")
        is_device = path.parts[1:2] in (("dev",), ("proc",)) and path.parts[1:3] != ("dev", "shm")
        if path.is_file() and not is_source and not is_device:
            yield path


def test_what_a_child_process_writes_is_searched(touched: set[Path], tmp_path: Path) -> None:
    """The audit hook does not see it."""
    script = 'for place in ~ . "$TMPDIR" "$HF_HOME"; do echo canary > $place/left; done'
    subprocess.run(["sh", "-c", script], check=True)
    assert not touched and [path.name for path in written(tmp_path, touched)] == ["left"] * 4


def as_text(path: Path) -> bytes:
    """Returns the values of a parquet file, which is compressed, so that they can be searched."""
    if path.suffix != ".parquet":
        return b""
    return json.dumps(pl.read_parquet(path).to_dicts(), default=str, ensure_ascii=False).encode()


def test_a_password_of_the_database_is_not_in_its_errors(workspace: store.Workspace, cli: Cli) -> None:
    url = f"postgresql+psycopg://someone:{PASSWORD}@127.0.0.1:9/none"
    (workspace.root / "saferec.toml").write_text(f'[store]\nurl = "{url}"\n')
    has_driver = find_spec("psycopg") is not None
    for words in (["doctor"], *([["status"], ["adjudicate"]] if has_driver else [])):
        run = cli(*words, "-C", workspace.root)
        assert run.code == 1 and PASSWORD not in run.out + run.err


def test_a_misplaced_password_is_not_repeated(workspace: store.Workspace, cli: Cli) -> None:
    for text in (f'[store]\npassword = "{PASSWORD}"', f'[propose.models.m]\nkey = "{PASSWORD}"'):
        (workspace.root / "saferec.toml").write_text(text)
        run = cli("status", "-C", workspace.root)
        assert run.code == 1 and "nothing here has this name" in run.err and PASSWORD not in run.err
