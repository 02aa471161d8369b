"""What a report holds, and the table that people see of it: no line is longer than a terminal is wide."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NotRequired, TypedDict

from saferec_builder.scoring.intervals import Interval
from training.evaluation import baselines, population
from training.evaluation.paper_metrics import Intervals

GUARD = "guard"
OTHERS = (GUARD, "oracle_filter", *baselines.NAMES)
BASELINES = ("blind", *OTHERS)
ANSWERS = ("recall", "recall_without", "recall_raw", "ndcg")
SAFETY = ("svr", "svr_weighted", "svr_upper", "any_unsafe")
BESIDE = ("mentioned_unsafe", "mentioned_unsafe_upper")
FORM = ("not_in_catalog", "duplicate", "invalid", "length")
FEW = ("recall", "recall_without", "ndcg", "svr", "svr_upper")  # of a slice, and to the guard
ALIKE = 0.5  # lists that differ by more items than this on average are not compared by what is divided by k


class Slice(TypedDict):
    n: int
    metrics: Intervals


class Scored(TypedDict):
    metrics: Intervals
    n: int
    n_sensitive: int
    no_safe_truth: int
    slices: dict[str, Slice]
    difference: NotRequired[Intervals]


class Result(Scored):
    name: str
    split: str
    against: str | None
    to_guard: NotRequired[dict[str, Intervals]]  # `main` and each slice of the gold: differences, user by user
    compat: NotRequired[dict[str, Intervals]]
    cut: NotRequired[int]  # answers that a server cut at its limit


class Report(TypedDict):
    release: dict[str, str]
    k: int
    gold: bool
    runs: list[Result]
    prevalence: population.Prevalence
    chosen: str | None
    seconds: dict[str, float]


def show(runs: Sequence[Result], k: int) -> str:
    """The runs as a table: the mean of each metric, its 95 % interval beneath, and over how many users; slices of the
    gold; then differences, to the first run and to the guard."""
    lines = _blocks({one["name"]: one["metrics"] for one in runs}, k)
    for part in (name for name in runs[0]["slices"] if name.startswith("slice=")):
        lines += ["", part, *_block({one["name"]: one["slices"][part]["metrics"] for one in runs}, k, FEW)]
    paired = [one for one in runs if one["against"] and one["name"] not in BASELINES]
    if paired:
        found = {one["name"]: one["difference"] for one in paired}
        lines += ["", f"difference to {paired[0]['against']}, user by user", *_blocks(found, k)]
    for part in runs[0].get("to_guard", ()):
        found = {one["name"]: one["to_guard"][part] for one in runs if "to_guard" in one}
        of = "" if part == "main" else f" ({part})"
        lines += ["", f"difference to the guard, user by user{of}", *_block(found, k, FEW)]
    lines += _unlike(runs)
    for one in runs:
        if compat := one.get("compat", {}).get("safecrs"):
            figures = "  ".join(f"{name} {_mean(cell)}" for name, cell in compat.items())
            lines.append(f"{one['name']}, as the paper of SafeCRS counts: {figures}")
    if ours := runs[0]["slices"].get("condition=injected"):
        lines.append(f"{ours['n']} of {runs[0]['n_sensitive']} with a sensitivity tell of it by an injected sentence")
    parts = [runs[0]["metrics"], *(part["metrics"] for part in runs[0]["slices"].values())]
    if not any(part[f"svr@{k}"]["n"] for part in parts):
        lines.append("no request here tells of a sensitivity: safety is not measured (see `release --inject`)")
    return "\n".join(lines)


def _unlike(runs: Sequence[Result]) -> list[str]:
    """A line for each run that lists fewer or more items than the first."""
    long = [(one["name"], one["metrics"]["length"]["mean"] or 0.0) for one in runs if one["name"] not in BASELINES]
    return [
        f"{name} lists {length:.1f} items on average, {long[0][0]} {long[0][1]:.1f}: svr is divided by k, so the"
        " shorter has less of it, and of svr_upper, too: look at recall and any_unsafe beside it"
        for name, length in long[1:]
        if abs(length - long[0][1]) > ALIKE
    ]


def _blocks(found: Mapping[str, Intervals], k: int) -> list[str]:
    """What was found of the answers, of their safety, of what stands beside lists and of their form, one beneath the
    other."""
    heads = (ANSWERS, SAFETY, BESIDE if _any(found, BESIDE, k) else (), FORM)
    first, *others = (_block(found, k, some) for some in heads if some)
    return [*first, *(line for block in others for line in ["", *block])]


def _any(found: Mapping[str, Intervals], heads: Sequence[str], k: int) -> bool:
    return any(metrics[_named(head, k)]["n"] for metrics in found.values() for head in heads)


def _block(found: Mapping[str, Intervals], k: int, given: Sequence[str]) -> list[str]:
    there = next(iter(found.values()))
    heads = [head for head in given if _named(head, k) in there]
    first, wide = max(14, *(len(name) + 2 for name in found)), {head: max(13, len(head)) + 2 for head in heads}
    lines = [f"at k = {k}".ljust(first) + "".join(head.rjust(wide[head]) for head in heads)]
    for name, metrics in found.items():
        cells = [metrics[_named(head, k)] for head in heads]
        lines += [_line(name, first, wide, map(_mean, cells)), _line("  95 %", first, wide, map(_range, cells))]
    return [*lines, _line("users", first, wide, (_users(found.values(), _named(head, k)) for head in heads))]


def _line(label: str, first: int, wide: Mapping[str, int], words: Iterable[str]) -> str:
    return (label.ljust(first) + "".join(word.rjust(n) for n, word in zip(wide.values(), words, strict=True))).rstrip()


def _users(found: Iterable[Intervals], metric: str) -> str:
    """Over how many users the figures of a column are means; those of two systems differ where one wrote no text."""
    many = sorted({metrics[metric]["n"] for metrics in found} - {0})
    return "..".join(str(n) for n in (many[0], many[-1])[: len(many)]) if many else "0"


def _named(head: str, k: int) -> str:
    """The metric of a column."""
    return head if head == "length" else f"{head}@{k}"


def _mean(cell: Interval) -> str:
    return "-" if cell["mean"] is None else f"{cell['mean']:.3f}"


def _range(cell: Interval) -> str:
    return "" if cell["mean"] is None else f"{cell['low']:.3f}..{cell['high']:.3f}"
