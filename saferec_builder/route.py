"""Who looks at what, and why: proposals go to two people, a share of the rest is drawn blind, disputes get a third.

reads  texts, proposals, assignments so far, disputed units
gives  assignments (tasks: one conversation or item for one reviewer) and what each open task shows (units)

Nothing here depends on a clock, on chance or on the order of rows: a draw is the hash of what is drawn.
"""

from dataclasses import dataclass
from typing import Any

import polars as pl

from saferec_builder.tables import ASSIGNMENTS, REVIEWS, SPAN, TURN, digest, last

PER_TASK = 2  # reviewers who read a task apart from each other
UNIT = ("kind", "subject", "trait")
Rows = list[tuple[str, ...]]

TEXTS: dict[str, Any] = {
    "kind": pl.String,  # sensitivity | item_flag
    "subject": pl.String,
    "digest": pl.String,
    "head": pl.String,  # "Title (Year), film, drama" of an item, null for a conversation
    "turns": pl.List(TURN),  # of an item: its plot, as one turn
    "current": pl.Boolean,  # false: an older revision, kept because people may have judged it
}


@dataclass(frozen=True)
class Plan:
    reviewers: tuple[str, ...] = ()
    adjudicator: str | None = None
    audit: float = 0.1  # share of the conversations and items without a proposal that people read all the same
    everything: bool = False  # every conversation goes out: an audit share of 1
    batch: str = "push-1"


def texts(conversations: pl.DataFrame, items: pl.DataFrame | None = None) -> pl.DataFrame:
    """TEXTS: every revision of every conversation, and the items (as catalog.merge gives them) with their plots."""
    dialogues = conversations.with_row_index("row").select(
        pl.lit("sensitivity").alias("kind"),
        pl.col("conversation").alias("subject"),
        "digest",
        pl.lit(None, pl.String).alias("head"),
        "turns",
        (pl.col("row") == pl.col("row").max().over("conversation")).alias("current"),
    )
    return dialogues if items is None else pl.concat([dialogues, _plots(items)])


def _plots(items: pl.DataFrame) -> pl.DataFrame:
    rows = []
    for item in items.select("item", "domain", "title", "year", "genres", "plot").iter_rows(named=True):
        title = f"{item['title']} ({item['year']})" if item["year"] else item["title"]
        head = ", ".join(part for part in (title, item["domain"], *(item["genres"] or [])) if part)
        turns = [{"role": "plot", "text": item["plot"], "items": []}] if item["plot"] else []
        rows.append(("item_flag", item["item"], digest(item["plot"]), head, turns, True))
    return pl.DataFrame(rows, schema=TEXTS, orient="row")


def route(
    texts: pl.DataFrame, proposals: pl.DataFrame, assignments: pl.DataFrame, disputed: pl.DataFrame, plan: Plan
) -> pl.DataFrame:
    """New ASSIGNMENTS: tasks still short of two reviewers, and tasks with a disputed unit for the adjudicator.

    A subject with a `present` or `unsure` proposal is `proposed`; of the others those whose hash falls under the
    audit share are `audit`. Each goes to whoever has least so far; what is assigned stays as it is.
    """
    rows: Rows = [
        *_readers(_wanted(texts, proposals, plan), assignments, plan),
        *_disputes(texts, assignments, disputed, plan),
    ]
    return pl.DataFrame(rows, schema=ASSIGNMENTS.schema, orient="row")


def _wanted(texts: pl.DataFrame, proposals: pl.DataFrame, plan: Plan) -> list[tuple[str, str, str, str]]:
    """(kind, subject, digest, why), in an order that has nothing to do with the order in which they were mined."""
    claims = proposals.filter(pl.col("verdict").is_in(["present", "unsure"]))
    proposed = set(claims.select("kind", "subject").iter_rows())
    found = []
    for kind, subject, text in texts.filter("current").select("kind", "subject", "digest").iter_rows():
        share = 1.0 if plan.everything and kind == "sensitivity" else plan.audit
        if (kind, subject) in proposed:
            found.append((kind, subject, text, "proposed"))
        elif drawn(subject, share):
            found.append((kind, subject, text, "audit"))
    return sorted(found, key=lambda row: (row[0] != "sensitivity", digest("order", row[1])))


