"""Reads answers from the CSV files that reviewers sent back.

pull   rows (files.lines) -> answers; a row that cannot be read is a drop that names it, and can be pulled again
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

import polars as pl

from annotation.tools.files import Line, NoSheet, cells, lines
from annotation.tools.guidelines import guideline
from annotation.tools.quotes import locate
from annotation.tools.tasks_and_answers import (
    SHEET,
    VERDICTS,
    Answered,
    Pulled,
    Refused,
    Task,
    Turns,
    base_id,
    shown,
    unit_id,
)
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.sources import readable
from saferec_builder.storage import evidence_check as evidence
from saferec_builder.storage.schema import Span

Keyed = Mapping[str, tuple[list[str], str, str]]  # key -> traits asked, guideline, taxonomy
Marked = Mapping[tuple[str, str, str, str], list[list[Span]]]
Listed = Mapping[str, Collection[str]]  # digest of a taxonomy -> its traits
Context = tuple[Taxonomy, Collection[str]]  # the current one, and the traits of this one and of the row's
Spans = Callable[[str, str], list[Span]]  # (quote cell, turn cell) -> spans, or Refused

_SHOWN = re.compile(r"guideline ([0-9a-f]+), taxonomy ([0-9a-f]+)(?:, asked(.*))?")  # old files lack the last part


def pull(
    paths: Sequence[Path],
    assignments: pl.DataFrame,
    texts: pl.DataFrame,
    taxonomy: Taxonomy,
    *,
    before: Answered,
    keyed: Keyed,
    old: Collection[str],
    named: Collection[Path],
    marked: Marked,
    listed: Listed,
) -> Pulled:
    """Returns every answer in the files, with quotes as spans of the text that was shown; the last row on a unit
    counts, and files of an earlier taxonomy come first, whatever their names.

    `keyed` holds what each of our keys asked, whatever the file says beside it; `old` are tasks whose sheets were
    handed out without a key. `named` files must be task sheets, others may be skipped.
    marked: kind, subject, trait, reviewer (or `` for all) -> the spans that a sheet may have shown, the likeliest
    first: a row with exactly their words and turns means these spans, even if the same words stand elsewhere.
    listed: the traits of former taxonomies: an answer to a sheet of theirs is kept, though it does not count now.
    A `*` waits until every other row of its task in the file is answered and accepted: a row that somebody left empty,
    deleted, or wrote in an unreadable way must not turn into `absent`. A trait that a person named in an earlier `*`
    (`before`) and leaves out of this one becomes absent, since a `*` does not fill in traits that have an answer.
    """
    task_of, spans_of = _task_finder(shown(assignments, texts), keyed, old), _span_reader(texts, marked)
    stamp = {"tool": "files", "guideline": guideline(), "taxonomy": taxonomy.digest, "simulated": False, "time": None}
    pulled = Pulled()
    sheets = [_sheet_rows(path, keyed, named, pulled.no_sheets) for path in paths]

    for rows in sorted(sheets, key=lambda rows: not any(_is_outdated(line, taxonomy) for line in rows)):
        unfinished, traits = set[str](), _traits_by_task(rows)
        for line in rows:
            pulled.unread |= {f"{line.file}: {readable(name, 80) or '(without a name)'}" for name in line.unread}
            former = listed.get(_versions(line).get("taxonomy", ""), ())
            context = (taxonomy, [*taxonomy.slugs, *former])
            try:
                task = _task(line, task_of, context[1], unfinished)
                answers = (
                    _row_answers(line, task, partial(spans_of, task, line.trait), traits, before, context)
                    if task
                    else []
                )
            except Refused as fault:
                pulled.drop(line.place, fault.reason, fault.detail, task_of(line))
                answers = []
            else:
                pulled.empty += [task_of(line)] * (not answers)
            for answer in answers:
                row: dict[str, Any] = stamp | _versions(line) | answer
                pulled.add(line.place, row)
                if line.cell("task") in old:
                    pulled.once.add(tuple(row[c] for c in ("kind", "subject", "trait", "reviewer", "role")))
                if task and row["trait"] != "*":
                    _past_answers(before, task).setdefault(row["trait"], set()).add(row["taxonomy"])
            if not answers:
                unfinished.add(line.cell("task"))
    return pulled


def _task_finder(tasks: Mapping[str, Task], keyed: Keyed, old: Collection[str]) -> Callable[[Line], Task | None]:
    """Returns a function that gives the task of a row, or None if its key is not one that we made."""

    def task_of(line: Line) -> Task | None:
        cell, base = line.cell("task"), base_id(line.cell("task"))
        return tasks.get(base) if cell in (old if cell == base else keyed) else None

    return task_of


def _traits_by_task(rows: Sequence[Line]) -> dict[str, set[str]]:
    """Task cell -> the traits that have a row; collected once, since each `*` needs them."""
    traits: dict[str, set[str]] = {}
    for line in rows:
        traits.setdefault(line.cell("task"), set()).add(line.trait)
    return traits


def _span_reader(texts: pl.DataFrame, marked: Marked) -> Callable[[Task, str, str, str], list[Span]]:
    """Returns a function (task, trait, quote cell, turn cell) -> the spans of the quotes."""
    row_of = {key: n for n, key in enumerate(texts.select("kind", "subject", "digest").iter_rows())}

    def spans_of(task: Task, trait: str, cell: str, turn: str) -> list[Span]:
        turns = texts["turns"][row_of[task.kind, task.subject, task.digest]].to_list()
        keys = [(task.kind, task.subject, trait, name) for name in (task.reviewer, "")]
        candidates = [spans for key in keys for spans in marked.get(key, [])]
        return _spans(cell, turn, turns, task.kind, candidates)

    return spans_of


def _sheet_rows(path: Path, keyed: Keyed, named: Collection[Path], skipped: list[str]) -> list[Line]:
    """The file's rows, each `*` after all others; a file that is no sheet and not in `named` is added to `skipped`."""
    try:
        return sorted((_with_record(line, keyed) for line in lines(path)), key=lambda line: line.is_rest)
    except NoSheet:
        if path in named:
            raise
        skipped.append(str(path))
        return []


