"""CSV export and import: answers come back correctly, whatever spreadsheets do to a file."""

import csv
import dataclasses
import re
from pathlib import Path

from hypothesis import given, strategies as st

from annotation.routing import texts
from annotation.tools.files import CELL, COLUMNS, CUT, bare, guarded, lines
from annotation.tools.guidelines import page_for
from saferec_builder.storage import tables
from tests.worlds.csv_rows import rows_of
from tests.worlds.review_csv import TAXONOMY, answers, back, fill, reasons, unit, write


def test_a_file_shows_text_trait_proposal_and_empty_columns(pushed):
    needles, gore, star = rows_of(pushed)
    assert needles["text"].startswith("1. seeker: I can’t watch  needles")
    assert "\n2. recommender: OK" in needles["text"]
    assert [needles[c] for c in ("trait", "proposed", "proposed_form", "proposed_quote", "proposed_turn")] == [
        *("needles", "present", "explicit", "needles", "1")
    ]
    assert {needles[c] for c in ("verdict", "form", "quote", "turn", "note", "seconds", "said")} == {""}
    assert needles["name"] == TAXONOMY["needles"].name
    assert (star["trait"], "none" in star["definition"]) == ("*", True)
    assert gore["warning"] == ""  # neither needles nor gore is severe


def test_a_severe_trait_warns_on_every_row_of_its_task(tmp_path):
    path = write(tmp_path / "ann.csv", unit("torture", verdict="present"), unit("*"))
    assert all("Torture" in row["warning"] for row in rows_of(path))


def test_a_text_that_excel_would_cut_says_so(tmp_path):
    """Whoever read it there judged a part of it, and nothing said so."""
    for turns, warning in ((2, ""), (3, CUT)):
        rows = [{"role": "seeker", "text": "a" * (CELL // 3), "items": []}] * turns
        text = texts(tables.CONVERSATIONS.frame([{"conversation": "c1", "digest": "d1", "turns": rows}]))
        assert rows_of(write(tmp_path / "ann.csv", unit("gore"), text=text))[0]["warning"] == warning


def test_the_adjudicator_reads_what_was_said_and_nobodys_name(tmp_path):
    ruling = unit("gore", reviewer="cy", role="adjudicator", why="disagreement", said=["absent", "present: “needles”"])
    path = write(tmp_path / "cy.csv", ruling)
    assert rows_of(path)[0]["said"] == "absent\npresent: “needles”"
    assert "ann" not in [cell for row in rows_of(path) for cell in row.values()]
    assert answers(fill(path, {"verdict": "absent"})) == {"gore": ("absent", [])}
    assert reasons(fill(path, {"verdict": "absent"}, {"trait": "*", "verdict": "none"})) == ["`*` by an adjudicator"]


def test_the_page_and_taxonomy_that_were_shown_are_stamped(tmp_path):
    older = dataclasses.replace(TAXONOMY, digest="abc123")
    path = write(tmp_path / "ann.csv", unit("gore"), shown="fed321", lists=older)
    (answer,) = back(fill(path, {"verdict": "absent"})).answers.values()
    assert (answer["guideline"], answer["taxonomy"]) == ("fed321", "abc123")


# ---- formulas


@given(st.text(alphabet=st.sampled_from("=+-@'\t\r a1\"")))
def test_no_cell_starts_a_formula_and_all_come_back(cell):
    assert not guarded(cell).startswith(("=", "+", "-", "@", "\t", "\r"))
    assert bare(guarded(cell)) == cell


def test_reading_a_file_leaves_csv_as_it_was_for_others(tmp_path: Path) -> None:
    (tmp_path / "ann.csv").write_text("task,unit\na,b\n")
    limit = csv.field_size_limit()
    assert len(list(lines(tmp_path / "ann.csv"))) == 1 and csv.field_size_limit() == limit


def test_the_guidelines_explain_every_column_once():
    cells = re.findall(r"^\| (`.*?) \|", page_for("In a file"), re.MULTILINE)
    assert sorted(name for cell in cells for name in re.findall(r"`(\w+)`", cell)) == sorted(COLUMNS)