def drawn(subject: str, share: float) -> bool:
    """Whether a uniform draw with this probability takes the subject; a larger share takes all of a smaller one."""
    return int(digest("audit", subject), 16) < share * 2**64


def _readers(wanted: list[tuple[str, str, str, str]], assignments: pl.DataFrame, plan: Plan) -> Rows:
    had = assignments.filter(pl.col("role") == "reviewer").select("kind", "subject", "reviewer")
    load = dict.fromkeys(plan.reviewers, 0) | dict(had.group_by("reviewer").len().iter_rows())
    holds: dict[tuple[str, str], set[str]] = {}
    for kind, subject, reviewer in had.iter_rows():
        holds.setdefault((kind, subject), set()).add(reviewer)
    rows: Rows = []
    for kind, subject, text, why in wanted:
        have = holds.get((kind, subject), set())
        free = [name for name in plan.reviewers if name not in have]
        least = sorted(free, key=lambda name: (load[name], digest(subject, name)))
        for name in least[: max(0, PER_TASK - len(have))]:
            load[name] += 1
            rows.append((kind, subject, name, "reviewer", text, why, plan.batch))
    return rows


def _disputes(texts: pl.DataFrame, assignments: pl.DataFrame, disputed: pl.DataFrame, plan: Plan) -> Rows:
    if plan.adjudicator is None:
        return []
    mine = assignments.filter((pl.col("role") == "adjudicator") & (pl.col("reviewer") == plan.adjudicator))
    tasks = (
        disputed.select("kind", "subject")
        .unique(maintain_order=True)
        .join(mine, on=["kind", "subject"], how="anti", maintain_order="left")
        .join(texts.filter("current"), on=["kind", "subject"], maintain_order="left")
    )
    adjudicator = plan.adjudicator
    return [
        (kind, subject, adjudicator, "adjudicator", text, "disagreement", plan.batch)
        for kind, subject, text in tasks.select("kind", "subject", "digest").iter_rows()
    ]


# ---- what an open task shows

UNITS: dict[str, Any] = (
    {name: ASSIGNMENTS.schema[name] for name in ("kind", "subject", "reviewer", "role", "digest", "why")}
    | {"trait": pl.String, "verdict": pl.String, "form": pl.String, "spans": pl.List(SPAN)}
    | {f"own_{name}": REVIEWS.schema[name] for name in ("verdict", "form", "spans", "note", "seconds")}
    | {"said": pl.List(pl.String)}
)


def units(
    assignments: pl.DataFrame,
    texts: pl.DataFrame,
    proposals: pl.DataFrame,
    reviews: pl.DataFrame,
    disputed: pl.DataFrame,
) -> pl.DataFrame:
    """One row per unit to show (UNITS), tasks in the order in which they were assigned, `*` last in each.

    verdict, form, spans are the proposal's (null where there is none, and in every audit task); own_* is what this
    reviewer said before; said is what reviewers said, without names, for the adjudicator. A task is open until its
    reviewer answered `*`; the adjudicator gets the disputed units only. `reviews` are the last per unit and person,
    with a column `out`: null where the review still stands. What no longer stands is asked again.
    """
    now = texts.filter("current").select("kind", "subject", "digest")
    tasks = assignments.with_row_index("task").drop("digest", "batch").join(now, on=["kind", "subject"])
    whole = reviews.filter((pl.col("trait") == "*") & pl.col("out").is_null()).select(
        "kind", "subject", "reviewer", "role"
    )
    reading = tasks.filter(pl.col("role") == "reviewer").join(whole, on=whole.columns, how="anti")
    ruling = tasks.filter(pl.col("role") == "adjudicator").join(disputed, on=["kind", "subject"])
    shown = _suggestions(proposals, texts)
    rows = pl.concat([_asked(reading, reviews, shown), ruling], how="diagonal_relaxed")
    suggested = rows.filter(pl.col("why") != "audit").join(shown, on=UNIT, how="left")
    rows = pl.concat([suggested, rows.filter(pl.col("why") == "audit")], how="diagonal_relaxed")
    return (
        _with_own(rows, reviews)
        .sort("task", pl.col("trait") == "*", "trait")
        .match_to_schema(pl.Schema(UNITS), missing_columns="insert", extra_columns="ignore")
    )


