"""Answers in a reviewer's file are read correctly, whatever a spreadsheet did to the file."""

import csv

import polars as pl
import pytest

from annotation.routing import texts
from annotation.tools import files
from annotation.tools.files import COLUMNS
from annotation.tools.guidelines import guideline
from saferec_builder.core.errors import ReviewError
from saferec_builder.storage import tables
from tests.worlds.csv_rows import rows_of, save
from tests.worlds.review_csv import SPAN, TAXONOMY, TEXT, answers, back, fill, pull, reasons, unit, world, write

DONE = ({"verdict": "present"}, {"verdict": "absent"}, {"verdict": "none"})


def test_answers_come_back_with_spans_and_stamps(pushed):
    pulled = back(fill(pushed, {"verdict": "Present ", "seconds": "12,5", "note": "sure"}, *DONE[1:]))
    assert not pulled.drops
    needles, _, star = pulled.answers.values()
    assert needles["spans"] == [SPAN]  # the quote was left empty: the proposed one is kept
    facts = [needles[name] for name in ("form", "seconds", "note", "reviewer", "tool")]
    assert facts == ["explicit", 12.5, "sure", "ann", "files"]
    assert (needles["guideline"], needles["taxonomy"], needles["simulated"]) == (guideline(), TAXONOMY.digest, False)
    assert (star["trait"], star["verdict"]) == ("*", "absent")


def test_an_untouched_file_says_nothing(pushed):
    pulled = back(pushed)
    assert (pulled.answers, pulled.drops, len(pulled.empty)) == ({}, [], 3)


@pytest.mark.parametrize(
    ("quote", "turn", "found"),
    [
        ("my hands go cold", "", (0, "my hands go cold")),
        ("My hands go cold", "", (0, "my hands go cold")),  # a sentence that was typed begins with a capital
        ("I can't watch needles", "", (0, "I can’t watch  needles")),  # straight quote, one space
        ("needles - my hands", "", (0, "needles — my hands")),  # a plain dash
        ("“never”", "3", (2, '"never"')),
        ("needles", "3", (2, "needles")),  # the turn decides
        ("needles", "", (0, "needles")),  # the seeker's first
        ("“my hands”", "", (0, "my hands")),  # quoted by the reviewer
        ("😱", "", (0, "😱")),
        ("again | he said", "", (2, "again | he said")),  # the bar stands in the text
        ("1. seeker: I can't watch needles", "", (0, "I can’t watch  needles")),  # copied from the line's beginning
        ("3. seeker: needles", "", (2, "needles")),
    ],
)
def test_quotes_are_found_as_spreadsheets_leave_them(pushed, quote, turn, found):
    (answer,) = back(fill(pushed, {"verdict": "present", "quote": quote, "turn": turn})).answers.values()
    spans = answer["spans"]
    assert [(span["turn"], span["quote"]) for span in spans] == [found]
    assert TEXT[found[0]][1][spans[0]["start"] : spans[0]["end"]] == found[1]


@pytest.mark.parametrize("bar", [" | ", "|"])
def test_several_quotes_in_one_cell_and_slugs_with_quotes_in_the_last_row(pushed, bar):
    star = {"verdict": "flashing_motion, sad_endings", "quote": f"go cold{bar}never", "form": "implicit"}
    needles = {"verdict": "present", "quote": f"needles{bar}cold", "turn": "3 | 1"}
    by_trait = answers(fill(pushed, needles, DONE[1], star))
    assert by_trait == {
        "needles": ("present", ["needles", "cold"]),
        "gore": ("absent", []),
        "flashing_motion": ("present", ["go cold"]),
        "sad_endings": ("present", ["never"]),
        "*": ("absent", []),
    }


