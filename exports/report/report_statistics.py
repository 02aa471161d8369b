"""Computes the counts and rates of the report page from tables, as plain values.

reads  the workspace's tables, the valid votes, the oracle, the conversations of a release
gives  dicts and lists of numbers and words, the same for the same rows, without names of reviewers
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import polars as pl

from annotation.agreement import FEW
from exports.manifest_types import Facts
from saferec_builder.core.oracle import CLEAR, UNKNOWN, VIOLATED, Oracle
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.scoring.intervals import clopper_pearson
from saferec_builder.storage import tables

Row = dict[str, Any]
Ids = set[str]
Why = tuple[Mapping[str, str], str]  # what -> its reason, and the reason of all others
CONFIDENCES = (0.0, 0.6, 0.8, 0.9, 1.01)  # a band includes its lower end; the last also includes 1


def funnel(
    conversations: pl.DataFrame,
    drops: pl.DataFrame,
    readings: pl.DataFrame,
    assignments: pl.DataFrame,
    votes: pl.DataFrame,
    labels: pl.DataFrame,
    *,
    released: Mapping[str, Ids] | None,
    withheld: Mapping[str, str],
) -> list[Row]:
    """Returns steps {name, count, lost: {reason: n}, joined: {reason: n}}: count = previous count - lost + joined.

    labels: the result of build_rows.current. released: config -> conversations, None without a release. withheld: other
    mined conversations -> the reason; they are in no other table here.
    """
    current = conversations.select(subject="conversation", digest="digest")
    mined = set(current["subject"])
    texts = readings.filter(kind="sensitivity").join(current, on=["subject", "digest"], how="semi")
    read = set(texts["subject"])
    reviewed = set(votes.filter(kind="sensitivity")["subject"]) & mined
    waiting = dict.fromkeys(assignments.filter(kind="sensitivity")["subject"], "assigned, no answer that stands")
    open_ = "no verdict on any trait: reviewers too few or not of one mind"
    unread = "sure proposals that nobody read (auto), or labels whose reviews stand no longer"
    settled = set(labels.filter(pl.col("verdict").is_not_null())["subject"]) & mined
    not_mined = Counter([*drops.filter(stage="mine")["reason"], *withheld.values()])
    steps = [
        {"name": "Found in the source files", "count": len(mined) + not_mined.total(), "lost": {}, "joined": {}},
        {"name": "Mined", "count": len(mined), "lost": _sorted(not_mined), "joined": {}},
        _step("Read by a proposer", mined, read, (_reasons(drops, "propose"), "not read yet")),
        _step("Reviewed", read, reviewed, (waiting, "not assigned"), ({}, "reviewed, but not read by a proposer")),
        _step("With a verdict", reviewed, settled, ({}, open_), ({}, unread)),
    ]
    return steps if released is None else steps + _released(settled, released, _reasons(drops, "release"), withheld)


def _released(
    settled: Ids, released: Mapping[str, Ids], reasons: Mapping[str, str], withheld: Mapping[str, str]
) -> list[Row]:
    """Returns the steps of the release. released: config -> conversations, `injected` -> those rows of `grpo`, and
    `asked` -> conversations of its other rows."""
    conversations, requests, lists = (released[name] for name in ("conversations", "grpo", "sft"))
    earlier = {conversation: f"released before: {reason}" for conversation, reason in withheld.items()}
    injected = dict.fromkeys(released["injected"], "a sentence of ours was added (injected)")
    others = dict.fromkeys(released["asked"], "its last answer only: further requests stay")
    unlabelled, further = "released without a verdict, or with one lost since", "further requests of a conversation"
    unlisted, unasked = "no item is clear for them, or no answer is known", ({**reasons, **others}, "no request")
    return [
        _step("In the release", settled, conversations, (reasons, "not in this release yet"), (earlier, unlabelled)),
        _step("Requests to train and test with", conversations, requests, unasked, (injected, further)),
        _step("With a list of items that are clear for them", requests, lists, ({}, unlisted)),
    ]


def _step(name: str, before: Ids, after: Ids, lost: Why, joined: Why = ({}, "from elsewhere")) -> Row:
    sets = {"lost": (before - after, *lost), "joined": (after - before, *joined)}
    counts = {word: Counter(reasons.get(i, rest) for i in ids) for word, (ids, reasons, rest) in sets.items()}
    return {"name": name, "count": len(after)} | {word: _sorted(reasons) for word, reasons in counts.items()}


def _reasons(drops: pl.DataFrame, stage: str) -> dict[str, str]:
    """Returns what was left out in a stage -> its last reason."""
    return dict(drops.filter(stage=stage).select("place", "reason").iter_rows())


def _sorted(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))


def left_out(drops: pl.DataFrame, readings: pl.DataFrame) -> list[Row]:
    """Returns {stage, reason, count} of every reason in every stage. Texts that a proposer has read since do not count,
    nor do earlier reasons of a text. readings: those of the current texts."""
    newest = readings.filter(pl.col("version") == pl.col("version").last().over("proposer"))
    unread = tables.last(drops.filter(stage="propose"), "source", "place").join(
        newest, left_on=["source", "place"], right_on=["proposer", "subject"], how="anti"
    )
    drops = pl.concat([drops.filter(pl.col("stage") != "propose"), unread])
    order = {stage: n for n, stage in enumerate(("mine", "catalog", "propose", "review", "release"))}
    rows = drops.group_by("stage", "reason").agg(count=pl.len()).to_dicts()
    return sorted(rows, key=lambda r: (order.get(r["stage"], len(order)), -r["count"], r["reason"]))


def traits(labels: pl.DataFrame, taxonomy: Taxonomy) -> list[Row]:
    """Returns {slug, name, explicit, implicit, unlabelled, present, absent, unsure, unresolved} per trait, frequent
    ones first; unlabelled: present, and nobody said how."""
    word = pl.col("verdict").fill_null("unresolved")
    form = pl.when(word == "present").then(pl.col("form").fill_null("unlabelled"))
    groups = labels.group_by("trait", word=word, form=form).len()
    counts = {(trait, word, form): n for trait, word, form, n in groups.iter_rows()}
    rows = []
    for trait in taxonomy.traits:
        forms = {form: counts.get((trait.slug, "present", form), 0) for form in ("explicit", "implicit", "unlabelled")}
        rest = {word: counts.get((trait.slug, word, None), 0) for word in ("absent", "unsure", "unresolved")}
        rows.append({"slug": trait.slug, "name": trait.name, **forms, "present": sum(forms.values()), **rest})
    return sorted(rows, key=lambda r: -r["present"])


def methods(labels: pl.DataFrame) -> dict[str, int]:
    """Returns how many labels are agreed, adjudicated, accepted under a certificate (auto), or unresolved."""
    counts = Counter(labels["method"])
    return {method: counts[method] for method in ("agreed", "adjudicated", "auto", "unresolved")}


def proposers(proposals: pl.DataFrame, readings: pl.DataFrame, labels: pl.DataFrame, taxonomy: Taxonomy) -> list[Row]:
    """Compares each proposer with people's labels: {kind, proposer, version, read, total, traits, sure}.

    total, traits: `rates` of all traits and per trait. sure: precision per band of confidence (CONFIDENCES). Only texts
    that the proposer read count. A claim of which people are unsure is `unsure`; one without a verdict is `open`, and
    so is one that became a label `auto`: it would confirm itself. There is no recall: people look where something was
    proposed, so nearly all that they confirmed had been proposed. The audit bounds what is missed (workload.missed).
    """
    labels = labels.filter(pl.col("method") != "auto")
    keys = ["kind", "proposer", "version"]
    rows = []
    for (kind, proposer, version), texts in sorted(readings.group_by(keys), key=lambda pair: pair[0]):
        claims = proposals.filter(kind=kind, proposer=proposer, version=version, verdict="present")
        counts = _outcomes(claims, texts, labels.filter(kind=kind))
        per_trait = [
            {"slug": t.slug, "name": t.name, **rates(counts[t.slug])} for t in taxonomy.traits if counts[t.slug].total()
        ]
        head = {"kind": kind, "proposer": proposer, "version": version, "read": texts["subject"].n_unique()}
        total, sure = rates(sum(counts.values(), Counter())), _sure(claims, labels.filter(kind=kind))
        rows.append(head | {"total": total, "traits": per_trait, "sure": sure})
    return rows


def _sure(claims: pl.DataFrame, labels: pl.DataFrame) -> list[Row]:
    """Returns {low, high, precision, n} per band of confidence with a settled claim, the highest first."""
    unit = ["subject", "trait", "digest"]
    settled = labels.filter(pl.col("verdict").is_in(["present", "absent"]))
    settled = settled.select(*unit, right=pl.col("verdict") == "present")
    judged = claims.unique(unit, keep="last").join(settled, on=unit)
    rows = []
    for low, high in pairwise(CONFIDENCES):
        band = judged.filter(pl.col("confidence") >= low, pl.col("confidence") < high)["right"]
        precision = proportion(int(band.sum()), band.len())
        rows.append({"low": low, "high": min(high, 1.0), "n": band.len(), "precision": precision})
    return [row for row in reversed(rows) if row["n"]]


def _outcomes(claims: pl.DataFrame, texts: pl.DataFrame, labels: pl.DataFrame) -> Mapping[str, Counter[str]]:
    """Returns trait -> how many claims are right, wrong, unsure or open, and how many sensitivities were missed."""
    unit = ["subject", "trait", "digest"]
    judged = labels.join(texts.select("subject", "digest").unique(), on=["subject", "digest"], how="semi")
    claimed = claims.select(unit).unique().with_columns(claimed=True)
    both = claimed.join(judged.select(*unit, "verdict"), on=unit, how="full", coalesce=True)
    outcomes = {"present": "right", "absent": "wrong", "unsure": "unsure"}
    outcome = pl.col("verdict").replace_strict(outcomes, default="open")
    word = pl.when("claimed").then(outcome).when(pl.col("verdict") == "present").then(pl.lit("missed"))
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for trait, outcome, n in both.select("trait", outcome=word).drop_nulls().group_by("trait", "outcome").len().rows():
        counts[trait][outcome] = n
    return counts


def rates(counts: Mapping[str, int]) -> Row:
    """Returns {right, wrong, missed, unsure, open, precision}; precision is {mean, low, high}, or None."""
    words = {word: counts.get(word, 0) for word in ("right", "wrong", "missed", "unsure", "open")}
    return words | {"precision": proportion(words["right"], words["right"] + words["wrong"])}


def proportion(hits: int, n: int) -> dict[str, float] | None:
    """Returns {mean, low, high}: a share and its exact 95 % interval; None if n is 0."""
    if n == 0:
        return None
    low, high = clopper_pearson(hits, n)
    return {"mean": hits / n, "low": low, "high": high}


def agreement(alphas: pl.DataFrame, taxonomy: Taxonomy) -> list[Row]:
    """Returns {kind, slug, name, units, positives, few, alpha, low, high} of agreement.alphas, most positives first;
    without positives alpha is not told: `absent` against `unsure` says nothing of how far people find the same."""
    names = {t.slug: t.name for t in taxonomy.traits}
    rows = alphas.filter(pl.col("trait").is_in(list(names))).rename({"trait": "slug"}).to_dicts()
    untold = dict.fromkeys(("alpha", "low", "high"))
    named = [
        row | {"name": names[row["slug"]], "few": row["positives"] < FEW} | (untold if not row["positives"] else {})
        for row in rows
    ]
    return sorted(named, key=lambda r: (r["kind"] != "sensitivity", r["alpha"] is None, -r["positives"], r["slug"]))


def coverage(oracle: Oracle, taxonomy: Taxonomy) -> list[Row]:
    """Returns {slug, name, violated, clear, unknown}: items per verdict, traits with the fewest unknown items first."""
    verdicts = {"violated": VIOLATED, "clear": CLEAR, "unknown": UNKNOWN}
    rows = []
    for trait in taxonomy.traits:
        codes = oracle.codes[:-1, oracle.column(trait.slug)]  # the last row is the item that nobody knows
        counts = {word: int((codes == n).sum()) for word, n in verdicts.items()}
        rows.append({"slug": trait.slug, "name": trait.name} | counts)
    return sorted(rows, key=lambda r: (r["unknown"], -r["violated"]))


def headline(
    conversations: pl.DataFrame,
    labels: pl.DataFrame,
    votes: pl.DataFrame,
    items: pl.DataFrame,
    linked: pl.DataFrame,
    warnings: pl.DataFrame,
) -> Row:
    """Returns the main numbers of the dataset; `own` of the `labelled` conversations hold a sensitivity. linked: the
    warnings that refer to an item."""
    present = labels.filter(verdict="present")
    reviews = votes.filter(kind="sensitivity")
    return {
        "conversations": conversations.height,
        "sources": sorted(set(conversations["source"])),
        "seekers": conversations["seeker"].drop_nulls().n_unique(),
        "sensitivities": present.height,
        "implicit": present.filter(form="implicit").height,
        "unlabelled": present["form"].null_count(),
        "labelled": labels.filter(pl.col("verdict").is_not_null())["subject"].n_unique(),
        "own": present["subject"].n_unique(),
        "traits": present["trait"].n_unique(),
        "catalog": items.height,
        "warnings": linked["warning"].n_unique(),
        "unlinked": warnings.join(linked, "warning", "anti").height,
        "reviewers": reviews["reviewer"].n_unique(),
    }


def released(manifest: Facts) -> Row:
    """Returns {items, sensitivities, present: trait -> labels “present”} of a release, from its manifest."""
    present = {slug: counts.get("present", 0) for slug, counts in manifest["labels"].items()}
    items = sum(manifest["counts"].get("items", {}).values())
    return {"items": items, "sensitivities": sum(present.values()), "present": present}
