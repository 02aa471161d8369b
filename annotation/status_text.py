"""The text that `review status` and `adjudicate` print: tables and lines, none much wider than a terminal."""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any

import polars as pl

from annotation import agreement, confidence_bounds, controls, precision_bounds, recall_bounds, reported_texts
from annotation.progress import ReviewStatus
from annotation.recall_bounds import LabelBounds
from saferec_builder.core.counts import many

Cells = Sequence[str]
LIMIT = f"{100 * confidence_bounds.ALPHA:.0f} %"
TRUTH = f"{100 * controls.LIMIT:.0f} %"
# What words mean: (a word, its line), printed below a table if the word is in it.
COUNTED = (
    ("proposed", "counted: questions, each of one trait in one conversation (or item); assigned: of those proposed"),
    ("begun", "begun, read: proposed or not, answered by some readers, by enough; disputed: these differ"),
    (
        "alpha",
        "alpha: how far readers agree, 1 always, 0 as by chance; n/a: nothing to compare, as when nobody says present",
    ),
)
BOUNDED = (
    ("none found", "none found, in N at most: nobody found it; of all here, read or not, it may be in so many"),
    ("more audit", "audit: a conversation (or item) drawn at random, read without a suggestion"),
    ("recheck", "recheck: the adjudicator decides a label again; none comes while [review] recheck is 0, the default"),
    ("proposed or drawn", "proposed or drawn: a program proposed a trait there, or the audit drew it"),
    (" sure", "not sure: people have not agreed yet, or they are unsure"),
    ("certified", f"certified: {LIMIT} at most; of what is missed, also {TRUTH} at most with what readers overlook"),
    ("relative to these", "relative to these reviewers: without what they overlook, which blind controls measure"),
    ("controls", controls.MEANING),
)
FOUND, ALARMS = "  found", "  false alarms"  # heads of columns: not the ends of `gold found`, `gold false alarms`
COMPARED = (
    ("seconds", "seconds: of a task, the median"),
    ("rejected", "rejected: open tasks whose last answer could not be taken"),
    (FOUND, "found: of the labels `present` on what they answered, those that they called present, too"),
    (ALARMS, "false alarms: labels `absent` that they called present"),
    ("overruled", "overruled: of the verdicts on which the adjudicator decided; of two who differ at least one is"),
    (FOUND, "the labels are made of these votes: what everybody overlooked counts for nobody"),
    ("controls", "blind controls: of every kind, also those whose answer others were shown"),
    ("flagged", "flagged: by blind controls, gold (answers known beforehand) and decoys (wrong suggestions) alone"),
)
SHARES = {  # figure of a reviewer -> (what it is a part of, the head of its column): `7 of 9`
    "found": ("present", "found"),
    "overruled": ("ruled", "overruled"),
    "gold_found": ("gold", "gold found"),
    "accepted": ("decoys", "decoys accepted"),
    "blind_controls_missed": ("blind_controls", "blind controls missed"),
}
OVERLOOKED = "missed, with what readers overlook"
FOLDED = 3  # from this many on, traits with the same words share a row, and are named below the table
WIDTH = 80  # characters of a line of their names


def lines(found: ReviewStatus) -> list[str]:
    """How far traits are read, how well reviewers agree, what labels miss and get wrong at most, and the reviewers."""
    bounds, alphas = found.bounds, {row["trait"]: row for row in found.agreement.iter_rows(named=True)}
    columns = found.traits.columns
    read = [
        [row["trait"], *(f"{row[name]:,}" for name in columns[1:]), _alpha(alphas.get(row["trait"]))]
        for row in found.traits.iter_rows(named=True)
    ]
    missed = {**bounds.traits, recall_bounds.POOLED: bounds.pooled}
    wrong = {**bounds.false, **({recall_bounds.POOLED: bounds.false_pooled} if bounds.false_pooled else {})}
    rows = [
        [name, recall_bounds.words(bound), *([precision_bounds.words(wrong[name])] if name in wrong else [])]
        for name, bound in missed.items()
    ]
    folded, named = alike(rows[:-1])
    rows = [*folded, rows[-1]]
    rows += [[name, words] for name, words in recall_bounds.of_items(bounds.items).items()]
    text = [*_explained(_table([*columns, "alpha"], read), COUNTED), ""] if read else []
    if not found.reviewers:
        return [*text, "nobody was given a task yet: `saferec-build review push`"]
    begun = found.traits.select(pl.sum_horizontal(pl.col("begun", "read").sum())).item()
    if not begun and not any(map(_has_finished_task, found.reviewers.values())):
        return [*text, "nobody has answered yet: what labels miss is told once answers are in", "", *_people(found)]
    shares = [*_table(["share of", "missed at most", "labelled wrongly at most"], rows, words=3), *named]
    # where nobody found a trait, a small bound is no success of the reviews
    known = [slug for slug, bound in bounds.traits.items() if bound.labels or bound.misses]
    together = f"{len({*bounds.together} & {*known})} of {many(len(known), 'trait', 'traits')} found"
    shares += [f"missed at most {LIMIT}, in all of these traits at once: {together}"]
    shares += [f"{OVERLOOKED}: {controls.words(bounds.apart, bounds.blind)}", *of_gold(bounds)]
    return [*text, *_explained(shares, BOUNDED), "", *_people(found)]