def test_what_was_added_to_a_file_can_be_taken_back(pushed, tmp_path):
    """It stayed `present`: a `*` answers for no trait that has an answer of its own."""
    added = {"verdict": "sad_endings", "quote": "never"}
    older = save(tmp_path / "older.csv", rows_of(fill(pushed, *DONE[:2], added)))
    fill(pushed, {}, {}, DONE[2] | {"quote": ""})
    assert answers(older)["sad_endings"] == ("present", ["never"])
    assert answers(older, pushed)["sad_endings"] == ("absent", [])
    said = {("sensitivity", "c1", "ann", "reviewer"): {"sad_endings": {TAXONOMY.digest}}}  # pulled before
    later = pull([pushed], *world(), before=said).answers.values()
    assert {answer["trait"]: answer["verdict"] for answer in later}["sad_endings"] == "absent"


def test_a_row_that_the_reviewer_added(pushed):
    added = {"trait": "sad_endings", "verdict": "present", "quote": "never"}
    assert answers(fill(pushed, *DONE, added))["sad_endings"] == ("present", ["never"])


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ({"verdict": "present", "quote": "spiders"}, "quote not found"),
        ({"verdict": "present", "quote": "no needles then"}, "not the seeker's words"),
        # where the reviewer points
        ({"verdict": "present", "quote": "needles", "turn": "2"}, "not the seeker's words"),
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
    pulled = back(fill(pushed, cells))
    assert pulled.answers == {}
    assert [drop[2:4] for drop in pulled.drops] == [(f"{pushed}:2", reason)]


@pytest.mark.parametrize(
    "rest",
    [
        {"verdict": "clowns"},
        {"verdict": "sad_endings"},
        {"verdict": "gore sad_endings", "quote": "never"},
        {"verdict": "none", "quote": "never"},  # whose trait was forgotten
    ],
)
def test_a_last_row_with_a_fault_adds_nothing_not_even_absents(pushed, rest):
    by_trait = answers(fill(pushed, *DONE[:2], rest))
    assert sorted(by_trait) == ["gore", "needles"]


def test_the_rest_waits_for_the_rows_above_it(pushed):
    unfinished = fill(pushed, DONE[0], {}, DONE[2])
    assert sorted(answers(unfinished)) == ["needles"]
    assert reasons(unfinished) == ["`*` before the rest"]
    faulty = fill(pushed, {"verdict": "present", "quote": "spiders"}, DONE[1], DONE[2])
    assert sorted(answers(faulty)) == ["gore"]
    assert sorted(reasons(faulty)) == ["`*` before the rest", "quote not found"]


def test_a_row_that_is_gone_is_no_absent(pushed, tmp_path):
    """The row of needles was deleted, or a filter hid it: nobody said it is absent. It may come in another file."""
    fill(pushed, *DONE)
    needles, *others = rows_of(pushed)
    part = save(tmp_path / "part.csv", others)
    assert sorted(answers(part)) == ["gore"]
    assert reasons(part) == ["`*` before the rest"]
    assert sorted(answers(save(tmp_path / "first.csv", [needles]), part)) == ["*", "gore", "needles"]
    earlier = {("sensitivity", "c1", "ann", "reviewer"): {"needles": {TAXONOMY.digest}}}
    assert not pull([part], *world(), before=earlier).drops
    unknown = save(tmp_path / "unknown.csv", [row | {"shown": ""} for row in others])  # the column is not needed
    assert "*" in answers(unknown)


def test_the_last_word_on_a_unit_counts_and_the_earlier_is_named(pushed, tmp_path):
    fill(pushed, *DONE)
    later_file = save(tmp_path / "again.csv", [rows_of(pushed)[0] | {"verdict": "unsure"}, rows_of(pushed)[1]])
    pulled = back(pushed, later_file)
    assert pulled.repeated == 1  # gore: the same words
    assert [drop[2:4] for drop in pulled.drops] == [(f"{pushed}:2", "said again further down")]
    assert answers(pushed, later_file)["needles"][0] == "unsure"


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


