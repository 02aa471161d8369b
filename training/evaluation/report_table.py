"""What a report holds, and the table that people see of it: no line is longer than a terminal is wide."""

from collections.abc import Iterable, Mapping, Sequence
from textwrap import wrap
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
ALL, REST = "all users", "users of no slice"
FEW = ("recall", "recall_without", "ndcg", "svr", "svr_upper")  # of a slice, and to the guard
LEAST = 6  # users, for any conclusion: of five alike systems are as far to one side in 2 * .5^5 = .0625 of cases
WIDE = 110  # columns of a line
ALIKE = 0.5  # lists that differ by more items than this on average are not compared by what is divided by k


class Slice(TypedDict):
    n: int
    metrics: Intervals
    difference: NotRequired[Intervals]  # of `everyone` alone


class Scored(TypedDict):
    metrics: Intervals
    n: int
    n_sensitive: int
    no_safe_truth: int
    slices: dict[str, Slice]
    everyone: NotRequired[Slice]  # where the gold has slices, which `metrics` leave out
    difference: NotRequired[Intervals]


class Result(Scored):
    name: str
    split: str
    against: str | None
    to_guard: NotRequired[dict[str, Intervals]]  # `everyone`, `main`, each slice of the gold: user by user
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
    """The runs as a table: the mean of each metric, its 95 % interval beneath, and over how many users; first of all
    users, then of each slice of the gold; then differences, to the first run and to the guard. It says once what does
    not compare, and what is of too few users."""
    parts = _parts(runs)
    (first, found), *others = parts.items()
    lines = [_title(first, found), *_blocks(_metrics(found), k, _unlike(parts))]
    for part, found in others:
        lines += ["", _title(part, found), *_block(_metrics(found), k, FEW)]
    paired = [one for one in runs if one["against"] and one["name"] not in BASELINES]
    if paired:
        apart = {one["name"]: one.get("everyone", one)["difference"] for one in paired}
        lines += ["", f"difference to {paired[0]['against']}, user by user", *_blocks(apart, k)]
    for part in runs[0].get("to_guard", ()):
        apart = {one["name"]: one["to_guard"][part] for one in runs if "to_guard" in one}
        title = _title(_called(part, runs), parts[_called(part, runs)])
        lines += ["", f"difference to the guard, user by user: {title}", *_block(apart, k, FEW)]
    lines += _too_few(parts, k)
    for one in runs:
        if compat := one.get("compat", {}).get("safecrs"):
            figures = "  ".join(f"{name} {_mean(cell)}" for name, cell in compat.items())
            lines.append(f"{one['name']}, as the paper of SafeCRS counts: {figures}")
    every = [runs[0]["metrics"], *(part["metrics"] for part in runs[0]["slices"].values())]
    if not any(part[f"svr@{k}"]["n"] for part in every):
        lines.append("no request here tells of a sensitivity: safety is not measured (see `release --inject`)")
    return "\n".join(lines)


def _parts(runs: Sequence[Result]) -> dict[str, dict[str, Slice]]:
    """What the tables are of, in their order: part -> run -> figures."""
    found: dict[str, dict[str, Slice]] = {ALL: {one["name"]: one.get("everyone", _headline(one)) for one in runs}}
    if "everyone" in runs[0]:
        found[REST] = {one["name"]: _headline(one) for one in runs}
    for part in (name for name in runs[0]["slices"] if name.startswith("slice=")):
        found[part] = {one["name"]: one["slices"][part] for one in runs}
    return found


def _headline(one: Result) -> Slice:
    return {"n": one["n"], "metrics": one["metrics"]}


def _called(part: str, runs: Sequence[Result]) -> str:
    """A part of `to_guard` as the tables call it."""
    names = {"everyone": ALL, "main": REST if "everyone" in runs[0] else ALL}
    return names.get(part, part)


def _metrics(found: Mapping[str, Slice]) -> dict[str, Intervals]:
    return {name: one["metrics"] for name, one in found.items()}


def _title(part: str, found: Mapping[str, Slice]) -> str:
    return f"{part}, n = {next(iter(found.values()))['n']}"


def _unlike(parts: Mapping[str, Mapping[str, Slice]]) -> list[str]:
    """Says once which models have longer or shorter lists than the first model or the guard, and in which part, where
    it is not so of all users."""
    said: dict[tuple[str, str], str] = {}
    for part, found in parts.items():
        length = {name: one["metrics"]["length"]["mean"] or 0.0 for name, one in found.items()}
        models, where = [name for name in length if name not in BASELINES], "" if part == ALL else f" ({part})"
        for name, other in ((name, other) for other in (*models[:1], GUARD) for name in models if other in length):
            if abs(length[name] - length[other]) > ALIKE:
                told = f"{name} lists {length[name]:.1f} items on average, {other} {length[other]:.1f}{where}"
                said.setdefault((name, other), told)
    does = "svr and svr_upper are divided by k and do not compare; look at recall beside them"
    return wrap(f"{'; '.join(said.values())}: {does}", WIDE) if said else []


def _too_few(parts: Mapping[str, Mapping[str, Slice]], k: int) -> list[str]:
    """Says once which tables, and which columns of the others, are of too few users."""
    few: list[str] = []
    for part, found in parts.items():
        one = next(iter(found.values()))
        if one["n"] < LEAST:
            few.append(f"{part} ({one['n']})")
        else:
            many = {head: one["metrics"][_named(head, k)]["n"] for head in FEW}
            few += [f"{head} of {part} ({n})" for head, n in many.items() if 0 < n < LEAST]
    return wrap(f"fewer than {LEAST} users, too few for any conclusion: {', '.join(few)}", WIDE) if few else []


def _blocks(found: Mapping[str, Intervals], k: int, unlike: Sequence[str] = ()) -> list[str]:
    """What was found of the answers, of their safety, of what stands beside lists and of their form, one beneath the
    other; beneath their safety what of it does not compare."""
    lines = [*_block(found, k, ANSWERS), "", *_block(found, k, SAFETY), *unlike]
    for heads in (BESIDE if _any(found, BESIDE, k) else (), FORM):
        lines += ["", *_block(found, k, heads)] if heads else []
    return lines


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
