"""Upper bounds on the share of wrong `present` labels, and proposals so often right that nobody reads the rest.

reads  votes, all reviews, assignments, the sampling design, sure proposals, labels as they would be
gives  which labels the adjudicator rechecks, trait -> false share, and labels `auto` under a certificate

Both bounds rest on a draw by hash: the labels that were rechecked, or the sure proposals that were read. What was drawn
and has no answer yet counts as wrong, so nobody can help a bound along by leaving hard ones open. Sensitivities only:
an item's flags become warnings with votes of their own.
"""

import polars as pl

from annotation import aggregation, confidence_bounds as certificates, controls, review_history
from annotation.confidence_bounds import ALPHA, FalseShare
from annotation.task_assignment import AUDIT, by_turn
from saferec_builder.storage.evidence_check import first_fault
from saferec_builder.storage.tables import LABELS, SPAN, UNIT, digest, last, last_claims

POOLED = "any sensitivity"
LAST = "g"  # after every place in the draw: of what has none, nothing was drawn
Unit = tuple[str, str]  # conversation, trait
Units = frozenset[Unit]


# ---- rechecks: labels that reviewers agreed on, or nobody read, before the adjudicator


def rechecks(
    votes: pl.DataFrame, assignments: pl.DataFrame, auto: Units, share: float = 0.0, readers: int = 2
) -> pl.DataFrame:
    """UNIT of the labels that the adjudicator should rule on: drawn with probability `share` now, or drawn before."""
    ruled = _ruled(votes)
    zone = _zone(votes, auto, readers)
    top = max(int(share * 2**64) - 1, _cut(votes, auto, assignments))
    due = sorted(unit for unit in zone if unit not in ruled and _hash(unit) <= top)
    return pl.DataFrame([("sensitivity", *unit) for unit in due], schema=dict.fromkeys(UNIT, pl.String), orient="row")


def false_shares(
    votes: pl.DataFrame,
    assignments: pl.DataFrame,
    auto: Units,
    slugs: tuple[str, ...],
    readers: int = 2,
    reviews: pl.DataFrame | None = None,
) -> tuple[dict[str, FalseShare], FalseShare]:
    """(trait -> the share of its labels `present` that are wrong, the same over all of them). `reviews` are all that
    there ever were; None: `votes` are all."""
    ruled, cut = _ruled(votes), _cut(votes, auto, assignments)
    before = _rechecked(votes, votes if reviews is None else reviews, assignments, auto, readers)
    zone = _zone(votes, auto, readers) | {unit for unit in before if _hash(unit) <= cut}
    right = [unit for unit, verdict in ruled.items() if verdict == "present" and unit not in zone]

    def share(trait: str | None) -> FalseShare:
        mine = sorted((unit for unit in zone if trait in (None, unit[1])), key=_hash)
        drawn = _begun([ruled.get(unit) for unit in mine if _hash(unit) <= cut])
        further = sum(trait in (None, unit[1]) for unit in right)
        outcomes = tuple(int(verdict != "present") for verdict in drawn)
        return certificates.false_share(len(mine), outcomes, further, drawn.count(None))

    return {slug: share(slug) for slug in slugs}, share(None)


def _begun(verdicts: list[str | None]) -> list[str | None]:
    """Up to the last one that is there: what comes after it was not begun."""
    known = [n for n, verdict in enumerate(verdicts) if verdict is not None]
    return verdicts[: known[-1] + 1] if known else []


def _zone(votes: pl.DataFrame, auto: Units, readers: int) -> set[Unit]:
    """The labels `present` that rest on no ruling: agreed by reviewers, or `auto`."""
    agreed = aggregation.tallies(votes.filter(kind="sensitivity"), readers).filter(common="present")
    return {*agreed.select("subject", "trait").iter_rows(), *auto}


def _rechecked(
    votes: pl.DataFrame, reviews: pl.DataFrame, assignments: pl.DataFrame, auto: Units, readers: int
) -> set[Unit]:
    """The labels that the adjudicator ruled on in a recheck, whatever became of them: `auto` ones, which are `auto`
    only while they are unread, and those whose readers have corrected what was overturned. Without these what was found
    wrong would leave the sample, while as much that is wrong stays in the zone.

    A dispute in the same conversation is none of them: too few ever called it present.
    """
    drawn = assignments.filter(why="recheck").select("subject").unique()
    said = votes.filter(kind="sensitivity").join(drawn, on="subject", how="semi")
    unread = pl.col("trait").is_in({trait for _, trait in auto})
    alone = said.filter(unread).join(aggregation.by_reviewers(said), on=UNIT, how="anti").select(UNIT)
    away = review_history.aside(reviews)
    theirs, _ = controls.apart(aggregation.by_reviewers(reviews).filter(verdict="present"), assignments)
    people = theirs.filter(~pl.col("reviewer").is_in(away)).group_by(UNIT).agg(pl.col("reviewer").n_unique())
    once = people.filter(pl.col("reviewer") >= aggregation.majority(readers)).select(UNIT)
    ruled = said.filter(role="adjudicator")
    units = ruled.join(pl.concat([alone, once]), on=UNIT, how="semi").select("subject", "trait")
    return {(subject, trait) for subject, trait in units.iter_rows()}


