"""Reads the CSV files that came back from reviewers, as answers.

pull   rows (files.lines) -> answers; what cannot be read is a drop that names its row, and can be pulled again
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
from saferec_builder.storage import evidence_check as evidence
from saferec_builder.storage.schema import Span

Keyed = Mapping[str, tuple[list[str], str, str]]  # key -> asked, guideline, taxonomy
Locate = Callable[[str, Turns, Sequence[int]], Span | None]
Marked = Mapping[tuple[str, str, str, str], list[list[Span]]]
Departed = Collection[tuple[Task, str, str]]  # task, trait, verdict
About = tuple[Taxonomy, Departed]
Spans = Callable[[str, str], list[Span]]  # (quote cell, turn cell) -> spans, or Refused

_SHOWN = re.compile(r"guideline ([0-9a-f]+), taxonomy ([0-9a-f]+)(?:, asked(.*))?")  # the last one is not in old files


def pull(
    paths: Sequence[Path],
    assignments: pl.DataFrame,
    texts: pl.DataFrame,
    taxonomy: Taxonomy,
    guideline: str,
    locate: Locate,
    *,
    before: Answered | None = None,
    keyed: Keyed | None = None,
    old: Collection[str] = frozenset(),
    named: Collection[Path] | None = None,
    marked: Marked | None = None,
    departed: Departed = frozenset(),
) -> Pulled:
    """Every answer in the files, with quotes as spans of the text that was shown; the last row on a unit counts, and
    files of an earlier taxonomy come first, whatever their names.

    `keyed` says what each key that we made was about, whatever stands beside it in a file (None: any task of ours is
    taken); `old` are tasks whose sheets were handed out without one. `guideline` is stamped where such a file does not
    name its own; `locate` (quotes.py) finds a quote in turns.
    named: of these files alone (None: all) it is an error that one is no sheet; others are passed over.
    marked: kind, subject, trait, reviewer (or `` for all) -> the spans that a sheet may have shown, the likeliest
    first: where a row has their words and turns as they were, they are what it says, whatever else has these letters.
    departed: what was said of traits before they left the taxonomy: said again it is no answer, and holds back no `*`.
    `*` waits until every other row of its task in that file is answered and taken: what somebody left open, deleted, or
    wrote in a way that could not be read, must not turn into `absent`. What a person wrote into a `*` earlier
    (`before`) and leaves out of it now is absent, since an answered trait is not filled from a `*`.
    """
    task_of, about = _finder(shown(assignments, texts), keyed, old), (taxonomy, departed)
    spans_of = _evidence(texts, locate, marked or {})
    stamp = {"tool": "files", "guideline": guideline, "taxonomy": taxonomy.digest, "simulated": False, "time": None}
    pulled, known = Pulled(), {} if before is None else before
    sheets = [_sheet(path, keyed, named, pulled.no_sheets) for path in paths]

    for rows in sorted(sheets, key=lambda rows: not any(_older(line, taxonomy) for line in rows)):
        unfinished, own = set[str](), _traits(rows)
        for line in rows:
            if not line.fault and (task_of(line), line.trait, line.cell("verdict").lower()) in departed:
                pulled.repeated += 1
                continue
            try:
                task = _task(line, task_of, taxonomy, unfinished)
                answers = _whole(line, task, partial(spans_of, task, line.trait), own, known, about) if task else []
            except Refused as fault:
                pulled.drop(line.place, fault.reason, fault.detail, task_of(line))
                answers = []
            else:
                pulled.empty += [task_of(line)] * (not answers)
            for answer in answers:
                full: dict[str, Any] = stamp | _shown(line) | answer
                pulled.add(line.place, full)
                if keyed is not None and line.cell("task") in old:
                    pulled.once.add(tuple(full[c] for c in ("kind", "subject", "trait", "reviewer", "role")))
                if task and full["trait"] != "*":
                    _earlier(known, task).setdefault(full["trait"], set()).add(full["taxonomy"])
            if not answers:
                unfinished.add(line.cell("task"))
    return pulled


def _finder(tasks: Mapping[str, Task], keyed: Keyed | None, old: Collection[str]) -> Callable[[Line], Task | None]:
    """Gives the task of a row, where its key is one that we made."""

    def task_of(line: Line) -> Task | None:
        cell, base = line.cell("task"), base_id(line.cell("task"))
        ours = keyed is None or (cell in old if cell == base else cell in keyed)
        return tasks.get(base) if ours else None

    return task_of


def _traits(rows: Sequence[Line]) -> dict[str, set[str]]:
    """Task cell -> the traits that have a row: gathered once, as each `*` asks for them."""
    own: dict[str, set[str]] = {}
    for line in rows:
        own.setdefault(line.cell("task"), set()).add(line.trait)
    return own


def _evidence(texts: pl.DataFrame, locate: Locate, marked: Marked) -> Callable[[Task, str, str, str], list[Span]]:
    """What reads the quotes of a task's row on a trait, given their cell and that of their turns."""
    row_of = {key: n for n, key in enumerate(texts.select("kind", "subject", "digest").iter_rows())}

    def spans(task: Task, trait: str, cell: str, turn: str) -> list[Span]:
        turns = texts["turns"][row_of[task.kind, task.subject, task.digest]].to_list()
        keys = [(task.kind, task.subject, trait, name) for name in (task.reviewer, "")]
        were = [spans for key in keys for spans in marked.get(key, [])]
        return _spans(cell, turn, turns, task.kind, locate, were)

    return spans


