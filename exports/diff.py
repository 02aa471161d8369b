"""Compares two releases: rows, labels and the reviews behind them, agreement, and changes that look like damage.

A label that changed its verdict while the reviews behind it are the same did not change because somebody reviewed: each
one is listed. Of the changes with reviews, a reviewer or a trait with far more than the others is reported (an exact
test by conversation, Holm over all reviewers and traits: a false alarm in 5 % of diffs at most).
"""

import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import polars as pl
from numpy.typing import NDArray

from annotation import aggregation
from annotation.careless_reviewers import log_choose
from exports.folder import facts_of
from exports.required_version_bump import KEYS, Draft, changes, keys, moves, table, terms
from saferec_builder.core.counts import many
from saferec_builder.core.errors import TrainingError, strict_json
from saferec_builder.core.json_value import JsonValue

ALPHA = 0.05
_NOTHING = 1e-30  # far below any p value that matters: ALPHA divided by the reviewers and traits of a diff
_UNIT = ["conversation", "trait"]
REFILL = (
    "lists are refilled by what people in train accepted: a row that is new, gone or changed there can change others"
)
_DECIDED = ["present", "absent"]
_OF_THE_TRAIT = ["agreement", "certificate"]  # columns of a label that say how well its trait is labelled
IN_BOTH = (
    "labels that flipped, of those in both versions (a row that either leaves out, as `straddles split`, has none):"
)
Row = dict[str, Any]


class _Labels(TypedDict):
    lost: dict[str, int]
    gained: dict[str, int]
    trait_alone: int


@dataclass(frozen=True)
class Difference:
    """The changes from one release to another. Flips concern labels that both decided (present or absent)."""

    name: str
    before: str  # versions
    after: str
    changes: list[str]
    terms: list[str]  # the changes that are not of rows
    rows: dict[str, dict[str, int]]  # config -> added, removed, changed
    columns: dict[str, dict[str, int]]  # config -> column -> rows that differ in it
    flips: dict[str, dict[str, int]]  # trait -> "present -> absent" -> labels
    flipped: list[Row]  # conversation, trait, from, to, other_reviews, reviews (_with_reviews)
    lost: dict[str, int]  # "present -> unresolved" -> labels that only the older version decided
    gained: dict[str, int]  # "unresolved -> present" -> labels that only the later one decided
    trait_alone: int  # changed labels that differ in nothing but the figures of their trait (_OF_THE_TRAIT)
    agreement: dict[str, list[float | None]]  # trait -> alpha before and after
    alarms: list[Row]  # kind; `silent`: what, labels; `unresolved`: name, changed, of (labels); else also p
    metrics: dict[str, list[float | None]] | None = None  # of a model's predictions: metric -> before and after

    def as_json(self) -> dict[str, JsonValue]:
        data = {{"before": "from", "after": "to"}.get(key, key): value for key, value in vars(self).items()}
        return data if self.metrics is not None else {k: v for k, v in data.items() if k != "metrics"}


def diff(before: Path, after: Path, predictions: Path | None = None) -> Difference:
    """Compares the releases in two folders, and with `predictions` (a model's answers) also its metrics on both."""
    old, new = ((folder, facts_of(folder)) for folder in (before, after))
    pairs = _pairs(old, new)
    flips = pairs.filter(pl.col("verdict") != pl.col("verdict_new"))
    reviews = new_reviews(old, new, pairs.select(subject="conversation", trait="trait"))
    agreed = [facts["agreement"] for _, facts in (old, new)]
    traits = sorted({*agreed[0], *agreed[1]})
    rows = {config: _rows(config, old, new) for config in KEYS}
    return Difference(
        name=new[1]["name"],
        before=old[1]["version"],
        after=new[1]["version"],
        changes=[f"{change.size}: {change.what}" for change in changes(old, new)],
        terms=[f"{change.size}: {change.what}" for change in terms(old, new)],
        rows={config: counts for config, (counts, _) in rows.items()},
        columns={config: columns for config, (_, columns) in rows.items() if columns},
        flips=_per_trait(flips),
        flipped=_with_reviews(flips, reviews),
        **_labels(old, new),
        agreement={trait: [side[trait]["alpha"] if trait in side else None for side in agreed] for trait in traits},
        alarms=[*alarms(pairs, flips, reviews), *unresolved(old, new)],
        metrics=None if predictions is None else _metrics((before, after), predictions, _shared_tests(old, new)),
    )


