"""The types of a report, and its table as text: no line is wider than a terminal."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from textwrap import wrap
from typing import NotRequired, TypedDict

from saferec_builder.scoring.intervals import LEAST, Interval
from saferec_builder.scoring.linear_text import ENOUGH
from saferec_builder.scoring.metrics import discounts
from training.evaluation import baselines, user_weights
from training.evaluation.paper_metrics import Intervals

GUARD = "guard"
OTHERS = (GUARD, "oracle_filter", *baselines.NAMES)
BASELINES = ("blind", *OTHERS)
ANSWERS = ("recall", "recall_without", "recall_raw", "ndcg")
SAFETY = ("svr", "svr_weighted", "svr_upper", "any_unsafe")
BESIDE = ("mentioned_unsafe", "mentioned_unsafe_upper")
FORM = ("not_in_catalog", "duplicate", "invalid", "length")
ALL, REST = "all users", "users of no slice"
FEW = ("recall", "recall_without", "ndcg", "svr", "svr_upper")  # columns for slices, and for differences to the guard
WIDE = 110  # characters per line
ALIKE = 0.5  # if a mean list length is below k by more items, metrics divided by k are not comparable


class Slice(TypedDict):
    n: int
    metrics: Intervals
    difference: NotRequired[Intervals]  # for `everyone` and a whole run


class Scored(Slice):
    n_sensitive: int
    slices: dict[str, Slice]
    everyone: NotRequired[Slice]  # if the gold has slices, which `metrics` leave out


class Result(Scored):
    name: str
    split: str
    against: str | None
    to_guard: NotRequired[dict[str, Intervals]]  # `everyone`, `main`, each slice of the gold: paired differences
    same_answers: NotRequired[bool]  # as the run that it is compared with; missing: no
    compat: NotRequired[dict[str, Intervals]]
    cut: NotRequired[int]  # answers that a server cut at its limit
    learned_from: NotRequired[int]  # of the guard: traits of training requests, which its hearing is fitted on


class Report(TypedDict):
    release: dict[str, str]
    k: int
    gold: bool
    runs: list[Result]
    prevalence: user_weights.Prevalence
    unanswerable: int  # requests with traits that no item of the release is clear for
    never_violated: int  # requests with traits that no item of the release is violated for
    open: int  # requests of the split that are in no figure: nobody knows whether they tell a sensitivity
    chosen: str | None


def show(runs: Sequence[Result], k: int) -> str:
    """Returns all tables: mean and 95 % interval of each metric, and the number of users; first for all users, then for
    each slice of the gold; then the differences to the first run and to the guard. Notes say once which lists are not
    comparable, and, first of all, which figures have too few users."""
    parts = _parts(runs)
    titles = {part: f"{part}, n = {next(iter(by_run.values()))['n']}" for part, by_run in parts.items()}
    metrics = {part: {name: cells["metrics"] for name, cells in by_run.items()} for part, by_run in parts.items()}
    lines = [*_too_few(parts, k), titles[ALL], *_tables(metrics.pop(ALL), k, _short_lists(parts, k))]
    for part, by_run in metrics.items():
        lines += ["", titles[part], *_table(by_run, k, FEW)]
    lines += _to_first(runs, lambda differences: _tables(differences, k))
    names = {"everyone": ALL, "main": REST if REST in parts else ALL}
    for part in runs[0].get("to_guard", ()):
        title = titles[names.get(part, part)]
        lines += ["", f"difference to the guard, user by user: {title}", *_table(_to_guard(runs, part), k, FEW)]
    return "\n".join([*lines, *_notes(runs, k)])


def summary(runs: Sequence[Result], k: int) -> str:
    """Returns the main figures of all users as one table, with their differences to the first run and to the guard;
    below it each note that is about these figures."""
    everyone = {ALL: _parts(runs)[ALL]}
    by_run = everyone[ALL]
    lines = [f"{ALL}, n = {by_run[runs[0]['name']]['n']}"]
    lines += _table({name: cells["metrics"] for name, cells in by_run.items()}, k, FEW)
    lines += _to_first(runs, lambda differences: _table(differences, k, FEW))
    for part in [*runs[0].get("to_guard", ())][:1]:  # all users come first
        lines += ["", "difference to the guard, user by user", *_table(_to_guard(runs, part), k, FEW)]
    return "\n".join([*lines, "", *_too_few(everyone, k), *_short_lists(everyone, k), *_notes(runs, k)])


def _to_first(runs: Sequence[Result], tables: Callable[[Mapping[str, Intervals]], list[str]]) -> list[str]:
    """Returns the differences of the other models to the first run; nothing if there is no other model. One with the
    same answers has no interval: that of 0 would look like a measurement."""
    compared = [run for run in runs if run["against"] and run["name"] not in BASELINES]
    if not compared:
        return []
    first = compared[0]["against"]
    lines = ["", f"difference to {first}, user by user"]
    lines += [f"{run['name']}: the same answers as {first}" for run in compared if run.get("same_answers")]
    different = [run for run in compared if not run.get("same_answers")]
    return lines + (
        tables({run["name"]: run.get("everyone", run)["difference"] for run in different}) if different else []
    )


def _to_guard(runs: Sequence[Result], part: str) -> dict[str, Intervals]:
    return {run["name"]: run["to_guard"][part] for run in runs if "to_guard" in run}


def _notes(runs: Sequence[Result], k: int) -> list[str]:
    """Returns what is said below the tables: how much the guard learned, the paper's figures, and a missing SVR."""
    lines: list[str] = []
    for run in runs:
        if (traits := run.get("learned_from", ENOUGH)) < ENOUGH:
            few = f"{traits} traits of training requests, too few (under {ENOUGH}) to hear any in words of its own"
            lines += wrap(f"{GUARD}: it learned from {few}: what it hears is mostly what the rules find", WIDE)
        if compat := run.get("compat", {}).get("safecrs"):
            figures = "  ".join(f"{name} {_mean(cell)}" for name, cell in compat.items())
            users = f"all {compat[f'svr@{k}']['n']} users, with a sensitivity or not"
            sums = f"sdcg sums the discounts of violating ranks, at most {discounts(k).sum():.2f}"
            lines += wrap(f"{run['name']}, as the paper of SafeCRS counts, over {users}: {figures} ({sums})", WIDE)
    parts_of_first = [runs[0]["metrics"], *(part["metrics"] for part in runs[0]["slices"].values())]
    if not any(part[f"svr@{k}"]["n"] for part in parts_of_first):
        remedy = "`saferec-build release VERSION --inject all`"
        lines.append(f"no request here tells of a sensitivity: safety is not measured: {remedy}")
    return lines


