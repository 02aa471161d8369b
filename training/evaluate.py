"""Scores answers on a split: metrics with 95 % intervals, slices, the built-in baselines, report.json and a table.

reads  a release (its grpo rows), answers per conversation, perhaps a gold file
gives  a run {"metrics", "n", "n_sensitive", "slices"} per set of answers; report.json holds a list of them
Needs no torch: models answer elsewhere (safecrs.py) or before (a predictions file).
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from saferec_builder import violations
from saferec_builder.errors import TrainingError
from saferec_builder.violations import CLEAR, Oracle
from training.answers import Find, from_items, parse
from training.data import Gold, Item, Release, Row, jsonl, open_release, read_gold, rows, truth_of, with_gold
from training.metrics import Bools, Ranked, columns, intervals, judge, per_user

Answers = Mapping[str, str | Ranked]  # conversation -> what the model wrote, or ranked item ids (None: unknown title)
Run = dict[str, Any]

DRAWS = 1000
SLICES = ("slice", "condition", "domain", "traits", "form")
SHOWN = ("recall", "recall_raw", "ndcg", "svr", "svr_upper", "unknown", "duplicate", "invalid", "seen")


def score(
    answers: Answers,
    table: Sequence[Row],
    oracle: Oracle,
    k: int,
    gold: Gold | None = None,
    *,
    find: Find | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> Run:
    """How good and how safe the answers are; one answer per row of the table, in any order.

    With gold its traits replace the labels', users of a gold slice stand apart from the headline figures, and
    svr_true@k says what share truly violates, where the gold knows the items: svr <= svr_true <= svr_upper unless a
    source was wrong. Text answers need `find` (release.find).
    metrics      {name: {mean, low, high, n}}, see metrics.per_user; n = users that the metric applies to
    n, n_sensitive, no_safe_truth   users; with a trait; without any safe ground truth (left out of recall and ndcg)
    slices       {"condition=own_words": {"n", "metrics"}, "traits=gore": ...}
    """
    if gold is not None:
        table = with_gold(table, oracle, gold)
    lists, users = ranked(answers, table, find), columns(table)
    judged = judge(lists, users, oracle, k)
    values = per_user(judged)
    if gold is not None and (true := truth_of(oracle, gold)):
        values[f"svr_true@{k}"] = per_user(judge(lists, users, true, k))[f"svr@{k}"]
    main = np.array([row.get("slice") is None for row in table], bool)
    return {
        "metrics": intervals({m: v[main] for m, v in values.items()}, draws, seed),
        "n": int(main.sum()),
        "n_sensitive": int(judged.sensitive[main].sum()),
        "no_safe_truth": int((judged.n_safe[main] == 0).sum()),
        "slices": {
            name: {"n": int(mask.sum()), "metrics": intervals({m: v[mask] for m, v in values.items()}, draws, seed)}
            for name, mask in _slices(table).items()
        },
    }


def ranked(answers: Answers, table: Sequence[Row], find: Find | None = None) -> list[Ranked]:
    """The answers in the order of the rows, text read into items; every row must have one."""
    missing = [row["conversation"] for row in table if row["conversation"] not in answers]
    if missing:
        raise TrainingError(
            f"{len(missing)} of {len(table)} conversations have no answer, the first is {missing[0]}: "
            "wanted one for each; give an empty text where the model said nothing"
        )
    return [_ranked(answers[row["conversation"]], row, find) for row in table]


def _ranked(answer: str | Ranked, row: Row, find: Find | None) -> Ranked:
    if not isinstance(answer, str):
        return answer
    if find is None:
        raise TrainingError("answers are text: wanted `find` of the release to turn titles into items")
    return parse(answer, find, row["domain"]).ranked


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


# --- baselines ------------------------------------------------------------------------------------------------------


def popularity(train: Sequence[Row], items: Mapping[str, Item], table: Sequence[Row], k: int) -> dict[str, list[str]]:
    """The k items that most training users took up, of the row's domain and not seen; ties by id."""
    taken = Counter(item for row in train for item in row["truth"])
    order = sorted(items, key=lambda item: (-taken[item], item))
    return {row["conversation"]: _first(order, items, row, k) for row in table}


def _first(order: Sequence[str], items: Mapping[str, Item], row: Row, k: int) -> list[str]:
    seen, found = set(row["seen"]), []
    for item in order:
        if item not in seen and row["domain"] in (None, items[item].domain):
            found.append(item)
            if len(found) == k:
                break
    return found


def oracle_filter(
    answers: Answers, table: Sequence[Row], oracle: Oracle, k: int, find: Find | None = None
) -> dict[str, list[str | None]]:
    """The same answers as a filter behind the model would show them, by the release's own labels and verdicts.

    Violated and unknown items are taken out; what the answer ranked below k moves up, nothing else is added, so a
    list may become shorter. A user without traits keeps the list. (Scored on gold, the filter can be wrong.)
    """
    lists = ranked(answers, table, find)
    return {row["conversation"]: _filtered(a, row, oracle)[:k] for a, row in zip(lists, table, strict=True)}


def _filtered(answer: Ranked, row: Row, oracle: Oracle) -> list[str | None]:
    codes = violations.verdicts(oracle, answer, row["traits"])
    return [item for item, code in zip(answer, codes, strict=True) if code == CLEAR]


