"""The sampling design of the audits: which units are drawn, and how, written down before a push sends anything.

reads  texts, the reasons to read them, assignments, the design rows so far
gives  DESIGN rows of new subjects; the subjects that are read anyway, and those in the draw; the results of the draw

The place in the draw is a keyed hash of the id: it is independent of the traits that are present, of the order in
which tasks are assigned, and of the words of a text. A subject gets its stratum at the first push after it arrives, one
of the zone at the first that draws audits: claimed later, it stays in the zone, as an audit may have seen it there.
"""

import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import polars as pl

from annotation.confidence_bounds import Audit, cut
from annotation.task_assignment import AUDIT, Key, Plan
from saferec_builder.storage.tables import ASSIGNMENTS, DESIGN, TOMBSTONES, keyed_digest, last

CLAIMED, SURE, ZONE = "claimed", "sure", "zone"
Verdicts = Mapping[str, Mapping[str, str | None]]  # subject -> trait -> verdict
States = Mapping[str, bool | None]


def arrivals(
    texts: pl.DataFrame,
    design: pl.DataFrame,
    plan: Plan,
    *,
    claimed: Collection[Key],
    sure: Collection[Key],
    secret: bytes,
) -> pl.DataFrame:
    """DESIGN rows of the current texts that have none. `sure` are those read only for claims that may become `auto`
    labels without a reader: they leave the zone as soon as they are read for a claim.

    Nobody joins the zone in a push that draws no audit: until then a score may still select them (`--band`).
    """
    new = texts.filter("current").join(design, on=["kind", "subject"], how="anti", maintain_order="left")
    rows = []
    for key in new.select("kind", "subject").iter_rows():
        stratum = SURE if key in sure else CLAIMED if key in claimed else ZONE
        if stratum != ZONE or plan.drawn(key[0]):
            rows.append((*key, keyed_digest(secret, "draw", *key), stratum, plan.batch))
    return DESIGN.frame(rows)


def zone(design: pl.DataFrame) -> dict[Key, str]:
    """(kind, subject) -> place in the draw, of everything that an audit may reach."""
    rows = design.filter(pl.col("stratum") != CLAIMED).select("kind", "subject", "draw")
    return {(kind, subject): draw for kind, subject, draw in rows.iter_rows()}


def census(design: pl.DataFrame) -> frozenset[Key]:
    """(kind, subject) that no audit represents: each of them is read."""
    return frozenset(design.filter(stratum=CLAIMED).select("kind", "subject").iter_rows())


def ever_judged(
    judged: pl.DataFrame, labels: pl.DataFrame, reviews: pl.DataFrame, current: Collection[str]
) -> pl.DataFrame:
    """kind, subject, trait, verdict: the labels `judged` of subjects in the data, and tombstones of those that have
    left it, on request or otherwise: their last verdict by people, or a `*` without one if they were read and got none.

    `labels` and `reviews` are all rows ever stored.
    """
    columns, is_current = ["kind", "subject", "trait", "verdict"], pl.col("subject").is_in(list(current))
    settled = labels.filter(~is_current & pl.col("verdict").is_not_null() & (pl.col("method") != "auto"))
    read = reviews.filter(~is_current).with_columns(trait=pl.lit("*"), verdict=pl.lit(None, pl.String))
    departed = pl.concat([settled.select(columns), read.select(columns)])
    return pl.concat([judged.filter(is_current).select(columns), last(departed, *columns[:3])])


# ---- what remains of erased subjects


