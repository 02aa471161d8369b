"""What a conversation teaches: a request, what answered it, and what this seeker must not be shown.

reads  conversations (current revision, with split and straddles), labels (last per unit), links ref -> item
gives  rows, one per conversation that may be released; cut and truth are null where it has no answer to learn from
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl

from saferec_builder.errors import ReleaseError
from saferec_builder.tables import DROPS
from saferec_builder.violations import UNKNOWN, Oracle

STRADDLES = "straddles split"
NO_ITEM = "no linked item"
NO_REQUEST = "no request before the answer"

_IDS = pl.List(pl.String)


# ---- checks: each stops a release, naming rows and remedy


def check_version(version: str) -> tuple[int, int, int]:
    """(1, 2, 0) for 1.2.0."""
    found = re.fullmatch(r"(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})", version, re.A)
    if not found:
        raise ReleaseError(f"version {version!r}: wanted MAJOR.MINOR.PATCH, as in 1.0.0")
    return int(found[1]), int(found[2]), int(found[3])


def check_labels(labels: pl.DataFrame, conversations: pl.DataFrame, items: pl.DataFrame, slugs: Sequence[str]) -> None:
    """Every label must speak of a conversation or item that is there, and of a trait of this taxonomy."""
    if labels.is_empty():
        raise ReleaseError("release: there are no labels to release: run `saferec-build adjudicate` first")
    strange = labels.filter(~pl.col("trait").is_in(list(slugs)))
    if strange.height:
        raise ReleaseError(
            f"release: {strange.height} labels of a trait that the taxonomy lacks, first {strange['trait'][0]!r} on"
            f" {strange['subject'][0]}: give [taxonomy] path the file that the reviewers saw"
        )
    for kind, have, remedy in (
        ("sensitivity", conversations["conversation"], "mine their source again"),
        ("item_flag", items["item"], "add their catalog source again"),
    ):
        lost = labels.filter((pl.col("kind") == kind) & ~pl.col("subject").is_in(have.implode()))["subject"].unique()
        if lost.len():
            what = "conversations" if kind == "sensitivity" else "items"
            raise ReleaseError(
                f"release: {lost.len()} labelled {what} are not in the workspace, first {lost.sort()[0]}: {remedy}"
            )


# ---- labels


def current(labels: pl.DataFrame, conversations: pl.DataFrame) -> pl.DataFrame:
    """The sensitivity labels; one that was given on another text than the present one is unresolved again."""
    stale = pl.col("digest") != pl.col("now")
    return (
        labels.filter(pl.col("kind") == "sensitivity")
        .join(conversations.select(subject="conversation", now="digest"), on="subject", how="left")
        .with_columns(
            pl.when(~stale).then(pl.col("verdict", "form")),
            method=pl.when(stale).then(pl.lit("unresolved")).otherwise("method"),
            spans=pl.when(stale).then(pl.lit([], labels.schema["spans"])).otherwise("spans"),
            stale=stale,
        )
        .drop("now")
    )


# ---- rows


def refs(conversations: pl.DataFrame) -> list[str]:
    """Every ref that a conversation uses, once, sorted: what the catalog is asked to link."""
    in_turns = pl.col("turns").list.eval(pl.element().struct.field("items")).list.explode(empty_as_null=True)
    frames = [conversations.select(ref=in_turns.list.explode(empty_as_null=True))]
    frames += [conversations.select(ref=pl.col(c).list.explode()) for c in ("recommended", "accepted", "seen")]
    return pl.concat(frames)["ref"].drop_nulls().unique().sort().to_list()


def build(
    conversations: pl.DataFrame,
    labels: pl.DataFrame,
    links: Mapping[str, str],
    mentions: Callable[[str], Sequence[tuple[int, int, str]]],
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(rows, drops): in order of time, then id. `labels` as `current` gives them; `mentions` finds items in a text.

    rows adds to a conversation, all as item ids: recommended, accepted, seen, named (in the request), truth; and cut
    (turns before it are the request), traits (evidence in the request) with form, late_traits (present, evidence only
    later), at_risk (present, unsure or unresolved: what a safe list must respect).
    """
    order = conversations.sort("time", "conversation", nulls_last=True)
    kept = order.filter(~pl.col("straddles"))
    known = _traits_of(labels)
    made = [_row(row, known.get(row["conversation"], []), links, mentions) for row in kept.iter_rows(named=True)]
    facts = pl.DataFrame(made, schema=_FACTS, orient="row")
    rows = pl.concat([kept.drop("recommended", "accepted", "seen", "straddles"), facts], how="horizontal")
    dropped = [order.filter(pl.col("straddles")).select("conversation", "source", reason=pl.lit(STRADDLES))]
    dropped.append(rows.filter(pl.col("reason").is_not_null()).select("conversation", "source", "reason"))
    return rows, _drops(pl.concat(dropped))


_FACTS: dict[str, Any] = {
    "recommended": _IDS,
    "accepted": _IDS,
    "seen": _IDS,
    "named": _IDS,
    "cut": pl.Int32,
    "truth": _IDS,
    "reason": pl.String,
    "traits": _IDS,
    "form": _IDS,
    "late_traits": _IDS,
    "at_risk": _IDS,
}


