"""Review by CSV files, without a server: writes one file per reviewer, and reads it back from any spreadsheet program.

push    sheets -> DIR/NAME.csv with the text, the trait, the proposal and empty columns
lines   such a file -> its rows, however a spreadsheet has saved them; file_answers.py converts them to answers

A task's key is an HMAC of conversation or item, text, reviewer, role and what is asked. Nothing else in a file names
its reviewer; nobody without the workspace's secret can make a key; the table `keyed` holds what each key asked.
"""

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from annotation.tools.task_conversion import Sheet, warned
from annotation.tools.tasks_and_answers import unit_id
from saferec_builder.core.errors import ReviewError, plain
from saferec_builder.core.plain_files import read_plain
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.sources import spelling
from saferec_builder.storage import whole_files

ASK_REST = "Anything else? Write slugs, or `none` if the rest is absent."
ASK_MORE = "Anything else? Write slugs, or `none` if there is nothing to add."
BETWEEN = " | "  # several quotes, forms or turns in one cell

COLUMNS = (
    *("task", "unit", "warning", "text", "trait", "name", "definition"),
    *("proposed", "proposed_form", "proposed_quote", "proposed_turn", "said"),
    *("verdict", "form", "quote", "turn", "note", "seconds", "shown"),
)
NEEDED = ("task", "trait", "verdict")
CELL = 32_767  # characters of a cell that Excel keeps
CUT = f"Excel shows only the first {CELL:,} characters of this text. Please read it in another program."

_FORMULA = re.compile(r"'*[=+\-@\t\r]")  # what a spreadsheet would run, or what looks guarded already


def guarded(cell: str) -> str:
    """Puts an apostrophe before anything that a spreadsheet could run as a formula; `bare` removes it."""
    return f"'{cell}" if _FORMULA.match(cell) else cell


def bare(cell: str) -> str:
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


# ---- out


def push(sheets: list[Sheet], taxonomy: Taxonomy, guideline: str, paths: dict[str, Path]) -> dict[str, int]:
    """Writes paths[reviewer] for every reviewer in `paths`; returns the number of rows per reviewer.

    An older file at the path is replaced: the caller has made sure that all its answers were pulled.
    """
    rows: dict[str, list[dict[str, str]]] = {name: [] for name in paths}
    for sheet in sheets:
        rows[sheet.task.reviewer] += _task_rows(sheet, taxonomy, guideline)
    with ExitStack() as stack:  # no file is replaced until all are written: half a push would be assigned again
        for name, path in paths.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(stack.enter_context(whole_files.replacing(path)), "w", encoding="utf-8-sig", newline="") as file:
                out = csv.writer(file, quoting=csv.QUOTE_ALL)
                out.writerow(COLUMNS)
                out.writerows([guarded(row.get(c, "")) for c in COLUMNS] for row in rows[name])
    return {name: len(rows[name]) for name in paths}


def traits_page(taxonomy: Taxonomy) -> str:
    """The section of the guidelines that lists what `*` may name."""
    rows = (f"- `{t.slug}` ({t.name}): {t.definition} {t.hint}".rstrip() for t in taxonomy.traits)
    return "\n".join(["", "## The slugs for `*`", "", *rows, ""])


def _task_rows(sheet: Sheet, taxonomy: Taxonomy, guideline: str) -> list[dict[str, str]]:
    lines = [f"{n}. {turn['role']}: {turn['text']}" for n, turn in enumerate(sheet.turns, 1)]
    text = "\n".join(filter(None, [sheet.head, *lines]))
    warnings = [*sheet.rejected, warned(sheet.units, taxonomy, sheet.hard), CUT * (len(text) > CELL)]
    fixed = {
        "task": sheet.key,
        "warning": "\n".join(filter(None, warnings)),
        "text": text,
        "shown": f"guideline {guideline}, taxonomy {taxonomy.digest}, asked {' '.join(sheet.asked)}",
    }
    units = [*sheet.units, *filter(None, [sheet.rest])]
    return [fixed | {"unit": unit_id(sheet.key, u["trait"])} | _trait(u, taxonomy) | _filled(u) for u in units]


def _trait(unit: dict[str, Any], taxonomy: Taxonomy) -> dict[str, str]:
    if unit["trait"] == "*":
        question = ASK_REST if unit["kind"] == "sensitivity" else ASK_MORE
        return {"trait": "*", "name": "anything else", "definition": question}
    trait = taxonomy[unit["trait"]]
    return {"trait": trait.slug, "name": trait.name, "definition": f"{trait.definition} {trait.hint}".strip()}


