"""Upper bounds on the share of wrong `present` labels, and proposals so often right that nobody reads the rest.

reads  votes, all reviews, assignments, the sampling design, sure proposals, labels as they would be
gives  which labels the adjudicator rechecks, trait -> false share, and labels `auto` under a certificate

Both bounds rest on a draw by hash: the labels that were rechecked, or the sure proposals that were read. A drawn unit
without an answer counts as wrong, so nobody can improve a bound by leaving hard ones open. Only sensitivities: the
flags of an item become warnings with votes of their own.
"""

import polars as pl

from annotation import aggregation, confidence_bounds, controls, review_history
from annotation.confidence_bounds import ALPHA, FalseShare
from annotation.task_assignment import AUDIT, by_turn
from saferec_builder.storage.evidence_check import first_fault
from saferec_builder.storage.tables import LABELS, SPAN, UNIT, digest, last, last_claims

LAST = "g"  # sorts after every place in the draw: for units that have none
Unit = tuple[str, str]  # conversation, trait
Units = frozenset[Unit]


# ---- rechecks by the adjudicator: of labels that reviewers agreed on, or that nobody read


def rechecks(
    votes: pl.DataFrame, assignments: pl.DataFrame, auto: Units, share: float = 0.0, readers: int = 2
) -> pl.DataFrame:
    """UNIT of the labels that the adjudicator should rule on: drawn with probability `share` now, or drawn before."""
    ruled = _ruled(votes)
    zone = _zone(votes, auto, readers)
    highest = max(int(share * 2**64) - 1, _cut(votes, auto, assignments))
    due = sorted(unit for unit in zone if unit not in ruled and _hash(unit) <= highest)
    return pl.DataFrame([("sensitivity", *unit) for unit in due], schema=dict.fromkeys(UNIT, pl.String), orient="row")


def false_shares(
    votes: pl.DataFrame,
    assignments: pl.DataFrame,
    auto: Units,
    slugs: tuple[str, ...],
    readers: int = 2,
    reviews: pl.DataFrame | None = None,
) -> tuple[dict[str, FalseShare], FalseShare]:
    """(trait -> the share of its labels `present` that are wrong, the same over all of them). `reviews` are all reviews
    ever; None: `votes` are all."""
    ruled, cut = _ruled(votes), _cut(votes, auto, assignments)
    earlier = _rechecked(votes, votes if reviews is None else reviews, assignments, auto, readers)
    zone = _zone(votes, auto, readers) | {unit for unit in earlier if _hash(unit) <= cut}
    right = [unit for unit, verdict in ruled.items() if verdict == "present" and unit not in zone]

    def share(trait: str | None) -> FalseShare:
        units = sorted((unit for unit in zone if trait in (None, unit[1])), key=_hash)
        drawn = _begun([ruled.get(unit) for unit in units if _hash(unit) <= cut])
        others = sum(trait in (None, unit[1]) for unit in right)
        outcomes = tuple(int(verdict != "present") for verdict in drawn)
        return confidence_bounds.false_share(len(units), outcomes, others, drawn.count(None))

    return {slug: share(slug) for slug in slugs}, share(None)


def _begun(verdicts: list[str | None]) -> list[str | None]:
    """The verdicts up to the last one that exists: nothing after it was begun."""
    places = [n for n, verdict in enumerate(verdicts) if verdict is not None]
    return verdicts[: places[-1] + 1] if places else []


def _zone(votes: pl.DataFrame, auto: Units, readers: int) -> set[Unit]:
    """The labels `present` as they are without rulings: agreed by reviewers, rechecked or not, or `auto`."""
    agreed = aggregation.tallies(votes.filter(kind="sensitivity"), readers).filter(common="present")
    return {*agreed.select("subject", "trait").iter_rows(), *auto}


def _rechecked(
    votes: pl.DataFrame, reviews: pl.DataFrame, assignments: pl.DataFrame, auto: Units, readers: int
) -> set[Unit]:
    """The rulings of rechecks that have left the zone: on `auto` labels, which are `auto` only while they are unread,
    and overturned ones whose readers have corrected them. Without these, the errors that were found would leave the
    sample, while as many stay in the zone.

    A task that was assigned for a dispute shows later rechecks of its conversation, too. The dispute itself is not
    among them: too few readers ever called it present.
    """
    ruled = votes.filter(kind="sensitivity", role="adjudicator")
    drawn = assignments.filter(why="recheck").select("subject")
    unread = ruled.filter(pl.col("trait").is_in({trait for _, trait in auto})).join(drawn, on="subject", how="semi")
    unread = unread.join(aggregation.by_reviewers(votes), on=UNIT, how="anti")
    set_aside = review_history.aside(reviews)
    present = controls.label_votes(aggregation.by_reviewers(reviews).filter(verdict="present"), assignments)
    voters = present.filter(~pl.col("reviewer").is_in(set_aside)).group_by(UNIT).agg(pl.col("reviewer").n_unique())
    once_agreed = voters.filter(pl.col("reviewer") >= aggregation.majority(readers))
    overturned = last(ruled, *UNIT).filter(pl.col("verdict") != "present").join(once_agreed, on=UNIT, how="semi")
    return {unit for rows in (unread, overturned) for unit in rows.select("subject", "trait").iter_rows()}


