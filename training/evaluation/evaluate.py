"""Scores answers on a split: metrics with 95 % intervals, slices, paired differences, report.json and a table.

reads  a release (its grpo rows), answers per conversation, perhaps a gold file
gives  a run {"metrics", "n", "n_sensitive", "slices", "against", "to_guard"} per set of answers; report.json holds
       a list of them, users.jsonl the values of each request, and whose it is
Needs no torch: models answer elsewhere (safecrs.py) or before (a predictions file).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from saferec_builder.core.errors import TrainingError, plain
from saferec_builder.core.oracle import Oracle
from saferec_builder.core.progress import counted
from saferec_builder.scoring.metrics import Bools, Floats, Judged, Ranked
from training.data import Gold, Release, Row, labels_of, open_release, read_gold, rows, truth_of, with_gold
from training.evaluation import baselines, guard, population
from training.evaluation.paper_metrics import Intervals, Named, score as published
from training.evaluation.predictions import Predictions, read
from training.evaluation.report_table import BASELINES, GUARD, OTHERS, Report, Result, Scored, show
from training.harness import scoring
from training.run_folders import bar, identity, write, write_lines

Answers = Mapping[str, str | Ranked]  # conversation -> what the model wrote, or ranked item ids (None: unknown title)
Systems = dict[str, Answers]  # of models and baselines, by name
SLICES = ("slice", "condition", "domain", "traits", "form")


def score(
    answers: Answers,
    table: Sequence[Row],
    oracle: Oracle,
    k: int,
    gold: Gold | None = None,
    *,
    release: Release | None = None,
    against: Answers | None = None,
) -> Scored:
    """How good and how safe the answers are; one answer per row of the table, in any order.

    With gold its traits replace the labels', users of a gold slice stand apart from the headline figures, and
    svr_true@k says what share truly violates, where the gold knows the items: svr <= svr_true <= svr_upper unless a
    source was wrong. Rows with weights have svr_weighted@k and svr_upper_weighted@k too: of all conversations, not of
    those that were read (population.py). Text answers need the release.
    metrics      {name: {mean, low, high, n}}, see metrics.per_user and intervals; n = users that the metric applies to:
                 rows of one conversation are one user, with the mean of their values (population.py)
    n, n_sensitive, no_safe_truth   users; with a trait; without any safe ground truth (left out of recall and ndcg)
    slices       {"condition=own_words": {"n", "metrics"}, "traits=gore": ...}
    everyone     where the gold has slices: {"n", "metrics"} of all users, and their "difference"
    difference   with `against`: like metrics, of these answers minus those, user by user, with the `detectable` one
    """
    table, true = with_gold(table, oracle, gold), truth_of(oracle, gold)
    values, judged = _values(ranked(answers, table, release), table, oracle, k, true)
    main, who = np.array([row.get("slice") is None for row in table], bool), population.people(table)

    def users(mask: Bools) -> int:
        return len(np.unique(who[mask]))

    scored: Scored = {
        "metrics": population.figures(values, table, main),
        "n": users(main),
        "n_sensitive": users(main & judged.sensitive),
        "no_safe_truth": users(main) - users(main & (judged.n_safe > 0)),
        "slices": {
            name: {"n": users(mask), "metrics": population.figures(values, table, mask)}
            for name, mask in _slices(table).items()
        },
    }
    if not main.all():
        scored["everyone"] = {"n": len(np.unique(who)), "metrics": population.figures(values, table)}
    if against is not None:
        other, _ = _values(ranked(against, table, release), table, oracle, k, true)
        apart = {m: v - other[m] for m, v in values.items()}
        scored["difference"] = population.figures(apart, table, main, paired=True)
        if "everyone" in scored:
            scored["everyone"]["difference"] = population.figures(apart, table, paired=True)
    return scored


def _values(
    lists: Sequence[Ranked], table: Sequence[Row], oracle: Oracle, k: int, true: Oracle | None
) -> tuple[dict[str, Floats], Judged]:
    values, judged = scoring.values(lists, table, oracle, k)
    if true is not None:
        values[f"svr_true@{k}"] = scoring.values(lists, table, true, k)[0][f"svr@{k}"]
    return values | population.weighted(values, population.weights(table), k), judged


def ranked(answers: Answers, table: Sequence[Row], release: Release | None = None) -> list[Ranked]:
    """The answers in the order of the rows, text read into items; every row must have one."""
    _check_complete(answers, table)
    return [scoring.ranked(answers[row["conversation"]], row, release) for row in table]


def _check_complete(answers: Answers, table: Sequence[Row]) -> None:
    missing = [row["conversation"] for row in table if row["conversation"] not in answers]
    if missing:
        raise TrainingError(
            f"{len(missing)} of {len(table)} conversations have no answer, the first is {missing[0]}: "
            "expected one for each; give an empty text where the model said nothing"
        )


def _slices(table: Sequence[Row]) -> dict[str, Bools]:
    """A mask per value of the columns in SLICES; a user with two traits is in both."""
    members: dict[str, list[int]] = {}
    for n, row in enumerate(table):
        for column in SLICES:
            value = row.get(column)
            for one in dict.fromkeys(value if isinstance(value, list) else [value]):
                if one is not None:
                    members.setdefault(f"{column}={one}", []).append(n)
    return {name: np.isin(np.arange(len(table)), members[name]) for name in sorted(members)}


def evaluate(
    release: Release | Path | str,
    predictions: Path | str | Sequence[Path | str],
    output: Path | str | None = None,
    *,
    gold: Path | str | None = None,
    compat: bool = False,
    only: Collection[str] | None = None,
) -> Report:
    """Scores predictions files beside the baselines, prints the table, writes output/report.json if asked to.

    A run is called after its file; the others are compared with the first, user by user. compat: the figures as the
    paper of SafeCRS defines them too. only: the requests (conversation ids) to look at; default: all of the split.
    """
    release = release if isinstance(release, Release) else open_release(release)
    table = [row for row in rows(release.folder, "grpo", "test") if only is None or row["conversation"] in only]
    asked = "test" if only is None else "the requests of test that were asked for"
    if not table:
        raise TrainingError(f"{release.folder}: there is nothing to judge in {asked}")
    truth = read_gold(gold, release) if gold else None
    predictions = [predictions] if isinstance(predictions, Path | str) else predictions
    if not predictions:
        raise TrainingError("predictions: no file: expected one at least")
    names = [Path(path).stem for path in predictions]
    if twice := [name for name in names if names.count(name) > 1]:
        raise TrainingError(f"predictions: two files are called {twice[0]}: a run is called after its file")
    if taken := [name for name in names if name in BASELINES]:
        raise TrainingError(f"predictions: {taken[0]} is the name of a baseline: a run is called after its file")
    files = {n: read(path, table, release) for n, path in zip(names, predictions, strict=True)}
    silent = _unasked(table, files.values())
    table = [row for row in table if row["conversation"] not in silent] or table
    lost = {name for found in files.values() for name in found.lost}
    table = [row for row in table if row["conversation"] not in lost]
    if not table:
        raise TrainingError(
            "every answer was cut before its first title: give more room (with --server: --set max_tokens=8192)"
        )
    judged = with_gold(table, release.oracle, truth)
    runs = compare(release, table, {name: found.answers for name, found in files.items()}, truth)
    if compat:
        add_published(runs, {name: found.written for name, found in files.items()}, table, release)
    for one in runs:
        if one["name"] in files and (cut := files[one["name"]].cut):
            one["cut"] = len(cut)
    made = report(release, runs, judged, truth is not None)
    if output:  # first: who reads what is printed may close the pipe
        write_report(output, made)
        write_users(output, {name: found.answers for name, found in files.items()}, table, release, truth)
    print(plain(told(made, judged)))
    _say_what_was_not_read(files, release, asked)
    if silent:
        print(f"left out: {len(silent)} requests without their text, which not every file answers")
    if blank := sum(not row["prompt"] for row in table):
        print(
            f"{blank} of {len(table)} requests have no text in this release, as their source keeps it: a system that"
            " was asked with it answered nothing, and its figures mean nothing: `saferec-build rebuild` first"
        )
    return made


def _say_what_was_not_read(files: Mapping[str, Predictions], release: Release, asked: str) -> None:
    for name, found in files.items():
        if found.cut:
            print(
                f"{plain(name)}: {len(found.cut)} answers were cut at the server's limit, {len(found.lost)} of them"
                " before the first title: these requests are left out for all systems (with --server, --set max_tokens"
                " gives room)"
            )
        for reason, number in sorted(found.problems.items()):
            print(f"{plain(name)}: nothing read ({reason}): {number} answers")
        titles = [item for ranked in found.answers.values() for item in ranked if item is not None]
        if titles and not any(item in release.items for item in titles):
            print(f"{plain(name)}: none of {len(titles):,} titles is in the catalog, the first is {plain(titles[0])}")
        if found.strange:
            print(f"left out: {found.strange} answers to conversations outside {asked}")


def _unasked(table: Sequence[Row], files: Iterable[Predictions]) -> set[str]:
    """Requests whose text stays with its source, and that nobody who has only the release could answer."""
    answered = set.intersection(*(set(found.answers) for found in files))
    return {row["conversation"] for row in table if not row["prompt"]} - answered


def compare(
    release: Release,
    table: Sequence[Row],
    named: Mapping[str, Answers],
    gold: Gold | None = None,
    others: Systems | None = None,
) -> list[Result]:
    """A run for each set of answers and for the baselines; all but the first also stand `against` the first.

    Each of `named` also stands against the guard. others: `without_models`, where that is known, and perhaps what the
    first would answer behind a filter that knows the labels, where that is known better than from its answers.
    """
    oracle, k = release.oracle, release.k
    first, reference = next(iter(named.items()))
    for answers in named.values():
        _check_complete(answers, table)  # before the guard is fitted
    if not others:
        others = without_models(release, table)
    filtered = baselines.oracle_filter(ranked(reference, table, release), table, oracle, k)
    every = {**named, **{name: ({"oracle_filter": filtered} | others)[name] for name in OTHERS}}
    guarded = every[GUARD]
    made, judged = [], with_gold(table, oracle, gold)
    for name, answers in counted([*every.items()], bar("scores", "system")):
        against = reference if name != first else None
        scored = score(answers, table, oracle, k, gold, release=release, against=against)
        made.append(run(name, scored, first if against is not None else None))
        if name in named:
            made[-1]["to_guard"] = _to_guard(answers, guarded, judged, release)
    return made


def without_models(release: Release, table: Sequence[Row]) -> Systems:
    """What the guard and the baselines answer, fitted on the train and validation splits alone."""
    train, every = (rows(release.folder, "grpo", name) for name in ("train", "test"))
    labels = labels_of(release.folder, "test")
    keeper = guard.fit(release, bar)
    found: Systems = {GUARD: keeper.answers(table, bar("guard, answers", "request"))}
    return found | baselines.answers(keeper.ranker, release, train, table, labels, split=every, named=bar)


def _to_guard(answers: Answers, guarded: Answers, table: Sequence[Row], release: Release) -> dict[str, Intervals]:
    """Differences of the headline's users (`main`), and where the gold has slices, which the headline leaves out, of
    each of them and of `everyone`."""
    both = (ranked(given, table, release) for given in (answers, guarded))
    ours, theirs = (_values(lists, table, release.oracle, release.k, None)[0] for lists in both)
    masks = {"main": np.array([row.get("slice") is None for row in table], bool)}
    masks |= {name: mask for name, mask in _slices(table).items() if name.startswith("slice=")}
    if not masks["main"].all():
        masks = {"everyone": np.ones(len(table), bool), **masks}
    apart = {m: v - theirs[m] for m, v in ours.items()}
    return {part: population.figures(apart, table, mask, paired=True) for part, mask in masks.items()}


def add_published(
    runs: Sequence[Result],
    written: Mapping[str, Mapping[str, str | Sequence[Named]]],
    table: Sequence[Row],
    release: Release,
) -> None:
    """Puts the paper's figures of the answers as they were written under `compat` of their runs."""
    for one in runs:
        if one["name"] in written:
            one["compat"] = {"safecrs": published(written[one["name"]], table, release)}