def _filled(unit: dict[str, Any]) -> dict[str, str]:
    """The cells with the proposal, the reviewers' verdicts (for the adjudicator) and this reviewer's last answer.
    A proposal's form and quote fill the empty cells beside `present`: so not beside an answer that left them empty."""
    verdict = unit["own_verdict"] or ""
    theirs = verdict == "present"
    proposed, answered = cells([] if theirs else unit["spans"] or []), cells(unit["own_spans"] or [])
    return {
        "proposed": unit["verdict"] or "",
        "proposed_form": "" if theirs else unit["form"] or "",
        "proposed_quote": proposed[0],
        "proposed_turn": proposed[1],
        "said": "\n".join(unit["said"] or []),
        "verdict": "none" if verdict == "absent" and unit["trait"] == "*" else verdict,
        "form": unit["own_form"] or "",
        "quote": answered[0],
        "turn": answered[1],
        "note": unit["own_note"] or "",
        "seconds": "" if unit["own_seconds"] is None else str(unit["own_seconds"]),
    }


def cells(spans: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """The cells with their quotes and with their turns, counted from one."""
    return BETWEEN.join(s["quote"] for s in spans).strip(), BETWEEN.join(str(s["turn"] + 1) for s in spans)


# ---- in: a file as rows of cells


class NoSheet(ReviewError):
    """A table that has none of the columns that a sheet needs."""


@dataclass(frozen=True)
class Line:
    """One row of a file; `place` counts rows as a spreadsheet does, the header being row 1."""

    file: str
    number: int
    cells: dict[str, str]
    fault: tuple[str, str] | None = None  # reason, detail
    unread: tuple[str, ...] = ()  # columns that no sheet has, and that say something in this row

    @property
    def place(self) -> str:
        return f"{self.file}:{self.number}"

    @property
    def trait(self) -> str:
        return self.cell("trait").lower()

    @property
    def is_rest(self) -> bool:
        return self.trait == "*"

    def cell(self, name: str) -> str:
        return self.cells.get(name, "")


def lines(path: Path) -> Iterator[Line]:
    """Yields the rows of a CSV in any spelling of spreadsheets (sources.spelling), with its columns in any order."""
    try:
        content, (coding, delimiter) = read_plain(path), spelling(path, NEEDED)
        text = content.decode(coding)
    except FileNotFoundError:
        raise ReviewError(f"{path}: no such file: give the CSV that `saferec-build review push` wrote") from None
    except (UnicodeDecodeError, OSError) as fault:
        raise ReviewError(f"{path}: cannot be read ({fault}): save it as CSV in UTF-8 and pull again") from None
    header, faults = list[str](), list[tuple[str, str]]()
    for number, row in enumerate(_rows(path, text, delimiter), 1):
        if not any(cell.strip() for cell in row) or (not header and row[0].startswith("sep=")):
            continue
        if not header:
            header = [cell.strip().lower() for cell in row]
            if set(NEEDED).isdisjoint(header):
                break
            faults = [("column missing", f"column {name!r} is missing") for name in NEEDED if name not in header]
            faults += [("column twice", f"{name!r} is twice there") for name in COLUMNS if header.count(name) > 1]
            continue
        cells = {name: bare(cell.strip()) for name, cell in zip(header, row, strict=False)}
        too_long = [("row too long", "more cells than columns")] * any(cell.strip() for cell in row[len(header) :])
        unread = tuple(name for name, cell in zip(header, row, strict=False) if cell.strip() and name not in COLUMNS)
        yield Line(str(path), number, cells, next(iter((*faults, *too_long)), None), unread)
    if set(NEEDED).isdisjoint(header):
        raise NoSheet(
            f"{path}: no sheet of `saferec-build review push`: expected the columns {', '.join(NEEDED)}, found"
            f" {plain(', '.join(header))[:200] or 'nothing'}: nothing was pulled"
        )


def _rows(path: Path, text: str, delimiter: str) -> list[list[str]]:
    previous = csv.field_size_limit(2**31 - 1)  # long dialogues exceed csv's default; the limit is global
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        return list(reader)
    except csv.Error as fault:
        raise ReviewError(f"{path}: not a CSV near line {reader.line_num}: {fault}: nothing was pulled") from None
    finally:
        csv.field_size_limit(previous)
