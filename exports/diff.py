"""What changed between two releases: rows, labels and the reviews behind them, agreement, and what looks like damage.

A label that changed its verdict while the reviews behind it are the same did not change because somebody reviewed: it
is named, one by one. Where changes have reviews, a reviewer or a trait with far more of them than the others is named
(an exact test by conversation, Holm over all reviewers and traits: a false alarm in 5 % of diffs at most).
"""

import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

import numpy as np
import polars as pl
from numpy.typing import NDArray

from annotation import aggregation
from exports.folder import facts_of
from exports.manifest_types import Agreement
from exports.required_version_bump import KEYS, Draft, changes, keys, table, terms
from saferec_builder.core.errors import TrainingError, strict_json
from saferec_builder.core.json_value import JsonValue

ALPHA = 0.05
_NOTHING = 1e-30  # far below any chance that is looked at: ALPHA, divided by the reviewers and traits of a diff
_UNIT = ["conversation", "trait"]


class Review(TypedDict):
    reviewer: str  # the pseudonym of the newer release
    role: str
    verdict: str


Flip = TypedDict(  # `from` is no name in Python
    "Flip",
    {
        "conversation": str,
        "trait": str,
        "from": str,
        "to": str,
        "other_reviews": bool,  # whether the reviews behind it changed
        "reviews": list[Review],  # the new ones, as far as they are released
    },
)


class Alarm(TypedDict, total=False):
    """Of kind `silent`: what, labels. Of kind `reviewer` or `trait`: name, changed and of (conversations), p; of kind
    `unresolved`: name, changed and of (labels)."""

    kind: str
    what: str
    labels: list[str]
    name: str
    changed: int
    of: int
    p: float


@dataclass(frozen=True)
class Difference:
    """From one release to another. Flips are of labels that both decided (present or absent)."""

    name: str
    before: str  # versions
    after: str
    changes: list[str]
    terms: list[str]  # of the changes, those beside rows
    rows: dict[str, dict[str, int]]  # config -> added, removed, changed
    flips: dict[str, dict[str, int]]  # trait -> "present -> absent" -> labels
    flipped: list[Flip]
    agreement: dict[str, list[float | None]]  # trait -> alpha before and after
    alarms: list[Alarm]
    metrics: dict[str, list[float | None]] | None = None  # of a model's predictions: metric -> before and after

    def as_json(self) -> dict[str, JsonValue]:
        found = {{"before": "from", "after": "to"}.get(key, key): value for key, value in vars(self).items()}
        return found if self.metrics is not None else {k: v for k, v in found.items() if k != "metrics"}


def diff(before: Path, after: Path, predictions: Path | None = None) -> Difference:
    """What changed between the releases in two folders, with `predictions` (a model's answers) on both of them too."""
    old, new = ((folder, facts_of(folder)) for folder in (before, after))
    pairs = _pairs(old, new)
    flips = pairs.filter(pl.col("verdict") != pl.col("verdict_new"))
    reviews = new_reviews(old, new, pairs.select(subject="conversation", trait="trait"))
    caused = flips.join(reviews, left_on=_UNIT, right_on=["subject", "trait"], how="left", suffix="_review")
    return Difference(
        name=new[1]["name"],
        before=old[1]["version"],
        after=new[1]["version"],
        changes=[f"{change.size}: {change.what}" for change in changes(old, new)],
        terms=[f"{change.size}: {change.what}" for change in terms(old, new)],
        rows={config: _rows(config, old, new) for config in KEYS},
        flips=_per_trait(flips),
        flipped=_named(flips, caused),
        agreement=_agreement(old[1].get("agreement", {}), new[1].get("agreement", {})),
        alarms=[*alarms(pairs, flips, reviews), *unresolved(old, new)],
        metrics=None if predictions is None else _metrics((before, after), predictions, _tested(old, new)),
    )


def _pairs(old: Draft, new: Draft) -> pl.DataFrame:
    """Labels that both releases decided: the old columns, and the new ones with `_new`."""
    columns = [*_UNIT, "verdict", "method", "basis"]
    was, now = (_columns(table(draft, "labels"), columns) for draft in (old, new))
    both = was.join(now, on=_UNIT, suffix="_new").sort(_UNIT)
    decided = pl.col("verdict").is_in(["present", "absent"]) & pl.col("verdict_new").is_in(["present", "absent"])
    return both.filter(decided)


def _columns(frame: pl.DataFrame, names: list[str]) -> pl.DataFrame:
    """A release of an older program may lack some."""
    lacking = [pl.lit(None, pl.String).alias(name) for name in names if name not in frame.columns]
    return frame.with_columns(lacking).select(pl.col(names).cast(pl.String))


