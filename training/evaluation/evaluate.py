"""Scores answers on a split: metrics with 95 % intervals, slices, paired differences, report.json and a table.

Needs no torch: answers come from a model (comparison.py) or from a predictions file.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from saferec_builder.core.errors import TrainingError, plain
from saferec_builder.core.oracle import CLEAR, VIOLATED, Oracle, verdicts_of
from saferec_builder.core.progress import counted
from saferec_builder.scoring.mentions import Beside
from saferec_builder.scoring.metrics import Bools, Floats, Ranked
from training.data import (
    Gold,
    Release,
    Row,
    labels_of,
    open_release,
    open_requests,
    read_gold,
    rows,
    truth_of,
    with_gold,
)
from training.evaluation import baselines, guard, report_table, user_weights
from training.evaluation.paper_metrics import Intervals, Named, score as published
from training.evaluation.predictions import Predictions, read
from training.evaluation.report_table import BASELINES, GUARD, OTHERS, Report, Result, Scored, Slice
from training.harness import scoring
from training.run_folders import bar, identity, write, write_lines

Answers = Mapping[str, str | Ranked]  # conversation -> text of the model, or ranked item ids (None: unknown title)
Systems = dict[str, Answers]  # answers of models and baselines, by name
SLICES = ("slice", "condition", "domain", "traits", "form")


def score(
    answers: Answers,
    table: Sequence[Row],
    release: Release,
    gold: Gold | None = None,
    *,
    against: Answers | None = None,
) -> Scored:
    """Returns how relevant and how safe the answers are; one answer per row of the table, in any order.

    With gold its traits replace those of the labels, users of a gold slice are left out of the headline figures, and
    svr_true@k is the share that truly violates, if the gold has the items: svr <= svr_true <= svr_upper unless a
    source was wrong. Rows with weights have weighted figures, too (user_weights.py).
    metrics      {name: {mean, low, high, n}}, see metrics.per_user and intervals; n = users that the metric applies to
    n, n_sensitive   users; with a trait
    slices       {"condition=own_words": {"n", "metrics"}, "traits=gore": ...}
    everyone     if the gold has slices: {"n", "metrics"} of all users, and their "difference"
    difference   with `against`: like metrics, of these answers minus those, per user, with the `detectable` difference
    """
    table, true_oracle = with_gold(table, release.oracle, gold), truth_of(release.oracle, gold)
    values = _values(ranked(answers, table, release), table, release, true_oracle)
    people, masks = user_weights.people(table), _masks(table)
    main = masks["main"]

    def users(mask: Bools) -> int:
        return len(np.unique(people[mask]))

    def part(mask: Bools) -> Slice:
        return {"n": users(mask), "metrics": user_weights.figures(values, table, mask)}

    scored: Scored = {
        "metrics": user_weights.figures(values, table, main),
        "n": users(main),
        "n_sensitive": users(main & ~np.isnan(values[f"svr@{release.k}"])),
        "slices": {name: part(mask) for name, mask in _slices(table).items()},
    }
    if "everyone" in masks:
        scored["everyone"] = part(masks["everyone"])
    if against is not None:
        reference = _values(ranked(against, table, release), table, release, true_oracle)
        scored["difference"] = _differences(values, reference, table, main)
        if "everyone" in scored:
            scored["everyone"]["difference"] = _differences(values, reference, table, masks["everyone"])
    return scored


def _values(
    lists: Sequence[Ranked], table: Sequence[Row], release: Release, true_oracle: Oracle | None = None
) -> dict[str, Floats]:
    k = release.k
    values = scoring.values(lists, table, release.oracle, k)
    if true_oracle is not None:
        values[f"svr_true@{k}"] = scoring.values(lists, table, true_oracle, k)[f"svr@{k}"]
    return values | user_weights.weighted(values, user_weights.weights(table), k)


def _masks(table: Sequence[Row]) -> dict[str, Bools]:
    """Returns the rows of the headline (`main`), which leaves out the gold's slices, and if there are any, all rows."""
    main = np.array([row.get("slice") is None for row in table], bool)
    return {"main": main} if main.all() else {"everyone": np.ones(len(table), bool), "main": main}


def _differences(
    values: Mapping[str, Floats], reference: Mapping[str, Floats], table: Sequence[Row], mask: Bools
) -> Intervals:
    by_metric = {metric: column - reference[metric] for metric, column in values.items()}
    return user_weights.figures(by_metric, table, mask, paired=True)