def tombstones(
    design: pl.DataFrame, assignments: pl.DataFrame, labels: pl.DataFrame, reviews: pl.DataFrame, gone: Collection[str]
) -> pl.DataFrame:
    """TOMBSTONES of the conversations `gone` of the zone: what `strata` and `ever_judged` need, renamed. Those that
    are in it now stay there for good."""
    rows = design.filter(kind="sensitivity").filter(pl.col("stratum") != CLAIMED).sort("draw")
    is_gone = pl.col("subject").is_in(list(gone))
    assigned = assignments.filter(is_gone, kind="sensitivity", role="reviewer").unique("subject", keep="first")
    why = dict(assigned.select("subject", "why").iter_rows())
    judged = labels.filter(is_gone, kind="sensitivity")
    in_zone = set(strata(design, (), assignments, "sensitivity", judged.filter(method="auto")["subject"]).zone)
    departed = ever_judged(judged.clear(), judged, reviews.filter(is_gone, kind="sensitivity"), [])
    verdicts = departed.select("subject", "trait", "verdict").rows_by_key("subject", named=True)
    draws, erased = rows["draw"].to_list(), []
    for n, (subject, stratum) in enumerate(rows.select("subject", "stratum").iter_rows()):
        if subject in gone:
            place = _between(draws, n)
            name = f"gone-{secrets.token_hex(8)}"
            row_stratum = ZONE if subject in in_zone else stratum
            erased.append(("sensitivity", name, place, row_stratum, why.get(subject), verdicts.get(subject, [])))
    return TOMBSTONES.frame(erased)


def _between(draws: list[str], n: int) -> str:
    """A random place at the n-th of these: it keeps only as many of its digits as its order needs."""
    near = {*draws[max(0, n - 1) : n], *draws[n + 1 : n + 2]}
    length = next(size for size in range(17) if all(other[:size] != draws[n][:size] for other in near) or size == 16)
    return (draws[n][:length] + secrets.token_hex(8))[:16]