def _sheet(path: Path, keyed: Keyed | None, named: Collection[Path] | None, passed: list[str]) -> list[Line]:
    """Its rows as they were asked, each `*` behind the others; what is no sheet and not `named` joins the `passed`."""
    try:
        return sorted((_as_asked(line, keyed) for line in lines(path)), key=lambda line: line.is_rest)
    except NoSheet:
        if named is None or path in named:
            raise
        passed.append(str(path))
        return []


def _as_asked(line: Line, keyed: Keyed | None) -> Line:
    """The row with what was asked by our own record, whatever stands in it now."""
    if not keyed or line.cell("task") not in keyed:
        return line
    asked, guideline, lists = keyed[line.cell("task")]
    return replace(
        line, cells={**line.cells, "shown": f"guideline {guideline}, taxonomy {lists}, asked {' '.join(asked)}"}
    )


def _shown(line: Line) -> dict[str, str]:
    """The guideline and taxonomy that the file was written with, where its column survived."""
    found = _SHOWN.fullmatch(line.cell("shown"))
    return {"guideline": found[1], "taxonomy": found[2]} if found else {}


def _older(line: Line, taxonomy: Taxonomy) -> bool:
    return _shown(line).get("taxonomy", taxonomy.digest) != taxonomy.digest


def _task(line: Line, task_of: Callable[[Line], Task | None], taxonomy: Taxonomy, unfinished: set[str]) -> Task | None:
    """The task of an answered row, None where the row is still empty."""
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
    if trait not in (*taxonomy.slugs, "*"):
        raise Refused("unknown trait", f"{trait!r}: expected one of {', '.join(taxonomy.slugs)}")
    if line.is_rest and task.role == "adjudicator":
        raise Refused("`*` by an adjudicator", "an adjudicator rules on units one by one")
    asked = _SHOWN.fullmatch(line.cell("shown")) if line.cell("task").endswith(SHEET) else None
    if asked and task.role == "adjudicator" and trait not in (asked[3] or "").split():
        raise Refused("not asked", "an adjudicator rules on the disputed traits only")
    if line.is_rest and line.cell("task") in unfinished:
        raise Refused("`*` before the rest", "another row of this task is empty or was dropped: answer it, pull again")
    return task