# --- predictions made elsewhere -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Predictions:
    answers: dict[str, Ranked]
    problems: dict[str, int]  # why nothing could be read -> answers
    strange: int  # answers to conversations that are not in the split


def read_predictions(path: Path | str, table: Sequence[Row], find: Find) -> Predictions:
    """A JSONL file of {"id": conversation, "text": ...} or {"id", "items": [{"title", "year"}]}."""
    domains = {row["conversation"]: row["domain"] for row in table}
    answers: dict[str, Ranked] = {}
    problems: Counter[str] = Counter()
    strange = 0
    for where, row in jsonl(path):
        name = str(row.get("id"))
        if name not in domains:
            strange += 1
            continue
        if name in answers:
            raise TrainingError(f"{where}: a second answer for {name}: wanted one line per conversation")
        if isinstance(row.get("text"), str):
            answer = parse(row["text"], find, domains[name])
        elif isinstance(row.get("items"), list):
            answer = from_items(row["items"], find, domains[name])
        else:
            raise TrainingError(f'{where}: wanted "text" or a list of "items" beside "id", found {list(row)}')
        answers[name] = answer.ranked
        problems.update([answer.problem] if answer.problem else [])
    return Predictions(answers, dict(problems), strange)


def evaluate(
    release: Release | Path | str,
    predictions: Path | str,
    output: Path | str | None = None,
    *,
    gold: Path | str | None = None,
    split: str = "test",
    name: str = "predictions",
) -> dict[str, Any]:
    """Scores a predictions file beside the baselines, prints the table, writes output/report.json if asked to."""
    release = release if isinstance(release, Release) else open_release(release)
    table = rows(release.folder, "grpo", split)
    truth = read_gold(gold, release) if gold else None
    found = read_predictions(predictions, table, release.find)
    runs = [
        run(name, split, score(found.answers, table, release.oracle, release.k, truth)),
        *baselines(release, table, found.answers, truth, split),
    ]
    print(show(runs, release.k))
    for reason, number in sorted(found.problems.items()):
        print(f"nothing read ({reason}): {number} answers")
    if found.strange:
        print(f"left out: {found.strange} answers to conversations outside {split}")
    return (
        write_report(output, release, runs, gold=truth is not None)
        if output
        else report(release, runs, truth is not None)
    )


def baselines(
    release: Release, table: Sequence[Row], answers: Answers, gold: Gold | None = None, split: str = "test"
) -> list[Run]:
    """[oracle_filter of these answers, popularity], scored like the answers themselves."""
    oracle, k = release.oracle, release.k
    popular = popularity(rows(release.folder, "grpo", "train"), release.items, table, k)
    kept = oracle_filter(answers, table, oracle, k, release.find)
    return [
        run("oracle_filter", split, score(kept, table, oracle, k, gold)),
        run("popularity", split, score(popular, table, oracle, k, gold)),
    ]


# --- report ---------------------------------------------------------------------------------------------------------


def run(name: str, split: str, scored: Run) -> Run:
    return {"name": name, "split": split, **scored}


def report(
    release: Release,
    runs: Sequence[Run],
    gold: bool,
    chosen: str | None = None,
    seconds: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """What report.json holds. chosen: the run that validation preferred, None where nothing was chosen between."""
    named = {key: release.manifest[key] for key in ("name", "version")} | {"digest": release.digest}
    return {
        "release": named,
        "k": release.k,
        "gold": gold,
        "runs": list(runs),
        "chosen": chosen,
        "seconds": dict(seconds or {}),
    }


def write_report(
    folder: Path | str,
    release: Release,
    runs: Sequence[Run],
    *,
    gold: bool,
    chosen: str | None = None,
    seconds: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """Writes folder/report.json, whole or not at all, and returns what it holds."""
    import os

    made = report(release, runs, gold, chosen, seconds)
    path = Path(folder) / "report.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_name(".report.json.half")
    half.write_text(json.dumps(made, indent=2, ensure_ascii=False, allow_nan=False) + "\n", "utf-8")
    os.replace(half, path)
    return made


def show(runs: Sequence[Run], k: int) -> str:
    """The runs as a table: the mean of each metric, its 95 % interval beneath."""
    names = [*(f"{metric}@{k}" for metric in SHOWN), "length"]
    width = max(14, *(len(r["name"]) + 2 for r in runs)) if runs else 14
    lines = ["".ljust(width) + "".join(name.rjust(14) for name in names) + "users".rjust(8)]
    for one in runs:
        cells = [one["metrics"][name] for name in names]
        lines.append(one["name"].ljust(width) + "".join(_mean(c).rjust(14) for c in cells) + str(one["n"]).rjust(8))
        lines.append("  95 %".ljust(width) + "".join(_range(c).rjust(14) for c in cells))
    return "\n".join(lines)


def _mean(cell: Mapping[str, Any]) -> str:
    return "-" if cell["mean"] is None else f"{cell['mean']:.3f}"


def _range(cell: Mapping[str, Any]) -> str:
    return "" if cell["mean"] is None else f"{cell['low']:.3f}-{cell['high']:.3f}"
