"""The workflow of docs/how-to/schedule.md: a shell runs each step as it stands there, to a Hub on the loopback."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

import saferec_builder as sr
from annotation.page.tasks import Given, Place, Tasks, Verdict
from saferec_builder.core import taxonomy
from saferec_builder.demo import inputs
from tests.doc_pages import DOCS, files
from tests.servers.hub import WRITER, Hub
from tests.worlds.hub_world import REPO

NEXT = f"1.{datetime.now(UTC):%Y%m}.0"
TEAM = ("ann", "bo")


def answered(ws: sr.Workspace) -> None:
    """Both people confirm what is proposed, and read the rest to the end."""
    sr.propose(ws)
    sr.push(ws, TEAM, to=sr.ReviewPage(), adjudicator="cy", everything=True)
    page = Tasks(ws)

    def waiting(name: str) -> Any:
        return page.first(name)["tasks"]

    for name in TEAM:
        while shown := waiting(name):
            task = shown[0]
            said = {
                card["trait"]: Verdict(verdict="present", spans=[Place(**span) for span in card["spans"]])
                for card in task["cards"]
            }
            page.answer(name, Given(task=task["key"], n=0, nonce=f"once-{task['key']}", outcome="read", verdicts=said))
    sr.adjudicate(ws)


@pytest.fixture
def ws(tmp_path: Path) -> sr.Workspace:
    """1.0.0 is there; since then people have answered ten more, and ten have come in that nobody has mined."""
    inputs.write(given := tmp_path / "given", taxonomy.load(), 0)
    lines = (given / "conversations.jsonl").read_text().splitlines(keepends=True)[:120]
    made = sr.Workspace.create(tmp_path / "ws")
    toml = made.root / "saferec.toml"
    toml.write_text(toml.read_text().replace("[release]", "[release]\nmin_seekers = 2", 1))
    made = sr.Workspace.open(made.root)
    sr.add_catalog(made, "csv", [given / "items.csv"])
    sr.add_catalog(made, "warnings", [given / "warnings.csv"])
    for n, (first, last) in enumerate(((0, 100), (100, 110))):
        (part := given / f"part{n}.jsonl").write_text("".join(lines[first:last]))
        sr.mine(made, "messages", [part])
        answered(made)
        if not n:
            sr.release(made, "1.0.0")
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "november.jsonl").write_text("".join(lines[110:]))
    return made


@pytest.mark.slow
def test_the_workflow_of_the_docs_mines_proposes_compares_and_publishes(ws: sr.Workspace, tmp_path: Path) -> None:
    flow = yaml.safe_load(files(DOCS / "how-to/schedule.md")[".github/workflows/dataset.yml"])
    summary = tmp_path / "summary.md"
    assert flow["jobs"]["publish"]["needs"] == "release" and flow["jobs"]["publish"]["environment"]
    with Hub() as hub:
        env = os.environ | flow["env"] | {"WS": str(ws.root), "NEW": str(tmp_path / "new"), "REPO": REPO}
        env |= {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        env |= {
            "GITHUB_STEP_SUMMARY": str(summary),
            "HF_ENDPOINT": hub.url,
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_OFFLINE": "0",
        }
        for _ in range(2):  # a run that is repeated does nothing twice
            for job, more in (("release", {}), ("publish", {"HF_TOKEN": WRITER})):
                for step in flow["jobs"][job]["steps"]:
                    words = ["bash", "-e", "-c", step["run"]]
                    ran = subprocess.run(words, env=env | more, capture_output=True, text=True, check=False)
                    assert ran.returncode == 0, (step["name"], ran.stdout, ran.stderr)
        repo = hub.repos[REPO]
    assert [commit.title for commit in repo.commits] == ["initial commit", f"Release {NEXT}"]
    assert repo.tags.keys() == {f"v{NEXT}"} and repo.private
    assert summary.read_text().splitlines().count(f"## 1.0.0 -> {NEXT}") == 2  # of both runs
    new = {json.loads(line)["id"] for line in (tmp_path / "new" / "november.jsonl").read_text().splitlines()}
    mined = ws.table("conversations").filter(pl.col("source_id").is_in(new))
    pushed = ws.table("assignments").join(mined.select(subject="conversation"), on="subject")
    assert mined.height == 10 and {*pushed["reviewer"]} == {*TEAM}
