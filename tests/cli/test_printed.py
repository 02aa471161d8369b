"""What each command prints, word for word, as text and as JSON: tests/data/printed.txt holds the commands of one small
workspace in their order.

`$ COMMAND | PATTERN` shows only the lines in which the pattern is, or only its groups if it has any. Checksums, sizes
and the advice of a `next` line are left out. If a change is meant, copy printed.txt of the test's temporary folder.
"""

import json
import re
import shlex
import signal
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from annotation import follow
from saferec_builder.cli import propose_score
from saferec_builder.demo import world as invented
from saferec_builder.proposing.calibration import Bin, Rates
from saferec_builder.proposing.evaluation import Deletion, Score
from saferec_builder.storage import tables, workspace as store
from tests import ROOT
from tests.conftest import Cli, Patch, Ran
from tests.worlds import release_world as world, review_world
from tests.worlds.catalog_files import VOTES
from tests.worlds.pushes import ALL
from tests.worlds.review_world import Verdict

PRINTED = ROOT / "tests/data/printed.txt"
LEFT_OUT = (
    (r'(next: |"next": ")[^"\n]+(\n  or without them: .+)*', r"\1..."),
    (r"[0-9a-f]{40,}", "CHECKSUM"),
    (r'(bytes"?: )[\d,]+', r"\1SIZE"),
)
FAINTS = "Spiders make me faint, I hate them."
PADDING = "I watch films with my sister at the weekend, and we like them best long and slow. " * 2
SHOWN = {"one": "Film A (2001),Film B (2002),Film D (2004),Film Z,Film L (2012)", "two": "Film D (2004),Film L (2012)"}
EMMA = f"{VOTES}Emma,1996,,,Does the dog dies,1,1,,\nEmma,1996,,,Is it in space,1,1,,\n"
FILES = {  # for `catalog add`
    "own.csv": "domain,title,year,ids\nfilm,Alien,1979,tt0078748\nfilm,Emma,1996,tt0116191\n"
    "film,The Emma,1996,tt0118308\nfilm,Emma,1999,\n",
    "votes.csv": f"{VOTES}Alien,1979,,,Is there blood/gore?,40,1,https://example.org,2024-01-01\n"
    "Heat,1995,,,Is there blood/gore,1,1,,\n,,tt78748,,Is it in space,9,0,,\n",
    "again.csv": f"{VOTES}Alien,1979,,,Does the dog die,0,8,,\n,,tt78748,,Does the dog die,0,9,,\n"
    "Heat,1995,,,Does the dog die,1,1,,\n",
    "emma.csv": EMMA,
    "words.csv": "imdb,keywords\ntt0078748,gore|blood splatter\ntt0116191,love\n",
    "other.csv": "domain,title,year,topic,yes,no\n" + "film,Big,1988,Is there blood/gore,9,1\n" * 2,
    "tags.csv": "domain,title,year,movieId,tag\nfilm,Big,1988,1,gore\nfilm,Up,2009,2,gore\n",
    "same.csv": "movieId,title,genres,tag\n" + "7,Alien (1979),Horror,gore\n" * 3,
    "rated.csv": "domain,title,year,rating,reason\nfilm,Alien,1979,R,for gore\n",
    "bad.csv": f"{VOTES}Alien,1979,,,,1,1,,\nAlien,19,,,a,1,1,,\nAlien,1979,,,a,1,1,,\n",
}


