"""review push: who gets which tasks now, in steps; each reads like a line of docs/review-guide.md."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from pathlib import Path

import polars as pl

from annotation import (
    connections,
    controls,
    gold_and_decoys as quality_checks,
    outbox,
    pull,
    push_checks as checks,
    reviewer_opt_outs as opt_outs,
    routing,
    sampling_design as design,
    servers,
    task_assignment as dealing,
)
from annotation.page import links
from annotation.push_checks import People
from annotation.review_destinations import Argilla, Files, LabelStudio, Place, ReviewPage
from annotation.review_state import ReviewState, found_units, gather, queue, still_open
from annotation.tools import files, task_conversion as sheets
from annotation.tools.guidelines import GUIDELINES, guideline, of_tool
from annotation.tools.tasks_and_answers import TASK, keyed_id, sheet_id
from saferec_builder.core.counts import Counts
from saferec_builder.core.errors import ReviewError
from saferec_builder.core.json_value import JsonValue
from saferec_builder.proposing import pending
from saferec_builder.storage import tables, whole_files, workspace
from saferec_builder.storage.workspace import Workspace

Figures = dict[str, JsonValue]
Send = Callable[[pl.DataFrame, pl.DataFrame], Figures]  # (open units, revoked tasks) -> what was sent


@dataclass(frozen=True)
class PushResult:
    """`assignments`: the new rows of the table. Counts are of tasks; their figures say why each was assigned, what was
    sent to whom, what is withheld, and what waits and why."""

    counts: Counts
    assignments: pl.DataFrame


@dataclass(frozen=True)
class Options:
    """What one push assigns."""

    everything: bool
    band: int
    budget: int
    minutes: float


@workspace.shared
def push(
    ws: Workspace,
    reviewers: Sequence[str],
    *,
    to: Place,
    adjudicator: str | None = None,
    everything: bool = False,
    band: int = 0,
    budget: int | None = None,
    minutes: float | None = None,
) -> PushResult:
    """Assigns tasks and puts every open task of everybody named there where they review; a rerun adds nothing.

    Proposals go to `[review] readers` people each, disputes to the adjudicator. Of the rest a share is drawn blind (all
    of it with `everything`), after the `band` conversations with the highest score. `budget` (units) or `minutes`
    (working time of all) end it early. The share, and how reviewers are checked, stand in saferec.toml (config.Review).

    What has arrived is assigned, and nothing else, whatever breaks on the way (outbox.py).
    UsageError where the people or the gold cannot be; ReviewError where a server or a file refuses.
    """
    who = People((reviewers,) if isinstance(reviewers, str) else tuple(reviewers), adjudicator)
    options = Options(everything, band, budget or 0, minutes or 0.0)
    with workspace.alone(
        ws, "review push"
    ):  # since before the desk is read: from an older one a task would go to two more
        return _push(gather(ws), who, options, to)


def _push(desk: ReviewState, who: People, options: Options, to: Place) -> PushResult:
    desk = _caught_up(desk, who, to)
    checks.check_people(who, desk.assignments)
    checks.check_aside(who, desk.reviews)
    checks.check_texts(desk)
    workspace.append(desk.ws, tables.ASKED, pending.rows(desk.taxonomy))  # whose words a `*` speaks for later
    send = _sender(desk, who, to)
    desk = _with_gold(desk)
    due = queue(desk, desk.ws.config.review.recheck if who.adjudicator else 0.0)
    plan = _drawn(desk, _plan(desk, who, options, due))
    back = routing.revoked(desk.assignments, found_units(desk), due, desk.standing, plan.avoid)
    dealt = routing.route(desk.given, desk.proposals, desk.assignments, due, plan, back)
    found = controls.supply(desk.judged, desk.ever, desk.decoys)
    dealt = controls.plant(dealt, desk.assignments, found, desk.given, plan, desk.ws.config.review.controls)
    mine = desk.assignments.filter(desk.assignments["reviewer"].is_in(who.names))
    # a server's task is as it was sent, a file as it was last written: a decoy planted in it later nobody would see,
    # and it would count as refused
    before = mine if isinstance(to, Files) else mine.clear()
    planted = _decoys(desk, pl.concat([before, dealt]), plan.avoid)
    units = still_open(desk, pl.concat([desk.assignments, dealt]), due, plan.avoid, planted)
    shown = dealt.join(units, on=TASK, how="semi", maintain_order="left")  # of a trait that left, nothing is
    outbox.note(desk.ws, shown, before, planted, _paths(desk, who, to))
    sent = outbox.sent(desk.ws, lambda: send(units, back), shown)
    outbox.close(desk.ws)
    given = workspace.read(desk.ws, tables.ASSIGNMENTS)
    new = shown.join(given, on=TASK, how="semi")
    figures: Figures = {"new": dict(new["why"].value_counts().sort("why").iter_rows())}
    figures |= _waiting(routing.short(desk.given, desk.proposals, given, due, plan, back), plan)
    figures |= {"withheld": Counter(desk.withheld.values())} if desk.withheld else {}
    return PushResult(Counts("review push", new.height, mine.height, figures=figures | sent), new)


def _caught_up(desk: ReviewState, who: People, to: Place) -> ReviewState:
    """The desk with what a push that was killed, or lost an answer, has sent all the same."""
    if not isinstance(to, Files | ReviewPage) and not outbox.in_doubt(desk.ws).is_empty():
        servers.settle(desk.ws, connections.connect(desk.ws, to))
    return outbox.adopted(desk, files=_paths(desk, who, to).values())


def _waiting(short: list[tuple[str, str]], plan: dealing.Plan) -> Figures:
    """What this push could not assign, and what to do about it: else its readers would seem to be through."""
    whys = Counter(why for _, why in short)
    cap = f"severe_a_day = {plan.severe_a_day} in [review]"
    says = {
        "day": f"hold a severe trait, and nobody named may have more of these today ({cap}): push again another day",
        "readers": f"lack some of their readers ({plan.readers} each), and nobody named can take them: name more with"
        " --reviewer",
        "adjudicator": f"wait for a ruling, and {plan.adjudicator} has read them: name somebody else with"
        " --adjudicator",
        "barred": f"wait for a ruling, and {plan.adjudicator} cannot be given them (who handed one back is not asked"
        " again): name somebody else with --adjudicator",
        "nobody": "wait for a ruling: name somebody who has not read them with --adjudicator",
        "budget": "are over the budget: push again when these are read",
    }
    kinds = Counter("conversations" if kind == "sensitivity" else "items" for kind, _ in short)
    advice = "; ".join(f"{whys[why]:,} {say}" for why, say in says.items() if whys[why])
    return {"waiting": dict(kinds), "next": advice} if short else {}


# ---- what to assign


def _plan(desk: ReviewState, who: People, options: Options, due: pl.DataFrame) -> dealing.Plan:
    settings = desk.ws.config.review
    # a day's cap needs a day; without a cap no clock is asked
    capped = settings.severe_a_day or settings.severe_in_a_row
    day = date.today().isoformat() if capped else f"push-{desk.assignments['batch'].n_unique() + 1}"
    budget = min((units for units in (options.budget, _units(desk, options.minutes)) if units), default=0)
    undisputed = due.join(desk.disputed, on=due.columns, how="anti")
    return dealing.Plan(
        reviewers=who.reviewers,
        adjudicator=who.adjudicator,
        readers=settings.readers,
        audit=settings.audit,
        everything=options.everything,
        batch=day,
        band=options.band,
        gold=frozenset(desk.gold.select("kind", "subject").iter_rows()),
        orders=desk.orders,
        avoid=opt_outs.avoided(desk.ws),
        known=frozenset(found_units(desk).iter_rows()),
        severe=desk.taxonomy.severe,
        severe_a_day=settings.severe_a_day,
        severe_in_a_row=settings.severe_in_a_row,
        budget=outbox.left(desk.ws, who.reviewers, desk.proposals, budget),
        auto=desk.auto,
        held_back=settings.held_back,
        recheck=frozenset(undisputed.select("kind", "subject").iter_rows()),
    )


def _drawn(desk: ReviewState, plan: dealing.Plan) -> dealing.Plan:
    """The plan with the sampling design; whoever is new gets a place in it now, before anything is sent."""
    claimed = routing.called_for(desk.proposals, plan).union(desk.assignments.select("kind", "subject").iter_rows())
    sure = routing.all_sure(desk.proposals, desk.sure, plan)
    new = design.arrivals(desk.given, desk.design, plan, claimed=claimed, sure=sure, secret=desk.ws.secret)
    workspace.append(desk.ws, tables.DESIGN, new)
    rows = pl.concat([desk.design, new])
    return replace(plan, zone=design.zone(rows), census=design.census(rows))


def _units(desk: ReviewState, minutes: float) -> int:
    """How many units fit in the time, at the median speed so far; a minute each until somebody has answered.

    Seconds are those of a task, which costs as many units as it has claims.
    """
    task = ["kind", "subject"]
    tasks = desk.standing.filter(role="reviewer").group_by(*task, "reviewer").agg(pl.col("seconds").max()).drop_nulls()
    each = (
        tasks.join(dealing.costs(desk.proposals), on=task, how="left")
        .select(pl.col("seconds") / pl.col("cost").fill_null(1))
        .to_series()
    )
    seconds = each.median() if len(each) else 60.0
    return max(1, int(60 * minutes / max(float(seconds), 1.0))) if minutes else 0  # type: ignore[arg-type]


def _with_gold(desk: ReviewState) -> ReviewState:
    """The desk with the gold of the file that saferec.toml names, which is kept."""
    if name := desk.ws.config.review.gold:
        path = desk.ws.root / name
        known = set(desk.texts.filter(kind="sensitivity")["subject"])
        rows = quality_checks.gold_rows(quality_checks.read_gold(path, known, desk.taxonomy))
        quality_checks.check_gold(path, rows, desk.gold)
        workspace.append(desk.ws, tables.GOLD, rows)
    return replace(desk, gold=workspace.read(desk.ws, tables.GOLD))


def _decoys(desk: ReviewState, assignments: pl.DataFrame, avoid: frozenset[tuple[str, str]]) -> pl.DataFrame:
    """New decoys for these tasks; one per conversation, and it stays."""
    if not (share := desk.ws.config.review.decoys):
        return desk.decoys.clear()
    fresh = assignments.join(desk.decoys, on=["kind", "subject"], how="anti").join(
        desk.reviews, on=["kind", "subject"], how="anti"
    )
    claims = dealing.claims(desk.ever)  # what was claimed before may be right
    return quality_checks.decoys(fresh, desk.given, claims, desk.gold, desk.taxonomy, share, avoid)


# ---- where to


def _paths(desk: ReviewState, who: People, to: Place) -> dict[str, Path]:
    """Whose tasks go into which file; none where they go to a server."""
    return {name: to.folder_of(desk.ws) / f"{name}.csv" for name in who.names} if isinstance(to, Files) else {}


def _to_files(desk: ReviewState, who: People, to: Files) -> Send:
    """One CSV for everybody named, and the guidelines beside it."""
    folder, paths = to.folder_of(desk.ws), _paths(desk, who, to)
    seen = {path: _state(path) for path in paths.values()}
    checks.check_pulled(desk, [path for path, state in seen.items() if state])

    def send(units: pl.DataFrame, back: pl.DataFrame) -> Figures:
        for path, state in seen.items():
            if _state(path) != state:  # somebody saved it since: what they wrote is in no check
                raise ReviewError(f"{path}: it was changed just now: run `review pull` on it, then this again")
        key = partial(sheet_id, desk.ws.secret)
        asked = files.records(units, guideline(), desk.taxonomy, paths, key)
        kept = tables.KEYED.frame([*_unkeyed(desk), *asked])
        workspace.append(desk.ws, tables.KEYED, kept)  # before anybody is asked
        rows = files.push(units, desk.texts, desk.taxonomy, guideline(), paths, key)
        with whole_files.replacing(folder / GUIDELINES.name) as tmp:
            tmp.write_text(of_tool("In a file"), encoding="utf-8")
        return {"rows": rows, "folder": str(folder)}

    return send


def _unkeyed(desk: ReviewState) -> list[files.Record]:
    """Rows of KEYED for what was assigned before files had keys: such sheets may still come back."""
    return [(task, [], [], "", "") for task in sorted(pull.unkeyed(desk))]


def _state(path: Path) -> tuple[int, int] | None:
    """Another one after somebody wrote there; None where there is no file."""
    return (path.stat().st_mtime_ns, path.stat().st_size) if path.exists() else None


def _sender(desk: ReviewState, who: People, to: Place) -> Send:
    if isinstance(to, Files):
        return _to_files(desk, who, to)
    return _to_page(desk, who) if isinstance(to, ReviewPage) else _to_server(desk, who, to)


def _to_page(desk: ReviewState, who: People) -> Send:
    """The page shows every open task of whom the ledger names: nothing else is sent."""

    def send(units: pl.DataFrame, back: pl.DataFrame) -> Figures:
        mine, key = units.filter(pl.col("reviewer").is_in(who.names)), partial(keyed_id, desk.ws.secret, links.TOOL)
        made = sheets.sheets(mine, desk.texts, desk.taxonomy, {}, key)
        # by what is asked: who has the page open sees what was proposed, or is known, since
        rows = [(links.TOOL, sheet.task.reviewer, sheet.key, "", "there") for sheet in made]
        workspace.append(desk.ws, tables.SENT, tables.SENT.frame(rows))
        left = dict(sorted(Counter(sheet.task.reviewer for sheet in made).items()))
        return {"open": left, "then": "`saferec-build review serve` opens the page and prints each person's link"}

    return send


def _to_server(desk: ReviewState, who: People, to: LabelStudio | Argilla) -> Send:
    server = connections.connect(desk.ws, to)

    def send(units: pl.DataFrame, back: pl.DataFrame) -> Figures:
        return {"sent": servers.send(desk, server, units, back, who.names), "server": server.url}

    return send
