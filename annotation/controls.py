"""Blind controls: conversations with known answers, read without a suggestion, to measure how much readers miss.

reads  assignments, votes, labels as they would be now, gold, proposals and decoys
gives  the controls of a push; how readers answered on known, unsuggested sensitivities; what is missed of the truth

`control`: people found a sensitivity that nothing had suggested; another reader gets it like an audit, and their answer
is no vote. `gold`: a file holds the answer, and everybody reads it unsuggested. `held_back`: one of the readers of a
claim does not see it. All three detect readers who click through. A reader who pastes the answers of the proposing
model finds what that model proposed: only sensitivities that nothing ever suggested, and that carry no warning
(`by_people`), detect such readers, and only these show what readers miss.
"""

from collections.abc import Collection
from dataclasses import dataclass
from math import floor

import polars as pl

from annotation.confidence_bounds import DELTA, at_most, rate
from annotation.task_assignment import BLIND, CONTROL, HELD_BACK, Plan, claims
from saferec_builder.storage.tables import ASSIGNMENTS, SUBJECT, TASK, UNIT, digest

ENOUGH = 20  # conversations to read blind before the truth can be estimated
MEANING = "blind controls: conversations whose answer is known, read without a suggestion"
LIMIT = 0.2  # no certificate where more of the truth may be missed
_VERSIONS = ("digest", "taxonomy")  # of a review: the text, and the wording of the traits


def supply(judged: pl.DataFrame, proposals: pl.DataFrame, decoys: pl.DataFrame) -> pl.DataFrame:
    """UNIT of the sensitivities that people found in conversations although nothing had suggested them."""
    agreed = pl.col("method").is_in(["agreed", "adjudicated"])
    found_by_people = judged.filter(agreed, kind="sensitivity", verdict="present").select(UNIT)
    return found_by_people.join(_suggested(proposals, decoys), on=UNIT, how="anti", maintain_order="left")


def _suggested(proposals: pl.DataFrame, decoys: pl.DataFrame) -> pl.DataFrame:
    return pl.concat([claims(proposals).select(UNIT), decoys.select(UNIT)]).unique()


def plant(
    new: pl.DataFrame, before: pl.DataFrame, found: pl.DataFrame, texts: pl.DataFrame, plan: Plan, share: float
) -> pl.DataFrame:
    """The tasks of a push with controls drawn among them, so that these are `share` of all that each reviewer ever got.

    Nobody gets a conversation twice, or one with a trait that they opted out of; those with a severe trait are never
    controls. All reviewers get the controls in one order, so that most are read by two. In one push a reviewer never
    gets more controls than other tasks: controls alone would be noticed.
    """
    traits_in: dict[str, set[str]] = {}
    for _, subject, trait in plan.known:
        traits_in.setdefault(subject, set()).add(trait)
    usable = found.join(texts.filter("current"), on=SUBJECT).select(*SUBJECT, "digest").unique().rows()
    pool = [(s, t) for kind, s, t in usable if (kind, s) not in plan.gold and not traits_in.get(s, set()) & plan.severe]
    pool.sort(key=lambda row: digest("control", row[0]))
    rows = [(float(n), row) for n, row in enumerate(new.rows())]
    for name in plan.reviewers:
        had = before.filter(reviewer=name)
        tasks = new.with_row_index().filter(reviewer=name, role="reviewer")
        seen = {*had["subject"], *new.filter(reviewer=name)["subject"]}
        free = [
            (s, text)
            for s, text in pool
            if s not in seen and not any((name, trait) in plan.avoid for trait in traits_in.get(s, ()))
        ]
        controls = had.filter(why=CONTROL).height
        missing = int(share * (had.height + tasks.height - controls) / (1 - share)) - controls
        for s, text in free[: max(0, min(missing, tasks.height))]:
            place = tasks["index"][int(digest("place", s, name), 16) % tasks.height]
            rows.append((place + 0.5, ("sensitivity", s, name, "reviewer", text, CONTROL, plan.batch)))
    rows.sort(key=lambda row: row[0])
    return ASSIGNMENTS.frame(row for _, row in rows)