def _ruled(votes: pl.DataFrame) -> dict[Unit, str]:
    rulings = last(votes.filter(kind="sensitivity", role="adjudicator"), *UNIT)
    return {(subject, trait): verdict for subject, trait, verdict in rulings.select(*UNIT[1:], "verdict").iter_rows()}


def _cut(votes: pl.DataFrame, auto: Units, assignments: pl.DataFrame) -> int:
    """The highest hash drawn so far, from the tasks `recheck`; -1 if none was drawn.

    A conversation was drawn because of its label with the smallest hash. That one may be no label any more (somebody
    changed an answer), so all claims on it ever count: too low a limit still gives a beginning of the same draw, too
    high a limit would count labels that were never drawn.
    """
    drawn = set(assignments.filter(why="recheck")["subject"])
    claims = (pl.col("verdict") == "present") | (pl.col("role") == "adjudicator")
    claimed = votes.filter(claims, kind="sensitivity").select("subject", "trait").iter_rows()
    smallest: dict[str, int] = {}
    for unit in {*claimed, *auto}:
        if unit[0] in drawn:
            smallest[unit[0]] = min(_hash(unit), smallest.get(unit[0], 2**64))
    return max(smallest.values(), default=-1)


def _hash(unit: Unit) -> int:
    return int(digest("recheck", *unit), 16)


# ---- auto: sure proposals of traits whose sure proposals are mostly right


def sure(proposals: pl.DataFrame, confidence: float) -> pl.DataFrame:
    """The last claim of each unit, if it says `present` with at least this confidence."""
    current = last(last_claims(proposals.filter(kind="sensitivity")), *UNIT)
    return current.filter((pl.col("verdict") == "present") & (pl.col("confidence") >= confidence))


def carried(
    sure: pl.DataFrame, votes: pl.DataFrame, judged: pl.DataFrame, assignments: pl.DataFrame, design: pl.DataFrame
) -> Units:
    """The unread sure proposals of traits where, by those that were read, at most ALPHA of them are wrong."""
    tasks = assignments.filter(kind="sensitivity", role="reviewer").unique("subject", keep="first", maintain_order=True)
    audited = set(tasks.filter(why=AUDIT)["subject"])
    draw = dict(design.filter(kind="sensitivity").select("subject", "draw").iter_rows())
    read = set(votes.filter(kind="sensitivity").select("subject", "trait").iter_rows())
    verdicts = {(s, t): v for s, t, v in judged.select("subject", "trait", "verdict").iter_rows()}
    carried_units: set[Unit] = set()
    for (trait,), group in sure.group_by("trait"):
        units = [(subject, str(trait)) for subject in group["subject"]]
        answers = {unit: verdicts.get(unit) or "none" for unit in units if unit in read}
        drawn = _drawn(units, answers, audited, draw)
        wrong = confidence_bounds.most_wrong(len(units), tuple(int(verdict != "present") for verdict in drawn))
        unread = [unit for unit in units if unit not in read]
        if unread and wrong + drawn.count(None) <= ALPHA * len(unread):  # those would become labels too
            carried_units.update(unread)
    return frozenset(carried_units)


def _drawn(units: list[Unit], verdicts: dict[Unit, str], audited: set[str], draw: dict[str, str]) -> list[str | None]:
    """The verdicts on the units in the order in which they were drawn; None if there is none yet.

    Units that were assigned as proposals come first, in the order of proposals. Those after the last of these are left
    for the audit, in the audit's order.
    """
    order = sorted(units, key=lambda unit: by_turn(unit[0]))
    last_read = max((n for n, unit in enumerate(order) if unit in verdicts and unit[0] not in audited), default=-1)
    remaining = sorted(order[last_read + 1 :], key=lambda unit: draw.get(unit[0], LAST))
    return [verdicts.get(unit) for unit in order[: last_read + 1]] + _begun([verdicts.get(unit) for unit in remaining])


def labels(sure: pl.DataFrame, units: Units, texts: pl.DataFrame) -> pl.DataFrame:
    """LABELS rows (without ids) of these proposals; none if a quote is no longer in the text."""
    current = texts.filter("current", kind="sensitivity").select("subject", "turns", now="digest")
    rows = []
    for row in sure.join(current, on="subject").sort("subject", "trait").iter_rows(named=True):
        spans = row["spans"] or []
        if (row["subject"], row["trait"]) in units and spans and not first_fault(spans, row["turns"], row["kind"]):
            label = {name: row[name] for name in (*UNIT, "verdict", "form", "spans")}
            rows.append(label | {"digest": row["now"], "method": "auto", "reviews": [], "simulated": False})
    schema = {name: kind for name, kind in LABELS.schema.items() if name != "label"}
    return pl.DataFrame(rows, schema={**schema, "spans": pl.List(SPAN)})


# ---- in words


def words(share: FalseShare) -> str:
    """`<= 3.1 %` if the bound exists, else what is needed for one."""
    if not share.labels:
        return "n/a (no such labels)"
    if not share.zone:
        return "n/a (rulings of the adjudicator alone)"
    need = "recheck all" if share.more is None else f"{share.more:,} more recheck{'s' * (share.more != 1)}"
    if share.share is None:
        return f"n/a ({need})"
    return confidence_bounds.at_most(share.share) + (" (certified)" if share.certified else f" ({need})")
