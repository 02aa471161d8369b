"""Reads answers from the CSV files that reviewers sent back.

pull   rows (files.lines) -> answers; a row that cannot be read is a drop that names it, and can be pulled again
"""

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import Any

import polars as pl

from annotation.tools.files import Line, NoSheet, cells, lines
from annotation.tools.guidelines import guideline
from annotation.tools.quotes import locate
from annotation.tools.tasks_and_answers import VERDICTS, Answered, Pulled, Refused, Task, Turns, base_id, unit_id
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.sources import readable
from saferec_builder.storage import evidence_check as evidence
from saferec_builder.storage.schema import Span
from saferec_builder.storage.tables import ANSWER

_SHOWN = re.compile(r"guideline ([0-9a-f]+), taxonomy ([0-9a-f]+)(?:, asked(.*))?")  # old files lack the last part
_LINE = re.compile(r"(\d{1,9})\. \w+: ")  # how files.push begins each turn


@dataclass(frozen=True)
class Records:
    """What the workspace knows of its sheets, whatever a file says."""

    tasks: Mapping[str, Task]  # by id: all that may have been handed out (tasks_and_answers.shown)
    texts: pl.DataFrame  # routing.TEXTS
    taxonomy: Taxonomy
    before: Answered  # the answers so far; `pull` adds those that it reads
    keyed: Mapping[str, tuple[list[str], str, str]]  # key of a sheet -> the traits it asked, guideline, taxonomy
    old: Collection[str]  # ids of tasks whose sheets were handed out without a key
    # kind, subject, trait, reviewer (or `` for all) -> the spans that a sheet may have shown, the likeliest first: a
    # row with exactly their words and turns means these spans, even if the same words stand elsewhere
    marked: Mapping[tuple[str, str, str, str], list[list[Span]]]
    # digest of a taxonomy -> traits that have left it since: an answer about one is kept, though it does not count now
    former: Mapping[str, Collection[str]]

    @cached_property
    def _row_of_text(self) -> dict[tuple[str, ...], int]:
        return {text: row for row, text in enumerate(self.texts.select("kind", "subject", "digest").iter_rows())}

    def task_of(self, line: Line) -> Task | None:
        """The task of a row; None if its key is not one that we made."""
        cell, base = line.cell("task"), base_id(line.cell("task"))
        return self.tasks.get(base) if cell in (self.old if cell == base else self.keyed) else None

    def traits_of(self, line: Line) -> list[str]:
        """The traits that a row may name: those of the taxonomy now, and when its file was written."""
        return [*self.taxonomy.slugs, *self.former.get(self.sheet_of(line)[1].get("taxonomy", ""), ())]

    def sheet_of(self, line: Line) -> tuple[list[str], dict[str, str]]:
        """The traits that a row's sheet asked, and its guideline and taxonomy: by our record of its key, else by the
        cell `shown`; nothing if that column is gone."""
        if record := self.keyed.get(line.cell("task")):
            traits, guide, taxonomy = record
        elif match := _SHOWN.fullmatch(line.cell("shown")):
            traits, guide, taxonomy = (match[3] or "").split(), match[1], match[2]
        else:
            return [], {}
        return traits, {"guideline": guide, "taxonomy": taxonomy}

    def past_answers(self, task: Task) -> dict[str, set[str]]:
        return self.before.setdefault((task.kind, task.subject, task.reviewer, task.role), {})

    def spans(self, task: Task, trait: str, quote: str, turn: str) -> list[Span]:
        """The spans, in our own text, that a row's cells `quote` and `turn` mean: marked ones if the cells show exactly
        these, else the cell as one quote if the text has it, else its parts."""
        turns = self.texts["turns"][self._row_of_text[task.kind, task.subject, task.digest]].to_list()
        for name in (task.reviewer, ""):
            for spans in self.marked.get((task.kind, task.subject, trait, name), []):
                if cells(spans) == (quote, turn) and evidence.first_fault(spans, turns, task.kind) is None:
                    return spans
        located = _locate_all(quote, turn, turns)
        if fault := evidence.first_fault(located, turns, task.kind):
            raise Refused(fault[0], f"{fault[1][:80]!r} is no evidence: copy words of theirs")
        return located