def _with_record(line: Line, keyed: Keyed) -> Line:
    """The row with its cell `shown` replaced by our own record of what was asked."""
    if line.cell("task") not in keyed:
        return line
    traits, guideline, taxonomy = keyed[line.cell("task")]
    return replace(
        line, cells={**line.cells, "shown": f"guideline {guideline}, taxonomy {taxonomy}, asked {' '.join(traits)}"}
    )


def _versions(line: Line) -> dict[str, str]:
    """The guideline and taxonomy that the file was written with, if its column is still there."""
    match = _SHOWN.fullmatch(line.cell("shown"))
    return {"guideline": match[1], "taxonomy": match[2]} if match else {}


def _is_outdated(line: Line, taxonomy: Taxonomy) -> bool:
    return _versions(line).get("taxonomy", taxonomy.digest) != taxonomy.digest


def _task(
    line: Line, task_of: Callable[[Line], Task | None], slugs: Collection[str], unfinished: set[str]
) -> Task | None:
    """The task of an answered row; None if the row is still empty. Raises Refused if it cannot be accepted."""
    if line.fault:
        raise Refused(line.fault[0], f"{line.fault[1]}: put the columns back, or move the file away and push again")
    if not line.cell("verdict"):
        if not (line.cell("note") or line.cell("form") or line.cell("quote")):
            return None
        raise Refused("no verdict", "the row says something, but its verdict is empty")
    task, trait = task_of(line), line.trait
    if task is None:
        raise Refused("not pushed", f"task {line.cell('task')!r} was never pushed from this workspace")
    if line.cell("unit") not in ("", unit_id(line.cell("task"), trait)):
        raise Refused("row mixed up", f"trait {trait!r} is not the one of this row: were columns sorted apart?")
    if trait not in (*slugs, "*"):
        raise Refused("unknown trait", f"{trait!r}: expected one of {', '.join(slugs)}")
    if line.is_rest and task.role == "adjudicator":
        raise Refused("`*` by an adjudicator", "an adjudicator rules on units one by one")
    match = _SHOWN.fullmatch(line.cell("shown")) if line.cell("task").endswith(SHEET) else None
    if match and task.role == "adjudicator" and trait not in (match[3] or "").split():
        raise Refused("not asked", "an adjudicator rules on the disputed traits only")
    if line.is_rest and line.cell("task") in unfinished:
        raise Refused("`*` before the rest", "another row of this task is empty or was dropped: answer it, pull again")
    return task


def _row_answers(
    line: Line,
    task: Task,
    spans: Spans,
    traits_by_task: Mapping[str, Collection[str]],
    past: Answered,
    context: Context,
) -> list[dict[str, Any]]:
    """`_answers`; for a `*` also `absent` for traits of an earlier `*` that this one does not name and that have no
    row. Raises Refused if a row is missing: one that was deleted or filtered away is not `absent`."""
    answers, (taxonomy, slugs) = _answers(line, task, spans, context[1]), context
    if not line.is_rest:
        return answers
    with_row = traits_by_task[line.cell("task")]
    earlier = {t: seen for t, seen in _past_answers(past, task).items() if t in slugs and t not in with_row}
    match = _SHOWN.fullmatch(line.cell("shown"))
    asked = (match[3] or "").split() if match else []
    if missing := [t for t in asked if t in taxonomy.slugs and t not in with_row and t not in earlier]:
        raise Refused("`*` before the rest", f"the row of this task about {missing[0]} is not in the file: put it back")
    if task.kind != "sensitivity":
        return answers
    shown_digest = match[2] if match else taxonomy.digest
    named = {answer["trait"] for answer in answers}
    absent = [t for t, seen in earlier.items() if t not in named and shown_digest in (*seen, taxonomy.digest)]
    return [*(answers[-1] | {"trait": trait, "seconds": None} for trait in sorted(absent)), *answers]