# --- report ---------------------------------------------------------------------------------------------------------


def run(name: str, scored: Scored, against: str | None = None) -> Result:
    """against: the run that `difference` is the difference to."""
    return {"name": name, "split": "test", "against": against, **scored}  # type: ignore[typeddict-item]


def report(
    release: Release,
    runs: Sequence[Result],
    table: Sequence[Row],
    gold: bool,
    chosen: str | None = None,
    seconds: Mapping[str, float] | None = None,
) -> Report:
    """What report.json holds. table: the rows as they were judged, by the gold where there is one. chosen: the run that
    validation preferred, None where nothing was chosen between."""
    hidden = withheld if isinstance(withheld := release.manifest.get("withheld"), list) else []  # of nobody it is told
    return {
        "release": identity(release),
        "k": release.k,
        "gold": gold,
        "runs": list(runs),
        "prevalence": population.prevalence(table, [t for t in release.oracle.traits if t not in hidden]),
        "chosen": chosen,
        "seconds": dict(seconds or {}),
    }


def told(made: Report, table: Sequence[Row]) -> str:
    """What people see of a report: its table, and who its rows are. table: as in `report`."""
    return show(made["runs"], made["k"]) + "\n" + population.words(table, made["prevalence"])


def write_report(folder: Path | str, made: Report) -> None:
    """Writes folder/report.json, whole or not at all."""
    path = Path(folder) / "report.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, made, nan=False)


def write_users(
    folder: Path | str, named: Systems, table: Sequence[Row], release: Release, gold: Gold | None = None
) -> None:
    """Writes folder/users.jsonl: what the report's means are of, {"run", "id", "user", "items", metric: value} for each
    set of answers and request; unrounded, null where a metric does not apply. items: what was read of the answer, ids
    of the release, `title:...` or null for what is none of its items for sure."""
    oracle, true = release.oracle, truth_of(release.oracle, gold)
    table = with_gold(table, oracle, gold)
    lines: list[dict[str, object]] = []
    for name, answers in named.items():
        lists = ranked(answers, table, release)
        values, _ = _values(lists, table, oracle, release.k, true)
        found = zip(table, lists, scoring.by_user(values), strict=True)
        for row, listed, one in found:
            who = {"id": row["conversation"], "user": population.user(row)}
            lines.append({"run": name, **who, "items": [*listed], **one})
    write_lines(Path(folder) / "users.jsonl", lines)
