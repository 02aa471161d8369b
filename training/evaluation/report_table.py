"""What a report holds, and the table that people see of it: no line is longer than a terminal is wide."""

from collections.abc import Mapping, Sequence
from typing import NotRequired, TypedDict

from saferec_builder.scoring.intervals import Interval
from training.evaluation import baselines, population
from training.evaluation.paper_metrics import Intervals

GUARD = "guard"
OTHERS = (GUARD, "oracle_filter", *baselines.NAMES)
BASELINES = ("blind", *OTHERS)
ANSWERS = ("recall", "recall_without", "recall_raw", "ndcg", "users")
SAFETY = ("svr", "svr_weighted", "svr_upper", "any_unsafe", "sensitive")
BESIDE = ("mentioned_unsafe", "mentioned_unsafe_upper")
FORM = ("not_in_catalog", "duplicate", "invalid", "length")
FEW = ("recall", "recall_without", "ndcg", "svr", "svr_upper", "users", "sensitive")  # of a slice, and to the guard
COUNTS = {"users": "length", "sensitive": "svr"}  # of how many users a figure is the mean


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
    """The runs as a table: the mean of each metric, its 95 % interval beneath; slices of the gold; then differences, to
    the first run and to the guard.

    `sensitive`: how many of the users have a sensitivity, over whom alone svr and svr_upper are means.
    """
    lines = _blocks({one["name"]: one["metrics"] for one in runs}, k)
    for part in (name for name in runs[0]["slices"] if name.startswith("slice=")):
        lines += ["", part, *_block({one["name"]: one["slices"][part]["metrics"] for one in runs}, k, FEW)]
    paired = [one for one in runs if one["against"] and one["name"] not in BASELINES]
    if paired:
        found = {one["name"]: one["difference"] for one in paired}
        lines += ["", f"difference to {paired[0]['against']}, user by user", *_blocks(found, k)]
    for part in runs[0].get("to_guard", ()):
        found = {one["name"]: one["to_guard"][part] for one in runs if "to_guard" in one}
        lines += ["", f"difference to the guard, user by user ({part})", *_block(found, k, FEW)]
    for one in runs:
        if compat := one.get("compat", {}).get("safecrs"):
            figures = "  ".join(f"{name} {_mean(cell)}" for name, cell in compat.items())
            lines.append(f"{one['name']}, as the paper of SafeCRS counts: {figures}")
    if ours := runs[0]["slices"].get("condition=injected"):
        lines.append(f"{ours['n']} of {runs[0]['n_sensitive']} with a sensitivity tell of it by an injected sentence")
    if not runs[0]["metrics"][f"svr@{k}"]["n"]:
        lines.append("no request here tells of a sensitivity: safety is not measured (see `release --inject`)")
    return "\n".join(lines)


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
    wide |= {head: len(head) + 2 for head in heads if head in COUNTS}
    lines = [f"at k = {k}".ljust(first) + "".join(head.rjust(wide[head]) for head in heads)]
    for name, metrics in found.items():
        cells = {head: metrics[_named(head, k)] for head in heads}
        means = (str(cell["n"]) if head in COUNTS else _mean(cell) for head, cell in cells.items())
        ranges = ("" if head in COUNTS else _range(cell) for head, cell in cells.items())
        for label, words in ((name, means), ("  95 %", ranges)):
            line = label.ljust(first) + "".join(word.rjust(wide[head]) for head, word in zip(heads, words, strict=True))
            lines.append(line.rstrip())
    return lines


def _named(head: str, k: int) -> str:
    """The metric of a column."""
    name = COUNTS.get(head, head)
    return name if name == "length" else f"{name}@{k}"


def _mean(cell: Interval) -> str:
    return "-" if cell["mean"] is None else f"{cell['mean']:.3f}"


def _range(cell: Interval) -> str:
    return "" if cell["mean"] is None else f"{cell['low']:.3f}..{cell['high']:.3f}"