def _rows(config: str, old: Draft, new: Draft) -> dict[str, int]:
    was, now = (keys(draft, config) for draft in (old, new))
    unit = [name for name in was.columns if name != "split"]
    added, gone = (a.join(b, on=unit, how="anti").height for a, b in ((now, was), (was, now)))
    if config == "reviews":
        was, now = (keys(draft, config, "verdict") for draft in (old, new))
        unlike = now.join(was, on=[*unit, "verdict"], how="anti").height  # they are new, or say something else
        return {"added": added, "removed": gone, "changed": max(0, unlike - added)}
    if was.is_empty() or now.is_empty():
        return {"added": added, "removed": gone, "changed": 0}
    was, now = (table(draft, config) for draft in (old, new))
    same = [c for c in was.columns if c in now.columns and c not in unit]
    both = was.join(now, on=unit, suffix="_new")
    other = both.filter(pl.any_horizontal(pl.col(c).ne_missing(pl.col(f"{c}_new")) for c in same))
    return {"added": added, "removed": gone, "changed": other.height}


def _per_trait(flips: pl.DataFrame) -> dict[str, dict[str, int]]:
    counted = flips.group_by("trait", "verdict", "verdict_new").len().sort("trait", "verdict")
    found: dict[str, dict[str, int]] = {}
    for trait, was, now, many in counted.iter_rows():
        found.setdefault(trait, {})[f"{was} -> {now}"] = many
    return found


def new_reviews(old: Draft, new: Draft, units: pl.DataFrame) -> pl.DataFrame:
    """Reviews of conversations that the older release does not have; pseudonyms are those of the newer one.

    A `*` is spelled out for those of `units` (subject, trait) that its reviewer did not answer one by one: who says
    nothing of a trait says that it is absent.
    """
    columns = ["subject", "trait", "verdict", "role", "reviewer"]
    was, now = (_columns(_sensitivity(table(draft, "reviews")), columns) for draft in (old, new))
    # only there, for one `*` is as many reviews as there are traits
    moved = pl.concat([_beyond(now, was), _beyond(was, now)])["subject"].unique().implode()
    was, now = (_spelled(frame.filter(pl.col("subject").is_in(moved)), units) for frame in (was, now))
    return _beyond(now, was)


def _beyond(these: pl.DataFrame, those: pl.DataFrame) -> pl.DataFrame:
    """The rows of `these` that say what no row of `those` says, or say it once more."""
    count = ["subject", "trait", "verdict", "role"]
    one, other = (frame.with_columns(nth=pl.int_range(pl.len()).over(count)) for frame in (these, those))
    return one.join(other, on=[*count, "nth"], how="anti", nulls_equal=True, maintain_order="left").drop("nth")


def _spelled(reviews: pl.DataFrame, units: pl.DataFrame) -> pl.DataFrame:
    single = reviews.filter(pl.col("trait") != "*")
    stars = reviews.filter((pl.col("trait") == "*") & (pl.col("role") == "reviewer")).drop("trait")
    rest = stars.join(units, on="subject", maintain_order="left_right")
    unit = ["subject", "trait", "role", "reviewer"]
    return pl.concat([single, rest.join(single, on=unit, how="anti", maintain_order="left").select(reviews.columns)])


