"""Damaged files: whatever is broken in a workspace or a release is named in one line, and putting it back is enough.

`make soak` damages every file in every way; without it the files take turns.
"""

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from exports.release import release as freeze
from saferec_builder.storage import tables, workspace as store
from tests.conftest import Cli, Injected
from tests.worlds import line, release_world as world
from tests.worlds.calm import Step, same

WAYS: dict[str, Callable[[bytes], bytes]] = {
    "emptied": lambda raw: b"",
    "cut": lambda raw: raw[: len(raw) // 2],
    "a byte turned": lambda raw: raw[: len(raw) // 2] + bytes([raw[len(raw) // 2] ^ 0xFF]) + raw[len(raw) // 2 + 1 :],
    "of another kind": lambda raw: b"PK\x03\x04" + bytes(60),
    "other words": lambda raw: b'{"rows": [1]}',
}
SOAK = bool(os.environ.get("SAFEREC_SOAK"))


@pytest.fixture
def ws(workspace):
    ws = world.fill(workspace, *world.requests())
    freeze(ws, "1.0.0")
    return ws


def damages(files: list[Path]) -> list[tuple[Path, str]]:
    """(file, way): all of them for `make soak`, else one way for each file."""
    ways, files = list(WAYS), sorted(p for p in files if p.is_file() and p.stat().st_size)
    return [(p, way) for n, p in enumerate(files) for way in (ways if SOAK else [ways[n % len(ways)]])]


def test_verify_sees_every_damage_of_a_release(ws, cli, injected):
    home = ws.releases / "1.0.0"
    done = damages(list(home.rglob("*")))
    for path, way in done:
        whole = path.read_bytes()
        path.write_bytes(WAYS[way](whole))
        ran = cli("verify", home)
        assert (ran.code, ran.err.strip().count("\n")) == (1, 0) and path.name in ran.err, (path, way, ran)
        path.write_bytes(whole)
    assert cli("verify", home).code == 0
    injected("damaged files of a release", len(done))


@pytest.mark.slow
def test_a_damaged_workspace_is_one_line_and_putting_the_file_back_is_enough(ws, cli, injected):
    """A bug would pass through `cli` as its exception. Whatever befalls a shard or a manifest is seen and named; of the
    other files that which a command reads, and inside the database no bit of a value.
    """
    before = line.contents(ws.root)
    done = damages([*ws.root.glob("*"), *(ws.root / "tables").rglob("*")])
    stopped = 0
    for path, way in done:
        whole = path.read_bytes()
        path.write_bytes(WAYS[way](whole))
        before_this = stopped
        for command in ("status", "adjudicate", "report"):
            ran = cli(command, "-C", ws.root)
            assert ran.code == 0 or (ran.code, ran.err.strip().count("\n")) == (1, 0), (path, way, command, ran)
            stopped += path.name in ran.err
        assert stopped > before_this or "tables" not in path.parts, (path, way)
        path.write_bytes(whole)
    assert stopped >= len(done)
    after = line.contents(ws.root)
    assert {name for name, frame in after.items() if not frame.equals(before[name])} == set()
    injected("damaged files of a workspace", len(done))


def test_an_old_revision_that_is_mined_again_is_not_the_newest(workspace: store.Workspace, cli: Cli) -> None:
    files = []
    for name, text in (("old", "A film, please"), ("new", "A film without gore, please")):
        files.append(workspace.root / f"{name}.jsonl")
        talk = {"id": "a1", "messages": [{"role": "user", "content": text}]}
        files[-1].write_text(json.dumps(talk))
        assert cli("mine", "messages", files[-1], "-C", workspace.root).code == 0
    before = store.read(workspace, tables.CONVERSATIONS)
    shard = min((workspace.root / "tables" / "conversations").glob("*.parquet"))
    shard.write_bytes(WAYS["a byte turned"](shard.read_bytes()))
    shard.with_suffix(".json").unlink()  # as the message says
    assert cli("mine", "messages", files[0], "-C", workspace.root).code == 0
    assert store.read(workspace, tables.CONVERSATIONS).equals(before) and before.height == 2


@pytest.mark.slow
@pytest.mark.parametrize("way", list(WAYS) if SOAK else ["a byte turned"])
def test_what_the_message_says_brings_a_damaged_table_back(
    calm: list[Step], tmp_path: Path, cli: Cli, way: str, injected: Injected
) -> None:
    """Every shard is damaged; then only what the messages say is done, and the commands that they name."""
    folder = tmp_path / "ws"
    shutil.copytree(calm[-1].after, folder)
    shards = sorted((folder / "tables").rglob("*.parquet"))
    for path in shards:
        path.write_bytes(WAYS[way](path.read_bytes()))
    again = set[str]()
    while (ran := cli("status", "-C", folder)).code:
        told = re.fullmatch(r"error: (\S+/tables/\w+)/\S+: .*: delete (\S+\.json) there, then (.*)\n", ran.err)
        assert told, ran
        (Path(told[1]) / told[2]).unlink()
        if "delete the folder tables/readings too" in told[3]:
            shutil.rmtree(folder / "tables" / "readings", ignore_errors=True)
        if told[1].endswith("/drops"):  # "every command that leaves something out names it again"
            again |= {"mine", "catalog", "propose", "review", "release"}
        again |= set(re.findall(r"`saferec-build (\w+)", told[3]))
    assert again >= {"mine", "catalog", "propose", "adjudicate"}
    for step in calm:
        words = step.words(folder)
        if words[0] in again and words[:2] != ["review", "push"]:
            assert cli(*words).code == 0, words
    same(folder, calm[-1].after)
    injected("damaged shards brought back", len(shards))