def of_labels(bounds: LabelBounds) -> list[str]:
    """What the labels of all traits together miss and get wrong at most, and what prints the same of each trait."""
    lines = [
        f"missed share of {recall_bounds.POOLED}: {recall_bounds.words(bounds.pooled)}",
        f"{OVERLOOKED}: {controls.words(bounds.apart, bounds.blind)}",
    ]
    if bounds.items:
        lines.append(f"missed share of {recall_bounds.ANY_FLAG}: {recall_bounds.words(bounds.items.pooled, 'items')}")
    if bounds.false_pooled:
        unknown = bounds.false_pooled.share is None and bounds.false_pooled.zone
        how = "; `review push --adjudicator NAME` hands them out, with [review] recheck above 0" if unknown else ""
        lines.append(f"labels `present` that are wrong: {precision_bounds.words(bounds.false_pooled)}{how}")
    if step := recall_bounds.lowers_most(bounds):
        lines.append(f"what lowers these bounds most: {step}")
    return [*lines, "what these words mean, and the same for each trait: `saferec-build review status`"]


def of_gold(bounds: LabelBounds) -> list[str]:
    """What the labels get wrong in conversations whose answers are known; no line if none of these has a label."""
    kinds = (("miss a trait", "missed", "present"), ("claim one that is not there", "invented", "absent"))
    figures = [(verb, *(bounds.gold.get(n) for n in (e, f"units_{k}", f"{e}_at_most"))) for verb, e, k in kinds]
    parts = [
        f"{verb} in {errors:,} of {of:,} ({confidence_bounds.at_most(float(most))})"
        for verb, errors, of, most in figures
        if isinstance(errors, int) and isinstance(of, int) and isinstance(most, float)
    ]
    return [f"in gold conversations, whose answers are known, the labels {', and '.join(parts)}"] if parts else []


def of_reports(reported: Sequence[str]) -> list[str]:
    """What to do about notes that report personal data in a text; no line if there are none."""
    if not reported:
        return []
    report = f"readers reported personal data in {reported_texts.words(reported)}: look at them"
    remedy = f"{reported_texts.REMEDY}, or allow them one by one"
    return [
        f"{report} (`saferec-build browse reported`), then {remedy}: `release` stops at those whose text it would hold"
    ]


def alike(rows: Sequence[Sequence[str]]) -> tuple[list[list[str]], list[str]]:
    """Rows of a name and words about it; three or more with the same words become one, at the place of the first.
    And lines with the names of each of these."""
    names: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        names.setdefault(tuple(row[1:]), []).append(row[0])
    merged, named, numbers = list[list[str]](), list[str](), count(1)
    for words, same in names.items():
        labels = [f"{len(same)} traits ({next(numbers)})"] if len(same) >= FOLDED else same
        named += textwrap.wrap(f"{labels[0]}: {', '.join(same)}", WIDTH, subsequent_indent="  ") * (labels != same)
        merged += [[name, *words] for name in labels]
    return merged, named


def _has_finished_task(person: Mapping[str, object]) -> bool:
    tasks, still_open = person.get("tasks"), person.get("open")
    return isinstance(tasks, int) and isinstance(still_open, int) and tasks > still_open


def _people(status: ReviewStatus) -> list[str]:
    names = list(dict.fromkeys(name for row in status.reviewers.values() for name in row))
    wholes = {whole for part, (whole, _) in SHARES.items() if part in names}
    shown = [name for name in names if name not in wholes]
    heads = [SHARES[name][1] if name in SHARES else name.replace("_", " ") for name in shown]
    rows = [[reviewer, *(_figure(row, name) for name in shown)] for reviewer, row in status.reviewers.items()]
    return _explained(_table(["reviewer", *heads], rows), COMPARED)


def _figure(row: Mapping[str, object], name: str) -> str:
    cell = _cell(row.get(name))
    return f"{cell} of {_cell(row.get(SHARES[name][0]))}" if name in SHARES and cell != "-" else cell


def _explained(text: list[str], meanings: Iterable[tuple[str, str]]) -> list[str]:
    """The lines, and the meanings of the words that are in them."""
    return [*text, *(meaning for word, meaning in meanings if any(word in line for line in text))]


def _table(heads: Cells, rows: Iterable[Cells], words: int = 1) -> list[str]:
    """Columns as wide as their cells: the first `words` of them are text, aligned left, the others numbers."""
    cells = [heads, *rows]
    widths = [max(len(row[n]) for row in cells if len(row) > n) for n in range(len(heads))]
    aligned = ["<" if n < words else ">" for n in range(len(heads))]
    columns = list(zip(aligned, widths, strict=True))
    return [
        "  ".join(f"{word:{side}{n}}" for word, (side, n) in zip(row, columns, strict=False)).rstrip() for row in cells
    ]


def _cell(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "-"
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").removesuffix(".")
    return f"{value:,}" if isinstance(value, int) else str(value)


def _alpha(row: Mapping[str, Any] | None) -> str:
    if row is None or row["alpha"] is None or not row["positives"]:  # `absent` and `unsure` alone: no agreement on it
        return "n/a"
    few = f" ({row['positives']} positive)" if row["positives"] < agreement.FEW else ""
    return f"{row['alpha']:z.2f}{few}"