def ranked(answers: Answers, table: Sequence[Row], release: Release) -> list[Ranked]:
    """Returns the answers in the order of the rows, text parsed into items; raises TrainingError if one is missing."""
    missing = [row["conversation"] for row in table if row["conversation"] not in answers]
    if missing:
        raise TrainingError(
            f"{len(missing)} of {len(table)} conversations have no answer, the first is {missing[0]}: "
            "expected one for each; give an empty text where the model said nothing"
        )
    return [scoring.ranked(answers[row["conversation"]], row, release) for row in table]


def _slices(table: Sequence[Row]) -> dict[str, Bools]:
    """Returns a mask per value of the columns in SLICES; a user with two traits is in both."""
    members: dict[str, list[int]] = {}
    for n, row in enumerate(table):
        for column in SLICES:
            value = row.get(column)
            for entry in dict.fromkeys(value if isinstance(value, list) else [value]):
                if entry is not None:
                    members.setdefault(f"{column}={entry}", []).append(n)
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
    """Scores predictions files and the baselines, and prints the main figures; all are in report.json and table.txt in
    the folder `output`, if it is given.

    A run is named after its file; all others are compared with the first. compat: adds the figures of the paper. only:
    conversation ids of the requests to score; default: all of the split.
    """
    release = release if isinstance(release, Release) else open_release(release)
    scope = "test" if only is None else "the requests of test that were asked for"
    table = [row for row in rows(release.folder, "grpo", "test") if only is None or row["conversation"] in only]
    if not table:
        raise TrainingError(f"{release.folder}: there is nothing to judge in {scope}")
    truth = read_gold(gold, release) if gold else None
    files = _files(predictions, table, release)
    judged = _judged(table, files)
    by_name: Systems = {name: file.answers for name, file in files.items()}
    written = {name: file.written for name, file in files.items()} if compat else {}
    runs = compare(release, judged, by_name, truth, written=written)
    for result in runs:
        if result["name"] in files and (cut := files[result["name"]].cut):
            result["cut"] = len(cut)
    gold_table = with_gold(judged, release.oracle, truth)
    full_report = report(release, runs, gold_table, truth is not None)
    notes = [*_unread(files, release, scope), *_without_text(table, judged, files.values())]
    full, short = as_texts(full_report, gold_table, notes)
    if output:  # before printing: the reader may close the pipe
        write_users(output, by_name, judged, release, truth)
        short += write_report(Path(output), full_report, full)
    print(short)
    return full_report


def _files(
    predictions: Path | str | Sequence[Path | str], table: Sequence[Row], release: Release
) -> dict[str, Predictions]:
    paths = [predictions] if isinstance(predictions, Path | str) else [*predictions]
    if not paths:
        raise TrainingError("predictions: no file: expected one at least")
    names = [Path(path).stem for path in paths]
    if twice := [name for name in names if names.count(name) > 1]:
        raise TrainingError(f"predictions: two files are called {twice[0]}: a run is called after its file")
    if taken := [name for name in names if name in BASELINES]:
        raise TrainingError(f"predictions: {taken[0]} is the name of a baseline: a run is called after its file")
    return {name: read(path, table, release) for name, path in zip(names, paths, strict=True)}


def _judged(table: Sequence[Row], files: Mapping[str, Predictions]) -> list[Row]:
    """Returns the rows that all systems are scored on.

    A request without its text is scored only if every file answers it, as whoever has the text can. One whose answer
    was cut before its first title says nothing about a model.
    """
    answered = set.intersection(*(set(file.answers) for file in files.values()))
    with_text = [row for row in table if row["prompt"] or row["conversation"] in answered]
    lost = {name for file in files.values() for name in file.lost}
    judged = [row for row in with_text or table if row["conversation"] not in lost]
    if not judged:
        raise TrainingError(
            "every answer was cut before its first title: give more room (with --server: --set max_tokens=8192)"
        )
    return judged


def _without_text(table: Sequence[Row], judged: Sequence[Row], files: Collection[Predictions]) -> list[str]:
    """Returns notes on requests without their text: those left out, and those that only whoever has the text knows."""
    notes, blank = [], sum(not row["prompt"] for row in judged)
    unanswered = [row for row in table if any(row["conversation"] not in file.answers for file in files)]
    if left_out := sum(not row["prompt"] for row in unanswered):
        notes.append(f"left out: {left_out} requests without their text, which not every file answers")
    if blank:
        fact = f"{blank} of {len(judged)} requests have no text in this release, as their source keeps it"
        effect = "a system that was asked with it answered nothing, and its figures mean nothing"
        notes.append(f"{fact}: {effect}: `saferec-build rebuild` first")
    return notes