@pytest.fixture
def ws(workspace: store.Workspace, monkeypatch: Patch) -> store.Workspace:
    """The folder of an empty workspace, with files to read."""
    monkeypatch.chdir(workspace.root)
    for key in ("DDD_API_KEY", "SAFEREC_REVIEW_TOKEN", "OPENAI_API_KEY"):
        monkeypatch.delenv(key, raising=False)
    (workspace.root / ".secret").write_bytes(store.DEMO_SECRET)
    turns = [("user", f"{PADDING}{FAINTS} {PADDING}"), ("assistant", "Try Nowhere (1990)")]
    chat = {"id": "m1", "user": "zoe", "messages": [{"role": role, "content": text} for role, text in turns]}
    Path("chat.jsonl").write_text(f"{json.dumps(chat)}\nno\n")
    lists = ({"model": model, "id": "1", "titles": names.split(",")} for model, names in SHOWN.items())
    Path("recs.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in lists))
    for name, text in FILES.items():
        Path(name).write_text(text)
    return workspace


def fill(ws: store.Workspace) -> Ran:
    """Twelve conversations with labels, one of a source that keeps its texts, and films of two sources."""
    rows, labels = world.requests(12)
    rows[1] |= {"recommended": ["redial:7"]}
    rows[2] |= {"source": "hf:chats"}
    world.fill(ws, rows, labels)
    other = {"source": "imdb", "domain": "film", "plot": None, "aliases": ["A Film"], "genres": []}
    items = [
        {"source_id": "tt1", "title": "Film A", "year": 2001, "refs": ["imdb:tt1"]},
        {"source_id": "tt2", "title": "Film B", "year": 2002, "refs": ["imdb:tt1"]},
        {"source_id": "tt3", "title": "South Park", "year": None, "refs": []},
    ]
    topic = ws.taxonomy["needles"].core[0]
    votes = {"warning": "votes", "ref": world.ref("D"), "domain": "film", "kind": "topic", "topic": topic, "yes": 40}
    votes |= {"no": 1, "source": "csv", "url": "https://example.org", "retrieved": "2024-01-01"}
    store.append(ws, tables.WARNINGS, tables.WARNINGS.frame([votes]))
    store.append(ws, tables.CATALOG_ROWS, tables.CATALOG_ROWS.frame([other | row for row in items]))
    return Ran(0, "", "")


def review(ws: store.Workspace) -> Ran:
    """Two people agree: with all labels but one, and one of them reports personal data."""
    rows, labels = world.requests(12)
    agreed = [
        world.review(row, "bo") | {"verdict": of["verdict"], "spans": of["spans"]}
        for row, of in zip(rows, labels, strict=True)
    ]
    agreed[3] |= {"verdict": "absent", "spans": []}
    reviews = [*agreed, *(row | {"reviewer": "ann", "review": f"ann-{n}"} for n, row in enumerate(agreed))]
    reviews[-len(rows)] |= {"note": "personal data"}
    store.append(ws, tables.REVIEWS, world.reviews(*reviews))
    return Ran(0, "", "")


STEPS = {"fill": fill, "review": review}  # what no command does here


@pytest.mark.slow
def test_every_command_prints_what_is_written_here(cli: Cli, ws: store.Workspace, tmp_path: Path) -> None:
    expected = PRINTED.read_text(encoding="utf-8")
    printed = ""
    for command in re.findall(r"^\$ (.*)", expected, re.MULTILINE):
        words, _, pattern = command.partition(" | ")
        run = STEPS[words](ws) if words in STEPS else cli(*shlex.split(words))
        lines = [*run.out.splitlines(), *(f"! {line}" for line in run.err.splitlines())]
        matches = [(line, match) for line in lines if (match := re.search(pattern, line))]
        shown = [" ... ".join(filter(None, match.groups())) or line for line, match in matches]
        text = "\n".join([*shown, *[f"exit {run.code}"] * (run.code > 0)])
        for volatile, short in LEFT_OUT:
            text = re.sub(volatile, short, text)
        printed += f"$ {command}\n{text}\n" if text else f"$ {command}\n"
    (tmp_path / "printed.txt").write_text(printed, encoding="utf-8")
    assert printed.splitlines() == expected.splitlines()


def test_invented_items_go_into_demo_workspaces(cli: Cli, demo_workspace: store.Workspace) -> None:
    paths = [invented.FOLDER / "films.jsonl", invented.FOLDER / "games.jsonl"]
    result = cli("catalog", "add", "demo", *paths, "-C", demo_workspace.root, "--json").json
    assert (result["dropped"], result["without_year"]) == ({}, 0)
    assert result["added"] == result["in"] == result["items"] >= 360  # no two of them merge


def test_every_line_of_a_score() -> None:
    rates = Rates(precision=0.5, recall=None, f1=0.25, right=1, claimed=2, wanted=4)
    bins = [Bin(low=0.5, high=0.6, n=4, confidence=0.55, right=0.25)]
    score = Score(
        read=1_000, open=2, all=rates, recall_of={}, traits={}, ece=None, reliability=bins, evidence=None,
        proposer="some", ece_of_traits_with_50=0.3, ece_calibrated=0.0, deletion=Deletion(9, 8, 0.75),
    )  # fmt: skip
    lines = [
        "some against demo: 1,000 read whose truth is known, 2 claims on them left open (unsure, or not judged)",
        "  all                  P 0.50  R   -   F 0.25  (1/2 right, 1/4 found)",
        "isotonic, held out, only of traits with 50 judged claims: ECE 0.300 -> 0.000",
        "deletion test: 0.75 of 8 claims fell without their evidence",
    ]
    assert propose_score._lines(score, "demo") == lines
    other = replace(score, deletion=Deletion(9, 0, None), ece_calibrated=None, ece=0.0)
    bars = ["calibration: ECE 0.000", "  0.5-0.6  #####                 0.25 right of 4"]
    lines[2:] = [*bars, "deletion test: n/a of 0 claims fell without their evidence"]
    assert propose_score._lines(other, "demo") == lines


@pytest.mark.slow
def test_who_follows_sees_every_pull_and_fault_until_ctrl_c(cli, workspace, memory, monkeypatch):
    review_world.fill(workspace)
    ws = store.Workspace.open(workspace.root)
    assert cli("review", "push", *ALL, "-C", ws.root).code == 0
    (remote, *_) = (n for n, (_, task, name) in memory.held.items() if (name, task["subject"]) == ("ann", "c3"))
    between_looks = iter(
        (
            lambda: memory.answer(remote, Verdict()),
            lambda: setattr(memory, "down", True),
            lambda: setattr(memory, "down", False),
            lambda: signal.raise_signal(signal.SIGINT),
        )
    )
    monkeypatch.setattr(follow, "time", SimpleNamespace(sleep=lambda _: next(between_looks)()))
    run = cli("review", "pull", "--follow", "--url", "http://memory", "--token", "t", "--json", "-C", ws.root)
    pulls = [json.loads(line) for line in run.out.splitlines()]
    assert (run.code, run.err) == (0, "memory does not answer: asking again\n")
    assert [pull["added"] for pull in pulls] == [0, 1] and next(between_looks, None) is None