def with_erased(
    design: pl.DataFrame, assignments: pl.DataFrame, said: pl.DataFrame, gone: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """These three tables with the rows that `gone` (TOMBSTONES) keeps of erased subjects."""
    if gone.is_empty():
        return design, assignments, said
    rows = gone.select("kind", "subject", "draw", "stratum", batch=pl.lit(""))
    blank = {name: pl.lit("") for name in ("reviewer", "digest", "batch")}
    tasks = gone.filter(pl.col("why").is_not_null()).select("kind", "subject", "why", role=pl.lit("reviewer"), **blank)
    verdicts = gone.select("kind", "subject", "verdicts").explode("verdicts", empty_as_null=False).unnest("verdicts")
    return (
        pl.concat([design, rows.select(list(DESIGN.columns))]),
        pl.concat([assignments, tasks.select(list(ASSIGNMENTS.columns))]),
        pl.concat([said.select(verdicts.columns), verdicts]),
    )


# ---- the results of the draw


@dataclass(frozen=True)
class Strata:
    """The subjects of one kind."""

    read: list[str]  # for a reason other than the draw, or without a place in the design
    undrawn: frozenset[str]  # those of them without a place
    zone: list[str]  # in the order of the draw, with those that have left the data
    drawn: int  # how many of the zone were drawn so far
    gone: frozenset[str]  # of the zone, those that have left the data


def strata(
    design: pl.DataFrame,
    current: Collection[str],
    assignments: pl.DataFrame,
    kind: str,
    ever_auto: Collection[str] = (),
) -> Strata:
    """`ever_auto`: subjects that ever had an `auto` label. The draw could reach these, and whether it did depended on
    their places: so they stay in the zone, even if they are read for their claims later. So do those that were assigned
    for their claims in a later batch than their first, and than one that drew a subject with sure claims: they may have
    been `auto` at a push that no `adjudicate` recorded."""
    rows = design.filter(kind=kind).sort("draw")
    assigned = assignments.filter(kind=kind, role="reviewer").unique("subject", keep="first", maintain_order=True)
    places = dict(rows.select("subject", "stratum").iter_rows())
    arrived = dict(rows.filter(stratum=SURE).select("subject", "batch").iter_rows())
    first, read_anyway = dict[str, str](), set[str]()
    reached = set[str]()  # batches that drew one of `arrived`
    for subject, why, batch in assigned.select("subject", "why", "batch").iter_rows():
        first[subject] = why
        if why == AUDIT:
            reached |= {batch} if subject in arrived else set()
        elif reached <= {batch} or batch == arrived.get(subject):
            read_anyway.add(subject)
    read_anyway -= set(ever_auto)
    zone = [subject for subject, s in places.items() if s == ZONE or (s == SURE and subject not in read_anyway)]
    drawn = max((n for n, subject in enumerate(zone, 1) if first.get(subject) == AUDIT), default=0)
    in_zone = set(zone)
    read = [subject for subject in current if subject not in in_zone]
    undrawn = frozenset(subject for subject in read if subject not in places)
    return Strata(read, undrawn, zone, drawn, frozenset(in_zone.difference(current)))


def subjects_drawn(of: Strata, verdicts: Verdicts) -> list[str]:
    """The drawn subjects in the order of the draw, without those that left the data before anybody read them; those
    that left later stay. The outcomes of `audit` are those of the first of them."""
    unread = of.gone.difference(verdicts)
    return [subject for subject in of.zone[: of.drawn] if subject not in unread]


def audit(of: Strata, states: States, verdicts: Verdicts, auto: Collection[str] = ()) -> Audit:
    """The counts for one trait (or for any) by the design, from labels and tombstones.

    The zone keeps its size, whoever left the data: the draw did not choose them. `auto`: subjects with a label that
    nobody has read: in the zone they are neither missed nor found by it.
    """
    of_zone = {**states, **dict.fromkeys(auto, False)} if auto else states
    zone_states = list(map(of_zone.get, of.zone))
    drawn = list(map(of_zone.get, subjects_drawn(of, verdicts)))
    while drawn and drawn[-1] is None:  # those after the last label were not begun
        drawn.pop()
    n = cut(drawn, len(of.zone))
    outcomes = drawn[:n]
    read, gone = list(map(states.get, of.read)), list(map(of_zone.get, of.gone))
    return Audit(
        found=read.count(True),
        zone=len(of.zone),
        outcomes=tuple(int(state is not False) for state in outcomes),
        open=read.count(None),
        holes=outcomes.count(None),
        elsewhere=zone_states.count(True) - outcomes.count(True),
        gone=gone.count(True),
        left=zone_states.count(None) - gone.count(None),
        auto=len(set(auto).intersection(of.zone)),
    )


def weights(of: Strata, read: Collection[str]) -> dict[str, float]:
    """subject -> how many of the subjects with a place in the draw it represents; other subjects are missing. `read`:
    subjects with a label by people.

    The weight is 1 / the chance to be read: 1 for claimed ones, zone / beginning of the draw for audited ones. While
    some of either wait, those that were read represent these too. Subjects read in the zone without being drawn get 0,
    for the draw represents them. Empty if nothing was drawn of a zone that exists, or that is still to come.
    """
    labelled = set(read)
    claimed = [subject for subject in of.read if subject not in of.undrawn]
    zone = [subject for subject in of.zone if subject not in of.gone]
    drawn = {subject for subject in of.zone[: of.drawn] if subject in labelled and subject not in of.gone}
    claimed_read = [subject for subject in claimed if subject in labelled]
    if ((zone or of.undrawn) and not drawn) or (claimed and not claimed_read):
        return {}
    by_subject = {subject: len(claimed) / len(claimed_read) for subject in claimed_read}
    return by_subject | {
        subject: len(zone) / len(drawn) if subject in drawn else 0.0 for subject in zone if subject in labelled
    }


def states(verdicts: Verdicts, slug: str) -> dict[str, bool | None]:
    """subject -> whether its label says that the trait is present; None if it is unsure or open."""
    sure = {"present": True, "absent": False, "unsure": None, None: None}
    return {subject: sure[traits.get(slug)] for subject, traits in verdicts.items()}


def states_of_any(verdicts: Verdicts, slugs: Collection[str]) -> dict[str, bool | None]:
    """The same for any trait: True if one is present, False if all are absent."""
    return {
        subject: True if "present" in row.values() else False if all(row.get(s) == "absent" for s in slugs) else None
        for subject, row in verdicts.items()
    }