def _pairs(old: Draft, new: Draft) -> pl.DataFrame:
    """Returns the labels that both releases decided: the old columns, and the new ones with the suffix `_new`."""
    columns = [*_UNIT, "verdict", "basis"]
    old_labels, new_labels = (_columns(table(draft, "labels"), columns) for draft in (old, new))
    both = old_labels.join(new_labels, on=_UNIT, suffix="_new").sort(_UNIT)
    return both.filter(pl.col("verdict").is_in(_DECIDED) & pl.col("verdict_new").is_in(_DECIDED))


def _labels(old: Draft, new: Draft) -> _Labels:
    """Returns what `flips` and `columns` do not tell about the labels that both releases hold."""
    older, newer = (_columns(table(draft, "labels"), [*_UNIT, "verdict"]) for draft in (old, new))
    both = older.join(newer, on=_UNIT, suffix="_new")
    verdict, verdict_new = (pl.col(name).fill_null("unresolved") for name in ("verdict", "verdict_new"))
    was, now = verdict.is_in(_DECIDED), verdict_new.is_in(_DECIDED)
    kinds = both.select(kind=pl.format("{} -> {}", verdict, verdict_new), lost=was & ~now, gained=~was & now)
    lost, gained = (kinds.filter(name)["kind"].value_counts().sort("kind").rows() for name in ("lost", "gained"))
    differs = _differs("labels", old, new)
    others = [name for name in differs.columns if name not in _OF_THE_TRAIT]
    alone = differs.filter(pl.any_horizontal(pl.all()), ~pl.any_horizontal(pl.lit(False), *others)).height
    return _Labels(lost=dict(lost), gained=dict(gained), trait_alone=alone)


def _columns(frame: pl.DataFrame, names: list[str]) -> pl.DataFrame:
    """Returns these columns as strings; columns that a release of an older program lacks are null."""
    missing = [pl.lit(None, pl.String).alias(name) for name in names if name not in frame.columns]
    return frame.with_columns(missing).select(pl.col(names).cast(pl.String))


def _differs(config: str, old: Draft, new: Draft) -> pl.DataFrame:
    """Returns for each row that both releases hold, and each column that both have, whether they differ in it."""
    older, newer = (table(draft, config) for draft in (old, new))
    both = older.join(newer, on=KEYS[config], suffix="_new")
    shared = [name for name in older.columns if name in newer.columns and name not in KEYS[config]]
    return both.select(pl.col(name).ne_missing(pl.col(f"{name}_new")) for name in shared)


def _rows(config: str, old: Draft, new: Draft) -> tuple[dict[str, int], dict[str, int]]:
    """Returns how many rows are added, removed and changed, and column -> how many rows differ in it."""
    removed, added, _ = moves(config, old, new)
    if config == "reviews":
        older, newer = (keys(draft, config, "verdict") for draft in (old, new))
        other = newer.join(older, on=[*KEYS[config], "verdict", "nth"], how="anti").height  # new, or another verdict
        changed = max(0, other - added)
        columns = {"verdict": changed} if changed else {}
    else:
        differs = _differs(config, old, new)
        changed = differs.filter(pl.any_horizontal(pl.all())).height
        columns = {name: n for name, n in differs.sum().row(0, named=True).items() if n}
    return {"added": added, "removed": removed, "changed": changed}, columns


def _per_trait(flips: pl.DataFrame) -> dict[str, dict[str, int]]:
    counts = flips.group_by("trait", "verdict", "verdict_new").len().sort("trait", "verdict")
    by_trait: dict[str, dict[str, int]] = {}
    for trait, before, after, count in counts.iter_rows():
        by_trait.setdefault(trait, {})[f"{before} -> {after}"] = count
    return by_trait


def new_reviews(old: Draft, new: Draft, units: pl.DataFrame) -> pl.DataFrame:
    """Returns those reviews of conversations that only the newer release has, with its pseudonyms.

    A review of `*` is expanded to those of `units` (subject, trait) that its reviewer did not answer one by one: a
    trait that it does not mention is absent.
    """
    columns = ["subject", "trait", "verdict", "role", "reviewer"]
    before, after = (_columns(table(draft, "reviews").filter(kind="sensitivity"), columns) for draft in (old, new))
    # expanded only for subjects that changed, as one `*` becomes as many reviews as there are traits
    changed = pl.concat([_beyond(after, before), _beyond(before, after)])["subject"].unique().implode()
    before, after = (_expanded(frame.filter(pl.col("subject").is_in(changed)), units) for frame in (before, after))
    return _beyond(after, before)