def _sensitivity(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.filter(pl.col("kind") == "sensitivity")


def _named(flips: pl.DataFrame, caused: pl.DataFrame) -> list[Flip]:
    """Every flip with the new reviews of its unit."""
    reasons: dict[tuple[str, str], list[Review]] = {}
    for row in caused.filter(pl.col("reviewer").is_not_null()).iter_rows(named=True):
        review: Review = {"reviewer": row["reviewer"], "role": row["role"], "verdict": row["verdict_review"]}
        reasons.setdefault((row["conversation"], row["trait"]), []).append(review)
    return [
        {
            "conversation": row["conversation"],
            "trait": row["trait"],
            "from": row["verdict"],
            "to": row["verdict_new"],
            "other_reviews": row["basis"] != row["basis_new"],
            "reviews": reasons.get((row["conversation"], row["trait"]), []),
        }
        for row in flips.iter_rows(named=True)
    ]


def _agreement(old: Mapping[str, Agreement], new: Mapping[str, Agreement]) -> dict[str, list[float | None]]:
    both = sorted(set(old) | set(new))
    return {trait: [side[trait]["alpha"] if trait in side else None for side in (old, new)] for trait in both}


def _tested(old: Draft, new: Draft) -> list[str]:
    """The requests of the test splits of both: a later version has more, which the file of before does not answer."""
    was, now = (keys(draft, "grpo").filter(split="test")["conversation"] for draft in (old, new))
    if (both := was.filter(was.is_in(now.implode()))).is_empty():
        raise TrainingError("the two versions share no test request: predictions cannot be compared on both")
    return both.to_list()


def _metrics(homes: Iterable[Path], predictions: Path, asked: Sequence[str]) -> dict[str, list[float | None]]:
    """metric -> its value on each release; training scores in a process of its own, as everywhere."""
    scores = [_scores(home, predictions, asked) for home in homes]
    names = [name for name in scores[0] if name.startswith(("recall", "svr", "ndcg", "not_in_catalog"))]
    return {name: [run.get(name, {}).get("mean") for run in scores] for name in names}


def _scores(home: Path, predictions: Path, asked: Sequence[str]) -> dict[str, dict[str, float | None]]:
    """metric -> mean and its interval."""
    with tempfile.TemporaryDirectory() as out:
        (only := Path(out) / "only.jsonl").write_text("".join(json.dumps({"id": one}) + "\n" for one in asked))
        words = ["evaluate", "--release", home, "--predictions", predictions, "--output", out, "--only", only]
        command = [sys.executable, "-m", "training.safecrs", *map(str, words)]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode:
            why = ran.stderr.strip().splitlines()[-1:] or ["no reason given"]
            raise TrainingError(f"{home}: the predictions cannot be scored: {why[0].removeprefix('error: ')}")
        report = strict_json((Path(out) / "report.json").read_text(encoding="utf-8"))
    found: dict[str, dict[str, float | None]] = next(
        run["metrics"] for run in report["runs"] if run["name"] == predictions.stem
    )
    return found


# ---- what looks like damage


def alarms(pairs: pl.DataFrame, flips: pl.DataFrame, reviews: pl.DataFrame) -> list[Alarm]:
    """kind `silent` names labels, `reviewer` and `trait` name where changes pile up."""
    silent = flips.filter(pl.col("basis").eq_missing(pl.col("basis_new")))
    found: list[Alarm] = []
    if silent.height:
        units = [f"{c}/{t}" for c, t in silent.select(_UNIT).iter_rows()]
        found.append({"kind": "silent", "what": "verdicts changed without a review behind it", "labels": units})
    tests = [*_by_reviewer(pairs, reviews), *_by_trait(pairs)]
    for rank, (p, kind, name, many, of) in enumerate(sorted(tests)):
        if p * (len(tests) - rank) > ALPHA:
            break
        found.append({"kind": kind, "name": name, "changed": many, "of": of, "p": float(f"{p:.2g}")})
    return found


def unresolved(old: Draft, new: Draft) -> list[Alarm]:
    """Each trait of which more than 5 % of the labels that were decided are not decided, or not there, any more; none
    where the two have no conversation in common, as ids were others before."""
    was, now = (_columns(table(draft, "labels"), [*_UNIT, "verdict"]) for draft in (old, new))
    had, has = (frame.filter(pl.col("verdict").is_in(["present", "absent"])) for frame in (was, now))
    if had.join(now, on="conversation", how="semi").is_empty():
        return []
    lost = aggregation.lost(had, has, _UNIT)
    return [{"kind": "unresolved", "name": trait, "changed": n, "of": of} for trait, n, of in lost]


Test = tuple[float, str, str, int, int]  # p, kind, name, changed, of


def _by_reviewer(pairs: pl.DataFrame, reviews: pl.DataFrame) -> Iterable[Test]:
    """In how many conversations a reviewer's new reviews contradict more labels of before than the mean of all readings
    of as many labels: whoever reads all traits of a text contradicts more than who looks at one again."""
    again = reviews.filter(pl.col("role") == "reviewer").join(
        pairs, left_on=["subject", "trait"], right_on=_UNIT, how="inner", suffix="_was"
    )
    readings = again.group_by(name="reviewer", conversation="subject").agg(
        against=(pl.col("verdict") != pl.col("verdict_was")).sum(), like=pl.len()
    )
    return _against_others("reviewer", readings, pl.col("against") > pl.col("against").mean().over("like"))


def _by_trait(pairs: pl.DataFrame) -> Iterable[Test]:
    """In how many conversations a trait's label changed, of those where the reviews behind it did; among labels that
    said the same before, for `present` and `absent` do not change equally often."""
    again = pairs.filter(pl.col("basis").ne_missing(pl.col("basis_new")))
    labels = again.rename({"trait": "name", "verdict": "like"})
    return _against_others("trait", labels, pl.col("like") != pl.col("verdict_new"))


def _against_others(kind: str, rows: pl.DataFrame, changed: pl.Expr) -> Iterable[Test]:
    """Whether a name changed more often than by chance. `rows` have name, conversation (one row of both) and like.

    What happens in one conversation comes together, so a row is only ever compared with those of its own conversation
    (and `like`), of which it is one by chance. Rows that stand alone are compared with one row, the first, of each
    conversation that lacks the name: which of all these are the name's is chance, too. Both are exact.
    """
    place = ["conversation", "like"]
    rows = rows.select("name", *place, changed=changed).sort("name", *place)
    change = pl.col("changed")
    rows = rows.with_columns(of=pl.len().over(place), among=change.sum().over(place), first=change.first().over(place))
    whole = rows.unique(place).group_by("like").agg(places=pl.len(), firsts=pl.col("first").sum())
    for (name,), mine in rows.group_by("name", maintain_order=True):
        if mine.height == rows.height:
            return  # nobody to compare with
        together = mine.filter((pl.col("of") > 1) & (pl.col("among") > 0)).select("of", "among", drawn=1)
        single = pl.col("of") == 1
        apart = mine.group_by("like").agg(
            pl.len().alias("has"),
            pl.col("first").sum().alias("has_first"),
            single.sum().alias("drawn"),
            change.filter(single).sum().alias("hit"),
        )
        apart = apart.join(whole, on="like").select(
            pl.col("places") - pl.col("has") + pl.col("drawn"),
            pl.col("firsts") - pl.col("has_first") + pl.col("hit"),
            "drawn",
        )
        many = int(mine["changed"].sum())
        yield _tail(many, [*together.iter_rows(), *apart.iter_rows()]), kind, str(name), many, mine.height


def _tail(k: int, strata: Iterable[tuple[int, int, int]]) -> float:
    """P(X >= k) of all the changed that are drawn, without replacement, from strata (of, changed, drawn).

    Chances below _NOTHING are left out as they come: what is left is as wide as the root of how many strata there are.
    """
    chances: NDArray[np.float64] = np.ones(1)
    first = 0  # of how many `chances` begin to tell
    for of, changed, drawn in strata:
        least, most = max(0, drawn + changed - of), min(changed, drawn)
        logs = [_choose(changed, i) + _choose(of - changed, drawn - i) for i in range(least, most + 1)]
        chances = np.convolve(chances, [math.exp(x - _choose(of, drawn)) for x in logs]).astype(np.float64)
        there = np.flatnonzero(chances > _NOTHING)
        chances, first = chances[there[0] : there[-1] + 1], first + least + int(there[0])
    return min(1.0, max(_NOTHING, float(chances[max(0, k - first) :].sum())))


def _choose(n: int, k: int) -> float:
    """Its logarithm."""
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


# ---- as text


def as_text(found: Difference) -> str:
    """For people: a section that also fits into a card."""
    lines = [f"## {found.before} -> {found.after}", "", *(f"- {change}" for change in found.terms)]
    for config, rows in found.rows.items():
        if any(rows.values()):
            lines.append(
                f"- {config}: {rows['added']:,} added, {rows['removed']:,} removed, {rows['changed']:,} changed"
            )
    if found.rows["labels"]["changed"] and not found.flips:
        lines.append("- no verdict flipped: what changed stands beside them (agreement, reviews behind them, ...)")
    for trait, kinds in found.flips.items():
        lines.append(f"- {trait}: " + ", ".join(f"{many:,} {kind}" for kind, many in kinds.items()))
    for trait, (was, now) in found.agreement.items():
        if _number(was) != _number(now):
            lines.append(f"- agreement on {trait}: {_number(was)} -> {_number(now)}")
    for name, (was, now) in (found.metrics or {}).items():
        lines.append(f"- {name}: {_number(was)} -> {_number(now)}")
    lines += [f"- ALARM: {alarm_text(alarm)}" for alarm in found.alarms]
    return "\n".join(lines if len(lines) > 2 else [*lines, "- nothing changed"]) + "\n"


def alarm_text(alarm: Alarm) -> str:
    if alarm["kind"] == "silent":
        first = ", ".join(alarm["labels"][:5])
        return f"{len(alarm['labels'])} {alarm['what']}, first {first}"
    if alarm["kind"] == "unresolved":
        return f"trait {alarm['name']}: {alarm['changed']} of {alarm['of']} labels are decided no longer"
    what = {"reviewer": "contradicts more labels than is usual", "trait": "changed"}[alarm["kind"]]
    many = f"{alarm['changed']} of {alarm['of']} conversations read again"
    return f"{alarm['kind']} {alarm['name']}: {what} in {many}, far more often than others"


def _number(value: float | None) -> str:
    return "cannot be told" if value is None else f"{value:.3f}"
