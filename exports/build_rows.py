"""Builds a release's rows, one per request: what was asked, its answers, and what this seeker must not be shown.

reads  conversations (current revision, with split and straddles), labels (last per unit), links ref -> item
gives  rows, one per conversation that may be released, and one for each further request of it where those are asked
       for; cut is null where there is no answer to learn from
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypedDict

import polars as pl

from exports.manifest_types import Facts
from saferec_builder.core.oracle import UNKNOWN, Oracle
from saferec_builder.mining.splits import SPLITS
from saferec_builder.storage.schema import frame, lists
from saferec_builder.storage.tables import DROPS

STRADDLES = "straddles split"
NO_ITEM = "no linked item"
NO_REQUEST = "no request before the answer"
UNREVIEWED = "reviewed by nobody"
WITHHELD = "has a withheld trait"
REPEATED = "answer in a train request"
NOT_BACK = "text not put back: "  # before the reason of exports/rebuild.py
_STAYS = (NO_ITEM, NO_REQUEST, UNREVIEWED, WITHHELD, REPEATED)  # in `conversations`, without a row to learn from

_IDS = pl.List(pl.String)
_SLICE = 20_000  # conversations that are Python objects at once: bounds memory


@dataclass(frozen=True)
class Terms:
    """Who is left out: of lists, those with a withheld trait and (unless `unreviewed`) those nobody looked at.

    turns: each recommender turn that brings new items is a request, not only the last. truthless: a test conversation
    without an item is a request, too, for figures of safety.
    """

    withheld: frozenset[str] = frozenset()
    unreviewed: bool = False
    out: Mapping[str, str] = field(default_factory=dict)  # conversations left out of everything -> why
    turns: bool = False
    truthless: bool = False


# ---- labels


def current(
    labels: pl.DataFrame, conversations: pl.DataFrame, voiced: pl.Series = pl.Series([], dtype=pl.String)
) -> pl.DataFrame:
    """The sensitivity labels; one that was given on another text than the present one is unresolved again.

    `read` is false where nobody's word on the present text is behind one: such a label makes no conversation reviewed.
    `voiced` are reviews that said present or unsure. `at_risk` is what a safe list must respect: present, unsure, and
    what is unresolved although somebody saw it. A trait that is open only because one person alone read the
    conversation and saw nothing is no risk: it would empty the list of everyone who was read once.
    """
    stale = pl.col("digest") != pl.col("now")
    seen = pl.col("verdict").is_in(["present", "unsure"]).fill_null(False)
    behind = pl.col("verdict").is_not_null() | (pl.col("reviews").list.len() > 0).fill_null(False)
    doubt = pl.col("verdict").is_null() & pl.col("reviews").list.eval(pl.element().is_in(voiced.implode())).list.any()
    return (
        labels.filter(pl.col("kind") == "sensitivity")
        .join(conversations.select(subject="conversation", now="digest"), on="subject", how="left")
        .with_columns(
            pl.when(~stale).then(pl.col("verdict", "form")),
            at_risk=seen | doubt,
            method=pl.when(stale).then(pl.lit("unresolved")).otherwise("method"),
            spans=pl.when(stale).then(pl.lit([], labels.schema["spans"])).otherwise("spans"),
            read=~stale & behind,
        )
        .drop("now")
    )


# ---- rows


Mentions = Callable[[str], Sequence[tuple[int, int, str]]]  # text -> start, end, item


@dataclass(frozen=True)
class Reading:
    """What was said, and how items are found in it."""

    said: Callable[[pl.Series], pl.DataFrame]  # places, rising -> turns, recommended, accepted, seen
    links: Mapping[str, str]  # ref -> item
    mentions: Mentions


def ordered(
    conversations: pl.DataFrame, out: Mapping[str, str], silent: Collection[str] = ()
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(what is in the release, by day, then released id, with its `place`; what is left out, with its `reason`).

    `conversations` need not hold what was said; `out` says who is left out of everything, and why. No finer order: it
    would tell which conversation of the source a row is. Of the sources `silent` not even by day: these stand last.
    """
    why = pl.col("conversation").replace_strict(out, default=None, return_dtype=pl.String)
    day = pl.when(~pl.col("source").is_in(list(silent))).then(pl.col("time").dt.date())
    order = conversations.sort(day, "released", nulls_last=True).with_columns(
        reason=pl.coalesce(why, pl.when("straddles").then(pl.lit(STRADDLES)))
    )
    kept = order.filter(pl.col("reason").is_null()).drop("straddles", "reason").with_row_index("place")
    return kept, order.filter(pl.col("reason").is_not_null()).select("conversation", "source", "reason")


