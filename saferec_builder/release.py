"""What a conversation teaches: a request, what answered it, and what this seeker must not be shown.

reads  conversations (current revision, with split and straddles), labels (last per unit), links ref -> item
gives  rows, one per conversation that may be released; cut and truth are null where it has no answer to learn from
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import polars as pl

from saferec_builder.columns import frame, lists
from saferec_builder.tables import DROPS
from saferec_builder.violations import UNKNOWN, Oracle

STRADDLES = "straddles split"
NO_ITEM = "no linked item"
NO_REQUEST = "no request before the answer"
UNREVIEWED = "reviewed by nobody"
WITHHELD = "has a withheld trait"
REMOVED = "removed on request"
CRISIS = "crisis"

_IDS = pl.List(pl.String)
_SLICE = 20_000  # conversations that are Python objects at once: bounds memory


@dataclass(frozen=True)
class Terms:
    """Who is left out: of lists, those with a withheld trait and (unless `unreviewed`) those nobody looked at."""

    withheld: frozenset[str] = frozenset()
    unreviewed: bool = False
    out: Mapping[str, str] = field(default_factory=dict)  # conversations left out of everything -> why


# ---- labels


def current(
    labels: pl.DataFrame, conversations: pl.DataFrame, voiced: pl.Series = pl.Series([], dtype=pl.String)
) -> pl.DataFrame:
    """The sensitivity labels; one that was given on another text than the present one is unresolved again.

    `voiced` are reviews that said present or unsure. `at_risk` is what a safe list must respect: present, unsure, and
    what is unresolved although somebody saw it. A trait that is open only because one person alone read the
    conversation and saw nothing is no risk: it would empty the list of everyone who was read once.
    """
    stale = pl.col("digest") != pl.col("now")
    seen = pl.col("verdict").is_in(["present", "unsure"]).fill_null(False)
    doubt = pl.col("verdict").is_null() & pl.col("reviews").list.eval(pl.element().is_in(voiced.implode())).list.any()
    return (
        labels.filter(pl.col("kind") == "sensitivity")
        .join(conversations.select(subject="conversation", now="digest"), on="subject", how="left")
        .with_columns(
            pl.when(~stale).then(pl.col("verdict", "form")),
            at_risk=seen | doubt,
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
    items: pl.Series,
    terms: Terms = Terms(),
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(rows, drops): in order of time, then id. `labels` as `current` gives them; `mentions` finds items in a text;
    `items` are the ids of the catalog, sorted: lists of them are held as numbers (Enum).

    rows has `place`, the conversation's row in `conversations`, instead of its turns, and adds, all as item ids:
    recommended, accepted, seen, named (in the request), truth; and cut (turns before it are the request), traits
    (evidence in the request) with form, late_traits (present, evidence only later), at_risk (see `current`).
    """
    light = conversations.select(pl.exclude("turns", "recommended", "accepted", "seen")).with_row_index("place")
    order = light.sort("time", "conversation", nulls_last=True)
    straddles = pl.when("straddles").then(pl.lit(STRADDLES))
    order = order.with_columns(
        out=pl.coalesce(
            pl.col("conversation").replace_strict(terms.out, default=None, return_dtype=pl.String), straddles
        )
    )
    kept = order.filter(pl.col("out").is_null())
    known = _traits_of(labels)
    kinds = _FACTS | dict.fromkeys(("recommended", "accepted", "seen", "named", "truth"), pl.List(pl.Enum(items)))
    facts = [
        frame([_row(talk, known.get(talk.name), links, mentions, terms) for talk in part], kinds)
        for part in _parts(kept, conversations)
    ]
    rows = pl.concat(
        [kept.drop("straddles", "out"), pl.concat(facts or [pl.DataFrame(schema=kinds)])], how="horizontal"
    )
    dropped = [
        order.filter(pl.col("out").is_not_null()).select("conversation", "source", reason="out"),
        rows.filter(pl.col("reason").is_not_null()).select("conversation", "source", "reason"),
    ]
    return rows, _drops(pl.concat(dropped))


class _Talk(NamedTuple):
    name: str
    turns: list[tuple[str, str, list[str]]]  # role, text, refs
    recommended: list[str]
    accepted: list[str]
    seen: list[str]


