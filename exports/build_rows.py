"""Builds the rows of a release, one per request: the request, its answers, and what its seeker must not be shown.

reads  conversations (current revision, with split and straddles), labels (last per unit), links ref -> item
gives  rows, one per conversation that may be released, and, if they are wanted, one per further request of it; cut is
       null if there is no answer to learn from
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
WITHHELD = "has or may have a withheld trait"  # `unsure` is may
_OLD_WITHHELD = "has a withheld trait"  # the same in releases of older programs
REPEATED = "answer in a train request"
NOT_BACK = "text not put back: "  # before the reason of exports/rebuild.py
# in `conversations`, but without a row to learn from
_STAYS = (NO_ITEM, NO_REQUEST, UNREVIEWED, WITHHELD, _OLD_WITHHELD, REPEATED)

_IDS = pl.List(pl.String)
_DOUBTED = pl.col("at_risk").list.set_difference("late_traits").list.len() > 0  # by reviewers; nobody has ruled
CONDITION = (  # of a request of `build`
    pl.when(pl.col("traits").list.len() > 0)
    .then(pl.lit("own_words"))  # the request itself holds evidence of a sensitivity
    .when(_DOUBTED)
    .then(pl.lit("open"))
    .otherwise(pl.lit("none"))
)
_SLICE = 20_000  # conversations that are Python objects at once: bounds memory


@dataclass(frozen=True)
class Terms:
    """Who is left out: conversations with a withheld trait and (unless `unreviewed`) unreviewed ones have no lists.

    turns: each recommender turn with new items is a request, not only the last. truthless: a test conversation without
    an item is a request, too, to measure safety.
    """

    withheld: frozenset[str] = frozenset()
    unreviewed: bool = False
    turns: bool = False
    truthless: bool = False


def current(
    labels: pl.DataFrame, conversations: pl.DataFrame, voiced: pl.Series = pl.Series([], dtype=pl.String)
) -> pl.DataFrame:
    """Returns the sensitivity labels; a label on another text than the present one is unresolved again.

    `read` is true if a verdict on the present text or a review of it is behind the label; other labels do not make the
    conversation reviewed. `voiced` are the reviews that said present or unsure. `at_risk` is what a safe list must
    respect: present, unsure, and unresolved traits that a reviewer saw. A trait that is only open because one person
    alone read the conversation and did not see it is no risk: it would empty the list of everybody who was read once.
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


Mentions = Callable[[str], Sequence[tuple[int, int, str]]]  # text -> start, end, item


@dataclass(frozen=True)
class Reading:
    """The texts, and how items are found in them."""

    said: Callable[[pl.Series], pl.DataFrame]  # places, rising -> turns, recommended, accepted, seen
    links: Mapping[str, str]  # ref -> item
    mentions: Mentions