def _row(
    row: dict[str, Any],
    known: list[dict[str, Any]],
    links: Mapping[str, str],
    mentions: Callable[[str], Sequence[tuple[int, int, str]]],
) -> dict[str, Any]:
    turns = [
        (turn["role"], _unique([*_linked(turn["items"], links), *(item for _, _, item in mentions(turn["text"]))]))
        for turn in row["turns"]
    ]
    first = _first_named(turns)
    said_by = {role: [i for i, t in first.items() if turns[t][0] == role] for role in ("seeker", "recommender")}
    recommended = _unique([*_linked(row["recommended"], links), *said_by["recommender"]])
    accepted = _linked(row["accepted"], links)
    seen = _unique([*_linked(row["seen"], links), *said_by["seeker"]])
    place, truth = _answer(turns, first, accepted, recommended)
    asked = any(turn["role"] == "seeker" and turn["text"].strip() for turn in row["turns"][:place])
    reason = NO_ITEM if not truth else None if asked else NO_REQUEST
    cut, truth = (None, []) if reason else (place, truth)
    # what the seeker says of an answer comes after it: an answer is never "seen already"
    seen = [item for item in seen if item not in truth]
    named = [item for item, turn in first.items() if cut is not None and turn < cut]
    facts = {"recommended": recommended, "accepted": accepted, "seen": seen, "named": named}
    return facts | {"cut": cut, "truth": truth, "reason": reason} | _traits(known, cut)


def _linked(refs: Sequence[str] | None, links: Mapping[str, str]) -> list[str]:
    return _unique(links[ref] for ref in refs or () if ref in links)


def _unique(items: Any) -> list[str]:
    return list(dict.fromkeys(items))


def _first_named(turns: list[tuple[str, list[str]]]) -> dict[str, int]:
    """item -> the turn that names it first, in order of naming."""
    first: dict[str, int] = {}
    for number, (_, items) in enumerate(turns):
        for item in items:
            first.setdefault(item, number)
    return first


def _answer(
    turns: list[tuple[str, list[str]]], first: Mapping[str, int], accepted: list[str], recommended: list[str]
) -> tuple[int, list[str]]:
    """(cut, truth): the accepted items, else the recommended ones, that the turns before the cut do not name.

    The cut is the last recommender turn that still leaves such an item: an answer that stands in its own request
    would teach copying. A conversation in which no recommender names an item is a request as a whole.
    """
    end = 1 + max((n for n, (role, _) in enumerate(turns) if role == "seeker"), default=-1)
    cuts = [n for n, (role, items) in enumerate(turns) if role == "recommender" and items][::-1] or [end]
    for pool in (accepted, recommended):
        for cut in cuts:
            truth = [item for item in pool if first.get(item, cut) >= cut]
            if truth:
                return cut, truth
    return 0, []


def _traits_of(labels: pl.DataFrame) -> dict[str, list[dict[str, Any]]]:
    """conversation -> its labels that are not `absent`, by trait."""
    wanted = labels.filter(pl.col("verdict").is_null() | (pl.col("verdict") != "absent")).sort("subject", "trait")
    found: dict[str, list[dict[str, Any]]] = {}
    for label in wanted.select("subject", "trait", "verdict", "form", "spans").iter_rows(named=True):
        found.setdefault(label["subject"], []).append(label)
    return found


def _traits(labels: list[dict[str, Any]], cut: int | None) -> dict[str, list[str]]:
    present = [label for label in labels if label["verdict"] == "present"]
    early = [x for x in present if cut is not None and any(s["turn"] < cut for s in x["spans"] or ())]
    return {
        "traits": [x["trait"] for x in early],
        # a reviewer who left the form open did not see it named
        "form": [x["form"] or "implicit" for x in early],
        "late_traits": [x["trait"] for x in present if x not in early],
        "at_risk": [x["trait"] for x in labels],
    }


def _drops(dropped: pl.DataFrame) -> pl.DataFrame:
    frame = dropped.select(
        "source", "reason", stage=pl.lit("release"), place="conversation", detail=pl.lit(None, pl.String)
    )
    return frame.select(list(DROPS.columns))


def figures(rows: pl.DataFrame, labels: pl.DataFrame, oracle: Oracle) -> dict[str, Any]:
    """What card and report say of the labels: counts per trait, who made them, how much of the catalog is unknown."""
    verdicts = ("present", "absent", "unsure", "unresolved")
    word = pl.col("verdict").fill_null("unresolved")
    found = {(t, v): n for t, v, n in labels.group_by("trait", word).len().iter_rows()}
    decided = labels.filter(pl.col("verdict").is_in(["present", "absent"]))
    simulated = int(decided["simulated"].sum())
    known = oracle.codes[:-1]  # the last row is the item that nobody knows
    unknown = (known == UNKNOWN).mean(axis=0) if len(known) else [1.0] * len(oracle.traits)
    return {
        "labels": {t: {v: found.get((t, v), 0) for v in verdicts} for t in oracle.traits},
        "makers": {
            "people": decided.height - simulated,
            "simulated": simulated,
            "unresolved": labels.height - decided.height,
        },
        "unreviewed": rows.join(labels, left_on="conversation", right_on="subject", how="anti").height,
        "unknown": {t: round(float(share), 4) for t, share in zip(oracle.traits, unknown, strict=True)},
    }
