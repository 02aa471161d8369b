"""Blind controls: sensitivities that are known come back without a suggestion, to see how many are missed again.

reads  assignments, votes, labels as they would be now, gold, proposals and decoys
gives  the controls of a push; how everybody read what is known and was not suggested; what is missed of the truth

`control`: people found it and nothing had suggested it; somebody else reads it as they would an audit, and their answer
is no vote. `gold`: a file knows it, and everybody reads it unsuggested. `held_back`: one of the readers of a claim
is not shown it. All three catch who clicks through. Who pastes the answers of the model that proposes finds again what
it proposed: only what nothing ever suggested, and no warning (`by_people`), catches them, and only that tells what the
readers miss.
"""

from collections.abc import Collection
from dataclasses import dataclass

import polars as pl

from annotation.confidence_bounds import DELTA, at_most, rate
from annotation.task_assignment import BLIND, CONTROL, HELD_BACK, Plan, claims
from saferec_builder.storage.tables import ASSIGNMENTS, UNIT, digest

ENOUGH = 20  # conversations read blind before anything is said of the truth
MEANING = "blind controls: conversations whose answer is known, read without a suggestion"
LIMIT = 0.2  # no certificate where more of the truth may be missed
TASK = ("kind", "subject")
_ASKED = ("digest", "taxonomy")  # of an answer: on which text, about which traits


def supply(judged: pl.DataFrame, proposals: pl.DataFrame, decoys: pl.DataFrame) -> pl.DataFrame:
    """UNIT of what people found in conversations though nothing had suggested it."""
    agreed = pl.col("method").is_in(["agreed", "adjudicated"])
    found = judged.filter(agreed, kind="sensitivity", verdict="present").select(UNIT)
    return found.join(_suggested(proposals, decoys), on=UNIT, how="anti", maintain_order="left")


def _suggested(proposals: pl.DataFrame, decoys: pl.DataFrame) -> pl.DataFrame:
    return pl.concat([claims(proposals).select(UNIT), decoys.select(UNIT)]).unique()


def plant(
    new: pl.DataFrame, before: pl.DataFrame, found: pl.DataFrame, texts: pl.DataFrame, plan: Plan, share: float
) -> pl.DataFrame:
    """The tasks of a push with controls drawn among them, so that these are `share` of what each reviewer has had.

    Nobody gets a conversation twice, or one that holds what they asked not to see; none with a severe trait comes back.
    All get them in one order, so that most are read by two. A reviewer never gets more of them than of other tasks in
    one push: alone they would stand out.
    """
    held: dict[str, set[str]] = {}
    for _, subject, trait in plan.known:
        held.setdefault(subject, set()).add(trait)
    known = found.join(texts.filter("current"), on=TASK).select(*TASK, "digest").unique().rows()
    pool = [(s, text) for kind, s, text in known if (kind, s) not in plan.gold and not held.get(s, set()) & plan.severe]
    pool.sort(key=lambda row: digest("control", row[0]))
    rows = [(float(n), row) for n, row in enumerate(new.rows())]
    for name in plan.reviewers:
        had = before.filter(reviewer=name)
        mine = new.with_row_index().filter(reviewer=name, role="reviewer")
        seen = {*had["subject"], *new.filter(reviewer=name)["subject"]}
        free = [
            (s, text)
            for s, text in pool
            if s not in seen and not any((name, trait) in plan.avoid for trait in held.get(s, ()))
        ]
        controls = had.filter(why=CONTROL).height
        wanted = int(share * (had.height + mine.height - controls) / (1 - share)) - controls
        for s, text in free[: max(0, min(wanted, mine.height))]:
            place = mine["index"][int(digest("place", s, name), 16) % mine.height]
            rows.append((place + 0.5, ("sensitivity", s, name, "reviewer", text, CONTROL, plan.batch)))
    rows.sort(key=lambda row: row[0])
    return ASSIGNMENTS.frame(row for _, row in rows)


