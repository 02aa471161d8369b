"""review push, pull, status and adjudicate as people use them: files are edited, pulled and pushed again."""

import shutil

import polars as pl
import pytest

from annotation.tools.guidelines import GUIDELINES, TOOLS, page_for
from exports.report.gather import gather
from saferec_builder.core import taxonomy as traits
from saferec_builder.storage import tables, workspace as store
from tests.worlds.csv_rows import edit, rows_of
from tests.worlds.reviewing import TWO, answer, labels, no, yes

pytestmark = pytest.mark.slow  # the whole pipeline, command by command


def test_the_whole_way_from_proposals_to_labels(ws, cli, review, adjudicate):
    sent = review("push", *TWO)
    assert (sent["added"], sent["new"]) == (4, {"proposed": 4})
    assert sent["rows"] == {"ann": 4, "bo": 4}  # two tasks each, a unit and `*` in each
    folder = ws.root / "review"
    # without sections on other tools
    page = (folder / "guidelines.md").read_text(encoding="utf-8")
    assert page.startswith(page_for("In a file"))
    gore = ws.taxonomy["gore"]  # it asked for slugs, and named none
    assert f"- `gore` ({gore.name}): {gore.definition} {gore.hint}\n" in page
    edit(folder / "ann.csv", yes)
    edit(folder / "bo.csv", lambda row: yes(row) if "blood" in row["text"] else no(row))
    assert review("pull", folder)["added"] == 8

    report = adjudicate()
    # c1 and c2, 20 traits each; accidents in c2 is disputed
    assert (report["in"], report["added"]) == (40, 40)
    assert (report["agreed"], report["adjudicated"], report["unresolved"]) == (39, 0, 1)
    assert labels(ws)["c1", "gore"] == ("present", "agreed")
    assert labels(ws)["c2", "gore"] == ("absent", "agreed")
    # gore: pp, aa; accidents: aa, pa -> Do = 2, De = (16 - 9 - 1) / 3 = 2: no better than chance; needles: all absent
    assert report["alpha"]["gore"]["alpha"] == 1.0
    assert report["alpha"]["accidents_disasters"]["alpha"] == pytest.approx(0.0)
    assert report["alpha"]["needles"]["alpha"] is None
    assert adjudicate()["added"] == 0

    review("push", "--adjudicator", "cy")
    (row,) = rows_of(folder / "cy.csv")
    assert row["trait"] == "accidents_disasters"
    assert row["said"].splitlines() == ["absent", "present: “crash”"]
    edit(folder / "cy.csv", lambda row: {"verdict": "present", "form": "implicit"})
    assert review("pull", folder / "cy.csv")["added"] == 1
    report = adjudicate()
    assert (report["added"], report["adjudicated"], report["unresolved"]) == (1, 1, 0)
    assert labels(ws)["c2", "accidents_disasters"] == ("present", "adjudicated")
    label = store.read(ws, tables.LABELS).row(-1, named=True)
    assert [s["quote"] for s in label["spans"]] == ["crash"]
    assert len(label["reviews"]) == 3
    assert review("push", "--adjudicator", "cy")["rows"] == {"cy": 0}


def test_a_text_that_changed_is_asked_again_where_its_evidence_is_gone(ws, review, adjudicate):
    review("push", *TWO)
    answer(ws, review)
    adjudicate()
    changed = (
        store.read(ws, tables.CONVERSATIONS)
        .filter(conversation="c1")
        .with_columns(
            digest=pl.lit("d-c1b"),
            turns=pl.Series(
                [[{"role": "seeker", "text": "Something funny?", "items": []}]], dtype=pl.List(tables.TURN)
            ),
        )
    )
    store.append(ws, tables.CONVERSATIONS, changed)
    report = adjudicate()
    assert report["reviews_left_out"] == {"stale": 2}
    assert labels(ws)["c1", "gore"] == (None, "unresolved")
    assert labels(ws)["c2", "accidents_disasters"] == ("present", "agreed")
    second = review("push", *TWO)  # c1 alone: gore, and `*`
    assert (second["added"], second["rows"]) == (0, {"ann": 2, "bo": 2})
    answer(ws, review, no)
    assert adjudicate()["reviews_left_out"] == {}
    assert labels(ws)["c1", "gore"] == ("absent", "agreed")
    copies = [shutil.copy(ws.root / "review" / f"{name}.csv", ws.root / f"{name}.csv") for name in ("ann", "bo")]
    third = review("push", *TWO)  # their finished work left the files, and nothing said so
    assert (third["rows"], third["answered_rows_taken_out"]) == ({"ann": 0, "bo": 0}, {"ann": 2, "bo": 2})
    assert "answered_rows_taken_out" not in review("push", *TWO)
    for copy in copies:  # what `then` and the review guide say of a change of mind
        edit(copy, lambda row: {"verdict": "none" if row["trait"] == "*" else "unsure"})
    assert review("pull", *copies)["added"] == 2
    adjudicate()
    assert labels(ws)["c1", "gore"] == ("unsure", "agreed")


def test_the_guidelines_name_every_column_that_people_fill_in():
    page = GUIDELINES.read_text(encoding="utf-8")
    words = "verdict form quote turn note seconds unit * none".split()
    assert all(f"`{word}`" in page for word in words)
    assert all(len(page_for(heading).splitlines()) <= 60 for heading in TOOLS)  # one page for each reader
    assert not [t.slug for t in traits.load().traits if f"`{t.slug}`" in page]  # the taxonomy is in the file itself


def test_the_report_and_review_status_count_the_same_tasks_open(ws, review):
    """A task with only one row answered counted as open in one of them and as done in the other."""
    review("push", *TWO)
    edit(ws.root / "review" / "ann.csv", yes)
    edit(ws.root / "review" / "bo.csv", lambda row: yes(row) if row["trait"] == "gore" else {})
    review("pull", ws.root / "review")
    people = review("status")["reviewers"]
    load = gather(ws)["load"]
    assert "bo" in store.read(ws, tables.REVIEWS)["reviewer"]
    assert [(row["given"], row["open"]) for row in load] == [(p["tasks"], p["open"]) for p in people.values()]
    assert [(row["answered"], row["open"]) for row in load] == [(2, 0), (0, 2)]