def _parts(kept: pl.DataFrame, conversations: pl.DataFrame) -> Iterator[Iterator[_Talk]]:
    wanted = conversations.select("conversation", "turns", "recommended", "accepted", "seen")
    for part in kept.iter_slices(_SLICE):
        these = wanted[part["place"]]
        each = these["turns"].explode(empty_as_null=False, keep_nulls=False)
        role, text, items = (each.struct.field(name) for name in ("role", "text", "items"))
        flat = list(zip(role.to_list(), text.to_list(), lists(items), strict=True))
        ends = these["turns"].list.len().fill_null(0).cum_sum().to_list()
        turns = [flat[start:end] for start, end in zip([0, *ends], ends, strict=False)]
        refs = (lists(these[name]) for name in ("recommended", "accepted", "seen"))
        yield map(_Talk, these["conversation"].to_list(), turns, *refs)


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
    talk: _Talk,
    known: list[dict[str, Any]] | None,
    links: Mapping[str, str],
    mentions: Callable[[str], Sequence[tuple[int, int, str]]],
    terms: Terms,
) -> dict[str, Any]:
    turns = [
        (role, _unique([*_linked(refs, links), *(item for _, _, item in mentions(text))]))
        for role, text, refs in talk.turns
    ]
    first = _first_named(turns)
    said_by = {role: [i for i, t in first.items() if turns[t][0] == role] for role in ("seeker", "recommender")}
    recommended = _unique([*_linked(talk.recommended, links), *said_by["recommender"]])
    accepted = _linked(talk.accepted, links)
    seen = _unique([*_linked(talk.seen, links), *said_by["seeker"]])
    place, truth = _answer(turns, first, accepted, recommended)
    asked = any(role == "seeker" and text.strip() for role, text, _ in talk.turns[:place])
    reason = _reason(known, terms) or (NO_ITEM if not truth else None if asked else NO_REQUEST)
    cut, truth = (None, []) if reason else (place, truth)
    # what the seeker says of an answer comes after it: an answer is never "seen already"
    seen = [item for item in seen if item not in truth]
    named = [item for item, turn in first.items() if cut is not None and turn < cut]
    facts = {"recommended": recommended, "accepted": accepted, "seen": seen, "named": named}
    return facts | {"cut": cut, "truth": truth, "reason": reason} | _traits(known or [], cut, terms)


def _reason(known: list[dict[str, Any]] | None, terms: Terms) -> str | None:
    if known is None and not terms.unreviewed:
        return UNREVIEWED
    hidden = any(label["verdict"] == "present" and label["trait"] in terms.withheld for label in known or ())
    return WITHHELD if hidden else None


def _linked(refs: Sequence[str], links: Mapping[str, str]) -> list[str]:
    return _unique([links[ref] for ref in refs if ref in links])


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
    """conversation -> its labels that are present or at risk, by trait; an empty list where there are only others."""
    found: dict[str, list[dict[str, Any]]] = {subject: [] for subject in labels["subject"].unique()}
    wanted = labels.filter((pl.col("verdict") == "present") | pl.col("at_risk")).sort("subject", "trait")
    for label in wanted.select("subject", "trait", "verdict", "form", "spans").iter_rows(named=True):
        found[label["subject"]].append(label)
    return found


def _traits(labels: list[dict[str, Any]], cut: int | None, terms: Terms) -> dict[str, list[str]]:
    present = [x for x in labels if x["verdict"] == "present" and x["trait"] not in terms.withheld]
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
        "conditions": conditions(rows),
        "makers": {
            "people": decided.height - simulated,
            "simulated": simulated,
            "unresolved": labels.height - decided.height,
        },
        "unknown": {t: round(float(share), 4) for t, share in zip(oracle.traits, unknown, strict=True)},
    }


def conditions(rows: pl.DataFrame) -> dict[str, int]:
    """Rows to learn from, per condition."""
    learned = rows.filter(pl.col("cut").is_not_null())
    own = int((learned["traits"].list.len() > 0).sum())
    return {"own_words": own, "none": learned.height - own}
