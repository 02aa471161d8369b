"""Decides which texts are reviewed, by whom and why: proposals, a blind audit sample, disputes.

reads  texts, proposals, assignments so far, disputed units, and the reviewers' opt-outs
gives  assignments (tasks: one conversation or item for one reviewer) and what each open task shows (units)

Nothing here depends on a clock, on randomness or on the order of rows: a draw is the hash of what is drawn.
"""

from collections.abc import Collection
from dataclasses import replace

import polars as pl

from annotation.review_history import SET_ASIDE, STALE
from annotation.task_assignment import AUDIT, BLIND, Dealer, Due, Key, Plan, claims, deal
from saferec_builder.core import titles
from saferec_builder.storage import tables
from saferec_builder.storage.evidence_check import UNFOUNDED, fault
from saferec_builder.storage.tables import ANSWER, ASSIGNMENTS, SPAN, SUBJECT, TASK, UNIT, digest, last

Rows = list[tuple[str, ...]]

TEXTS: dict[str, pl.DataType | type[pl.DataType]] = {
    "kind": pl.String,  # sensitivity | item_flag
    "subject": pl.String,
    "digest": pl.String,
    "head": pl.String,  # "Title (Year), film, drama" of an item, null for a conversation
    "turns": pl.List(tables.TURN),  # of an item: its plot, as one turn
    "current": pl.Boolean,  # false: an older revision, kept because it may have reviews
}


def texts(conversations: pl.DataFrame, items: pl.DataFrame | None = None) -> pl.DataFrame:
    """TEXTS: every revision of every conversation, and the items (as returned by catalog.merge) with their plots."""
    is_last = pl.col("row") == pl.col("row").max().over("conversation")
    revisions = conversations.with_row_index("row").with_columns(
        kind=pl.lit("sensitivity"), subject="conversation", head=pl.lit(None, pl.String), current=is_last
    )
    revisions = revisions.select(*TEXTS)
    return revisions if items is None else pl.concat([revisions, _plots(items)])


def _plots(items: pl.DataFrame) -> pl.DataFrame:
    rows = []
    for item in items.select("item", "domain", "title", "year", "genres", "plot").iter_rows(named=True):
        head = ", ".join(part for part in (titles.dated(item), item["domain"], *(item["genres"] or [])) if part)
        turns = [{"role": "plot", "text": item["plot"], "items": []}] if item["plot"] else []
        rows.append(("item_flag", item["item"], digest(item["plot"]), head, turns, True))
    return pl.DataFrame(rows, schema=TEXTS, orient="row")