def ordered(
    conversations: pl.DataFrame, out: Mapping[str, str], silent: Collection[str] = ()
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Returns (released conversations by day, then released id, with their `place`; the others with their `reason`).

    `conversations` need no texts; `out` maps those that are left out of everything to the reason. A finer order would
    disclose which conversation of the source a row is. Those of the sources `silent` come last, not ordered by day.
    """
    reason = pl.col("conversation").replace_strict(out, default=None, return_dtype=pl.String)
    day = pl.when(~pl.col("source").is_in(list(silent))).then(pl.col("time").dt.date())
    order = conversations.sort(day, "released", nulls_last=True).with_columns(
        reason=pl.coalesce(reason, pl.when("straddles").then(pl.lit(STRADDLES)))
    )
    kept = order.filter(pl.col("reason").is_null()).drop("straddles", "reason").with_row_index("place")
    return kept, order.filter(pl.col("reason").is_not_null()).select("conversation", "source", "reason")


def build(
    kept: pl.DataFrame, labels: pl.DataFrame, reading: Reading, items: pl.Series, terms: Terms = Terms()
) -> pl.DataFrame:
    """Returns the conversations `kept` (of `ordered`) with their requests. labels: the result of `current`. items: the
    sorted ids of the catalog, as lists of items are stored as numbers (Enum).

    Adds, all as item ids: recommended, accepted, seen, named (in the request), truth; and further (0, other requests of
    a conversation 1, 2, ...), cut (turns before it are the request), asks (messages of the seeker in it), truth_kind
    (accepted, recommended, none), reason (why there is no request), traits (evidence in the request) with form,
    late_traits (present, evidence only later), at_risk (see `current`).
    """
    relevant = _relevant(labels if terms.unreviewed else labels.filter(pl.col("read").any().over("subject")), kept)
    schema = _FACTS | dict.fromkeys(("recommended", "accepted", "seen", "named", "truth"), pl.List(pl.Enum(items)))
    facts = [pl.DataFrame(schema=schema)]
    for part in kept.select("place", "split").iter_slices(_SLICE):
        by_place = _labels_by_place(of_places(relevant, part["place"]))
        talks = _talks(part, reading.said(part["place"]))
        rows = [row for talk in talks for row in _rows(talk, by_place.get(talk.place), reading, terms)]
        facts.append(frame(rows, schema))
    return kept.join(pl.concat(facts), on="place", maintain_order="left_right")


def drops(left_out: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """Returns DROPS of what `ordered` left out, and of the conversations of which no row teaches anything."""
    taught = rows.filter(pl.col("cut").is_not_null())
    untaught = rows.filter(further=0).join(taught, on="conversation", how="anti", maintain_order="left")
    drops = pl.concat([left_out, untaught.select(left_out.columns)]).select(
        "source", "reason", stage=pl.lit("release"), place="conversation", detail=pl.lit(None, pl.String)
    )
    return drops.select(list(DROPS.columns))


def apart(dropped: Mapping[str, int]) -> tuple[dict[str, int], dict[str, int]]:
    """Splits reasons: (why conversations are not in the release, why others are in its `conversations` only)."""
    stays = {reason: n for reason, n in dropped.items() if reason in _STAYS or reason.startswith(NOT_BACK)}
    return {reason: n for reason, n in dropped.items() if reason not in stays}, stays


class _Talk(NamedTuple):
    place: int
    tested: bool  # in the test split
    turns: list[tuple[str, str, list[str]]]  # role, text, refs
    recommended: list[str]
    accepted: list[str]
    seen: list[str]


def _talks(part: pl.DataFrame, texts: pl.DataFrame) -> Iterator[_Talk]:
    turn = texts["turns"].explode(empty_as_null=False, keep_nulls=False)
    role, text, items = (turn.struct.field(name) for name in ("role", "text", "items"))
    flat = list(zip(role.to_list(), text.to_list(), lists(items), strict=True))
    ends = texts["turns"].list.len().fill_null(0).cum_sum().to_list()
    turns = [flat[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    refs = (lists(texts[name]) for name in ("recommended", "accepted", "seen"))
    return map(_Talk, part["place"].to_list(), (part["split"] == SPLITS[-1]).to_list(), turns, *refs)


class _Label(TypedDict):
    """A label that is present or at risk; `first`: the first turn with evidence."""

    trait: str
    verdict: str | None
    form: str | None
    first: int | None


_Request = dict[str, list[str] | int | str | None]
_FACTS: dict[str, pl.DataType | type[pl.DataType]] = {
    **{"place": pl.UInt32, "further": pl.Int32},
    **dict.fromkeys(("recommended", "accepted", "seen", "named"), _IDS),
    **{"cut": pl.Int32, "asks": pl.Int32, "truth": _IDS, "truth_kind": pl.String, "reason": pl.String},
    **dict.fromkeys(("traits", "form", "late_traits", "at_risk"), _IDS),
}


def _rows(talk: _Talk, labels: list[_Label] | None, reading: Reading, terms: Terms) -> Iterator[_Request]:
    """Yields the request of a conversation, or the reason why there is none; then further requests."""
    links = reading.links
    turns = [(role, named(text, refs, links, reading.mentions)) for role, text, refs in talk.turns]
    first = _first_named(turns)
    by_role = {role: [i for i, t in first.items() if turns[t][0] == role] for role in ("seeker", "recommender")}
    recommended = _unique([*_linked(talk.recommended, links), *by_role["recommender"]])
    accepted = _linked(talk.accepted, links)
    seen = _unique([*_linked(talk.seen, links), *by_role["seeker"]])
    answers = [_answer(turns, first, accepted, recommended)]
    if terms.turns and answers[0].truth:
        answers += _further_answers(turns, first, accepted, recommended, answers[0].cut)
    for number, (place, truth, kind) in enumerate(answers):
        messages = _messages(talk.turns[:place])
        has_answer = truth or (terms.truthless and talk.tested)
        reason = _reason(labels, terms) or (NO_ITEM if not has_answer else None if messages else NO_REQUEST)
        if number and reason:
            continue
        cut, truth = (None, []) if reason else (place, truth)
        yield {
            "place": talk.place,
            "further": number,
            "recommended": recommended,
            "accepted": accepted,
            # what the seeker says about an answer comes after it, and so does all that is first named after the request
            "seen": [item for item in seen if item not in truth and first.get(item, -1) < place],
            "named": [item for item, turn in first.items() if cut is not None and turn < cut],
            "cut": cut,
            "asks": messages,
            "truth": truth,
            "truth_kind": None if reason else kind,
            "reason": reason,
            **_traits(labels or [], cut, terms),
        }


def named(text: str, refs: Sequence[str], links: Mapping[str, str], mentions: Mentions) -> list[str]:
    """Returns the items that a turn names, each once: by its refs, then in its text."""
    return _unique([*_linked(refs, links), *(item for _, _, item in mentions(text))])


def _reason(labels: list[_Label] | None, terms: Terms) -> str | None:
    if labels is None:
        return None if terms.unreviewed else UNREVIEWED
    # unsure labels, too: lists that respect a withheld trait would disclose it
    return WITHHELD if any(label["trait"] in terms.withheld for label in labels) else None


def _linked(refs: Sequence[str], links: Mapping[str, str]) -> list[str]:
    return _unique([links[ref] for ref in refs if ref in links])


def _unique(items: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(items))


def _first_named(turns: list[tuple[str, list[str]]]) -> dict[str, int]:
    """Returns item -> the turn that names it first, in order of naming."""
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
    """Returns the number of seeker messages in a prompt of these turns: consecutive turns of one role are one."""
    roles = [role for role, text, _ in turns if text.strip()]
    return sum(role == "seeker" != previous for role, previous in zip(roles, ["", *roles], strict=False))


def _answer(turns: _Named, first: Mapping[str, int], accepted: list[str], recommended: list[str]) -> _Answer:
    """Returns the accepted items, else the recommended ones, that the turns before the cut do not name.

    The cut is the last recommender turn for which such an item is left: an answer that is named in its own request
    would teach copying. A conversation in which no recommender names an item is one request.
    """
    end = 1 + max((n for n, (role, _) in enumerate(turns) if role == "seeker"), default=-1)
    cuts = [n for n, (role, items) in enumerate(turns) if role == "recommender" and items][::-1] or [end]
    for kind, pool in ((ACCEPTED, accepted), (RECOMMENDED, recommended)):
        for cut in cuts:
            truth = [item for item in pool if first.get(item, cut) >= cut]
            if truth:
                return _Answer(cut, truth, kind)
    return _Answer(end, [], NONE)


def _further_answers(
    turns: _Named, first: Mapping[str, int], accepted: list[str], recommended: list[str], taken: int
) -> Iterator[_Answer]:
    """Yields each other recommender turn that names new items, with the accepted ones of them, else all."""
    for cut, (role, items) in enumerate(turns):
        new = [item for item in items if first[item] == cut and item in recommended]
        if role == "recommender" and cut != taken and new:
            liked = [item for item in new if item in accepted]
            yield _Answer(cut, liked or new, ACCEPTED if liked else RECOMMENDED)


def _relevant(labels: pl.DataFrame, kept: pl.DataFrame) -> pl.DataFrame:
    """Returns the labels of these conversations by place and trait; `counts` marks those present or at risk."""
    light = labels.select(
        *("subject", "trait", "verdict", "form"),
        first=pl.col("spans").list.eval(pl.element().struct.field("turn")).list.min(),
        counts=((pl.col("verdict") == "present") | pl.col("at_risk")).fill_null(False),
    )
    places = kept.select("place", subject="conversation")
    return light.join(places, on="subject").drop("subject").sort("place", "trait")


def of_places(frame: pl.DataFrame, places: pl.Series) -> pl.DataFrame:
    """Returns the rows of these conversations, in their order, by binary search in the sorted `frame`."""
    start = frame["place"].search_sorted(places[0], "left")
    rows = frame.slice(start, frame["place"].search_sorted(places[-1], "right") - start)
    return rows.filter(pl.col("place").is_in(places.implode()))


def _labels_by_place(labels: pl.DataFrame) -> dict[int, list[_Label]]:
    """Returns place -> its labels that are present or at risk, by trait; an empty list if it has only others."""
    counted = pl.struct("trait", "verdict", "form", "first").filter("counts")
    return dict(labels.group_by("place").agg(counted).iter_rows())


def _traits(labels: list[_Label], cut: int | None, terms: Terms) -> dict[str, list[str]]:
    present = [label for label in labels if label["verdict"] == "present" and label["trait"] not in terms.withheld]
    early = [label for label in present if cut is not None and label["first"] is not None and label["first"] < cut]
    return {
        "traits": [label["trait"] for label in early],
        "form": [label["form"] or "unlabelled" for label in early],
        "late_traits": [label["trait"] for label in present if label not in early],
        "at_risk": [label["trait"] for label in labels],
    }


def unlearned(rows: pl.DataFrame, mask: pl.Series, reason: str) -> pl.DataFrame:
    """Returns the rows, of which those in the mask teach nothing, for this reason."""
    blank = {name: pl.lit([], rows.schema[name]) for name in ("truth", "traits", "form", "late_traits", "named")}
    return rows.with_columns(
        cut=pl.when(~mask).then("cut"),
        reason=pl.when(mask).then(pl.lit(reason)).otherwise("reason"),
        **{name: pl.when(mask).then(empty).otherwise(name) for name, empty in blank.items()},
    )


def figures(rows: pl.DataFrame, labels: pl.DataFrame, oracle: Oracle) -> Facts:
    """Returns facts about labels for card and report: counts, makers, and the unknown share of items per trait."""
    verdicts = ("present", "absent", "unsure", "unresolved")
    verdict = pl.col("verdict").fill_null("unresolved")
    counts = {(t, v): n for t, v, n in labels.group_by("trait", verdict).len().iter_rows()}
    labels = labels.filter(pl.col("verdict").ne_missing("withheld"))  # withheld: no verdict is released
    decided = labels.filter(pl.col("verdict").is_in(["present", "absent"]))
    simulated = int(decided["simulated"].sum())
    auto = decided.filter(method="auto").height
    conditions = Counter(rows.filter(pl.col("cut").is_not_null()).select(CONDITION).to_series())
    codes = oracle.codes[:-1]  # the last row is the item that nobody knows
    unknown = (codes == UNKNOWN).mean(axis=0) if len(codes) else [1.0] * len(oracle.traits)
    return {
        "labels": {t: {v: counts.get((t, v), 0) for v in verdicts} for t in oracle.traits},
        "conditions": {"own_words": conditions["own_words"], "none": conditions["none"]}
        | ({"open": n} if (n := conditions["open"]) else {}),
        "makers": {
            "people": decided.height - simulated - auto,
            "simulated": simulated,
            "unresolved": labels.height - decided.height,
        }
        | ({"auto": auto} if auto else {}),
        "unknown": {t: round(float(share), 6) for t, share in zip(oracle.traits, unknown, strict=True)},
    }
