"""Computes the counts and rates that the report page shows, as plain values, each from a table.

reads  the workspace's tables, the votes that stand, the oracle, the conversations that a release holds
gives  dicts and lists of numbers and words, the same for the same rows; no reviewer's name is among them
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from itertools import pairwise
from math import sqrt
from types import MappingProxyType
from typing import Any

import polars as pl

from annotation.agreement import FEW
from exports.manifest_types import Facts
from saferec_builder.core.oracle import CLEAR, UNKNOWN, VIOLATED, Oracle
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.storage import tables

Row = dict[str, Any]
Ids = set[str]
Reason = Callable[[str], str]
Z = 1.959964  # two-sided 95 %
CONFIDENCES = (0.0, 0.6, 0.8, 0.9, 1.01)  # a band holds its lower end; the last holds 1, too


# ---- the way of the conversations


def funnel(
    conversations: pl.DataFrame,
    drops: pl.DataFrame,
    readings: pl.DataFrame,
    assignments: pl.DataFrame,
    votes: pl.DataFrame,
    labels: pl.DataFrame,
    *,
    released: Mapping[str, Ids] | None,
    withheld: Mapping[str, str] = MappingProxyType({}),
) -> list[Row]:
    """Steps {name, count, lost: {reason: n}, joined: {reason: n}}: count = the step before - lost + joined.

    `released` is config -> conversations, None without a release; labels as build_rows.current gives them. `withheld`
    are further conversations that were mined, and why nobody is given them: no other table here holds them.
    """
    now = conversations.select(subject="conversation", digest="digest")
    mined = set(now["subject"])
    texts = readings.filter(kind="sensitivity").join(now, on=["subject", "digest"], how="semi")
    read = set(texts["subject"])
    reviewed = set(votes.filter(kind="sensitivity")["subject"]) & mined
    sent = set(assignments.filter(kind="sensitivity")["subject"])
    settled = set(labels.filter(pl.col("verdict").is_not_null())["subject"]) & mined
    out = Counter([*drops.filter(stage="mine")["reason"], *withheld.values()])
    unread = _reasons(drops, "propose")
    steps = [
        {"name": "Found in the source files", "count": len(mined) + out.total(), "lost": {}, "joined": {}},
        {"name": "Mined", "count": len(mined), "lost": _sorted(out), "joined": {}},
        _step("Read by a proposer", mined, read, lambda c: unread.get(c, "not read yet")),
        _step(
            "Reviewed",
            read,
            reviewed,
            lambda c: "assigned, no answer that stands" if c in sent else "not assigned",
            lambda _: "reviewed, but not read by a proposer",
        ),
        _step(
            "With a verdict",
            reviewed,
            settled,
            lambda _: "no verdict on any trait: reviewers too few or not of one mind",
            lambda _: "sure proposals that nobody read (auto), or labels whose reviews stand no longer",
        ),
    ]
    return steps if released is None else steps + _released(settled, released, _reasons(drops, "release"), withheld)


def _released(
    settled: Ids, released: Mapping[str, Ids], why: Mapping[str, str], withheld: Mapping[str, str]
) -> list[Row]:
    """`injected` of `released` are those rows of `grpo` to which a sentence of ours was added."""
    held, asked, taught = (released[name] for name in ("conversations", "grpo", "sft"))
    ours, more = "a sentence of ours was added (injected)", "further requests of a conversation"
    return [
        _step(
            "In the release",
            settled,
            held,
            lambda c: why.get(c, "not in this release yet"),
            lambda c: f"released before: {withheld[c]}" if c in withheld else "released without a verdict, marked so",
        ),
        _step(
            "Requests to train and test with",
            held,
            asked,
            lambda c: why.get(c, "no request"),
            lambda c: ours if c in released["injected"] else more,
        ),
        _step("With a list of items that are clear for them", asked, taught, lambda _: "no item is clear for them"),
    ]


def _step(name: str, before: Ids, after: Ids, why: Reason, joined: Reason = lambda _: "from elsewhere") -> Row:
    lost, more = (Counter(map(of, those)) for of, those in ((why, before - after), (joined, after - before)))
    return {"name": name, "count": len(after), "lost": _sorted(lost), "joined": _sorted(more)}


def _reasons(drops: pl.DataFrame, stage: str) -> dict[str, str]:
    """What was left out in a stage -> its last reason."""
    return dict(drops.filter(stage=stage).select("place", "reason").iter_rows())


def _sorted(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))


def left_out(drops: pl.DataFrame, readings: pl.DataFrame) -> list[Row]:
    """Every reason in every stage, with its count: {stage, reason, count}. What a proposer has read since, and a text's
    reasons before the last, are none. `readings` are those of the texts as they are now."""
    newest = readings.filter(pl.col("version") == pl.col("version").last().over("proposer"))
    unread = tables.last(drops.filter(stage="propose"), "source", "place").join(
        newest, left_on=["source", "place"], right_on=["proposer", "subject"], how="anti"
    )
    drops = pl.concat([drops.filter(pl.col("stage") != "propose"), unread])
    order = {stage: n for n, stage in enumerate(("mine", "catalog", "propose", "review", "release"))}
    rows = drops.group_by("stage", "reason").agg(count=pl.len()).to_dicts()
    return sorted(rows, key=lambda r: (order.get(r["stage"], len(order)), -r["count"], r["reason"]))


# ---- traits, labels, proposals


def traits(labels: pl.DataFrame, taxonomy: Taxonomy) -> list[Row]:
    """{slug, name, explicit, implicit, present, absent, unsure, unresolved} per trait, the most frequent first."""
    word = pl.col("verdict").fill_null("unresolved")
    form = pl.when(word == "present").then(pl.col("form").fill_null("implicit")).otherwise(pl.lit(None, pl.String))
    counted = labels.group_by("trait", word=word, how=form).len()
    found = {(trait, word, how): n for trait, word, how, n in counted.iter_rows()}
    rows = []
    for trait in taxonomy.traits:
        forms = {how: found.get((trait.slug, "present", how), 0) for how in ("explicit", "implicit")}
        rest = {word: found.get((trait.slug, word, None), 0) for word in ("absent", "unsure", "unresolved")}
        rows.append({"slug": trait.slug, "name": trait.name, **forms, "present": sum(forms.values()), **rest})
    return sorted(rows, key=lambda r: -r["present"])


def methods(labels: pl.DataFrame) -> dict[str, int]:
    """How many verdicts were agreed, adjudicated, taken over under a certificate (auto), or are unresolved."""
    found = Counter(labels["method"])
    return {method: found[method] for method in ("agreed", "adjudicated", "auto", "unresolved")}


def proposers(proposals: pl.DataFrame, readings: pl.DataFrame, labels: pl.DataFrame, taxonomy: Taxonomy) -> list[Row]:
    """Each proposer against people's labels: {kind, proposer, version, read, total, traits, sure}.

    total, traits: `rates`, of all and per trait. sure: precision per band of confidence (CONFIDENCES). Found and missed
    count on the texts that this proposer read; a claim without a settled label is `open`, and so is one that became a
    label `auto`: it would bear itself out. There is no recall: people look where something was proposed, so of what
    they confirmed nearly all had been. What is missed is bounded by the audit (workload.missed).
    """
    labels = labels.filter(pl.col("method") != "auto")
    keys = ["kind", "proposer", "version"]
    made = []
    for (kind, proposer, version), texts in sorted(readings.group_by(keys), key=lambda pair: pair[0]):
        claims = proposals.filter(kind=kind, proposer=proposer, version=version, verdict="present")
        counts = _against(claims, texts, labels.filter(kind=kind))
        per_trait = [
            {"slug": t.slug, "name": t.name, **rates(counts[t.slug])} for t in taxonomy.traits if counts[t.slug].total()
        ]
        total = sum(counts.values(), Counter())
        subjects = texts["subject"].n_unique()
        named = {"kind": kind, "proposer": proposer, "version": version, "read": subjects}
        made.append(
            named | {"total": rates(total), "traits": per_trait, "sure": _sure(claims, labels.filter(kind=kind))}
        )
    return made


def _sure(claims: pl.DataFrame, labels: pl.DataFrame) -> list[Row]:
    """{low, high, precision, n} per band of confidence that has a settled claim, the surest first."""
    unit = ["subject", "trait", "digest"]
    settled = labels.filter(pl.col("verdict").is_in(["present", "absent"])).select(
        *unit, right=pl.col("verdict") == "present"
    )
    judged = claims.unique(unit, keep="last").join(settled, on=unit)
    rows = []
    for low, high in pairwise(CONFIDENCES):
        band = judged.filter(pl.col("confidence") >= low, pl.col("confidence") < high)["right"]
        rows.append(
            {"low": low, "high": min(high, 1.0), "n": band.len(), "precision": wilson(int(band.sum()), band.len())}
        )
    return [row for row in reversed(rows) if row["n"]]


def _against(claims: pl.DataFrame, texts: pl.DataFrame, labels: pl.DataFrame) -> Mapping[str, Counter[str]]:
    """trait -> how many claims were right, wrong or are open, and how many sensitivities were missed."""
    unit = ["subject", "trait", "digest"]
    seen = labels.join(texts.select("subject", "digest").unique(), on=["subject", "digest"], how="semi")
    claimed = claims.select(unit).unique().with_columns(claimed=True)
    both = claimed.join(seen.select(*unit, "verdict"), on=unit, how="full", coalesce=True)
    word = (
        pl.when(pl.col("claimed") & (pl.col("verdict") == "present"))
        .then(pl.lit("right"))
        .when(pl.col("claimed") & (pl.col("verdict") == "absent"))
        .then(pl.lit("wrong"))
        .when(pl.col("claimed"))
        .then(pl.lit("open"))
        .when(pl.col("verdict") == "present")
        .then(pl.lit("missed"))
    )
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for trait, outcome, n in both.select("trait", outcome=word).drop_nulls().group_by("trait", "outcome").len().rows():
        counts[trait][outcome] = n
    return counts


def rates(counts: Mapping[str, int]) -> Row:
    """{right, wrong, missed, open, precision}: the rate as (mean, low, high), or None with nothing to count."""
    right, wrong, missed = (counts.get(word, 0) for word in ("right", "wrong", "missed"))
    return {
        "right": right,
        "wrong": wrong,
        "missed": missed,
        "open": counts.get("open", 0),
        "precision": wilson(right, right + wrong),
    }


def wilson(hits: int, n: int) -> dict[str, float] | None:
    """{mean, low, high}: a share and its 95 % interval (Wilson 1927); None of nothing."""
    if n == 0:
        return None
    p, z2 = hits / n, Z * Z
    middle, half = (p + z2 / (2 * n)), Z * sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    return {
        "mean": p,
        "low": max(0.0, (middle - half) / (1 + z2 / n)),
        "high": min(1.0, (middle + half) / (1 + z2 / n)),
    }


# ---- agreement, coverage


def agreement(alphas: pl.DataFrame, taxonomy: Taxonomy) -> list[Row]:
    """{kind, slug, name, units, positives, few, alpha, low, high} of agreement.alphas, most positives first."""
    names = {t.slug: t.name for t in taxonomy.traits}
    known = alphas.filter(pl.col("trait").is_in(list(names))).rename({"trait": "slug"}).to_dicts()
    told = [row | {"name": names[row["slug"]], "few": row["positives"] < FEW} for row in known]
    return sorted(told, key=lambda r: (r["kind"] != "sensitivity", r["alpha"] is None, -r["positives"], r["slug"]))


def coverage(oracle: Oracle, taxonomy: Taxonomy) -> list[Row]:
    """{slug, name, violated, clear, unknown}: items per verdict, the traits that the catalog knows best first."""
    codes = oracle.codes[:-1]  # the last row is the item that nobody knows
    rows = []
    for trait in taxonomy.traits:
        column = codes[:, oracle.column(trait.slug)]
        counted = {"violated": VIOLATED, "clear": CLEAR, "unknown": UNKNOWN}
        rows.append(
            {"slug": trait.slug, "name": trait.name} | {word: int((column == n).sum()) for word, n in counted.items()}
        )
    return sorted(rows, key=lambda r: (r["unknown"], -r["violated"]))


# ---- headline


def headline(
    conversations: pl.DataFrame, labels: pl.DataFrame, votes: pl.DataFrame, items: pl.DataFrame, warnings: pl.DataFrame
) -> Row:
    """The numbers that say how large this is; `own` of the `labelled` conversations hold a sensitivity."""
    present = labels.filter(verdict="present")
    people = votes.filter(kind="sensitivity")
    return {
        "conversations": conversations.height,
        "sources": sorted(set(conversations["source"])),
        "seekers": conversations["seeker"].drop_nulls().n_unique(),
        "sensitivities": present.height,
        "implicit": present.filter(pl.col("form").fill_null("implicit") == "implicit").height,
        "labelled": labels.filter(pl.col("verdict").is_not_null())["subject"].n_unique(),
        "own": present["subject"].n_unique(),
        "traits": present["trait"].n_unique(),
        "catalog": items.height,
        "warnings": warnings["warning"].n_unique(),
        "reviewers": people["reviewer"].n_unique(),
    }


def released(manifest: Facts) -> Row:
    """{items, sensitivities, present: trait -> labels “present”} of a release, as its manifest counts them."""
    present = {slug: counts.get("present", 0) for slug, counts in manifest["labels"].items()}
    items = sum(manifest["counts"].get("items", {}).values())
    return {"items": items, "sensitivities": sum(present.values()), "present": present}
