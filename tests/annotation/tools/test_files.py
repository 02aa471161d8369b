"""CSV out and in: what spreadsheets do to a file, and what must come back all the same."""

import csv
import dataclasses
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, strategies as st

from annotation.routing import UNITS, texts
from annotation.tools.file_answers import pull
from annotation.tools.files import COLUMNS, bare, guarded, lines, push
from annotation.tools.guidelines import guideline
from annotation.tools.quotes import locate
from saferec_builder.core.errors import ReviewError
from saferec_builder.storage import tables, workspace as store
from tests.worlds.csv_rows import rows_of, save
from tests.worlds.review_csv import SPAN, TAXONOMY, TEXT, back, unit, world


@pytest.fixture
def pushed(tmp_path: Path) -> Path:
    """ann's file: needles proposed, gore proposed, and the rest."""
    rows = [
        unit("needles", verdict="present", form="explicit", spans=[SPAN]),
        unit("gore", verdict="unsure"),
        unit("*"),
    ]
    _, text = world()
    path = tmp_path / "ann.csv"
    frame = pl.DataFrame(rows, schema=UNITS)
    assert push(frame, text, TAXONOMY, guideline(), store.replacing, {"ann": path}) == {"ann": 3}
    return path


def fill(path: Path, *cells: dict[str, str], **how) -> Path:
    """The file with the given cells written into its rows, in order; more rows are added with the task's id."""
    rows = rows_of(path)
    rows += [{"task": rows[0]["task"]} for _ in cells[len(rows) :]]
    return save(path, [row | more for row, more in zip(rows, cells, strict=False)], **how)


def answers(*paths: Path) -> dict[str, tuple]:
    return {a["trait"]: (a["verdict"], [s["quote"] for s in a["spans"]]) for a in back(*paths).answers.values()}


def reasons(*paths: Path) -> list[str]:
    return [reason for _, _, _, reason, _ in back(*paths).drops]


DONE = ({"verdict": "present"}, {"verdict": "absent"}, {"verdict": "none"})


def test_a_file_shows_text_trait_proposal_and_empty_columns(pushed):
    first, second, rest = rows_of(pushed)
    assert first["text"].startswith("1. seeker: I can’t watch  needles")
    assert "\n2. recommender: OK" in first["text"]
    assert [first[c] for c in ("trait", "proposed", "proposed_form", "proposed_quote", "proposed_turn")] == [
        *("needles", "present", "explicit", "needles", "1")
    ]
    assert {first[c] for c in ("verdict", "form", "quote", "turn", "note", "seconds", "said")} == {""}
    assert first["name"] == TAXONOMY["needles"].name
    assert (rest["trait"], "none" in rest["definition"]) == ("*", True)
    assert second["warning"] == ""  # neither needles nor gore is severe


def test_a_severe_trait_warns_on_every_row_of_its_task(tmp_path):
    frame = pl.DataFrame([unit("torture", verdict="present"), unit("*")], schema=UNITS)
    push(frame, world()[1], TAXONOMY, "g", store.replacing, {"ann": tmp_path / "ann.csv"})
    assert all("Torture" in row["warning"] for row in rows_of(tmp_path / "ann.csv"))


def test_the_adjudicator_reads_what_was_said_and_nobodys_name(tmp_path):
    cy = unit("gore", reviewer="cy", role="adjudicator", why="disagreement", said=["absent", "present: “needles”"])
    path = tmp_path / "cy.csv"
    push(pl.DataFrame([cy], schema=UNITS), world()[1], TAXONOMY, "g", store.replacing, {"cy": path})
    assert rows_of(path)[0]["said"] == "absent\npresent: “needles”"
    assert "ann" not in [cell for row in rows_of(path) for cell in row.values()]
    assert answers(fill(path, {"verdict": "absent"})) == {"gore": ("absent", [])}
    assert reasons(fill(path, {"verdict": "absent"}, {"trait": "*", "verdict": "none"})) == ["`*` by an adjudicator"]


def test_answers_come_back_with_spans_and_stamps(pushed):
    found = back(fill(pushed, {"verdict": "Present ", "seconds": "12,5", "note": "sure"}, *DONE[1:]))
    assert not found.drops
    one, _, rest = found.answers.values()
    assert one["spans"] == [SPAN]  # the quote was left empty: the proposed one is kept
    assert (one["form"], one["seconds"], one["note"], one["reviewer"], one["tool"]) == (
        "explicit",
        12.5,
        "sure",
        "ann",
        "files",
    )
    assert (one["guideline"], one["taxonomy"], one["simulated"]) == (guideline(), TAXONOMY.digest, False)
    assert (rest["trait"], rest["verdict"]) == ("*", "absent")