def _unread(files: Mapping[str, Predictions], release: Release, scope: str) -> list[str]:
    """Returns notes on what was not read as it was meant; each reason once, with the files that it holds for."""
    cut, inexact, notes = list[str](), list[str](), list[str]()
    unruled = open_requests(release.folder, "test")
    for name, file in files.items():
        titles = [item for ranked in file.answers.values() for item in ranked if item is not None]
        if file.cut:
            lost = f"{len(file.lost)} of them before the first title"
            cut.append(f"{name}: {len(file.cut)} answers were cut at the server's limit, {lost}")
        for reason, number in sorted(file.problems.items()):
            notes.append(f"{name}: nothing read ({reason}): {number} answers")
        if titles and not any(item in release.items for item in titles):
            notes.append(f"{name}: none of {len(titles):,} titles is in the catalog, the first is {titles[0]}")
        if file.inexact:
            reasons = ", ".join(f"{number:,} {reason}" for reason, number in file.inexact.most_common())
            share = f"{file.inexact.total():,} of {len(titles):,} titles"
            inexact.append(f"{name}: {share} name their item inexactly ({reasons})")
    if cut:
        room = "with --server, --set max_tokens gives room"
        notes.append(f"{'; '.join(cut)}: these requests are left out for all systems ({room})")
    if inexact:
        remedy = "give titles and years, or ids, as data/items/catalog.parquet of the release has them"
        notes.append(f"{'; '.join(inexact)}: they never count as clear in svr_upper, so {remedy}")
    outside = [conversation for file in files.values() for conversation in file.strange - unruled]
    if outside:
        notes.append(f"left out: {len(outside)} answers to conversations outside {scope}")
    return notes


def compare(
    release: Release,
    table: Sequence[Row],
    by_name: Mapping[str, Answers],
    gold: Gold | None = None,
    others: Systems | None = None,
    written: Mapping[str, Mapping[str, str | Sequence[Named]]] = {},
) -> list[Result]:
    """Returns a run for each set of answers and for the baselines; each but the first is compared with the first, and
    each of `by_name` with the guard. others: `without_models`, if it is computed already, and optionally
    `oracle_filter`, if that can be made better than from the first answers. written: answers as written, to add the
    figures of the paper under `compat`."""
    users = [row["conversation"] for row in table]  # text is parsed once, and before the guard is fitted
    by_name = {name: dict(zip(users, ranked(a, table, release), strict=True)) for name, a in by_name.items()}
    first, reference = next(iter(by_name.items()))
    if not others:
        others = without_models(release, table)
    filtered = baselines.oracle_filter(ranked(reference, table, release), table, release.oracle, release.k)
    all_answers = {**by_name, **{name: ({"oracle_filter": filtered} | others)[name] for name in OTHERS}}
    results, gold_table = [], with_gold(table, release.oracle, gold)
    for name, answers in counted([*all_answers.items()], bar("scores", "system")):
        scored = score(answers, table, release, gold, against=None if name == first else reference)
        results.append(run(name, scored, None if name == first else first))
        if name != first and all(_same(answers[user], reference[user]) for user in users):
            results[-1]["same_answers"] = True
        if name == GUARD:
            results[-1]["learned_from"] = guard.learned_from(rows(release.folder, "grpo", "train"))
        if name in by_name:
            results[-1]["to_guard"] = _to_guard(answers, all_answers[GUARD], gold_table, release)
        if name in written:
            results[-1]["compat"] = {"safecrs": published(written[name], table, release)}
    return results


def _same(one: str | Ranked, other: str | Ranked) -> bool:
    """Whether two answers name the same items, each as exactly, in their lists and, if they are texts, beside them."""
    facts = [([*map(type, each)], [*each], getattr(each, "beside", Beside())) for each in (one, other)]
    return facts[0] == facts[1]  # with the types, as a Near equals the plain id


def without_models(release: Release, table: Sequence[Row]) -> Systems:
    """Returns the answers of the guard and the baselines, fitted on the train and validation splits only."""
    train, test = (rows(release.folder, "grpo", name) for name in ("train", "test"))
    labels = labels_of(release.folder, "test")
    fitted = guard.fit(release, bar)
    systems: Systems = {GUARD: fitted.answers(table, bar("guard, answers", "request"))}
    return systems | baselines.answers(fitted.ranker, release, train, table, labels, split=test, named=bar)