def pull(paths: Sequence[Path], records: Records, named: Collection[Path] = ()) -> Pulled:
    """Returns every answer in the files, with quotes as spans of the text that was shown; the last row on a unit
    counts, and files of an earlier taxonomy come first, whatever their names.

    A file that is no task sheet is skipped, or refused if it is in `named`. A `*` waits until every other row of its
    task in the file is answered and accepted: a row that somebody left empty, deleted, or wrote in an unreadable way
    must not turn into `absent`. A trait that a person named in an earlier `*` and leaves out of this one becomes
    absent, since a `*` does not fill in traits that have an answer.
    """
    stamp: dict[str, Any] = {"tool": "files", "simulated": False, "time": None}
    stamp |= {"guideline": guideline(), "taxonomy": records.taxonomy.digest}
    pulled = Pulled()
    sheets = [_sheet_rows(path, named, pulled.no_sheets) for path in paths]
    now = records.taxonomy.digest
    for rows in sorted(
        sheets, key=lambda rows: all(records.sheet_of(line)[1].get("taxonomy", now) == now for line in rows)
    ):
        unfinished, traits = set[str](), defaultdict[str, set[str]](set)  # task cell -> the traits that have a row
        for line in rows:
            traits[line.cell("task")].add(line.trait)
        for line in rows:
            pulled.rows += 1
            pulled.unread |= {f"{line.file}: {readable(name, 80) or '(without a name)'}" for name in line.unread}
            task = records.task_of(line)
            try:
                answers = _row_answers(line, task, records, traits, unfinished)
            except Refused as fault:
                pulled.drop(line.place, fault.reason, fault.detail, task)
                answers = []
            else:
                pulled.empty += [task] * (not answers)
            for answer in answers:
                row = stamp | records.sheet_of(line)[1] | answer
                pulled.add(line.place, row)
                if line.cell("task") in records.old:
                    pulled.once.add(tuple(row[c] for c in ANSWER))
                if task and row["trait"] != "*":
                    records.past_answers(task).setdefault(row["trait"], set()).add(row["taxonomy"])
            if not answers:
                unfinished.add(line.cell("task"))
    return pulled


def _sheet_rows(path: Path, named: Collection[Path], skipped: list[str]) -> list[Line]:
    """The file's rows, each `*` after all others; a file that is no sheet and not in `named` is added to `skipped`."""
    try:
        return sorted(lines(path), key=lambda line: line.is_rest)
    except NoSheet:
        if path in named:
            raise
        skipped.append(str(path))
        return []


def _row_answers(
    line: Line,
    task: Task | None,
    records: Records,
    traits_by_task: Mapping[str, Collection[str]],
    unfinished: Collection[str],
) -> list[dict[str, Any]]:
    """The answers of a row, none if it is still empty; raises Refused if it cannot be accepted. `unfinished`: the task
    cells with a row that gave none."""
    if line.fault:
        raise Refused(line.fault[0], f"{line.fault[1]}: put the columns back, or move the file away and push again")
    if not line.cell("verdict"):
        if line.cell("note") or line.cell("form") or line.cell("quote"):
            raise Refused("no verdict", "the row says something, but its verdict is empty")
        return []
    if task is None:
        raise Refused("not pushed", f"task {line.cell('task')!r} was never pushed from this workspace")
    _check_row(line, task, records, unfinished)
    return _rest(line, task, records, traits_by_task) if line.is_rest else [_answer(line, task, records)]


def _check_row(line: Line, task: Task, records: Records, unfinished: Collection[str]) -> None:
    """Raises Refused if the row does not belong to this task, or if it is a `*` that comes too early."""
    trait, slugs = line.trait, records.traits_of(line)
    if line.cell("unit") not in ("", unit_id(line.cell("task"), trait)):
        raise Refused("row mixed up", f"trait {trait!r} is not the one of this row: were columns sorted apart?")
    if trait not in (*slugs, "*"):
        raise Refused("unknown trait", f"{trait!r}: expected one of {', '.join(slugs)}")
    if line.is_rest and task.role == "adjudicator":
        raise Refused("`*` by an adjudicator", "an adjudicator rules on units one by one")
    if task.role == "adjudicator" and line.cell("task") in records.keyed and trait not in records.sheet_of(line)[0]:
        raise Refused("not asked", "an adjudicator rules on the disputed traits only")
    if line.is_rest and line.cell("task") in unfinished:
        raise Refused("`*` before the rest", "another row of this task is empty or was dropped: answer it, pull again")


