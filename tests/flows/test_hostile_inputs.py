"""Files that unpack to too much, or are not what a program expects: one line and exit 1, in bounded memory."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zstandard

from saferec_builder.storage import tables, workspace as store
from tests.conftest import Cli
from tests.worlds.damages import repeated
from tests.worlds.guarded import MEMORY, Guarded
from tests.worlds.hostile_files import parquet
from tests.worlds.reddit_dump import submission

LINE = json.dumps({"id": "a", "messages": [{"role": "user", "content": "A film?"}]}) + "\n"
POSTS = "".join(json.dumps(submission(n)) + "\n" for n in range(300)).encode()


def packed(folder: Path) -> str:
    return named(folder, b"p.parquet", repeated(parquet([{"messages": "", "prompt": ""}])))


def named(folder: Path, name: bytes, content: bytes = LINE.encode()) -> str:
    (path := folder / os.fsdecode(name)).write_bytes(content)
    return path.name


def card(folder: Path, header: str) -> str:
    (folder / "d").mkdir()
    (folder / "d" / "a.jsonl").write_text(LINE)
    (folder / "d" / "README.md").write_text(f"---\n{header}\n---\n")
    return "d"


CASES: dict[str, tuple[str, Callable[[Path], str], str]] = {
    "newlines": ("reddit", lambda at: named(at, b"n.zst", zstandard.compress(b"\n" * (64 << 20))), ""),
    "no JSON": ("reddit", lambda at: named(at, b"x.zst", zstandard.compress(b"x\n" * (32 << 20))), "100,000 lines"),
    "cut": ("reddit", lambda at: named(at, b"c.zst", zstandard.compress(POSTS)[:-40]), "the file ends inside it"),
    "parquet, hf": ("hf", packed, "p.parquet: it unpacks to more than 100 times its size"),
    "parquet, saferec": ("saferec", packed, "p.parquet: it unpacks to more than 100 times its size"),
    "no parquet": ("saferec", lambda at: named(at, b"q.parquet"), "q.parquet: not a parquet file"),
    "a name": ("messages", lambda at: named(at, b"bad\xff.jsonl"), "the file's name is not UTF-8"),
    "a key": ("messages", lambda at: named(at, b"k.jsonl", b'{"\\ud800": 1}\n'), "lone surrogate"),
    "a tag that runs": ("hf", lambda at: card(at, 'configs: !!python/object/apply:os.system ["id"]'), "cannot open it"),
    "a tag": ("hf", lambda at: card(at, "configs:\n- config_name: a\n  data_files: !x 1"), "cannot open it"),
    "a header": ("hf", lambda at: card(at, "configs: 5"), "cannot open it"),
}


@pytest.fixture(scope="module")
def guard() -> Iterator[Guarded]:
    yield (guard := Guarded())
    guard.end()


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_hostile_file_is_one_line_in_bounded_time_and_memory(tmp_path: Path, guard: Guarded, case: str) -> None:
    source, make, message = CASES[case]
    ws = store.Workspace.create(tmp_path / "ws")
    workers = ["--workers", "1"] if source == "reddit" else []
    run = guard.run(tmp_path, ["mine", source, make(tmp_path), "-C", "ws", *workers])
    assert run["code"] == (1 if message else 0) and run["peak"] <= MEMORY >> 20, run
    assert all(message in line for line in run["err"].strip().splitlines()[-1:]), run
    if case == "cut":  # rows before the cut are stored
        assert store.read(ws, tables.CONVERSATIONS).height > 0
    assert store.read(ws, tables.DROPS).height < 200_000


def test_a_folder_whose_name_no_database_can_open_is_no_workspace(tmp_path: Path, cli: Cli) -> None:
    run = cli("init", tmp_path / os.fsdecode(b"ws\xff"))
    assert run.code == 1 and "not UTF-8" in run.err and run.err.count("\n") == 1