def _beyond(rows: pl.DataFrame, others: pl.DataFrame) -> pl.DataFrame:
    """Returns the rows of `rows` that are not in `others`, or are in it fewer times; reviewers do not count."""
    key = ["subject", "trait", "verdict", "role"]
    left, right = (frame.with_columns(nth=pl.int_range(pl.len()).over(key)) for frame in (rows, others))
    return left.join(right, on=[*key, "nth"], how="anti", nulls_equal=True, maintain_order="left").drop("nth")


def _expanded(reviews: pl.DataFrame, units: pl.DataFrame) -> pl.DataFrame:
    single = reviews.filter(pl.col("trait") != "*")
    stars = reviews.filter((pl.col("trait") == "*") & (pl.col("role") == "reviewer")).drop("trait")
    rest = stars.join(units, on="subject", maintain_order="left_right")
    unit = ["subject", "trait", "role", "reviewer"]
    return pl.concat([single, rest.join(single, on=unit, how="anti", maintain_order="left").select(reviews.columns)])


def _with_reviews(flips: pl.DataFrame, reviews: pl.DataFrame) -> list[Row]:
    """Returns every flip: whether the reviews behind it changed, and its new ones, as far as they are released, with
    the pseudonyms of the newer release."""
    review = pl.struct("reviewer", "role", "verdict")
    by_unit = reviews.group_by(conversation="subject", trait="trait", maintain_order=True).agg(reviews=review)
    return (
        flips.join(by_unit, on=_UNIT, how="left", maintain_order="left")
        .select(
            pl.col(_UNIT),
            pl.col("verdict").alias("from"),
            to="verdict_new",
            other_reviews=pl.col("basis").ne_missing(pl.col("basis_new")),
            reviews=pl.col("reviews").fill_null(pl.lit([], by_unit.schema["reviews"])),
        )
        .to_dicts()
    )


def _shared_tests(old: Draft, new: Draft) -> list[str]:
    """Returns the test requests of both releases: a later one has more, which an older prediction file lacks."""
    old_ids, new_ids = (keys(draft, "grpo").filter(split="test")["conversation"] for draft in (old, new))
    if (shared := old_ids.filter(old_ids.is_in(new_ids.implode()))).is_empty():
        raise TrainingError("the two versions share no test request: predictions cannot be compared on both")
    return shared.to_list()


def _metrics(folders: Iterable[Path], predictions: Path, ids: Sequence[str]) -> dict[str, list[float | None]]:
    """Returns metric -> its value on each release; scoring runs `training` in its own process, as everywhere."""
    scores = [_scores(folder, predictions, ids) for folder in folders]
    names = [name for name in scores[0] if name.startswith(("recall", "svr", "ndcg", "not_in_catalog"))]
    return {name: [run.get(name, {}).get("mean") for run in scores] for name in names}


def _scores(folder: Path, predictions: Path, ids: Sequence[str]) -> dict[str, dict[str, float | None]]:
    with tempfile.TemporaryDirectory() as out:
        (only := Path(out) / "only.jsonl").write_text("".join(json.dumps({"id": name}) + "\n" for name in ids))
        arguments = ["evaluate", "--release", folder, "--predictions", predictions, "--output", out, "--only", only]
        command = [sys.executable, "-P", "-m", "training.safecrs", *map(str, arguments)]
        process = subprocess.run(command, capture_output=True, text=True, check=False)
        if process.returncode:
            reason = process.stderr.strip().splitlines()[-1:] or ["no reason given"]
            raise TrainingError(f"{folder}: the predictions cannot be scored: {reason[0].removeprefix('error: ')}")
        report = strict_json((Path(out) / "report.json").read_text(encoding="utf-8"))
    metrics: dict[str, dict[str, dict[str, float | None]]] = {run["name"]: run["metrics"] for run in report["runs"]}
    return metrics[predictions.stem]