def label_votes(votes: pl.DataFrame, assignments: pl.DataFrame) -> pl.DataFrame:
    """The votes that make labels: without those on controls."""
    return votes.join(assignments.filter(why=CONTROL), on=TASK, how="anti", maintain_order="left")


# ---- how the controls were read


def readings(
    assignments: pl.DataFrame,
    votes: pl.DataFrame,
    judged: pl.DataFrame,
    gold: pl.DataFrame,
    proposals: pl.DataFrame,
    decoys: pl.DataFrame,
    *,
    severe: Collection[str] = (),
    reviews: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """subject, reviewer, trait, missed, by_people: each conversation counts once per reviewer, with one sensitivity
    drawn by hash. Misses in one text are not independent: to count all would count one hard text several times.

    Gold with a `severe` trait carries a warning, and a warned reader searches for it: it is not `by_people`.

    In the order of assignment. `votes` are all votes, with those on controls; `unsure` is not missed. Of changed
    answers the first counts, by `reviews`, which are all ever given: a later correction is no blind reading.
    """
    blind = assignments.filter(pl.col("why").is_in(BLIND), kind="sensitivity", role="reviewer")
    blind = blind.with_row_index("row").select("row", *TASK, "why")
    suggested = _suggested(proposals, decoys)
    in_gold = gold.explode("traits", empty_as_null=False).rename({"traits": "trait"}).select(UNIT)
    warned = in_gold.filter(pl.col("trait").is_in(list(severe)))
    unprompted = in_gold.join(suggested, on=UNIT, how="anti").join(warned, on=SUBJECT, how="anti")
    prompted = in_gold.join(unprompted, on=SUBJECT, how="anti")  # all of it suggested, or with a warning
    found_by_people = supply(judged, proposals, decoys).join(in_gold, on=SUBJECT, how="anti")
    apart = blind.filter(why=HELD_BACK)
    hidden = claims(proposals).select(UNIT).unique().join(apart, on=SUBJECT, how="semi")
    hidden = hidden.join(in_gold, on=SUBJECT, how="anti")
    present = judged.filter(verdict="present").select(UNIT)
    parts = [
        (blind, _one_per_task(unprompted), True),
        (blind, _one_per_task(prompted), False),
        (blind.filter(why=CONTROL), _one_per_task(found_by_people), True),
        (apart, _one_per_task(hidden).join(present, on=UNIT, how="semi"), False),
    ]
    answers = votes.filter(role="reviewer").select(*UNIT, "reviewer", "verdict")
    if reviews is not None:
        answers = answers.join(_first_answers(reviews), on=[*UNIT, "reviewer"], how="left", maintain_order="left")
        answers = answers.with_columns(verdict=pl.coalesce("first", "verdict")).drop("first")
    answers = answers.with_columns(missed=pl.col("verdict") == "absent").drop("verdict")
    rows = pl.concat(tasks.join(units, on=SUBJECT).with_columns(by_people=pl.lit(by)) for tasks, units, by in parts)
    rows = rows.join(answers, on=[*UNIT, "reviewer"]).sort("row")
    return rows.select("subject", "reviewer", "trait", "missed", "by_people")


def _first_answers(reviews: pl.DataFrame) -> pl.DataFrame:
    """UNIT, reviewer, `first`: each reviewer's first answer, by name or by the `*` of their task, on the text and under
    the taxonomy of their last one: a reworded trait was asked again. A `*` comes after all other rows of its answer."""
    answers = reviews.filter(pl.col("verdict").is_not_null(), kind="sensitivity", role="reviewer").with_row_index("at")
    answers = answers.filter(pl.all_horizontal(pl.col(c).eq_missing(pl.col(c).last().over(TASK)) for c in _VERSIONS))
    ended = answers.filter(trait="*").group_by(TASK).agg(ended=pl.col("at").first())
    by_name = answers.filter(pl.col("trait") != "*").group_by(*UNIT, "reviewer").agg(pl.col("at", "verdict").first())
    first = pl.when(pl.col("ended") < pl.col("at")).then(pl.lit("absent")).otherwise("verdict")
    return by_name.join(ended, on=TASK, how="left").select(*UNIT, "reviewer", first=first)


def _one_per_task(units: pl.DataFrame) -> pl.DataFrame:
    """One sensitivity of each conversation, drawn by hash."""
    by_hash = pl.Series([digest("one", *unit[1:]) for unit in units.iter_rows()], dtype=pl.String)
    by_place = units.with_columns(place=by_hash).sort("place")
    return by_place.unique(SUBJECT, keep="first", maintain_order=True).select(UNIT)


# ---- the share of the truth that is missed


@dataclass(frozen=True)
class Blind:
    """How many conversations with an unsuggested sensitivity were read, and how many of them the readers of a label
    would miss. `rate` is an upper bound on the rate of misses; None if too few are read."""

    read: int
    missed: int
    rate: float | None

    @classmethod
    def of(cls, read: int, missed: int) -> "Blind":
        if not 0 <= missed <= read:
            raise ValueError(f"{missed} missed of {read}")
        return cls(read, missed, rate(missed, read, DELTA / 2) if read >= ENOUGH else None)


NOBODY = Blind(0, 0, None)


def blind_misses(readings: pl.DataFrame, readers: int = 2) -> Blind:
    """Each conversation is one trial, however many sensitivities it holds. The other half of DELTA is for the share
    that `of_the_truth` takes: both hold together with 1 - DELTA.

    A label misses it if at most (readers - 1) // 2 of its readers find it: otherwise most find it, or it is disputed.
    If fewer than `readers` read the control, they find no more than all would. So a control counts as read if more than
    (readers - 1) // 2 read it, and as missed if no more than that found it: with two readers one is enough.
    """
    few = (readers - 1) // 2
    by_subject = readings.filter("by_people").group_by("subject").agg(pl.col("missed").head(readers))
    by_subject = by_subject.filter(pl.col("missed").list.len() > few)
    hits = by_subject["missed"].list.len() - by_subject["missed"].list.sum()
    return Blind.of(by_subject.height, int((hits <= few).sum()))


def of_the_truth(share: float | None, blind: Blind) -> float | None:
    """The upper bound on the share of the truth that the labels miss, if they miss `share` of what these reviewers
    would find, and reviewers miss such ones at most as often as the controls; None if it is unknown.

    Reviewers would find at least 1 - rate of all that is present, and labels hold 1 - share of that.
    """
    if share is None or blind.rate is None:
        return None
    return 1 - (1 - share) * (1 - blind.rate)


def breaks_at(share: float | None, blind: Blind) -> float | None:
    """How many times as hard as the controls missed ones may be before more than LIMIT of the truth may be missed."""
    if share is None or blind.rate is None:
        return None
    return (LIMIT - share) / (1 - share) / blind.rate if share < LIMIT else 0.0  # a share of 1 is missed in any case


def certifies(share: float | None, blind: Blind) -> bool:
    """Whether a bound may be called certified: enough controls were read, and at most LIMIT of the truth is missed."""
    most = of_the_truth(share, blind)
    return most is not None and most <= LIMIT


def words(share: float | None, blind: Blind) -> str:
    """The share of the truth that is missed at most, in words."""
    most, times = of_the_truth(share, blind), breaks_at(share, blind)
    if most is None or times is None:
        return f"not known ({blind.read} of {ENOUGH} blind controls that nothing ever suggested are read)"
    limit = (
        f"{100 * LIMIT:.0f} % up to {floor(10 * times + 1e-9) / 10:.1f} times as hard"  # rounded up it would not hold
    )
    return (
        f"{at_most(most)} relative to the truth, as far as missed ones are no harder than the blind controls ({limit})"
    )