def build(
    kept: pl.DataFrame, labels: pl.DataFrame, reading: Reading, items: pl.Series, terms: Terms = Terms()
) -> pl.DataFrame:
    """`kept` of `ordered` with what it teaches. `labels` as `current` gives them; `items` are the ids of the catalog,
    sorted: lists of them are held as numbers (Enum).

    Adds, all as item ids: recommended, accepted, seen, named (in the request), truth; and further (0, other requests of
    a conversation 1, 2, ...), cut (turns before it are the request), asks (messages of the seeker in it), truth_kind
    (accepted, recommended, none), reason (why there is no request), traits (evidence in the request) with form,
    late_traits (present, evidence only later), at_risk (see `current`).
    """
    known = _known(labels if terms.unreviewed else labels.filter(pl.col("read").any().over("subject")), kept)
    kinds = _FACTS | dict.fromkeys(("recommended", "accepted", "seen", "named", "truth"), pl.List(pl.Enum(items)))
    facts = [pl.DataFrame(schema=kinds)]
    for part in kept.select("place", "split").iter_slices(_SLICE):
        said = _by_place(_between(known, part["place"]))
        talks = _talks(part, reading.said(part["place"]))
        rows = [row for talk in talks for row in _rows(talk, said.get(talk.place), reading, terms)]
        facts.append(frame(rows, kinds))
    return kept.join(pl.concat(facts), on="place", maintain_order="left_right")


