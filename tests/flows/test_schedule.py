"""The workflow of docs/how-to/schedule.md: a shell runs each step as printed there, with a local test Hub."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
import yaml

import saferec_builder as sr
from annotation.page.tasks import Given, Tasks
from saferec_builder.core import taxonomy
from saferec_builder.demo import inputs
from tests.doc_pages import DOCS, files
from tests.servers.hub import WRITER, Hub
from tests.worlds import review_page
from tests.worlds.hub_world import REPO
from tests.worlds.release_world import for_few

NEXT = f"1.{datetime.now(UTC):%Y%m}.0"
TEAM = ("ann", "bo")


def answered(ws: sr.Workspace) -> None:
    """Both people confirm every proposal and read each text to the end."""
    sr.propose(ws)
    sr.push(ws, TEAM, to=sr.ReviewPage(), adjudicator="cy", everything=True)
    page = Tasks(ws)
    for name in TEAM:
        while queue := review_page.shown(page, name):
            page.answer(name, Given.model_validate(review_page.given(queue[0])))
    sr.adjudicate(ws)


@pytest.fixture
def ws(tmp_path: Path) -> sr.Workspace:
    """1.0.0 is released; since then people answered ten more conversations, and ten more came in that are not mined."""
    inputs.write(folder := tmp_path / "given", taxonomy.load(), 0)
    lines = (folder / "conversations.jsonl").read_text().splitlines(keepends=True)[:120]
    ws = sr.Workspace.create(tmp_path / "ws")
    for_few(ws)
    ws = sr.Workspace.open(ws.root)
    sr.add_catalog(ws, "csv", [folder / "items.csv"])
    sr.add_catalog(ws, "warnings", [folder / "warnings.csv"])
    for n, (first, last) in enumerate(((0, 100), (100, 110))):
        (part := folder / f"part{n}.jsonl").write_text("".join(lines[first:last]))
        sr.mine(ws, "messages", [part])
        answered(ws)
        if not n:
            sr.release(ws, "1.0.0")
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "november.jsonl").write_text("".join(lines[110:]))
    return ws


@pytest.mark.slow
def test_the_workflow_of_the_docs_mines_proposes_compares_and_publishes(ws: sr.Workspace, tmp_path: Path) -> None:
    workflow = yaml.safe_load(files(DOCS / "how-to/schedule.md")[".github/workflows/dataset.yml"])
    summary = tmp_path / "summary.md"
    assert workflow["jobs"]["publish"]["needs"] == "release" and workflow["jobs"]["publish"]["environment"]
    with Hub() as hub:
        env = os.environ | workflow["env"] | {"WS": str(ws.root), "NEW": str(tmp_path / "new"), "REPO": REPO}
        env |= {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        env |= {"GITHUB_STEP_SUMMARY": str(summary), "HF_ENDPOINT": hub.url}
        env |= {"HF_HUB_DISABLE_XET": "1", "HF_HUB_OFFLINE": "0"}
        for _ in range(2):  # a repeated run does nothing twice
            for job, token in (("release", {}), ("publish", {"HF_TOKEN": WRITER})):
                for step in workflow["jobs"][job]["steps"]:
                    command = ["bash", "-e", "-c", step["run"]]
                    run = subprocess.run(command, env=env | token, capture_output=True, text=True, check=False)
                    assert run.returncode == 0, (step["name"], run.stdout, run.stderr)
        repo = hub.repos[REPO]
    assert [commit.title for commit in repo.commits] == ["initial commit", f"Release {NEXT}"]
    assert repo.tags.keys() == {f"v{NEXT}"} and repo.private
    assert summary.read_text().splitlines().count(f"## 1.0.0 -> {NEXT}") == 2  # from both runs
    new = {json.loads(line)["id"] for line in (tmp_path / "new" / "november.jsonl").read_text().splitlines()}
    mined = ws.table("conversations").filter(pl.col("source_id").is_in(new))
    pushed = ws.table("assignments").join(mined.select(subject="conversation"), on="subject")
    assert mined.height == 10 and {*pushed["reviewer"]} == {*TEAM}