def test_an_untouched_file_says_nothing(pushed):
    found = back(pushed)
    assert (found.answers, found.drops, found.empty) == ({}, [], 3)


@pytest.mark.parametrize(
    ("quote", "turn", "found"),
    [
        ("my hands go cold", "", (0, "my hands go cold")),
        ("I can't watch needles", "", (0, "I can’t watch  needles")),  # straight quote, one space
        ("needles - my hands", "", (0, "needles — my hands")),  # a plain dash
        ("“never”", "3", (2, '"never"')),
        ("needles", "3", (2, "needles")),  # the turn decides
        ("needles", "", (0, "needles")),  # the seeker's first
        ("“my hands”", "", (0, "my hands")),  # quoted by the reviewer
        ("😱", "", (0, "😱")),
        ("again | he said", "", (2, "again | he said")),  # the bar stands in the text
    ],
)
def test_quotes_are_found_as_spreadsheets_leave_them(pushed, quote, turn, found):
    (answer,) = back(fill(pushed, {"verdict": "present", "quote": quote, "turn": turn})).answers.values()
    spans = answer["spans"]
    assert [(s["turn"], s["quote"]) for s in spans] == [found]
    assert TEXT[found[0]][1][spans[0]["start"] : spans[0]["end"]] == found[1]


def test_composed_and_decomposed_letters_are_alike_but_never_halved():
    cafe = [{"role": "seeker", "text": "the cafe\u0301 and the café"}]
    assert locate("café and", cafe)["quote"] == "cafe\u0301 and"
    assert locate("the café", [{"role": "seeker", "text": "the café"}])["end"] == 8
    assert locate("the  caf e", cafe) is None
    assert locate("a  cafe", [{"role": "seeker", "text": "a café"}]) is None


def test_several_quotes_in_one_cell_and_slugs_with_quotes_in_the_last_row(pushed):
    rest = {"verdict": "flashing_motion, sad_endings", "quote": "go cold | never", "form": "implicit"}
    found = answers(fill(pushed, {"verdict": "present", "quote": "needles | cold", "turn": "3 | 1"}, DONE[1], rest))
    assert found == {
        "needles": ("present", ["needles", "cold"]),
        "gore": ("absent", []),
        "flashing_motion": ("present", ["go cold"]),
        "sad_endings": ("present", ["never"]),
        "*": ("absent", []),
    }


def test_a_bar_parts_quotes_with_and_without_blanks(pushed):
    rest = {"verdict": "flashing_motion, sad_endings", "quote": "go cold|never"}
    found = answers(fill(pushed, {"verdict": "present", "quote": "needles|cold"}, DONE[1], rest))
    assert (found["needles"][1], found["sad_endings"][1]) == (["needles", "cold"], ["never"])


def test_a_row_that_the_reviewer_added(pushed):
    added = {"trait": "sad_endings", "verdict": "present", "quote": "never"}
    assert answers(fill(pushed, *DONE, added))["sad_endings"] == ("present", ["never"])


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ({"verdict": "present", "quote": "spiders"}, "quote not found"),
        ({"verdict": "present", "quote": "no needles then"}, "not the seeker's words"),
        (
            {"verdict": "present", "quote": "needles", "turn": "2"},
            "not the seeker's words",
        ),  # where the reviewer points
        ({"verdict": "unsure", "quote": "try Alien | cold"}, "not the seeker's words"),
        ({"verdict": "present", "proposed_quote": ""}, "no quote"),
        ({"verdict": "maybe"}, "unknown verdict"),
        ({"verdict": "absent", "trait": "clowns"}, "row mixed up"),
        ({"verdict": "absent", "trait": "clowns", "unit": ""}, "unknown trait"),
        ({"verdict": "absent", "trait": "gore"}, "row mixed up"),  # one column sorted apart from the others
        ({"verdict": "absent", "task": "1.2E+05", "unit": ""}, "not pushed"),
        ({"verdict": "present", "form": "loud"}, "unknown form"),
        ({"verdict": "absent", "seconds": "long"}, "seconds not a number"),
        ({"note": "I could not decide"}, "no verdict"),
    ],
)
def test_a_row_that_cannot_be_read_is_named_and_nothing_is_made_of_it(pushed, cells, reason):
    found = back(fill(pushed, cells))
    assert found.answers == {}
    assert [drop[2:4] for drop in found.drops] == [(f"{pushed}:2", reason)]