def _ruled(votes: pl.DataFrame) -> dict[Unit, str]:
    rulings = last(votes.filter(kind="sensitivity", role="adjudicator"), *UNIT)
    return {(subject, trait): verdict for subject, trait, verdict in rulings.select(*UNIT[1:], "verdict").iter_rows()}


def _cut(votes: pl.DataFrame, auto: Units, assignments: pl.DataFrame) -> int:
    """Up to which hash the labels were drawn so far, as the tasks `recheck` tell it; -1: none.

    A conversation was drawn for its label with the smallest hash. That one may be no label any more (somebody thought
    again), so all that anybody ever claimed of it counts: a border that is too low is the beginning of the same draw,
    one that is too high would draw what nobody drew.
    """
    drawn = set(assignments.filter(why="recheck")["subject"])
    claims = (pl.col("verdict") == "present") | (pl.col("role") == "adjudicator")
    claimed = votes.filter(claims, kind="sensitivity").select("subject", "trait").iter_rows()
    first: dict[str, int] = {}
    for unit in {*claimed, *auto}:
        if unit[0] in drawn:
            first[unit[0]] = min(_hash(unit), first.get(unit[0], 2**64))
    return max(first.values(), default=-1)


def _hash(unit: Unit) -> int:
    return int(digest("recheck", *unit), 16)


# ---- auto: sure proposals of a trait whose sure proposals are right


def sure(proposals: pl.DataFrame, confidence: float) -> pl.DataFrame:
    """The last claim of each unit where it says `present` with at least this confidence."""
    now = last(last_claims(proposals.filter(kind="sensitivity")), *UNIT)
    return now.filter((pl.col("verdict") == "present") & (pl.col("confidence") >= confidence))


def carried(
    sure: pl.DataFrame, votes: pl.DataFrame, judged: pl.DataFrame, assignments: pl.DataFrame, design: pl.DataFrame
) -> Units:
    """The sure proposals that nobody has read, of traits where at most ALPHA of these are wrong, by those that were."""
    given = assignments.filter(kind="sensitivity", role="reviewer").unique("subject", keep="first", maintain_order=True)
    audited = set(given.filter(why=AUDIT)["subject"])
    draw = dict(design.filter(kind="sensitivity").select("subject", "draw").iter_rows())
    read = set(votes.filter(kind="sensitivity").select("subject", "trait").iter_rows())
    verdicts = {(s, t): v for s, t, v in judged.select("subject", "trait", "verdict").iter_rows()}
    found: set[Unit] = set()
    for (trait,), part in sure.group_by("trait"):
        units = [(subject, str(trait)) for subject in part["subject"]]
        known = {unit: verdicts.get(unit) or "none" for unit in units if unit in read}
        drawn = _drawn(units, known, audited, draw)
        wrong = certificates.most_wrong(len(units), tuple(int(verdict != "present") for verdict in drawn))
        unread = [unit for unit in units if unit not in read]
        if unread and wrong + drawn.count(None) <= ALPHA * len(unread):  # those would become labels too
            found.update(unread)
    return frozenset(found)


def _drawn(units: list[Unit], known: dict[Unit, str], audited: set[str], draw: dict[str, str]) -> list[str | None]:
    """The verdicts on the units in the order in which they were drawn; None where there is none yet.

    While they are proposals they are assigned in the order of proposals. What comes after the last of these is left
    for the audit, in the audit's order.
    """
    order = sorted(units, key=lambda unit: by_turn(unit[0]))
    last_one = max((n for n, unit in enumerate(order) if unit in known and unit[0] not in audited), default=-1)
    rest = sorted(order[last_one + 1 :], key=lambda unit: draw.get(unit[0], LAST))
    return [known.get(unit) for unit in order[: last_one + 1]] + _begun([known.get(unit) for unit in rest])


def labels(sure: pl.DataFrame, units: Units, texts: pl.DataFrame) -> pl.DataFrame:
    """LABELS rows (without ids) of these proposals; none where a quote has left the text."""
    now = texts.filter("current", kind="sensitivity").select("subject", "turns", now="digest")
    rows = []
    for row in sure.join(now, on="subject").sort("subject", "trait").iter_rows(named=True):
        spans = row["spans"] or []
        if (row["subject"], row["trait"]) in units and spans and not first_fault(spans, row["turns"], row["kind"]):
            label = {name: row[name] for name in (*UNIT, "verdict", "form", "spans")}
            rows.append(label | {"digest": row["now"], "method": "auto", "reviews": [], "simulated": False})
    schema = {name: kind for name, kind in LABELS.schema.items() if name != "label"}
    return pl.DataFrame(rows, schema={**schema, "spans": pl.List(SPAN)})


# ---- in words


def words(share: FalseShare) -> str:
    """`<= 3.1 %` where it is known; else what is needed."""
    if not share.labels:
        return "n/a (no such labels)"
    if not share.zone:
        return "n/a (rulings of the adjudicator alone)"
    need = "recheck all" if share.more is None else f"{share.more:,} more recheck{'s' * (share.more != 1)}"
    if share.share is None:
        return f"n/a ({need})"
    return certificates.at_most(share.share) + (" (certified)" if share.certified else f" ({need})")