def drops(left_out: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """DROPS of what `ordered` left out, and of the rows that teach nothing."""
    silent = rows.filter(pl.col("reason").is_not_null()).select("conversation", "source", "reason")
    made = pl.concat([left_out, silent]).select(
        "source", "reason", stage=pl.lit("release"), place="conversation", detail=pl.lit(None, pl.String)
    )
    return made.select(list(DROPS.columns))


def apart(dropped: Mapping[str, int]) -> tuple[dict[str, int], dict[str, int]]:
    """Reasons of DROPS: (why conversations are not in the release, why others are in its `conversations` only)."""
    stays = {why: n for why, n in dropped.items() if why in _STAYS or why.startswith(NOT_BACK)}
    return {why: n for why, n in dropped.items() if why not in stays}, stays


class _Talk(NamedTuple):
    place: int
    tested: bool  # in the test split
    turns: list[tuple[str, str, list[str]]]  # role, text, refs
    recommended: list[str]
    accepted: list[str]
    seen: list[str]


def _talks(part: pl.DataFrame, said: pl.DataFrame) -> Iterator[_Talk]:
    each = said["turns"].explode(empty_as_null=False, keep_nulls=False)
    role, text, items = (each.struct.field(name) for name in ("role", "text", "items"))
    flat = list(zip(role.to_list(), text.to_list(), lists(items), strict=True))
    ends = said["turns"].list.len().fill_null(0).cum_sum().to_list()
    turns = [flat[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    refs = (lists(said[name]) for name in ("recommended", "accepted", "seen"))
    return map(_Talk, part["place"].to_list(), (part["split"] == SPLITS[-1]).to_list(), turns, *refs)


class _Label(TypedDict):
    """Of a conversation, what is present or at risk; `first`: the first turn with evidence."""

    trait: str
    verdict: str | None
    form: str | None
    first: int | None


_Request = dict[str, list[str] | int | str | None]
_FACTS: dict[str, pl.DataType | type[pl.DataType]] = {
    "place": pl.UInt32,
    "further": pl.Int32,
    "recommended": _IDS,
    "accepted": _IDS,
    "seen": _IDS,
    "named": _IDS,
    "cut": pl.Int32,
    "asks": pl.Int32,
    "truth": _IDS,
    "truth_kind": pl.String,
    "reason": pl.String,
    "traits": _IDS,
    "form": _IDS,
    "late_traits": _IDS,
    "at_risk": _IDS,
}


def _rows(talk: _Talk, known: list[_Label] | None, reading: Reading, terms: Terms) -> Iterator[_Request]:
    """The request of a conversation, or why there is none; then the further ones."""
    links = reading.links
    turns = [(role, named(text, refs, links, reading.mentions)) for role, text, refs in talk.turns]
    first = _first_named(turns)
    said_by = {role: [i for i, t in first.items() if turns[t][0] == role] for role in ("seeker", "recommender")}
    recommended = _unique([*_linked(talk.recommended, links), *said_by["recommender"]])
    accepted = _linked(talk.accepted, links)
    seen = _unique([*_linked(talk.seen, links), *said_by["seeker"]])
    answers = [_answer(turns, first, accepted, recommended)]
    if terms.turns and answers[0].truth:
        answers += _others(turns, first, accepted, recommended, answers[0].cut)
    for number, (place, truth, kind) in enumerate(answers):
        asks = _messages(talk.turns[:place])
        answered = truth or (terms.truthless and talk.tested)
        reason = _reason(known, terms) or (NO_ITEM if not answered else None if asks else NO_REQUEST)
        if number and reason:
            continue
        cut, truth = (None, []) if reason else (place, truth)
        yield {
            "place": talk.place,
            "further": number,
            "recommended": recommended,
            "accepted": accepted,
            # what the seeker says of an answer comes after it: an answer is never "seen already"
            "seen": [item for item in seen if item not in truth],
            "named": [item for item, turn in first.items() if cut is not None and turn < cut],
            "cut": cut,
            "asks": asks,
            "truth": truth,
            "truth_kind": None if reason else kind,
            "reason": reason,
            **_traits(known or [], cut, terms),
        }


def named(text: str, refs: Sequence[str], links: Mapping[str, str], mentions: Mentions) -> list[str]:
    """The items that a turn names, each once: by its refs, then in its text."""
    return _unique([*_linked(refs, links), *(item for _, _, item in mentions(text))])


def _reason(known: list[_Label] | None, terms: Terms) -> str | None:
    if known is None and not terms.unreviewed:
        return UNREVIEWED
    # unsure, too: lists that respect a withheld trait would tell which one it is
    hidden = any(label["trait"] in terms.withheld for label in known or ())
    return WITHHELD if hidden else None


def _linked(refs: Sequence[str], links: Mapping[str, str]) -> list[str]:
    return _unique([links[ref] for ref in refs if ref in links])


def _unique(items: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(items))


def _first_named(turns: list[tuple[str, list[str]]]) -> dict[str, int]:
    """item -> the turn that names it first, in order of naming."""
    first: dict[str, int] = {}
    for number, (_, items) in enumerate(turns):
        for item in items:
            first.setdefault(item, number)
    return first


class _Answer(NamedTuple):
    cut: int
    truth: list[str]
    kind: str


_Named = list[tuple[str, list[str]]]  # per turn its role, and the items that it names
ACCEPTED, RECOMMENDED, NONE = "accepted", "recommended", "none"  # truth_kind


def _messages(turns: list[tuple[str, str, list[str]]]) -> int:
    """How many messages of the seeker a prompt of these turns has: neighbours of one role are one."""
    roles = [role for role, text, _ in turns if text.strip()]
    return sum(role == "seeker" != before for role, before in zip(roles, ["", *roles], strict=False))


def _answer(turns: _Named, first: Mapping[str, int], accepted: list[str], recommended: list[str]) -> _Answer:
    """The accepted items, else the recommended ones, that the turns before the cut do not name.

    The cut is the last recommender turn that still leaves such an item: an answer that stands in its own request
    would teach copying. A conversation in which no recommender names an item is a request as a whole.
    """
    end = 1 + max((n for n, (role, _) in enumerate(turns) if role == "seeker"), default=-1)
    cuts = [n for n, (role, items) in enumerate(turns) if role == "recommender" and items][::-1] or [end]
    for kind, pool in ((ACCEPTED, accepted), (RECOMMENDED, recommended)):
        for cut in cuts:
            truth = [item for item in pool if first.get(item, cut) >= cut]
            if truth:
                return _Answer(cut, truth, kind)
    return _Answer(end, [], NONE)


def _others(
    turns: _Named, first: Mapping[str, int], accepted: list[str], recommended: list[str], taken: int
) -> Iterator[_Answer]:
    """Each other recommender turn that names items first, with those of them that were accepted, else all."""
    for cut, (role, items) in enumerate(turns):
        new = [item for item in items if first[item] == cut and item in recommended]
        if role == "recommender" and cut != taken and new:
            liked = [item for item in new if item in accepted]
            yield _Answer(cut, liked or new, ACCEPTED if liked else RECOMMENDED)


def _known(labels: pl.DataFrame, kept: pl.DataFrame) -> pl.DataFrame:
    """What is known of these conversations, by place and trait; `counts` marks what is present or at risk."""
    light = labels.select(
        "trait",
        "verdict",
        "form",
        subject="subject",
        first=pl.col("spans").list.eval(pl.element().struct.field("turn")).list.min(),
        counts=((pl.col("verdict") == "present") | pl.col("at_risk")).fill_null(False),
    )
    places = kept.select("place", subject="conversation")
    return light.join(places, on="subject").drop("subject").sort("place", "trait")


def _between(known: pl.DataFrame, places: pl.Series) -> pl.DataFrame:
    start = known["place"].search_sorted(places[0], "left")
    return known.slice(start, known["place"].search_sorted(places[-1], "right") - start)


def _by_place(known: pl.DataFrame) -> dict[int, list[_Label]]:
    """place -> its labels that are present or at risk, by trait; an empty list where there are only others."""
    found: dict[int, list[_Label]] = {place: [] for place in known["place"].unique()}
    each = known.filter("counts").select("place", "trait", "verdict", "form", "first").iter_rows()
    for place, trait, verdict, form, first in each:
        found[place].append({"trait": trait, "verdict": verdict, "form": form, "first": first})
    return found


def _traits(labels: list[_Label], cut: int | None, terms: Terms) -> dict[str, list[str]]:
    present = [x for x in labels if x["verdict"] == "present" and x["trait"] not in terms.withheld]
    early = [x for x in present if cut is not None and x["first"] is not None and x["first"] < cut]
    return {
        "traits": [x["trait"] for x in early],
        # a reviewer who left the form open did not see it named
        "form": [x["form"] or "implicit" for x in early],
        "late_traits": [x["trait"] for x in present if x not in early],
        "at_risk": [x["trait"] for x in labels],
    }


def unlearned(rows: pl.DataFrame, here: pl.Series, reason: str) -> pl.DataFrame:
    """The rows with these as what teaches nothing, and why."""
    none = {name: pl.lit([], rows.schema[name]) for name in ("truth", "traits", "form", "late_traits", "named")}
    return rows.with_columns(
        cut=pl.when(~here).then("cut"),
        reason=pl.when(here).then(pl.lit(reason)).otherwise("reason"),
        **{name: pl.when(here).then(empty).otherwise(name) for name, empty in none.items()},
    )


def figures(rows: pl.DataFrame, labels: pl.DataFrame, oracle: Oracle) -> Facts:
    """What card and report say of the labels: counts per trait, who made them, how much of the catalog is unknown."""
    verdicts = ("present", "absent", "unsure", "unresolved")
    word = pl.col("verdict").fill_null("unresolved")
    found = {(t, v): n for t, v, n in labels.group_by("trait", word).len().iter_rows()}
    labels = labels.filter(pl.col("verdict").ne_missing("withheld"))  # nobody's word: the release tells none there
    decided = labels.filter(pl.col("verdict").is_in(["present", "absent"]))
    simulated = int(decided["simulated"].sum())
    auto = decided.filter(method="auto").height
    known = oracle.codes[:-1]  # the last row is the item that nobody knows
    unknown = (known == UNKNOWN).mean(axis=0) if len(known) else [1.0] * len(oracle.traits)
    return {
        "labels": {t: {v: found.get((t, v), 0) for v in verdicts} for t in oracle.traits},
        "conditions": conditions(rows),
        "makers": {
            "people": decided.height - simulated - auto,
            "simulated": simulated,
            "unresolved": labels.height - decided.height,
        }
        | ({"auto": auto} if auto else {}),
        "unknown": {t: round(float(share), 4) for t, share in zip(oracle.traits, unknown, strict=True)},
    }


def conditions(rows: pl.DataFrame) -> dict[str, int]:
    """Rows to learn from, per condition."""
    learned = rows.filter(pl.col("cut").is_not_null())
    own = int((learned["traits"].list.len() > 0).sum())
    return {"own_words": own, "none": learned.height - own}