def alarms(pairs: pl.DataFrame, flips: pl.DataFrame, reviews: pl.DataFrame) -> list[Row]:
    """Returns alarms: `silent` lists labels, `reviewer` and `trait` name where changes accumulate."""
    silent = flips.filter(pl.col("basis").eq_missing(pl.col("basis_new")))
    alarms: list[Row] = []
    if silent.height:
        units = [f"{c}/{t}" for c, t in silent.select(_UNIT).iter_rows()]
        alarms.append({"kind": "silent", "what": "verdicts changed without a review behind it", "labels": units})
    tests = [*_by_reviewer(pairs, reviews), *_by_trait(pairs)]
    for rank, (p, kind, name, changed, of) in enumerate(sorted(tests)):
        if p * (len(tests) - rank) > ALPHA:
            break
        alarms.append({"kind": kind, "name": name, "changed": changed, "of": of, "p": float(f"{p:.2g}")})
    return alarms


def unresolved(old: Draft, new: Draft) -> list[Row]:
    """Returns an alarm per trait of which more than 5 % of the decided labels are no longer decided, or are missing;
    none if the two releases share no conversation, as ids were different in older ones."""
    before, after = (_columns(table(draft, "labels"), [*_UNIT, "verdict"]) for draft in (old, new))
    decided, still_decided = (frame.filter(pl.col("verdict").is_in(_DECIDED)) for frame in (before, after))
    if decided.join(after, on="conversation", how="semi").is_empty():
        return []
    lost = aggregation.lost(decided, still_decided, _UNIT)
    return [{"kind": "unresolved", "name": trait, "changed": count, "of": of} for trait, count, of in lost]


Test = tuple[float, str, str, int, int]  # p, kind, name, changed, of


def _by_reviewer(pairs: pl.DataFrame, reviews: pl.DataFrame) -> Iterable[Test]:
    """Tests in how many conversations a reviewer's new reviews contradict more of the old labels than readings of as
    many labels do on average: a reviewer of all traits of a text contradicts more than a reviewer of one."""
    rereviewed = reviews.filter(pl.col("role") == "reviewer").join(
        pairs, left_on=["subject", "trait"], right_on=_UNIT, how="inner", suffix="_was"
    )
    readings = rereviewed.group_by(name="reviewer", conversation="subject").agg(
        against=(pl.col("verdict") != pl.col("verdict_was")).sum(), like=pl.len()
    )
    return _against_others("reviewer", readings, pl.col("against") > pl.col("against").mean().over("like"))


def _by_trait(pairs: pl.DataFrame) -> Iterable[Test]:
    """Tests in how many conversations a trait's label changed, among those whose reviews changed and that had the same
    verdict before, as `present` and `absent` do not change equally often."""
    rereviewed = pairs.filter(pl.col("basis").ne_missing(pl.col("basis_new")))
    labels = rereviewed.rename({"trait": "name", "verdict": "like"})
    return _against_others("trait", labels, pl.col("like") != pl.col("verdict_new"))


def _against_others(kind: str, rows: pl.DataFrame, changed: pl.Expr) -> Iterable[Test]:
    """Tests whether a name changed more often than by chance. `rows`: name, conversation (one row for both) and like.

    Changes in one conversation are not independent, so a row is only compared with the rows of its own conversation
    (and `like`): by chance it is any one of them. Rows that are alone there are compared with the first row of each
    conversation that lacks the name: by chance the name's rows are any of all these. Both tests are exact.
    """
    group = ["conversation", "like"]
    rows = rows.select("name", *group, changed=changed).sort("name", *group)
    change = pl.col("changed")
    rows = rows.with_columns(of=pl.len().over(group), among=change.sum().over(group), first=change.first().over(group))
    totals = rows.unique(group).group_by("like").agg(places=pl.len(), firsts=pl.col("first").sum())
    names = rows.group_by("name", maintain_order=True).agg(change.sum(), pl.len())
    if names.height < 2:
        return  # nothing to compare with
    within = rows.filter((pl.col("of") > 1) & (pl.col("among") > 0)).select("name", "of", "among", drawn=1)
    is_single = pl.col("of") == 1
    between = rows.group_by("name", "like", maintain_order=True).agg(
        pl.len().alias("has"),
        pl.col("first").sum().alias("has_first"),
        is_single.sum().alias("drawn"),
        change.filter(is_single).sum().alias("hit"),
    )
    between = between.join(totals, on="like", maintain_order="left").select(
        "name",
        pl.col("places") - pl.col("has") + pl.col("drawn"),
        pl.col("firsts") - pl.col("has_first") + pl.col("hit"),
        "drawn",
    )
    strata: dict[str, list[tuple[int, int, int]]] = {}
    for name, of, among, drawn in (*within.iter_rows(), *between.iter_rows()):
        strata.setdefault(name, []).append((of, among, drawn))
    for name, count, height in names.iter_rows():
        yield _tail(count, strata.get(name, ())), kind, str(name), count, height