@pytest.mark.parametrize(
    "rest", [{"verdict": "clowns"}, {"verdict": "sad_endings"}, {"verdict": "gore sad_endings", "quote": "never"}]
)
def test_a_last_row_with_a_fault_adds_nothing_not_even_absents(pushed, rest):
    found = answers(fill(pushed, *DONE[:2], rest))
    assert sorted(found) == ["gore", "needles"]


def test_the_rest_waits_for_the_rows_above_it(pushed):
    left_open = fill(pushed, DONE[0], {}, DONE[2])
    assert sorted(answers(left_open)) == ["needles"]
    assert reasons(left_open) == ["`*` before the rest"]
    wrong = fill(pushed, {"verdict": "present", "quote": "spiders"}, DONE[1], DONE[2])
    assert sorted(answers(wrong)) == ["gore"]
    assert sorted(reasons(wrong)) == ["`*` before the rest", "quote not found"]


def test_a_row_that_is_gone_is_no_absent(pushed, tmp_path):
    """Needles was deleted, or a filter hid it: nobody said that it is absent. It may have come in another file."""
    fill(pushed, *DONE)
    first, *others = rows_of(pushed)
    part = save(tmp_path / "part.csv", others)
    assert sorted(answers(part)) == ["gore"]
    assert reasons(part) == ["`*` before the rest"]
    assert sorted(answers(save(tmp_path / "first.csv", [first]), part)) == ["*", "gore", "needles"]
    before = {("sensitivity", "c1", "ann", "reviewer"): {"needles": {TAXONOMY.digest}}}
    assert not pull([part], *world(), TAXONOMY, guideline(), locate, before).drops
    unknown = save(tmp_path / "unknown.csv", [row | {"shown": ""} for row in others])  # the column is not needed
    assert "*" in answers(unknown)


def test_the_last_word_on_a_unit_counts_and_the_earlier_is_named(pushed, tmp_path):
    fill(pushed, *DONE)
    other = save(tmp_path / "again.csv", [rows_of(pushed)[0] | {"verdict": "unsure"}, rows_of(pushed)[1]])
    found = back(pushed, other)
    assert found.repeated == 1  # gore: the same words
    assert [drop[2:4] for drop in found.drops] == [(f"{pushed}:2", "said again further down")]
    assert answers(pushed, other)["needles"][0] == "unsure"


@pytest.mark.parametrize(
    "how",
    [
        {"encoding": "utf-8-sig"},
        {"delimiter": ";"},
        {"delimiter": "\t"},
        {"lineterminator": "\n"},
        {"columns": [*reversed(COLUMNS)]},
        {"columns": [c.upper() + " " for c in COLUMNS]},
        {"columns": [c for c in COLUMNS if c not in ("note", "seconds", "text", "shown", "warning", "form")]},
    ],
    ids=str,
)
def test_saved_another_way_it_says_the_same(pushed, how):
    fill(pushed, *DONE)
    expected = answers(pushed)
    rows = [row | {c.upper() + " ": v for c, v in row.items()} for row in rows_of(pushed)]
    assert answers(save(pushed, rows, **{"columns": COLUMNS} | how)) == expected
    assert len(expected) == 3


@pytest.mark.parametrize("column", ["task", "trait", "verdict"])
def test_without_a_needed_column_every_row_is_named(pushed, column):
    save(pushed, rows_of(fill(pushed, *DONE)), columns=[c for c in COLUMNS if c != column])
    assert reasons(pushed) == ["column missing"] * 3