def _whole(
    line: Line,
    task: Task,
    spans: Spans,
    own: Mapping[str, Collection[str]],
    known: Answered,
    about: About,
) -> list[dict[str, Any]]:
    """`_answers`; with a `*` also `absent` for traits of an earlier `*` that neither this one names nor a row of its
    own. A row that was written and is gone, deleted or filtered away, is nobody's `absent`."""
    answers, taxonomy = _answers(line, task, spans, about), about[0]
    if not line.is_rest:
        return answers
    rows = own[line.cell("task")]
    earlier = {t: lists for t, lists in _earlier(known, task).items() if t in taxonomy.slugs and t not in rows}
    shown = _SHOWN.fullmatch(line.cell("shown"))
    asked = (shown[3] or "").split() if shown else []
    if gone := [t for t in asked if t in taxonomy.slugs and t not in rows and t not in earlier]:
        raise Refused("`*` before the rest", f"the row of this task about {gone[0]} is not in the file: put it back")
    if task.kind != "sensitivity":
        return answers
    listed = shown[2] if shown else taxonomy.digest
    named = {answer["trait"] for answer in answers}
    left = [t for t, lists in earlier.items() if t not in named and listed in (*lists, taxonomy.digest)]
    return [*(answers[-1] | {"trait": trait, "seconds": None} for trait in sorted(left)), *answers]


def _earlier(known: Answered, task: Task) -> dict[str, set[str]]:
    return known.setdefault((task.kind, task.subject, task.reviewer, task.role), {})


def _answers(line: Line, task: Task, spans: Spans, about: About) -> list[dict[str, Any]]:
    """What a row says: one answer, or for `*` one per slug and the rest."""
    fixed = vars(task) | {"note": line.cell("note") or None, "form": None, "seconds": None, "spans": []}
    seconds = {"seconds": _seconds(line)}
    if not line.is_rest:
        return [fixed | seconds | {"trait": line.trait} | _verdict(line, task, spans)]
    slugs = [word.lower() for word in re.split(r"[\s,;|]+", line.cell("verdict")) if word]
    slugs = [] if len(slugs) == 1 and slugs[0] in ("none", "absent") else slugs
    taxonomy, departed = about
    if strange := [s for s in slugs if s not in taxonomy.slugs and (task, s, "present") not in departed]:
        raise Refused("unknown trait", f"{strange[0]!r}: expected `none` or some of {', '.join(taxonomy.slugs)}")
    quotes = [line.cell("quote")] if len(slugs) < 2 else _parts(line.cell("quote"))
    if slugs and (len(quotes) != len(slugs) or not all(quotes)) and task.kind == "sensitivity":
        raise Refused("no quote", f"{len(slugs)} slugs, {len(list(filter(None, quotes)))} quotes: expected one each")
    found = [
        fixed
        | {"trait": slug, "verdict": "present", "form": _form(line.cell("form"))}
        | {"spans": spans(quote, line.cell("turn")) if quote else []}
        for slug, quote in zip_longest(slugs, quotes[: len(slugs)], fillvalue="")
        if slug in taxonomy.slugs
    ]
    return [*found, fixed | seconds | {"trait": "*", "verdict": "absent"}]


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
    """As `push` joins them, where a quote may hold a bar itself; else at every bar, as people type."""
    spaced = re.split(r"\s\|\s", cell)
    return [part.strip() for part in (spaced if len(spaced) > 1 else cell.split("|"))]


def _spans(cell: str, turn: str, turns: Turns, kind: str, locate: Locate, marked: Iterable[list[Span]]) -> list[Span]:
    """Spans of the quotes in a cell, in our own text: those that were marked where it says them as they were, else the
    whole cell where the text has it so, else its parts."""
    for spans in marked:
        if cells(spans) == (cell, turn) and evidence.first_fault(spans, turns, kind) is None:
            return spans
    found = _places(cell, turn, turns, locate)
    if none := evidence.first_fault(found, turns, kind):
        raise Refused(none[0], f"{none[1][:80]!r} is no evidence: copy words of theirs")
    return found


def _places(cell: str, turn: str, turns: Turns, locate: Locate) -> list[Span]:
    hints = [int(n) - 1 for n in re.findall(r"\d+", turn) if len(n) < 10]
    if whole := locate(cell, turns, hints):
        return [whole]
    parts = _parts(cell)
    hints_of = [[n] for n in hints] if len(hints) == len(parts) else [hints] * len(parts)
    found = [locate(part, turns, hint) for part, hint in zip(parts, hints_of, strict=True)]
    if None in found:
        raise Refused("quote not found", f"{parts[found.index(None)][:80]!r} stands in no turn: copy it from the text")
    return [span for span in found if span]