def test_a_table_that_is_no_sheet_is_refused_where_it_is_named_and_else_passed_over(pushed):
    """Notes beside the sheets do not stop a pull."""
    (notes := pushed.with_name("notes.csv")).write_text("who,what\nann,is on holiday\n")
    (empty := pushed.with_name("empty.csv")).write_text("")
    for path in (notes, empty):
        with pytest.raises(ReviewError, match=rf"{path.name}: no sheet of .*review push"):
            list(files.lines(path))
    fill(pushed, *DONE)
    inputs = ([notes, pushed], *world())
    pulled = pull(*inputs, named=[pushed])
    assert (len(pulled.answers), pulled.no_sheets) == (3, [str(notes)])
    with pytest.raises(ReviewError):
        pull(*inputs, named=[notes])


def test_two_columns_of_one_name_are_no_answer(pushed):
    """Somebody added a second opinion in a new column: nobody can tell which of the two is ann's."""
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
    assigned, text = world()
    fill(pushed, *DONE)
    newer = text.with_columns(digest=pl.lit("d2"), turns=pl.lit([], text.schema["turns"]))
    versions = pl.concat([text.with_columns(current=pl.lit(False)), newer])
    given_answers = pull([pushed], assigned, versions).answers.values()
    assert {answer["digest"] for answer in given_answers} == {"d1"}
    assert next(iter(given_answers))["spans"] == [SPAN]


def test_a_film_may_be_flagged_without_a_quote_and_its_rest_is_not_absent(tmp_path):
    film = {"item": "i1", "domain": "film", "title": "Alien", "year": 1979, "genres": ["horror"], "plot": None}
    text = texts(tables.CONVERSATIONS.empty, pl.DataFrame([film], schema_overrides={"plot": pl.String}))
    assigned = [("item_flag", "i1", "ann", "reviewer", text["digest"][0], "proposed", "push-1")]
    rows = [unit(trait, kind="item_flag", subject="i1", digest=text["digest"][0]) for trait in ("gore", "*")]
    path = tmp_path / "ann.csv"
    write(path, *rows, text=text)
    assert rows_of(path)[0]["text"] == "Alien (1979), film, horror\n1. plot: (no plot)"
    assert "absent" not in rows_of(path)[1]["definition"]
    fill(path, {"verdict": "present"}, {"verdict": "needles"})
    assignments = tables.ASSIGNMENTS.frame(assigned)
    pulled = pull([path], assignments, text)
    verdicts = [(answer["trait"], answer["verdict"]) for answer in pulled.answers.values()]
    assert verdicts == [("gore", "present"), ("needles", "present"), ("*", "absent")]


def test_twice_the_tasks_are_twice_the_work(tmp_path, monkeypatch):
    """Each `*` looked at every row of its file: a file of 1,000 tasks took ten times as long."""
    reads, cell = [0], files.Line.cell

    def counted(line, name):
        reads[0] += 1
        return cell(line, name)

    monkeypatch.setattr(files.Line, "cell", counted)
    turns = [{"role": "seeker", "text": "no blood", "items": []}]

    def work(n: int) -> int:
        names, reads[0] = [f"c{k}" for k in range(n)], 0
        rows = [{"conversation": name, "digest": "d1", "turns": turns} for name in names]
        text = texts(tables.CONVERSATIONS.frame(rows))
        assigned = [("sensitivity", name, "ann", "reviewer", "d1", "proposed", "push-1") for name in names]
        units = [unit(trait, subject=name) for name in names for trait in ("gore", "*")]
        path = fill(write(tmp_path / "ann.csv", *units, text=text), *[{"verdict": "absent"}] * len(units))
        pulled = pull([path], tables.ASSIGNMENTS.frame(assigned), text)
        assert len(pulled.answers) == len(units) and not pulled.drops
        return reads[0]

    assert work(160) < 2.2 * work(80)


def test_text_that_looks_like_a_formula_is_guarded_and_its_quote_found(pushed, tmp_path):
    formula = unit("gore", verdict="present", spans=[{"turn": 0, "start": 47, "end": 54, "quote": "=SUM(A1)"}])
    path = write(tmp_path / "bo.csv", formula)
    assert rows_of(path)[0]["proposed_quote"] == "'=SUM(A1)"
    assert answers(fill(path, {"verdict": "present"}))["gore"] == ("present", ["=SUM(A1)"])
