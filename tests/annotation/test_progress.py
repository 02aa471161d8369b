"""How far review is, in units."""

import polars as pl

from annotation.progress import progress
from annotation.routing import texts
from tests.worlds.csv_rows import edit
from tests.worlds.reviewing import TWO, no, yes
from tests.worlds.routing import answer, conversations, proposals, send


def test_progress_counts_units():
    props = proposals(("c1", "gore", "present"), ("c2", "gore", "present"), ("c2", "gore", "unsure"))
    sent = send(texts(conversations("c1")), props, reviewers=("ann",))
    votes = pl.DataFrame([answer("gore"), answer("gore", reviewer="bo"), answer("needles")]).select(
        "kind", "subject", "trait", "reviewer"
    )
    told = progress(props, sent, votes, votes.head(1).drop("reviewer"), readers=2).to_dicts()
    assert told == [
        {"trait": "gore", "proposed": 2, "assigned": 1, "begun": 0, "read": 1, "disputed": 1},
        {"trait": "needles", "proposed": 0, "assigned": 0, "begun": 1, "read": 0, "disputed": 0},
    ]


def test_status_counts_units(ws, cli, review):
    review("push", *TWO)
    edit(ws.root / "review" / "ann.csv", yes)
    edit(ws.root / "review" / "bo.csv", lambda row: no(row) if "blood" in row["text"] else {})
    review("pull", ws.root / "review")
    told = review("status")
    assert told["traits"]["gore"] == {"proposed": 1, "assigned": 1, "begun": 1, "read": 1, "disputed": 1}
    assert told["traits"]["needles"] == {"proposed": 0, "assigned": 0, "begun": 1, "read": 1, "disputed": 0}
    people = {name: (facts["tasks"], facts["open"]) for name, facts in told["reviewers"].items()}
    assert people == {"ann": (2, 0), "bo": (2, 1)}
    text = cli("review", "status", "-C", ws.root).out
    line = next(line.split() for line in text.splitlines() if line.startswith("gore "))
    assert line[:7] == ["gore", *"11111", "n/a"]  # agreement cannot be told: one unit