def _facts(line: Line, task: Task) -> dict[str, Any]:
    """The columns that all answers of a row share."""
    return vars(task) | {"note": line.cell("note") or None, "form": None, "seconds": None, "spans": []}


def _answer(line: Line, task: Task, records: Records) -> dict[str, Any]:
    """The answer of a row about one trait."""
    verdict, quote, turn = line.cell("verdict").lower(), line.cell("quote"), line.cell("turn")
    answer = _facts(line, task) | {"seconds": _seconds(line), "trait": line.trait, "verdict": verdict}
    if verdict not in VERDICTS:
        raise Refused("unknown verdict", f"{verdict!r}: expected present, absent or unsure")
    if verdict == "absent":
        return answer
    if verdict == "present":
        if not quote:
            quote, turn = line.cell("proposed_quote"), line.cell("proposed_turn")
        if not quote and task.kind == "sensitivity":
            raise Refused("no quote", "`present` needs the words that show it, copied from the text")
        answer["form"] = _form(line.cell("form") or line.cell("proposed_form"))
    return answer | {"spans": records.spans(task, line.trait, quote, turn) if quote else []}


def _rest(
    line: Line, task: Task, records: Records, traits_by_task: Mapping[str, Collection[str]]
) -> list[dict[str, Any]]:
    """The answers of a `*`: one per trait that it names, `absent` for those of an earlier `*` that this one does not
    name and that have no row, and the `*` itself. Raises Refused if a row is missing: one that was deleted or filtered
    away is not `absent`."""
    seconds, answers, slugs = _seconds(line), _named(line, task, records), records.traits_of(line)
    with_row = traits_by_task[line.cell("task")]
    earlier = {t: seen for t, seen in records.past_answers(task).items() if t in slugs and t not in with_row}
    asked, versions = records.sheet_of(line)
    if missing := [t for t in asked if t in records.taxonomy.slugs and t not in with_row and t not in earlier]:
        raise Refused("`*` before the rest", f"the row of this task about {missing[0]} is not in the file: put it back")
    rest = _facts(line, task) | {"trait": "*", "verdict": "absent"}
    if task.kind == "sensitivity":
        digest = versions.get("taxonomy", records.taxonomy.digest)
        unnamed = earlier.keys() - {answer["trait"] for answer in answers}
        absent = [t for t in unnamed if digest in (*earlier[t], records.taxonomy.digest)]
        answers = [*(rest | {"trait": trait} for trait in sorted(absent)), *answers]
    return [*answers, rest | {"seconds": seconds}]


def _named(line: Line, task: Task, records: Records) -> list[dict[str, Any]]:
    """`present` for each trait that the verdict of a `*` names."""
    valid = records.traits_of(line)
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
    present = _facts(line, task) | {"verdict": "present"}
    return [
        present
        | {"trait": slug, "form": _form(line.cell("form"))}
        | {"spans": records.spans(task, line.trait, quote, line.cell("turn")) if quote else []}
        for slug, quote in zip_longest(slugs, quotes[: len(slugs)], fillvalue="")
    ]


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


def _locate_all(cell: str, turn: str, turns: Turns) -> list[Span]:
    hints = [int(n) - 1 for n in re.findall(r"\d+", turn) if len(n) < 10]
    if span := _locate(cell, turns, hints):
        return [span]
    parts = _parts(cell)
    hints_by_part = [[n] for n in hints] if len(hints) == len(parts) else [hints] * len(parts)
    spans = [_locate(part, turns, part_hints) for part, part_hints in zip(parts, hints_by_part, strict=True)]
    if None in spans:
        raise Refused("quote not found", f"{parts[spans.index(None)][:80]!r} stands in no turn: copy it from the text")
    return [span for span in spans if span]


def _locate(quote: str, turns: Turns, hints: list[int]) -> Span | None:
    """`quotes.locate`, also of words that were copied with the number and the role before them in the cell `text`."""
    if (span := locate(quote, turns, hints)) or not (line := _LINE.match(quote)):
        return span
    return locate(quote[line.end() :], turns, [int(line[1]) - 1])
