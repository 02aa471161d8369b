"""Altered review CSVs: nothing forged is accepted, there is no traceback, and every lost answer is reported."""

import csv
import io
from collections.abc import Callable
from pathlib import Path

import pytest

from annotation import pull as incoming
from annotation.review_state import gather
from annotation.tools.guidelines import guideline
from annotation.tools.tasks_and_answers import Task, base_id, keyed_id, sheet_id
from saferec_builder.core.errors import SafeRecError
from saferec_builder.storage import tables, workspace as store
from tests.worlds import review_world
from tests.worlds.csv_rows import edit, rows_of
from tests.worlds.review_world import TEXTS, claim
from tests.worlds.reviewing import TWO, yes

Rows = list[dict[str, str]]
SECRET = bytes(32)  # the secret of another workspace


def task(who: str, subject: str = "c1", role: str = "reviewer") -> str:
    return Task("sensitivity", subject, f"d-{subject}", who, role).id


def cell(name: str, value: str | Callable[[str], str], trait: str = "gore", **more: str) -> Callable[[Rows], Rows]:
    """Returns a change that sets a cell in the row of the trait, or in all rows if `trait` is empty."""

    def change(rows: Rows) -> Rows:
        selected = [row for row in rows if not trait or row["trait"] == trait]
        for row in selected:
            row |= more | {name: value if isinstance(value, str) else value(row.get(name, ""))}
        return rows

    return change


def column(name: str, value: str | None) -> Callable[[Rows], Rows]:
    """Returns a change that adds a column, or removes it if `value` is None."""
    if value is None:
        return lambda rows: [{k: v for k, v in row.items() if k != name} for row in rows]
    return lambda rows: [row | {name: value} for row in rows]


def text(rows: Rows, **how: str) -> str:
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(rows[0]) if rows else ["task"], quoting=csv.QUOTE_ALL, **how)
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()


# Bo has four answers on conversations: gore in c1 and accidents in c2 are present, the rest of both is absent; and four
# on two films whose plots are these texts. The number says how many of each four are accepted: where a row is lost, the
# `*` of its task waits with it, so two are left.
ROWS: dict[str, tuple[Callable[[Rows], Rows], int]] = {
    "nothing": (lambda rows: rows, 4),
    # who has the task
    "ann's id": (cell("task", task("ann"), ""), 0),
    "ann's id in one row": (cell("task", task("ann")), 2),
    "ann's id, no unit": (cell("task", task("ann"), unit=""), 2),
    "ann's id with bo's key": (cell("task", lambda key: task("ann") + key[len(base_id(key)) :], unit=""), 2),
    "bo's own id without a key": (cell("task", base_id, "", unit=""), 0),
    "an adjudicator's id": (cell("task", task("bo", role="adjudicator"), unit=""), 2),
    "a key by another secret": (cell("task", sheet_id(SECRET, guideline(), task("ann"), ["gore"]), unit=""), 2),
    "a server's key": (cell("task", keyed_id(SECRET, "label_studio", task("bo"), ["gore"]), unit=""), 2),
    "a cut key": (cell("task", lambda key: key[:-6], unit=""), 2),
    "capitals": (cell("task", str.upper, unit=""), 2),
    "spaces around a key": (cell("task", lambda key: f"  {key} ", ""), 4),
    "keys of two tasks changed over": (lambda r: [x | {"task": y["task"]} for x, y in zip(r, r[::-1], strict=True)], 0),
    "a column reviewer": (column("reviewer", "ann"), 4),
    "a column role": (column("role", "adjudicator"), 4),
    "a column tool": (column("tool", "simulated"), 4),
    # what was asked
    "asked nothing, and the row is gone": (
        lambda rows: cell("shown", "guideline ab, taxonomy cd, asked ", "")([r for r in rows if r["trait"] != "gore"]),
        2,
    ),
    "another taxonomy": (cell("shown", "guideline ab, taxonomy cd, asked gore", ""), 4),
    "another guideline": (cell("shown", lambda shown: shown.replace(guideline(), "ab"), ""), 4),
    "no column shown": (column("shown", None), 4),
    "no column unit": (column("unit", None), 4),
    "another trait": (cell("trait", "needles"), 2),
    "another trait, no unit": (cell("trait", "needles", unit="", quote="blood"), 3),  # counts as bo's own mark
    "a trait of nobody": (cell("trait", "mice", unit=""), 2),
    "a trait written backwards": (cell("trait", "\u202egore", unit=""), 2),
    "two rows for the rest": (cell("trait", "*"), 2),
    "the proposal is another": (cell("proposed_quote", "whatever"), 2),
    "the text is another": (cell("text", "I love blood", ""), 4),
    # what is answered
    "words of nobody": (cell("quote", "blod"), 2),
    "words of another text": (cell("quote", "crash"), 2),
    "a far turn": (cell("turn", "9" * 30, quote="blood"), 4),
    "a turn before the first": (cell("turn", "-1", quote="blood"), 4),
    "a verdict of nobody": (cell("verdict", "ja"), 2),
    "two verdicts": (cell("verdict", "present; absent"), 2),
    "a verdict for a terminal": (cell("verdict", "\x1b[2Jpresent"), 2),
    "a form of nobody": (cell("form", "violent"), 2),
    "seconds without an end": (cell("seconds", "1e309"), 2),
    "seconds before": (cell("seconds", "-5"), 2),
    "a formula in the note": (cell("note", "=HYPERLINK(1)"), 4),
    "a long note": (cell("note", "x" * 300_000), 4),
    "no verdict, but a note": (cell("verdict", "", note="?"), 2),
    "words elsewhere in the rest": (cell("verdict", "needles", "*", quote="nowhere"), 2),
    # rows and columns
    "every row twice": (lambda rows: [row for row in rows for _ in "ab"], 4),
    "in another order": (lambda rows: rows[::-1], 4),
    "no column task": (column("task", None), 0),
    "no column verdict": (column("verdict", None), 0),
    "no rows": (lambda rows: [], 0),
}
BYTES: dict[str, tuple[Callable[[str], bytes], int]] = {
    "semicolons": (lambda of: text(list(csv.DictReader(io.StringIO(of))), delimiter=";").encode(), 4),
    "tabs, and a mark of order": (
        lambda of: text(list(csv.DictReader(io.StringIO(of))), delimiter="\t").encode("utf-8-sig"),
        4,
    ),
    "line feeds alone": (lambda of: of.replace("\r\n", "\n").encode(), 4),
    "a line for a spreadsheet": (lambda of: b"sep=,\r\n" + of.encode(), 4),
    "empty": (lambda of: b"", 0),
    "two bytes a letter": (lambda of: of.encode("utf-16"), 4),
    "no text": (lambda of: bytes(range(256)) * 9, 0),
    "half a letter": (lambda of: of.encode() + b"\xf0\x9f", 0),
    "an open quotation mark": (lambda of: (of + '"open').encode(), 0),
    "cut in the middle": (lambda of: of[: of.index("long way")].encode(), 0),
    "a column twice": (lambda of: of.replace('"note"', '"verdict"', 1).encode(), 0),
    "nothing but quotation marks": (lambda of: b'"' * 9_999, 0),
}