def _tail(k: int, strata: Iterable[tuple[int, int, int]]) -> float:
    """Returns P(X >= k) of the changed rows that are drawn, without replacement, from strata (of, changed, drawn).

    Chances below _NOTHING are dropped on the way: the number that remains grows as the root of the number of strata.
    """
    chances: NDArray[np.float64] = np.ones(1)
    first = 0  # the number of changed rows that index 0 stands for
    for of, changed, drawn in strata:
        least, most = max(0, drawn + changed - of), min(changed, drawn)
        logs = [log_choose(changed, i) + log_choose(of - changed, drawn - i) for i in range(least, most + 1)]
        chances = np.convolve(chances, [math.exp(x - log_choose(of, drawn)) for x in logs]).astype(np.float64)
        kept = np.flatnonzero(chances > _NOTHING)
        chances, first = chances[kept[0] : kept[-1] + 1], first + least + int(kept[0])
    return min(1.0, max(_NOTHING, float(chances[max(0, k - first) :].sum())))


def as_text(difference: Difference) -> str:
    """Returns the difference as a Markdown section that also fits into a card."""
    lines = [f"## {difference.before} -> {difference.after}", "", *(f"- {change}" for change in difference.terms)]
    for config, rows in difference.rows.items():
        if any(rows.values()):
            columns = ", ".join(f"{name} {n:,}" for name, n in difference.columns.get(config, {}).items())
            counts = ", ".join(f"{count:,} {kind}" for kind, count in rows.items())
            lines.append(f"- {config}: {counts}" + (f" (by column: {columns})" if columns else ""))
    if difference.trait_alone:
        of_trait = " and ".join(_OF_THE_TRAIT)
        lines.append(f"- of the labels changed, {difference.trait_alone:,} only in the {of_trait} of their trait")
    if any("completion" in difference.columns.get(config, {}) for config in ("sft", "sft_raw")):
        lines.append(f"- {REFILL}")
    if difference.flips:
        lines.append(f"- {IN_BOTH}")
    if difference.rows["labels"]["changed"] and not difference.flips:
        lines.append("- no label flipped between present and absent")
    for trait, kinds in difference.flips.items():
        lines.append(f"- {trait}: " + ", ".join(f"{count:,} {kind}" for kind, count in kinds.items()))
    for change, kinds in (("lost their verdict", difference.lost), ("got a verdict", difference.gained)):
        if kinds:
            labels = many(sum(kinds.values()), "label", "labels")
            lines.append(f"- {labels} {change}: {', '.join(f'{count:,} {kind}' for kind, count in kinds.items())}")
    alphas = {f"agreement on {trait}": tuple(map(_number, pair)) for trait, pair in difference.agreement.items()}
    metrics = {name: tuple(map(_number, pair)) for name, pair in (difference.metrics or {}).items()}
    moved = {name: pair for name, pair in alphas.items() if pair[0] != pair[1]} | metrics
    lines += [f"- {name}: {' -> '.join(pair)}" for name, pair in moved.items()]
    changed = lines[2:] or ["- nothing changed"]
    lines = [
        *lines[:2],
        *changed,
        *([f"- ALARM: {alarm_text(alarm)}" for alarm in difference.alarms] or ["- no alarm"]),
    ]
    return "\n".join(lines) + "\n"


def alarm_text(alarm: Row) -> str:
    if alarm["kind"] == "silent":
        first = ", ".join(alarm["labels"][:5])
        return f"{len(alarm['labels'])} {alarm['what']}, first {first}"
    if alarm["kind"] == "unresolved":
        return f"trait {alarm['name']}: {alarm['changed']} of {alarm['of']} labels are decided no longer"
    problem = {"reviewer": "contradicts more labels than is usual", "trait": "changed"}[alarm["kind"]]
    share = f"{alarm['changed']} of {alarm['of']} conversations read again"
    return f"{alarm['kind']} {alarm['name']}: {problem} in {share}, far more often than others"


def _number(value: float | None) -> str:
    return "cannot be told" if value is None else f"{value:.3f}"
