"""docs/releases.md does what it says: its commands run, in order, in a workspace with labels."""

import re
import shlex

import pytest

from saferec_builder.storage import workspace as store
from tests import ROOT
from tests.worlds import release_world as world

PAGE = ROOT / "docs" / "releases.md"


@pytest.mark.slow
def test_the_walk_through_runs(workspace: store.Workspace, cli, monkeypatch: pytest.MonkeyPatch) -> None:
    world.fill(workspace, *world.requests())
    monkeypatch.chdir(workspace.root)
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"^```\n(.*?)^```$", text, re.S | re.M)
    commands = [line for block in blocks for line in block.splitlines()]
    assert len(commands) >= 9 and all(line.startswith("saferec-build ") for line in commands)
    for line in commands:
        ran = cli(*shlex.split(line)[1:])
        assert ran.code == 0, f"{line}\n{ran.err}"
    refused = cli("publish", "1.0.0", "--to", "elsewhere")
    assert refused.code == 1 and "was withdrawn" in refused.err
    named = set(re.findall(r"`(\w+)`", text.split("| `data/CONFIG")[1].split("\n")[0]))
    from exports.formats import CONFIGS

    assert set(CONFIGS) <= named