def _asked(reading: pl.DataFrame, reviews: pl.DataFrame, shown: pl.DataFrame) -> pl.DataFrame:
    """The tasks of reviewers, one row per trait: proposed ones unless blind, what they answered before, and `*`."""
    who = ["kind", "subject", "reviewer", "role"]
    proposed = reading.filter(pl.col("why") != "audit").join(shown.select(UNIT), on=["kind", "subject"])
    before = reading.join(reviews.filter(pl.col("trait") != "*").select(*who, "trait"), on=who)
    rest = reading.with_columns(trait=pl.lit("*"))
    return pl.concat([part.select(*reading.columns, "trait") for part in (proposed, before, rest)]).unique()


def _suggestions(proposals: pl.DataFrame, texts: pl.DataFrame) -> pl.DataFrame:
    """The claim to show per unit: the last `present` one, else the last; quotes that left the text are left out."""
    claims = last(
        proposals.filter(pl.col("verdict").is_in(["present", "unsure"])).sort(
            pl.col("verdict") == "present", maintain_order=True
        ),
        *UNIT,
    ).select(*UNIT, "verdict", "form", "spans")
    now = texts.filter("current").select("kind", "subject", "turns")
    found = [
        [s for s in row["spans"] or [] if _stands(s, row["turns"])]
        for row in claims.join(now, on=["kind", "subject"], how="left", maintain_order="left").iter_rows(named=True)
    ]
    return claims.with_columns(pl.Series("spans", found, dtype=pl.List(SPAN)))


def _stands(span: dict[str, Any], turns: list[dict[str, Any]] | None) -> bool:
    if not turns or not 0 <= span["turn"] < len(turns):
        return False
    return bool(turns[span["turn"]]["text"][span["start"] : span["end"]] == span["quote"])


def _with_own(rows: pl.DataFrame, reviews: pl.DataFrame) -> pl.DataFrame:
    key = [*UNIT, "reviewer", "role"]
    own = {name.removeprefix("own_"): name for name in UNITS if name.startswith("own_")}
    return rows.join(reviews.filter(pl.col("out").is_null()).select(*key, *own).rename(own), on=key, how="left")


def progress(
    proposals: pl.DataFrame, assignments: pl.DataFrame, votes: pl.DataFrame, disputed: pl.DataFrame
) -> pl.DataFrame:
    """trait, proposed, assigned (of the proposed), once, twice, disputed: counts of units, both kinds together.

    `votes` are those of reviewers; `twice` counts two or more.
    """
    proposed = proposals.filter(pl.col("verdict").is_in(["present", "unsure"])).select(UNIT).unique()
    assigned = proposed.join(assignments, on=["kind", "subject"], how="semi")
    voters = votes.group_by(UNIT).agg(pl.col("reviewer").n_unique())
    parts = {
        "proposed": proposed,
        "assigned": assigned,
        "once": voters.filter(pl.col("reviewer") == 1),
        "twice": voters.filter(pl.col("reviewer") > 1),
        "disputed": disputed,
    }
    counts = pl.concat(part.select("trait", pl.lit(name).alias("what")) for name, part in parts.items())
    return counts.group_by("trait").agg((pl.col("what") == name).sum().alias(name) for name in parts).sort("trait")