def _past_answers(past: Answered, task: Task) -> dict[str, set[str]]:
    return past.setdefault((task.kind, task.subject, task.reviewer, task.role), {})


def _answers(line: Line, task: Task, spans: Spans, valid: Collection[str]) -> list[dict[str, Any]]:
    """The answers of a row: one, or for a `*` one per slug and the `*` itself."""
    fixed = vars(task) | {"note": line.cell("note") or None, "form": None, "seconds": None, "spans": []}
    seconds = {"seconds": _seconds(line)}
    if not line.is_rest:
        return [fixed | seconds | {"trait": line.trait} | _verdict(line, task, spans)]
    slugs = [word.lower() for word in re.split(r"[\s,;|]+", line.cell("verdict")) if word]
    slugs = [] if len(slugs) == 1 and slugs[0] in ("none", "absent") else slugs
    if unknown := [s for s in slugs if s not in valid]:
        raise Refused("unknown trait", f"{unknown[0]!r}: expected `none` or some of {', '.join(valid)}")
    if line.cell("quote") and not slugs:
        raise Refused(
            "evidence without a verdict", "words are quoted, but no trait is named: name it, or empty `quote`"
        )
    quotes = [line.cell("quote")] if len(slugs) < 2 else _parts(line.cell("quote"))
    if slugs and (len(quotes) != len(slugs) or not all(quotes)) and task.kind == "sensitivity":
        raise Refused("no quote", f"{len(slugs)} slugs, {len(list(filter(None, quotes)))} quotes: expected one each")
    answers = [
        fixed
        | {"trait": slug, "verdict": "present", "form": _form(line.cell("form"))}
        | {"spans": spans(quote, line.cell("turn")) if quote else []}
        for slug, quote in zip_longest(slugs, quotes[: len(slugs)], fillvalue="")
    ]
    return [*answers, fixed | seconds | {"trait": "*", "verdict": "absent"}]


def _verdict(line: Line, task: Task, spans: Spans) -> dict[str, Any]:
    verdict, quote, turn = line.cell("verdict").lower(), line.cell("quote"), line.cell("turn")
    if verdict not in VERDICTS:
        raise Refused("unknown verdict", f"{verdict!r}: expected present, absent or unsure")
    if verdict == "absent":
        return {"verdict": verdict}
    if verdict == "unsure":
        return {"verdict": verdict, "spans": spans(quote, turn) if quote else []}
    if not quote:
        quote, turn = line.cell("proposed_quote"), line.cell("proposed_turn")
    if not quote and task.kind == "sensitivity":
        raise Refused("no quote", "`present` needs the words that show it, copied from the text")
    form = _form(line.cell("form") or line.cell("proposed_form"))
    return {"verdict": verdict, "form": form, "spans": spans(quote, turn) if quote else []}


def _form(cell: str) -> str | None:
    if cell.lower() not in ("", "explicit", "implicit"):
        raise Refused("unknown form", f"{cell!r}: expected explicit, implicit or nothing")
    return cell.lower() or None


def _seconds(line: Line) -> float | None:
    cell = line.cell("seconds").replace(",", ".")
    if cell and not re.fullmatch(r"[0-9]{1,9}(\.[0-9]+)?", cell):
        raise Refused("seconds not a number", f"{line.cell('seconds')!r}: expected one from 0, such as 23.5")
    return float(cell) if cell else None


def _parts(cell: str) -> list[str]:
    """Splits at bars between spaces, as `push` joins quotes (a quote may itself have a bar); if there are none, at
    every bar, as people type."""
    parts = re.split(r"\s\|\s", cell)
    return [part.strip() for part in (parts if len(parts) > 1 else cell.split("|"))]


def _spans(cell: str, turn: str, turns: Turns, kind: str, marked: Iterable[list[Span]]) -> list[Span]:
    """Spans of the quotes in a cell, in our own text: marked spans if the cells show exactly these, else the cell as
    one quote if the text has it, else its parts."""
    for marked_spans in marked:
        if cells(marked_spans) == (cell, turn) and evidence.first_fault(marked_spans, turns, kind) is None:
            return marked_spans
    spans = _locate_all(cell, turn, turns)
    if fault := evidence.first_fault(spans, turns, kind):
        raise Refused(fault[0], f"{fault[1][:80]!r} is no evidence: copy words of theirs")
    return spans


def _locate_all(cell: str, turn: str, turns: Turns) -> list[Span]:
    hints = [int(n) - 1 for n in re.findall(r"\d+", turn) if len(n) < 10]
    if span := locate(cell, turns, hints):
        return [span]
    parts = _parts(cell)
    hints_by_part = [[n] for n in hints] if len(hints) == len(parts) else [hints] * len(parts)
    spans = [locate(part, turns, part_hints) for part, part_hints in zip(parts, hints_by_part, strict=True)]
    if None in spans:
        raise Refused("quote not found", f"{parts[spans.index(None)][:80]!r} stands in no turn: copy it from the text")
    return [span for span in spans if span]