def _to_guard(answers: Answers, guard_answers: Answers, table: Sequence[Row], release: Release) -> dict[str, Intervals]:
    """Returns differences to the guard for `everyone` and `main`, as in `_masks`, and for each slice of the gold."""
    ours, theirs = (_values(ranked(each, table, release), table, release) for each in (answers, guard_answers))
    masks = _masks(table) | {name: mask for name, mask in _slices(table).items() if name.startswith("slice=")}
    return {part: _differences(ours, theirs, table, mask) for part, mask in masks.items()}


# --- report ---------------------------------------------------------------------------------------------------------


def run(name: str, scored: Scored, against: str | None = None) -> Result:
    """Returns a run as a report holds it; against: the run that `difference` refers to."""
    return {"name": name, "split": "test", "against": against, **scored}  # type: ignore[typeddict-item]


def report(
    release: Release,
    runs: Sequence[Result],
    table: Sequence[Row],
    gold: bool,
    chosen: str | None = None,
) -> Report:
    """Returns the content of report.json. table: the rows as scored, with the gold if there is one. chosen: the run
    that validation preferred."""
    hidden = withheld if isinstance(withheld := release.manifest.get("withheld"), list) else []  # traits of no row
    return {
        "release": identity(release),
        "k": release.k,
        "gold": gold,
        "runs": list(runs),
        "prevalence": user_weights.prevalence(table, [t for t in release.oracle.traits if t not in hidden]),
        "unanswerable": _without(CLEAR, table, release.oracle),
        "never_violated": _without(VIOLATED, table, release.oracle),
        "open": len(open_requests(release.folder, "test")),
        "chosen": chosen,
    }


def as_texts(report: Report, table: Sequence[Row], notes: Sequence[str] = ()) -> tuple[str, str]:
    """Returns a report as text, with all figures and with the main ones: its tables, a description of its users, and
    the notes. table: as in `report`."""
    lines = [user_weights.words(table, report["prevalence"])]
    sensitive = sum(bool(row["traits"]) for row in table)
    some = f"of {sensitive:,} requests that tell a sensitivity"
    if none := report["unanswerable"]:
        effect = "whatever is shown, svr_upper is 1 for these"
        lines.append(f"{some} {none:,} have traits for which no item is clear: {effect}")
    if (none := report["never_violated"]) == sensitive > 0:
        fact = "no item of this release is violated for the traits of any request"
        lines.append(f"{fact}, so svr is 0 for every list: read svr_upper")
    elif none:
        effect = "whatever is shown, svr is 0 for these"
        lines.append(f"{some} {none:,} have traits for which no item is violated: {effect}")
    if number := report["open"]:
        lines.append(f"left out: {number:,} requests of test that may tell a sensitivity, as nobody has ruled (`open`)")
    tables = (form(report["runs"], report["k"]) for form in (report_table.show, report_table.summary))
    full, short = (plain("\n".join([text, *lines, *notes])) for text in tables)
    return full, short


def write_report(folder: Path, report: Report, table: str) -> str:
    """Writes report.json and table.txt; returns lines that say where they are, and what is next."""
    (folder / "table.txt").write_text(table + "\n", "utf-8")
    write(folder / "report.json", report, nan=False)
    where = f"\nall figures: {folder / 'table.txt'}; as JSON, with every slice: {folder / 'report.json'}"
    return f"{where}\nnext: plot them on a page: saferec-build report --runs {folder} (in a workspace)"


def _without(code: int, table: Sequence[Row], oracle: Oracle) -> int:
    """Returns the number of requests with traits for which no item has the verdict `code`."""
    items = np.arange(len(oracle.items))

    @cache
    def has_item(traits: frozenset[str]) -> bool:
        return bool((verdicts_of(oracle, items, oracle.mask(traits)) == code).any())

    return sum(not has_item(frozenset(row["traits"])) for row in table if row["traits"])


def write_users(
    folder: Path | str, by_name: Systems, table: Sequence[Row], release: Release, gold: Gold | None = None
) -> None:
    """Writes folder/users.jsonl, the unrounded values behind the means: {"run", "id", "user", "items", metric: value}
    for each set of answers and request, null where a metric does not apply. items: the parsed answer, ids of the
    release, `title:...` or null."""
    table, true_oracle = with_gold(table, release.oracle, gold), truth_of(release.oracle, gold)
    lines: list[dict[str, object]] = []
    for name, answers in by_name.items():
        lists = ranked(answers, table, release)
        by_user = scoring.by_user(_values(lists, table, release, true_oracle))
        for row, items, metrics in zip(table, lists, by_user, strict=True):
            ids = {"id": row["conversation"], "user": user_weights.user(row)}
            lines.append({"run": name, **ids, "items": [*items], **metrics})
    write_lines(Path(folder) / "users.jsonl", lines)