def apart(votes: pl.DataFrame, assignments: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(the votes that make labels, those on controls)."""
    controls = assignments.filter(why=CONTROL).select(*TASK, "reviewer")
    on = [*TASK, "reviewer"]
    return votes.join(controls, on=on, how="anti", maintain_order="left"), votes.join(controls, on=on, how="semi")


# ---- how they were read


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
    """subject, reviewer, trait, missed, by_people: each conversation counts once per reviewer, by one sensitivity that
    is drawn by hash. Misses in one text come together: all of them would count one hard text several times.

    Gold that holds something `severe` carries a warning, and whoever is warned looks for it: it is not `by_people`.

    In the order of assignment. `votes` are all, those on controls too; `unsure` overlooks nothing. Of whoever changed
    an answer the first counts, by `reviews`, all that there ever were: what they correct later is no blind reading.
    """
    blind = assignments.filter(pl.col("why").is_in(BLIND), kind="sensitivity", role="reviewer")
    blind = blind.with_row_index("row").select("row", *TASK, "reviewer", "why")
    suggested = _suggested(proposals, decoys)
    known = gold.explode("traits", empty_as_null=False).rename({"traits": "trait"}).select(UNIT)
    warned = known.filter(pl.col("trait").is_in(list(severe)))
    ours = known.join(suggested, on=UNIT, how="anti").join(warned, on=TASK, how="anti")
    rest = known.join(ours, on=TASK, how="anti")
    found = supply(judged, proposals, decoys).join(known, on=TASK, how="anti")
    apart = blind.filter(why=HELD_BACK)
    held = claims(proposals).join(apart, on=TASK, how="semi").join(known, on=TASK, how="anti").select(UNIT).unique()
    there = judged.filter(verdict="present").select(UNIT)
    parts = [
        (blind, _one_each(ours), True),
        (blind, _one_each(rest), False),
        (blind.filter(why=CONTROL), _one_each(found), True),
        (apart, _one_each(held).join(there, on=UNIT, how="semi"), False),
    ]
    answers = votes.filter(role="reviewer").select(*UNIT, "reviewer", "verdict")
    if reviews is not None:
        answers = answers.join(_first_words(reviews), on=[*UNIT, "reviewer"], how="left", maintain_order="left")
        answers = answers.with_columns(verdict=pl.coalesce("first", "verdict")).drop("first")
    answers = answers.with_columns(missed=pl.col("verdict") == "absent").drop("verdict")
    rows = pl.concat(tasks.join(units, on=TASK).with_columns(by_people=pl.lit(by)) for tasks, units, by in parts)
    rows = rows.join(answers, on=[*UNIT, "reviewer"]).sort("row")
    return rows.select("subject", "reviewer", "trait", "missed", "by_people")


def _first_words(reviews: pl.DataFrame) -> pl.DataFrame:
    """UNIT, reviewer, `first`: what each said of it first, by name or by the `*` of their task, on the text and under
    the taxonomy of their last answer to it: of what was put in other words they were asked anew.

    An answer has its `*` after all others (take, in files and of servers).
    """
    task = [*TASK, "reviewer"]
    said = reviews.filter(pl.col("verdict").is_not_null(), kind="sensitivity", role="reviewer").with_row_index("at")
    said = said.filter(pl.all_horizontal(pl.col(c).eq_missing(pl.col(c).last().over(task)) for c in _ASKED))
    ended = said.filter(trait="*").group_by(task).agg(ended=pl.col("at").first())
    named = said.filter(pl.col("trait") != "*").group_by(*UNIT, "reviewer").agg(pl.col("at", "verdict").first())
    filled = pl.when(pl.col("ended") < pl.col("at")).then(pl.lit("absent")).otherwise("verdict")
    return named.join(ended, on=task, how="left").select(*UNIT, "reviewer", first=filled)


def _one_each(units: pl.DataFrame) -> pl.DataFrame:
    """Of each conversation one sensitivity, by hash."""
    by_hash = pl.Series([digest("one", *unit[1:]) for unit in units.iter_rows()], dtype=pl.String)
    return units.with_columns(place=by_hash).sort("place").unique(TASK, keep="first", maintain_order=True).select(UNIT)


# ---- what that says of the truth


@dataclass(frozen=True)
class Blind:
    """Conversations with something in it that nothing suggested, and those that the readers of a label would miss.
    `rate` of missed ones is not exceeded; None where too few are read."""

    read: int
    missed: int
    rate: float | None

    @classmethod
    def of(cls, read: int, missed: int, delta: float = DELTA / 2) -> "Blind":
        if not 0 <= missed <= read:
            raise ValueError(f"{missed} missed of {read}")
        return cls(read, missed, rate(missed, read, delta) if read >= ENOUGH else None)


NOBODY = Blind(0, 0, None)


def blind_misses(readings: pl.DataFrame, readers: int = 2, delta: float = DELTA / 2) -> Blind:
    """Each conversation is one chance, however many sensitivities it holds. The other half of DELTA is for the share
    that `of_the_truth` takes: both hold together with 1 - DELTA.

    A label misses it where at most (readers - 1) // 2 of its readers find it: else most do, or it is a dispute. Fewer
    who read the control, up to `readers`, find no more than all would, so a control counts as missed where no more than
    these found it, and as read where more than these read it: with two readers the only one is enough.
    """
    few = (readers - 1) // 2
    each = readings.filter("by_people").group_by("subject").agg(pl.col("missed").head(readers))
    each = each.filter(pl.col("missed").list.len() > few)
    found = each["missed"].list.len() - each["missed"].list.sum()
    return Blind.of(each.height, int((found <= few).sum()), delta)


def of_the_truth(share: float | None, blind: Blind, harder: float = 1.0) -> float | None:
    """The share of the truth that the labels miss at most, where they miss `share` of what these reviewers would find,
    and reviewers miss what was missed at most `harder` times as often as the controls. None where nobody knows.

    Of all that is there reviewers would find 1 - rate at least, and of that the labels hold 1 - share.
    """
    if share is None or blind.rate is None:
        return None
    return 1 - (1 - share) * (1 - min(1.0, harder * blind.rate))


def breaks_at(share: float | None, blind: Blind) -> float | None:
    """How many times as hard as the controls missed ones may be until more than LIMIT of the truth may be missed."""
    if share is None or blind.rate is None:
        return None
    return max(0.0, (LIMIT - share) / (1 - share)) / blind.rate


def certifies(share: float | None, blind: Blind) -> bool:
    """Whether a bound may be called certified: at most LIMIT of the truth is missed, by enough controls."""
    most = of_the_truth(share, blind)
    return most is not None and most <= LIMIT


def words(share: float | None, blind: Blind) -> str:
    """What the bound is relative to."""
    most, times = of_the_truth(share, blind), breaks_at(share, blind)
    if most is None or times is None:
        return f"not known ({blind.read} of {ENOUGH} blind controls read of which nothing was ever suggested)"
    limit = f"{100 * LIMIT:.0f} % up to {times:.1f} times as hard"
    return (
        f"{at_most(most)} relative to the truth, as far as missed ones are no harder than the blind controls ({limit})"
    )