FILMS = {"c1": review_world.item(0), "c2": review_world.item(1)}


@pytest.fixture
def bo(ws: store.Workspace, review: Callable[..., object], monkeypatch: pytest.MonkeyPatch) -> Path:
    plots = {film: TEXTS[c] for c, film in FILMS.items()}
    monkeypatch.setattr(review_world, "TEXTS", plots)
    review_world.flag(ws, plots, [FILMS["c1"]], "blood")
    doubt = claim(FILMS["c2"], "accidents_disasters", "unsure", "crash", "item_flag", TEXTS["c2"])
    store.append(ws, tables.PROPOSALS, tables.PROPOSALS.frame([doubt]))
    review("push", *TWO)
    edit(ws.root / "review" / "bo.csv", yes)
    return ws.root / "review" / "bo.csv"


@pytest.mark.slow
def test_nothing_forged_nothing_lost_without_a_word(ws: store.Workspace, bo: Path) -> None:
    rows, state, failed = rows_of(bo), gather(ws), []
    cases = {name: (text(change([dict(row) for row in rows])).encode(), n) for name, (change, n) in ROWS.items()}
    cases |= {name: (change(text(rows)), n) for name, (change, n) in BYTES.items()}
    assert len(cases) >= 40
    expected = {(c, t): v for c, t, v in [("c1", "gore", "present"), ("c2", "accidents_disasters", "present")]}
    expected |= {("c1", "*"): "absent", ("c2", "*"): "absent", ("c1", "needles"): "present"}
    for name, (content, accepted) in cases.items():
        bo.write_bytes(content)
        try:
            pulled = incoming.of_files(state, [bo])
        except SafeRecError as fault:
            answers, details = [], [str(fault)]
        else:
            answers, details = list(pulled.answers.values()), [row[3] for row in pulled.drops]
        for answer in answers:
            answer["subject"] = {film: c for c, film in FILMS.items()}.get(answer["subject"], answer["subject"])
            assert (answer["reviewer"], answer["role"], answer["tool"]) == ("bo", "reviewer", "files"), name
            assert (answer["guideline"], answer["taxonomy"]) == (guideline(), state.taxonomy.digest), name
            assert expected[answer["subject"], answer["trait"]] == answer["verdict"], name
            for span in answer["spans"]:
                assert TEXTS[answer["subject"]][span["start"] : span["end"]] == span["quote"], name
        kinds = {kind: sum(answer["kind"] == kind for answer in answers) for kind in ("sensitivity", "item_flag")}
        if {*kinds.values()} != {accepted} or (accepted < 4 and name not in ("no rows", "empty") and not details):
            failed.append((name, accepted, kinds, details))
    assert not failed
