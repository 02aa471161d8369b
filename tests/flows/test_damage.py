"""Damaged files of a workspace or release are named in one line, and restoring the file is enough.

`make soak` damages every file in every way; without it each file is damaged in one way.
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
    """Returns (file, way): all of them for `make soak`, else one way for each file."""
    ways, files = list(WAYS), sorted(p for p in files if p.is_file() and p.stat().st_size)
    return [(p, way) for n, p in enumerate(files) for way in (ways if SOAK else [ways[n % len(ways)]])]


@pytest.mark.slow
def test_verify_sees_every_damage_of_a_release(ws, cli, injected):
    release = ws.releases / "1.0.0"
    cases = damages(list(release.rglob("*")))
    for path, way in cases:
        original = path.read_bytes()
        path.write_bytes(WAYS[way](original))
        run = cli("verify", release)
        assert (run.code, run.err.strip().count("\n")) == (1, 0) and path.name in run.err, (path, way, run)
        path.write_bytes(original)
    assert cli("verify", release).code == 0
    injected("damaged files of a release", len(cases))


@pytest.mark.slow
def test_a_damaged_workspace_is_one_line_and_putting_the_file_back_is_enough(ws, cli, injected):
    """A bug would show up in `cli` as its exception. All damage of a shard or manifest is seen and named; of the other
    files only damage that a command reads, and not a changed bit of a value in the database.
    """
    expected = line.contents(ws.root)
    cases = damages([*ws.root.glob("*"), *(ws.root / "tables").rglob("*")])
    stopped = 0
    for path, way in cases:
        original = path.read_bytes()
        path.write_bytes(WAYS[way](original))
        earlier = stopped
        for command in ("status", "adjudicate", "report"):
            run = cli(command, "-C", ws.root)
            assert run.code == 0 or (run.code, run.err.strip().count("\n")) == (1, 0), (path, way, command, run)
            stopped += path.name in run.err
        assert stopped > earlier or "tables" not in path.parts, (path, way)
        path.write_bytes(original)
    assert stopped >= len(cases)
    restored = line.contents(ws.root)
    assert {name for name, frame in restored.items() if not frame.equals(expected[name])} == set()
    injected("damaged files of a workspace", len(cases))


def test_an_old_revision_that_is_mined_again_is_not_the_newest(workspace: store.Workspace, cli: Cli) -> None:
    files = []
    for name, text in (("old", "A film, please"), ("new", "A film without gore, please")):
        files.append(workspace.root / f"{name}.jsonl")
        talk = {"id": "a1", "messages": [{"role": "user", "content": text}]}
        files[-1].write_text(json.dumps(talk))
        assert cli("mine", "messages", files[-1], "-C", workspace.root).code == 0
    conversations = store.read(workspace, tables.CONVERSATIONS)
    shard = min((workspace.root / "tables" / "conversations").glob("*.parquet"))
    shard.write_bytes(WAYS["a byte turned"](shard.read_bytes()))
    shard.with_suffix(".json").unlink()  # as the message says
    assert cli("mine", "messages", files[0], "-C", workspace.root).code == 0
    assert store.read(workspace, tables.CONVERSATIONS).equals(conversations) and conversations.height == 2


@pytest.mark.slow
@pytest.mark.parametrize("way", list(WAYS) if SOAK else ["a byte turned"])
def test_what_the_message_says_brings_a_damaged_table_back(
    calm: list[Step], tmp_path: Path, cli: Cli, way: str, injected: Injected
) -> None:
    """Damages every shard; then does only what the messages say and runs the commands that they name."""
    folder = tmp_path / "ws"
    shutil.copytree(calm[-1].after, folder)
    shards = sorted((folder / "tables").rglob("*.parquet"))
    for path in shards:
        path.write_bytes(WAYS[way](path.read_bytes()))
    commands = set[str]()
    while (run := cli("status", "-C", folder)).code:
        advice = re.fullmatch(r"error: (\S+/tables/\w+)/\S+: .*: delete (\S+\.json) there, then (.*)\n", run.err)
        assert advice, run
        (Path(advice[1]) / advice[2]).unlink()
        if "delete the folder tables/readings too" in advice[3]:
            shutil.rmtree(folder / "tables" / "readings", ignore_errors=True)
        if advice[1].endswith("/drops"):  # "every command that leaves something out names it again"
            commands |= {"mine", "catalog", "propose", "review", "release"}
        commands |= set(re.findall(r"`saferec-build (\w+)", advice[3]))
    assert commands >= {"mine", "catalog", "propose", "adjudicate"}
    for step in calm:
        words = step.words(folder)
        if words[0] in commands and words[:2] != ["review", "push"]:
            assert cli(*words).code == 0, words
    same(folder, calm[-1].after)
    injected("damaged shards brought back", len(shards))