def route(
    texts: pl.DataFrame,
    proposals: pl.DataFrame,
    assignments: pl.DataFrame,
    disputed: pl.DataFrame,
    plan: Plan,
    revoked: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """New ASSIGNMENTS: tasks that lack readers, and tasks with a disputed unit for the adjudicator.

    why is `gold`, `proposed` (a present or unsure claim), `orders`, `band` (a high score), `census` (one of them in an
    earlier push: no audit represents it) or `audit` (its place in the draw is below the share: a uniform draw from all
    the rest, including those with only `auto` claims; and those drawn before). Each goes to the reviewer with the
    fewest tasks who may see it. Existing assignments stay, unless they are `revoked` (kind, subject, reviewer): then
    another reviewer gets the task.
    """
    dealer = Dealer(plan, proposals, assignments, revoked)
    rows = [*deal(dealer, _due(texts, proposals, assignments, plan)), *_disputes(texts, disputed, plan, dealer)]
    return ASSIGNMENTS.frame(rows)


def short(
    texts: pl.DataFrame,
    proposals: pl.DataFrame,
    assignments: pl.DataFrame,
    disputed: pl.DataFrame,
    plan: Plan,
    revoked: pl.DataFrame,
) -> list[tuple[str, str]]:
    """(kind, `readers` | `day` | `budget`) of every task to read that lacks readers because `route` could not assign
    it. And of every disputed task without an adjudicator: (kind, reason), where the reason is `nobody` if none is
    named, `adjudicator` if they have read it, or `barred` if they handed it back or may not see it."""
    dealer = Dealer(plan, proposals, assignments, revoked)
    reasons = ((due[0], dealer.short(due)) for due in _due(texts, proposals, assignments, plan))
    own_tasks = assignments.filter(reviewer=plan.adjudicator or "")
    read = set(own_tasks.filter(role="reviewer").select(SUBJECT).iter_rows())
    ruling = assignments.filter(role="adjudicator").join(revoked, on=TASK, how="anti")
    waiting = disputed.select(SUBJECT).unique(maintain_order=True)
    free = waiting.join(ruling, on=SUBJECT, how="anti", maintain_order="left")
    causes = ("adjudicator" if key in read else "barred" if plan.adjudicator else "nobody" for key in free.iter_rows())
    return [(kind, reason) for kind, reason in reasons if reason] + list(zip(free["kind"], causes, strict=True))


def found_units(proposals: pl.DataFrame, reviews: pl.DataFrame, gold: pl.DataFrame) -> pl.DataFrame:
    """UNIT of everything that a person or a program found in a text: an opt-out holds for all of it.

    `reviews` are the last per unit and person, with a column `out`: null if the review counts.
    """
    votes = claims(reviews.filter(pl.col("out").is_null() & (pl.col("trait") != "*")))
    truth = gold.explode("traits", empty_as_null=False).rename({"traits": "trait"})
    return pl.concat([frame.select(UNIT) for frame in (claims(proposals), votes, truth)]).unique(maintain_order=True)


def called_for(proposals: pl.DataFrame, plan: Plan) -> set[Key]:
    """(kind, subject) to read for a reason other than the draw, assigned or not: no audit represents these."""
    return {key for keys in _reasons(proposals, plan).values() for key in keys}


def all_sure(proposals: pl.DataFrame, sure: pl.DataFrame, plan: Plan) -> set[Key]:
    """(kind, subject) with `sure` claims, which may become `auto` labels, and without any other reason to read it."""
    other_claims = claims(proposals).join(sure, on=UNIT, how="anti")
    return set(sure.select("kind", "subject").iter_rows()) - called_for(other_claims, replace(plan, auto=frozenset()))


def _reasons(proposals: pl.DataFrame, plan: Plan) -> dict[str, Collection[Key]]:
    """why -> (kind, subject); if there are several reasons, the first counts."""
    units = claims(proposals).select(UNIT).iter_rows()
    proposed = {(kind, subject) for kind, subject, trait in units if (subject, trait) not in plan.auto}
    scored = by_doubt(proposals.filter(kind="sensitivity"), proposed) if plan.band else []
    band = [key for key, _ in scored[: plan.band]]
    return {"gold": plan.gold, "proposed": proposed, "orders": plan.orders, "band": band}


def _due(texts: pl.DataFrame, proposals: pl.DataFrame, assignments: pl.DataFrame, plan: Plan) -> list[Due]:
    """(kind, subject, digest, why) of everything to read, whether it has enough readers or not. A text that was once
    drawn is to be read even under a smaller share (after `--all`): the draw counts it, as missed without a label."""
    audited = set(assignments.filter(why=AUDIT).select("kind", "subject").iter_rows())
    ranked = _reasons(proposals, plan) | {"census": plan.census}
    reasons = {key: why for why, keys in reversed(ranked.items()) for key in keys}  # the first of several counts
    due = []
    for kind, subject, text in texts.filter("current").select("kind", "subject", "digest").iter_rows():
        why = reasons.get((kind, subject)) or AUDIT
        place = plan.zone.get((kind, subject))
        share = 1.0 if (kind, subject) in audited else plan.drawn(kind)
        if why != AUDIT or drawn(place, share):
            due.append((kind, subject, text, why))
    return due


def by_doubt(proposals: pl.DataFrame, proposed: Collection[Key]) -> list[tuple[Key, float]]:
    """Texts without a proposal, with the highest doubt (0 to 1) of a proposer that a trait is absent there; the most
    doubtful first."""
    absent = proposals.filter((pl.col("verdict") == "absent") & pl.col("confidence").is_not_null())
    doubts = absent.group_by("kind", "subject").agg(pl.col("confidence").min()).iter_rows()
    scores = {(kind, subject): 1 - sure for kind, subject, sure in doubts if (kind, subject) not in proposed}
    return sorted(scores.items(), key=lambda row: (-row[1], digest("band", row[0][1])))


def drawn(place: str | None, share: float) -> bool:
    """Whether a uniform draw with this probability includes the place; a larger share includes all of a smaller one."""
    return place is not None and int(place, 16) < share * 2**64


def revoked(
    assignments: pl.DataFrame,
    known: pl.DataFrame,
    disputed: pl.DataFrame,
    reviews: pl.DataFrame,
    avoid: frozenset[tuple[str, str]],
) -> pl.DataFrame:
    """kind, subject, reviewer of tasks that are taken back: they would show a trait that their reader opted out of,
    their reader handed them back, or their reader was set aside, so that no further answer would count. A task that was
    read to its end stays. `known` are units known to be present; an adjudicator reads the whole text, too."""
    opt_outs = pl.DataFrame(sorted(avoid), schema={"reviewer": pl.String, "trait": pl.String}, orient="row")
    present = known.select(UNIT)
    units = {"reviewer": present, "adjudicator": pl.concat([present, disputed.select(UNIT)])}
    parts = [
        assignments.filter(role=role).join(visible, on=SUBJECT).join(opt_outs, on=["reviewer", "trait"], how="semi")
        for role, visible in units.items()
    ]
    aside = reviews.filter(out=SET_ASIDE)
    parts += [reviews.filter(out=tables.HANDED_BACK), assignments.join(aside, on="reviewer", how="semi")]
    taken_back = pl.concat(part.select(TASK) for part in parts).unique()
    return taken_back.join(_read(reviews), on=TASK, how="anti")


def _read(reviews: pl.DataFrame) -> pl.DataFrame:
    """The `*` of each task that its reader has read to its end, unless words that they marked have left the text."""
    finished = reviews.filter((pl.col("trait") == "*") & pl.col("out").is_null())
    return finished.join(reviews.filter(pl.col("out").is_in([STALE, UNFOUNDED])), on=ASSIGNMENTS.key, how="anti")


def _disputes(texts: pl.DataFrame, disputed: pl.DataFrame, plan: Plan, dealer: Dealer) -> Rows:
    """The adjudicator's new tasks: disputed units, but none that they had to read as a reviewer or opted out of."""
    if plan.adjudicator is None:
        return []
    hidden = {trait for name, trait in plan.avoid if name == plan.adjudicator}
    barred = {(kind, subject) for kind, subject, trait in disputed.select(UNIT).iter_rows() if trait in hidden}
    tasks = disputed.select("kind", "subject").unique(maintain_order=True)
    tasks = tasks.join(texts.filter("current"), on=SUBJECT, maintain_order="left")
    rows: Rows = []
    for kind, subject, text in tasks.select("kind", "subject", "digest").iter_rows():
        key = (kind, subject)
        may_see = key not in barred and hidden.isdisjoint(dealer.found.get(key, ()))
        if may_see and plan.adjudicator not in dealer.had.get(key, ()):
            why = "recheck" if key in plan.recheck else "disagreement"
            rows.append((kind, subject, plan.adjudicator, "adjudicator", text, why, plan.batch))
    return rows


# ---- what an open task shows

SHOWN = ("verdict", "form", "spans")
UNITS = pl.Schema(
    {name: ASSIGNMENTS.schema[name] for name in ("kind", "subject", "reviewer", "role", "digest", "why")}
    | dict.fromkeys(("trait", "verdict", "form"), pl.String())
    | {"spans": pl.List(SPAN)}
    | {f"own_{name}": tables.REVIEWS.schema[name] for name in ("verdict", "form", "spans", "note", "seconds")}
    | {"said": pl.List(pl.String)}
)


def units(
    assignments: pl.DataFrame,
    texts: pl.DataFrame,
    proposals: pl.DataFrame,
    reviews: pl.DataFrame,
    disputed: pl.DataFrame,
    decoys: pl.DataFrame,
) -> pl.DataFrame:
    """One row per unit to show (UNITS), tasks in the order of their assignment, `*` last in each.

    verdict, form, spans are the proposal's (null if there is none, and in tasks that are read blind); own_* is this
    reviewer's earlier answer; said are the reviewers' answers, without names, for the adjudicator. A task is open until
    it was read to its end, and again once marked words are gone; the adjudicator gets only the disputed units.
    `reviews` are the last per unit and person, with a column `out`: null if the review counts. `decoys` (kind, subject,
    reviewer, trait, verdict, form, spans) are suggestions for one person only; nothing distinguishes them.
    """
    current = texts.filter("current").select("kind", "subject", "digest")
    tasks = assignments.with_row_index("task").drop("digest", "batch").join(current, on=SUBJECT)
    reading = tasks.filter(pl.col("role") == "reviewer").join(_read(reviews), on=ASSIGNMENTS.key, how="anti")
    ruling = tasks.filter(pl.col("role") == "adjudicator").join(disputed, on=SUBJECT)
    suggestions = _suggestions(proposals, texts)
    planted = _founded(decoys, texts)
    rows = pl.concat([_to_read(reading, reviews, suggestions, planted), ruling], how="diagonal_relaxed")
    with_claims = rows.filter(~pl.col("why").is_in(BLIND)).join(suggestions, on=UNIT, how="left")
    with_claims = with_claims.update(planted.select(*UNIT, "reviewer", *SHOWN), on=[*UNIT, "reviewer"], how="left")
    rows = pl.concat([with_claims, rows.filter(pl.col("why").is_in(BLIND))], how="diagonal_relaxed")
    own = {name: name.removeprefix("own_") for name in UNITS if name.startswith("own_")}
    answers = reviews.filter(pl.col("out").is_null()).select(*ANSWER, **own)
    return (
        rows.join(answers, on=ANSWER, how="left")
        .sort("task", pl.col("trait") == "*", "trait")
        .match_to_schema(UNITS, missing_columns="insert", extra_columns="ignore")
    )


def _to_read(reading: pl.DataFrame, reviews: pl.DataFrame, shown: pl.DataFrame, planted: pl.DataFrame) -> pl.DataFrame:
    """The tasks of reviewers, one row per trait: proposed ones unless blind, those answered before, decoys, and `*`."""
    proposed = reading.filter(~pl.col("why").is_in(BLIND)).join(shown.select(UNIT), on=SUBJECT)
    by_name = reviews.filter(pl.col("trait") != "*").select(*ASSIGNMENTS.key, "trait")
    answered = reading.join(by_name, on=ASSIGNMENTS.key)
    decoys = reading.join(planted.select(*UNIT, "reviewer"), on=TASK)
    ends = reading.with_columns(trait=pl.lit("*"))
    return pl.concat([part.select(*reading.columns, "trait") for part in (proposed, decoys, answered, ends)]).unique()


def _suggestions(proposals: pl.DataFrame, texts: pl.DataFrame) -> pl.DataFrame:
    """The claim to show per unit: the last `present` one, else the last, of those with a quote that is in the text."""
    rows = claims(proposals).sort(pl.col("verdict") == "present", maintain_order=True).select(*UNIT, *SHOWN)
    return last(_founded(rows, texts), *UNIT)


def _founded(rows: pl.DataFrame, texts: pl.DataFrame) -> pl.DataFrame:
    """The suggestions without quotes that are no longer in the text; those that have no other quote are left out."""
    current = texts.filter("current").select("kind", "subject", "turns")
    quotes = [
        [s for s in row["spans"] or [] if fault(s, row["turns"], row["kind"]) is None]
        for row in rows.join(current, on=SUBJECT, how="left", maintain_order="left").iter_rows(named=True)
    ]
    founded = rows.with_columns(pl.Series("spans", quotes, dtype=pl.List(SPAN)))
    return founded.filter(pl.col("spans").list.len() > 0)