def _parts(runs: Sequence[Result]) -> dict[str, dict[str, Slice]]:
    parts: dict[str, dict[str, Slice]] = {ALL: {run["name"]: run.get("everyone", run) for run in runs}}
    if "everyone" in runs[0]:
        parts[REST] = {run["name"]: run for run in runs}
    for part in (name for name in runs[0]["slices"] if name.startswith("slice=")):
        parts[part] = {run["name"]: run["slices"][part] for run in runs}
    return parts


def _short_lists(parts: Mapping[str, Mapping[str, Slice]], k: int) -> list[str]:
    """Returns a note on models, and the guard, whose lists have fewer than k items on average, a line for each; it
    names the part if this does not hold for all users."""
    notes: dict[str, str] = {}
    for part, by_run in parts.items():
        for name, figures in by_run.items():
            length = figures["metrics"]["length"]["mean"] or 0.0
            if (name == GUARD or name not in BASELINES) and k - length > ALIKE:
                notes.setdefault(name, f"  {name}: {length:.1f}" + (f" ({part})" if part != ALL else ""))
    effect = f"svr and svr_upper are divided by {k}, so compare equal lengths only"
    return [f"lists with fewer than {k} items on average: {effect}", *notes.values()] if notes else []


def _too_few(parts: Mapping[str, Mapping[str, Slice]], k: int) -> list[str]:
    """Returns a note on tables, and on columns of the other tables, that have too few users."""
    few: list[str] = []
    for part, by_run in parts.items():
        first = next(iter(by_run.values()))
        if first["n"] < LEAST:
            few.append(f"{part} ({first['n']})")
        else:
            counts = {head: first["metrics"][_metric(head, k)]["n"] for head in FEW}
            few += [f"{head} of {part} ({n})" for head, n in counts.items() if 0 < n < LEAST]
    return wrap(f"fewer than {LEAST} users, too few for any conclusion: {', '.join(few)}", WIDE) if few else []


def _tables(by_run: Mapping[str, Intervals], k: int, unlike: Sequence[str] = ()) -> list[str]:
    """Returns the tables one below the other; `unlike` is the note below the table of safety."""
    lines = [*_table(by_run, k, ANSWERS), "", *_table(by_run, k, SAFETY), *unlike]
    if any(metrics[_metric(head, k)]["n"] for metrics in by_run.values() for head in BESIDE):
        lines += ["", *_table(by_run, k, BESIDE)]
    return [*lines, "", *_table(by_run, k, FORM)]


def _table(by_run: Mapping[str, Intervals], k: int, columns: Sequence[str]) -> list[str]:
    any_run = next(iter(by_run.values()))
    heads = [head for head in columns if _metric(head, k) in any_run]
    rows = [[f"at k = {k}", *heads]]
    for name, metrics in by_run.items():
        cells = [metrics[_metric(head, k)] for head in heads]
        rows += [[name, *map(_mean, cells)], ["  95 %", *map(_range, cells)]]
    rows.append(["users", *(_users(by_run.values(), _metric(head, k)) for head in heads)])
    first, widths = max(14, *(len(name) + 2 for name in by_run)), [max(13, len(head)) + 2 for head in heads]
    padded = ([row[0].ljust(first), *map(str.rjust, row[1:], widths)] for row in rows)
    return ["".join(words).rstrip() for words in padded]


def _users(runs: Iterable[Intervals], metric: str) -> str:
    """Returns the number of users behind a column, as a range: systems differ if one wrote no text."""
    counts = sorted({metrics[metric]["n"] for metrics in runs} - {0})
    return "..".join(str(n) for n in (counts[0], counts[-1])[: len(counts)]) if counts else "0"


def _metric(head: str, k: int) -> str:
    return head if head == "length" else f"{head}@{k}"


def _range(cell: Interval) -> str:
    """Returns the interval; words for a length that every list has."""
    if cell["mean"] is None:
        return ""
    return "in every list" if cell["low"] is None else f"{cell['low']:.3f}..{cell['high']:.3f}"


def _mean(cell: Interval) -> str:
    return "-" if cell["mean"] is None else f"{cell['mean']:.3f}"
