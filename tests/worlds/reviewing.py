"""Reviewing through the command line with files: a workspace, its commands, and what people write into their rows."""

from collections.abc import Callable

import polars as pl
import pytest

from saferec_builder.core import taxonomy as traits
from saferec_builder.storage import tables, workspace as store
from tests.worlds.csv_rows import edit
from tests.worlds.settings import review_settings

TEXTS = {
    "c1": "I faint when I see blood. Something funny?",
    "c2": "After the crash I take the long way round. A film for tonight?",
    "c3": "Any good western?",
    "c4": "A game for two, please.",
}


@pytest.fixture
def ws(workspace: store.Workspace) -> store.Workspace:
    """Four conversations; gore is proposed in c1, accidents (with doubt) in c2. Nothing is drawn for the audit."""
    rows = [
        dict.fromkeys(tables.CONVERSATIONS.columns)
        | {"conversation": c, "digest": f"d-{c}", "source": "messages", "source_id": c}
        | {"turns": [{"role": "seeker", "text": text, "items": []}]}
        for c, text in TEXTS.items()
    ]
    store.append(workspace, tables.CONVERSATIONS, tables.CONVERSATIONS.frame(rows))
    claims = [("c1", "gore", "present", "blood"), ("c2", "accidents_disasters", "unsure", "crash")]
    store.append(workspace, tables.PROPOSALS, tables.PROPOSALS.frame([claim(*c) for c in claims]))
    review_settings(workspace.root, audit=0, held_back=0)
    return store.Workspace.open(workspace.root)


def claim(
    subject: str, trait: str, verdict: str, quote: str, kind: str = "sensitivity", text: str | None = None
) -> dict:
    start = (text or TEXTS[subject]).index(quote)
    spans = [{"turn": 0, "start": start, "end": start + len(quote), "quote": quote}]
    row = dict.fromkeys(tables.PROPOSALS.columns) | {"proposal": f"{subject}-{trait}", "kind": kind, "subject": subject}
    row |= {"trait": trait, "verdict": verdict, "spans": spans, "proposer": "rules"}
    row |= {"digest": f"d-{subject}" if text is None else tables.digest(text)}
    return row | {"form": "explicit" if verdict == "present" else None}


@pytest.fixture
def review(cli, ws):
    """review("push", ...) on the files tool; the JSON it printed."""

    def run(verb: str, *words: object) -> dict:
        tool = () if verb == "status" else ("--tool", "files")
        ran = cli("review", verb, *words, *tool, "-C", ws.root, "--json")
        assert ran.code == 0, ran.err
        assert ran.json["in"] == ran.json["out"] + sum(ran.json["dropped"].values())
        assert ran.json["out"] == ran.json["added"] + ran.json["skipped"]
        return ran.json

    return run


@pytest.fixture
def adjudicate(cli, ws):
    def run() -> dict:
        ran = cli("adjudicate", "-C", ws.root, "--json")
        assert ran.code == 0, ran.err
        return ran.json

    return run


TWO = ("--reviewer", "ann", "--reviewer", "bo")


def yes(row: dict) -> dict:
    """Everything proposed is so, nothing else is."""
    return {"verdict": "none" if row["trait"] == "*" else "present"}


def no(row: dict) -> dict:
    return {"verdict": "none" if row["trait"] == "*" else "absent"}


def answer(ws, review, says: Callable[[dict], dict | None] = yes, who: tuple[str, ...] = ("ann", "bo")) -> None:
    """These people fill in their files, and all that are there are pulled."""
    for name in who:
        edit(ws.root / "review" / f"{name}.csv", says)
    review("pull", ws.root / "review")


def labels(ws) -> dict[tuple[str, str], tuple]:
    last = tables.last(store.read(ws, tables.LABELS), "kind", "subject", "trait")
    return {(r["subject"], r["trait"]): (r["verdict"], r["method"]) for r in last.iter_rows(named=True)}


TAXONOMY = traits.load()
SEVERE = frozenset(t.slug for t in TAXONOMY.traits if t.severe)


def judged(**said: dict[str, str | None]) -> pl.DataFrame:
    rows = [
        dict.fromkeys(tables.LABELS.columns)
        | {"label": f"{c}{t}", "kind": "sensitivity", "subject": c, "trait": t, "verdict": verdict}
        for c, verdicts in said.items()
        for t, verdict in verdicts.items()
    ]
    return tables.LABELS.frame(rows)
