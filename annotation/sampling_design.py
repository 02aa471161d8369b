"""The sampling design of the audits: who is drawn, and how, written down before a push sends anything.

reads  texts, what calls for readers, assignments, the rows so far
gives  DESIGN rows of whoever is new; who is read anyway, and who waits for the draw; what the draw has shown of a trait

The place in the draw is a keyed hash of the id: it has nothing to do with what is there, with the order in which tasks
are handed out, or with the words of a text. A stratum is that of the first push after the arrival that draws audits:
what is claimed later stays in the zone, as an audit may have seen it there.
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
    """DESIGN rows of the current texts that have none. `sure` are those that claims call for which may become `auto`
    labels without a reader: they are no part of the zone as soon as they are read for a claim.

    Nobody joins the zone in a push that draws no audit: until then a score may still call for them (`--band`).
    """
    new = texts.filter("current").join(design, on=["kind", "subject"], how="anti", maintain_order="left")
    rows = []
    for key in new.select("kind", "subject").iter_rows():
        stratum = SURE if key in sure else CLAIMED if key in claimed else ZONE
        if stratum != ZONE or plan.drawn(key[0]):
            rows.append((*key, keyed_digest(secret, "draw", *key), stratum, plan.batch))
    return DESIGN.frame(rows)


def zone(design: pl.DataFrame) -> dict[Key, str]:
    """(kind, subject) -> place in the draw, of all that an audit may come to."""
    rows = design.filter(pl.col("stratum") != CLAIMED).select("kind", "subject", "draw")
    return {(kind, subject): draw for kind, subject, draw in rows.iter_rows()}


def census(design: pl.DataFrame) -> frozenset[Key]:
    """(kind, subject) that no audit speaks for: each of them is read."""
    return frozenset(design.filter(stratum=CLAIMED).select("kind", "subject").iter_rows())


def said(judged: pl.DataFrame, labels: pl.DataFrame, reviews: pl.DataFrame, current: Collection[str]) -> pl.DataFrame:
    """kind, subject, trait, verdict: the labels `judged` of what is in the data, and tombstones of what has left it,
    removed on request or else: people's last verdict there, `*` without one where they had read it and come to none.

    `labels` and `reviews` are all rows that there ever were.
    """
    columns, here = ["kind", "subject", "trait", "verdict"], pl.col("subject").is_in(list(current))
    stood = labels.filter(~here & pl.col("verdict").is_not_null() & (pl.col("method") != "auto"))
    read = reviews.filter(~here).with_columns(trait=pl.lit("*"), verdict=pl.lit(None, pl.String))
    left = pl.concat([stood.select(columns), read.select(columns)])
    return pl.concat([judged.filter(here).select(columns), last(left, *columns[:3])])


# ---- what is kept of those who were erased


def tombstones(
    design: pl.DataFrame, assignments: pl.DataFrame, labels: pl.DataFrame, reviews: pl.DataFrame, gone: Collection[str]
) -> pl.DataFrame:
    """TOMBSTONES of the conversations `gone` of the zone: what `strata` and `said` look at, under another name."""
    rows = design.filter(kind="sensitivity").filter(pl.col("stratum") != CLAIMED).sort("draw")
    here = pl.col("subject").is_in(list(gone))
    given = assignments.filter(here, kind="sensitivity", role="reviewer").unique("subject", keep="first")
    why = dict(given.select("subject", "why").iter_rows())
    judged = labels.filter(here, kind="sensitivity")
    left = said(judged.clear(), judged, reviews.filter(here, kind="sensitivity"), [])
    verdicts = left.select("subject", "trait", "verdict").rows_by_key("subject", named=True)
    draws, made = rows["draw"].to_list(), []
    for n, (subject, stratum) in enumerate(rows.select("subject", "stratum").iter_rows()):
        if subject in gone:
            place = _between(draws, n)
            name = f"gone-{secrets.token_hex(8)}"
            made.append(("sensitivity", name, place, stratum, why.get(subject), verdicts.get(subject, [])))
    return TOMBSTONES.frame(made)


def _between(draws: list[str], n: int) -> str:
    """A random place where the n-th of these stood: no more of its digits is kept than its order needs."""
    near = {*draws[max(0, n - 1) : n], *draws[n + 1 : n + 2]}
    kept = next(size for size in range(17) if all(other[:size] != draws[n][:size] for other in near) or size == 16)
    return (draws[n][:kept] + secrets.token_hex(8))[:16]


def with_erased(
    design: pl.DataFrame, assignments: pl.DataFrame, said: pl.DataFrame, gone: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """These three with what `gone` (TOMBSTONES) keeps of whoever was erased."""
    if gone.is_empty():
        return design, assignments, said
    rows = gone.select("kind", "subject", "draw", "stratum", batch=pl.lit(""))
    nobody = {name: pl.lit("") for name in ("reviewer", "digest", "batch")}
    given = gone.filter(pl.col("why").is_not_null()).select("kind", "subject", "why", role=pl.lit("reviewer"), **nobody)
    each = gone.select("kind", "subject", "verdicts").explode("verdicts", empty_as_null=False).unnest("verdicts")
    return (
        pl.concat([design, rows.select(list(DESIGN.columns))]),
        pl.concat([assignments, given.select(list(ASSIGNMENTS.columns))]),
        pl.concat([said.select(each.columns), each]),
    )


# ---- what the draw has shown


@dataclass(frozen=True)
class Strata:
    """The subjects of one kind."""

    read: list[str]  # for another reason than the draw, or without a place in the design yet
    undrawn: frozenset[str]  # those of them that have none
    zone: list[str]  # in the order of the draw, with those that have left the data
    drawn: int  # how many of the zone the draw has come to
    gone: frozenset[str]  # of the zone, those that have left the data


def strata(design: pl.DataFrame, current: Collection[str], assignments: pl.DataFrame, kind: str) -> Strata:
    rows = design.filter(kind=kind).sort("draw")
    given = assignments.filter(kind=kind, role="reviewer").select("subject", "why")
    first = dict(given.reverse().iter_rows())
    places = dict(rows.select("subject", "stratum").iter_rows())
    asked = {subject for subject, why in first.items() if why != AUDIT}
    zone = [subject for subject, of in places.items() if of == ZONE or (of == SURE and subject not in asked)]
    drawn = max((n for n, subject in enumerate(zone, 1) if first.get(subject) == AUDIT), default=0)
    waiting = set(zone)
    read = [subject for subject in current if subject not in waiting]
    undrawn = frozenset(subject for subject in read if subject not in places)
    return Strata(read, undrawn, zone, drawn, frozenset(waiting.difference(current)))


def audit(of: Strata, states: States, verdicts: Verdicts, auto: Collection[str] = ()) -> Audit:
    """What is known of one trait (or of any) by the design, from labels and tombstones.

    Whoever left the data before anybody read it is passed over, and the zone keeps its size: the draw did not choose
    who leaves. Whoever left later stays in it as what they were. `auto`: subjects with a label that nobody has read: in
    the zone they are not missed, and not found by it either.
    """
    of_zone = {**states, **dict.fromkeys(auto, False)} if auto else states
    known = list(map(of_zone.get, of.zone))
    seen = known[: of.drawn]
    if unread := of.gone.difference(verdicts):
        seen = [state for subject, state in zip(of.zone, seen, strict=False) if subject not in unread]
    while seen and seen[-1] is None:  # what comes after the last with a label was not begun
        seen.pop()
    n = cut(seen, len(of.zone))
    outcomes = seen[:n]
    here, gone = list(map(states.get, of.read)), list(map(of_zone.get, of.gone))
    return Audit(
        found=here.count(True),
        zone=len(of.zone),
        outcomes=tuple(int(state is not False) for state in outcomes),
        open=here.count(None),
        holes=outcomes.count(None),
        elsewhere=known.count(True) - outcomes.count(True),
        gone=gone.count(True),
        left=known.count(None) - gone.count(None),
    )


def weights(of: Strata, read: Collection[str]) -> dict[str, float]:
    """subject -> how many of the subjects that have a place in the draw it stands for; who is not in it stands for
    nobody that is known. `read`: subjects with a label that people gave.

    1 / the chance to be read: 1 of what is claimed, zone / beginning of the draw of what was audited. Where some of
    either wait, those that are read stand for these too. Who was read in the zone without being drawn gets 0, for the
    draw speaks for them. Empty where the draw has shown nothing of a zone that is there, or is still to come.
    """
    known = set(read)
    claimed = [subject for subject in of.read if subject not in of.undrawn]
    here = [subject for subject in of.zone if subject not in of.gone]
    drawn = {subject for subject in of.zone[: of.drawn] if subject in known and subject not in of.gone}
    asked = [subject for subject in claimed if subject in known]
    if ((here or of.undrawn) and not drawn) or (claimed and not asked):
        return {}
    found = {subject: len(claimed) / len(asked) for subject in asked}
    return found | {
        subject: len(here) / len(drawn) if subject in drawn else 0.0 for subject in here if subject in known
    }


def states(verdicts: Verdicts, slug: str) -> dict[str, bool | None]:
    """subject -> whether its label says that the trait is there; None where it is unsure or open."""
    sure = {"present": True, "absent": False, "unsure": None, None: None}
    return {subject: sure[of.get(slug)] for subject, of in verdicts.items()}


def states_of_any(verdicts: Verdicts, slugs: Collection[str]) -> dict[str, bool | None]:
    """The same of any trait: there where one is, and not there where all are absent."""
    return {
        subject: True if "present" in of.values() else False if all(of.get(s) == "absent" for s in slugs) else None
        for subject, of in verdicts.items()
    }
