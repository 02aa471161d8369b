"""A statement as a line for people: its content, its source, its place, and its name for the item."""

from saferec_builder.catalog import arithmetic
from tests.worlds.shelves import ALIEN, said, statement


def line(exact=True, name=False, **told):
    (row,) = said(statement(ALIEN, **told)).to_dicts()
    return arithmetic.statement(row | {"exact": exact}, name)


def test_a_reason_is_shown_in_its_own_words_and_with_its_place():
    reason = {"topic": "names blood or gore", "kind": "reason", "words": "Rated R for gore & “blood”"}
    assert line(**reason) == f"“Rated R for gore & “blood”” · csv · f:1 · of {ALIEN}"
    assert line(name=True, **reason).startswith("reason names blood or gore: “Rated R")


def test_a_page_of_the_source_stands_in_place_of_the_file_it_came_in():
    page = "https://example.org/1"
    assert line(yes=3, url=page, retrieved="2026-01-01") == f"3 yes, 0 no · csv · {page} · 2026-01-01 · of {ALIEN}"


def test_no_answer_is_made_of_no_votes_and_none_is_hidden():
    assert line(answer="no") == f"no · csv · f:1 · of {ALIEN}"  # no votes were counted
    assert line(yes=0, no=0).startswith("0 yes, 0 no · ")
    assert line(kind="guide", topic="violence", severity=0, name=True).startswith("violence: none · ")
    assert line(exact=False, answer="yes").endswith(" · names it, but not exactly: clears nothing")