def test_two_columns_of_one_name_are_no_answer(pushed):
    """Somebody wrote a second opinion beside: which of the two is ann's, nobody can tell."""
    fill(pushed, *DONE)
    header, *rows = csv.reader(pushed.read_text(encoding="utf-8-sig").splitlines())
    assert len(rows) == 3
    with open(pushed, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([[*header, "Verdict"], *([*row, "absent"] for row in rows)])
    assert (reasons(pushed), answers(pushed)) == (["column twice"] * 3, {})


def test_excels_separator_line_and_blank_lines_are_no_rows(pushed):
    fill(pushed, *DONE, delimiter=";")
    pushed.write_text("sep=;\r\n" + pushed.read_text(encoding="utf-8") + "\r\n;;;\r\n", encoding="utf-8")
    assert len(answers(pushed)) == 3


@pytest.mark.parametrize("content", [b"\xff\xfe\x00broken", b'task,verdict,trait\n"never closed,'])
def test_what_is_no_csv_is_one_line(tmp_path, content):
    path = tmp_path / "ann.csv"
    path.write_bytes(content)
    with pytest.raises(ReviewError, match=r"ann\.csv"):
        back(path)
    with pytest.raises(ReviewError, match="no such file"):
        back(tmp_path / "nobody.csv")


def test_an_answer_belongs_to_the_text_that_was_shown(pushed):
    sent, text = world()
    fill(pushed, *DONE)
    newer = text.with_columns(digest=pl.lit("d2"), turns=pl.lit([], text.schema["turns"]))
    both = pl.concat([text.with_columns(current=pl.lit(False)), newer])
    found = pull([pushed], sent, both, TAXONOMY, guideline(), locate).answers.values()
    assert {a["digest"] for a in found} == {"d1"}
    assert next(iter(found))["spans"] == [SPAN]


def test_the_page_and_taxonomy_that_were_shown_are_stamped(tmp_path):
    path = tmp_path / "ann.csv"
    older = dataclasses.replace(TAXONOMY, digest="abc123")
    push(pl.DataFrame([unit("gore")], schema=UNITS), world()[1], older, "fed321", store.replacing, {"ann": path})
    (one,) = back(fill(path, {"verdict": "absent"})).answers.values()
    assert (one["guideline"], one["taxonomy"]) == ("fed321", "abc123")


def test_a_film_may_be_flagged_without_a_quote_and_its_rest_is_not_absent(tmp_path):
    film = {"item": "i1", "domain": "film", "title": "Alien", "year": 1979, "genres": ["horror"], "plot": None}
    text = texts(tables.CONVERSATIONS.empty, pl.DataFrame([film], schema_overrides={"plot": pl.String}))
    sent = [("item_flag", "i1", "ann", "reviewer", text["digest"][0], "proposed", "push-1")]
    rows = [unit(t, kind="item_flag", subject="i1", digest=text["digest"][0]) for t in ("gore", "*")]
    path = tmp_path / "ann.csv"
    push(pl.DataFrame(rows, schema=UNITS), text, TAXONOMY, "g", store.replacing, {"ann": path})
    assert rows_of(path)[0]["text"] == "Alien (1979), film, horror"
    assert "absent" not in rows_of(path)[1]["definition"]
    fill(path, {"verdict": "present"}, {"verdict": "needles"})
    sent_frame = pl.DataFrame(sent, schema=tables.ASSIGNMENTS.schema, orient="row")
    found = pull([path], sent_frame, text, TAXONOMY, guideline(), locate)
    assert [(a["trait"], a["verdict"]) for a in found.answers.values()] == [
        ("gore", "present"),
        ("needles", "present"),
        ("*", "absent"),
    ]


# ---- formulas


@given(st.text(alphabet=st.sampled_from("=+-@'\t\r a1\"")))
def test_no_cell_starts_a_formula_and_all_come_back(cell):
    assert not guarded(cell).startswith(("=", "+", "-", "@", "\t", "\r"))
    assert bare(guarded(cell)) == cell


def test_text_that_looks_like_a_formula_is_guarded_and_its_quote_found(pushed, tmp_path):
    evil = unit("gore", verdict="present", spans=[{"turn": 0, "start": 47, "end": 54, "quote": "=SUM(A1)"}])
    path = tmp_path / "bo.csv"
    push(pl.DataFrame([evil], schema=UNITS), world()[1], TAXONOMY, "g", store.replacing, {"ann": path})
    assert rows_of(path)[0]["proposed_quote"] == "'=SUM(A1)"
    assert answers(fill(path, {"verdict": "present"}))["gore"] == ("present", ["=SUM(A1)"])


def test_reading_a_file_leaves_csv_as_it_was_for_others(tmp_path: Path) -> None:
    (tmp_path / "ann.csv").write_text("task,unit\na,b\n")
    before = csv.field_size_limit()
    assert len(list(lines(tmp_path / "ann.csv"))) == 1 and csv.field_size_limit() == before
