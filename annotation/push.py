"""review push: decides who gets which tasks now, and sends them; the steps are those of docs/review-guide.md."""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

from annotation import connections, controls, gold_and_decoys, outbox, push_checks as checks, routing, servers
from annotation.page import links
from annotation.pull import unkeyed
from annotation.push_checks import People
from annotation.review_destinations import Argilla, Files, LabelStudio, Place, ReviewPage
from annotation.review_state import ReviewState, found_units, gather, queue, still_open
from annotation.reviewer_opt_outs import avoided
from annotation.sampling_design import arrivals, census, zone
from annotation.task_assignment import Plan, claims, costs
from annotation.tools import files, task_conversion
from annotation.tools.guidelines import GUIDELINES, guideline, page_for
from annotation.tools.tasks_and_answers import TASK_AND_TEXT, base_id, keyed_id, sheet_id
from saferec_builder.core.counts import Counts
from saferec_builder.core.errors import ReviewError
from saferec_builder.core.json_value import JsonValue
from saferec_builder.proposing import pending
from saferec_builder.storage import tables, whole_files, workspace
from saferec_builder.storage.workspace import Workspace

DAY = 8.0  # working hours
CORRECT = "what was answered is stored: to change an answer, change it in a copy of the file from before, and pull that"
Figures = dict[str, JsonValue]
Send = Callable[[pl.DataFrame, pl.DataFrame], Figures]  # (open units, revoked tasks) -> figures of what was sent


@dataclass(frozen=True)
class PushResult:
    """`assignments`: the new rows of the table. The counts are numbers of tasks; their figures say why tasks were
    assigned, what was sent to whom, what is withheld, and what waits and why."""

    counts: Counts
    assignments: pl.DataFrame


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
    """Assigns tasks and sends every open task of the people named to where they review; a rerun adds nothing.

    Each proposal goes to `[review] readers` people, each dispute to the adjudicator. After the `band` conversations
    with the highest score, a share of the rest is drawn blind (all of it with `everything`). `budget` (units) or
    `minutes` (working time of all together) limit the push. saferec.toml sets the share and the checks of reviewers
    (config.Review). If something breaks on the way, exactly the tasks that have arrived are assigned (outbox.py).

    Raises UsageError if the people or the gold are not valid; ReviewError if a server or a file refuses.
    """
    people = People((reviewers,) if isinstance(reviewers, str) else tuple(reviewers), adjudicator)
    checks.check_limits(budget, minutes)
    # the lock is taken before the state is read: from an outdated state a task would go to two more people
    with workspace.alone(ws, "review push"):
        state = _recovered(gather(ws), people, to)
        units = min((n for n in (budget or 0, _units(state, minutes or 0.0)) if n), default=0)
        return _push(state, people, Plan(everything=everything, band=band, budget=units), to)


def _push(state: ReviewState, people: People, limits: Plan, to: Place) -> PushResult:
    """`limits`: a plan with what the caller has chosen for this push."""
    checks.check_people(people, state.assignments)
    checks.check_aside(people, state.reviews)
    checks.check_texts(state)
    workspace.append(state.ws, tables.ASKED, pending.rows(state.taxonomy))  # the wordings that a `*` answers for
    send = _sender(state, people, to)
    state = _with_gold(state)
    due = queue(state, state.ws.config.review.recheck if people.adjudicator else 0.0)
    plan = _with_design(state, _plan(state, people, limits, due))
    revoked = routing.revoked(state.assignments, found_units(state), due, state.standing, plan.avoid)
    dealt = routing.route(state.given, state.proposals, state.assignments, due, plan, revoked)
    control_units = controls.supply(state.judged, state.ever, state.decoys)
    dealt = controls.plant(dealt, state.assignments, control_units, state.given, plan, state.ws.config.review.controls)
    existing = state.assignments.filter(state.assignments["reviewer"].is_in(people.names))
    # a push rewrites files, but not the tasks that a server holds: nobody would see a decoy planted in one of those
    # later, and it would count as refused
    rewritten = existing if isinstance(to, Files) else existing.clear()
    planted = _decoys(state, pl.concat([rewritten, dealt]), plan.avoid)
    units = still_open(state, pl.concat([state.assignments, dealt]), due, plan.avoid, planted)
    sendable = dealt.join(units, on=TASK_AND_TEXT, how="semi", maintain_order="left")  # without traits that left
    outbox.note(state.ws, sendable, rewritten, planted, _paths(state, people, to))
    sent = outbox.sent(state.ws, lambda: send(units, revoked), sendable)
    outbox.close(state.ws)
    assigned = workspace.read(state.ws, tables.ASSIGNMENTS)
    new = sendable.join(assigned, on=TASK_AND_TEXT, how="semi")
    figures: Figures = {"new": dict(new["why"].value_counts().sort("why").iter_rows())}
    short = routing.short(state.given, state.proposals, assigned, due, plan, revoked)
    figures |= _waiting(short, plan) if short or not new.is_empty() else _unassigned(state, assigned)
    if not limits.budget and (time := _long(state, new)):
        figures |= {"time": time}
    figures |= {"withheld": Counter(state.withheld.values())} if state.withheld else {}
    if (name := state.ws.config.review.gold) and state.gold.is_empty():  # an empty file looks like one that is used
        figures |= {"gold": f"no conversation in {name}: nobody is checked by gold"}
    return PushResult(Counts("review push", new.height, existing.height, figures=figures | sent), new)


def _recovered(state: ReviewState, people: People, to: Place) -> ReviewState:
    """The review state, including what has arrived from a push that was killed or lost the server's answer."""
    if not isinstance(to, Files | ReviewPage) and not outbox.in_doubt(state.ws).is_empty():
        servers.settle(state.ws, connections.connect(state.ws, to))
    return outbox.adopted(state, files=_paths(state, people, to).values())


def _waiting(short: list[tuple[str, str]], plan: Plan) -> Figures:
    """What this push could not assign, and what to do about it: without this the review would seem complete."""
    counts = Counter(reason for _, reason in short)
    cap = f"severe_a_day = {plan.severe_a_day} in [review]"
    messages = {
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
    advice = "; ".join(f"{counts[reason]:,} {message}" for reason, message in messages.items() if counts[reason])
    return {"still_to_assign": dict(kinds), "next": advice} if short else {}


def _unassigned(state: ReviewState, assigned: pl.DataFrame) -> Figures:
    """Conversations that nobody is to read, for a push without anything new: it did not say what more can be read."""
    rest = state.given.filter("current", kind="sensitivity").join(assigned, on=["kind", "subject"], how="anti").height
    audit = f"[review] audit = {state.ws.config.review.audit:g}"
    advice = (
        f"no proposal of these {rest:,} asks for a reader, and the draw ({audit}) left them out: the review may"
        " end without them; to have them read, too, push again with --all, or --band N for the most doubtful"
    )
    return {"unassigned": rest, "next": advice} if rest else {}


# ---- what to assign


def _plan(state: ReviewState, people: People, limits: Plan, due: pl.DataFrame) -> Plan:
    settings = state.ws.config.review
    # a cap per day needs the date; without a cap nothing depends on the clock
    capped = settings.severe_a_day or settings.severe_in_a_row
    batch = date.today().isoformat() if capped else f"push-{state.assignments['batch'].n_unique() + 1}"
    undisputed = due.join(state.disputed, on=due.columns, how="anti")
    return replace(
        limits,
        reviewers=people.reviewers,
        adjudicator=people.adjudicator,
        readers=settings.readers,
        audit=settings.audit,
        batch=batch,
        gold=frozenset(state.gold.select("kind", "subject").iter_rows()),
        orders=state.orders,
        avoid=avoided(state.ws),
        known=frozenset(found_units(state).iter_rows()),
        severe=state.taxonomy.severe,
        severe_a_day=settings.severe_a_day,
        severe_in_a_row=settings.severe_in_a_row,
        budget=outbox.remaining_budget(state.ws, people.reviewers, state.proposals, limits.budget),
        auto=state.auto,
        held_back=settings.held_back,
        recheck=frozenset(undisputed.select("kind", "subject").iter_rows()),
    )


def _with_design(state: ReviewState, plan: Plan) -> Plan:
    """The plan with the sampling design; new conversations and items get their place in it before anything is sent."""
    claimed = routing.called_for(state.proposals, plan).union(state.assignments.select("kind", "subject").iter_rows())
    sure = routing.all_sure(state.proposals, state.sure, plan)
    new = arrivals(state.given, state.design, plan, claimed=claimed, sure=sure, secret=state.ws.secret)
    workspace.append(state.ws, tables.DESIGN, new)
    rows = pl.concat([state.design, new])
    return replace(plan, zone=zone(rows), census=census(rows))


def _units(state: ReviewState, minutes: float) -> int:
    """How many units fit into the time."""
    return max(1, int(min(60 * minutes / _seconds(state), 1e12))) if minutes else 0


def _seconds(state: ReviewState) -> float:
    """The median time of a unit so far, at least a second; a minute before the first answer.

    Reviews record seconds per task; a task costs as many units as it has claims.
    """
    tasks = state.standing.filter(role="reviewer").group_by(tables.TASK).agg(pl.col("seconds").max()).drop_nulls()
    with_costs = tasks.join(costs(state.proposals), on=tables.SUBJECT, how="left")
    speeds = with_costs.select(pl.col("seconds") / pl.col("cost").fill_null(1)).to_series()
    return max(float(np.median(speeds.to_numpy())), 1.0) if len(speeds) else 60.0


def _long(state: ReviewState, tasks: pl.DataFrame) -> str:
    """How long these tasks take, if it is more than a working day, and how to have fewer."""
    of_tasks = tasks.join(costs(state.proposals), on=tables.SUBJECT, how="left")
    hours = of_tasks.group_by("kind").agg(pl.col("cost").fill_null(1).sum() * _seconds(state) / 3600)
    by_kind = dict(hours.iter_rows())
    if (total := sum(by_kind.values())) < DAY:
        return ""
    items = f", {by_kind['item_flag']:,.0f} of them on items" if by_kind.get("item_flag", 0) >= 1 else ""
    hint = "with --minutes N, also of all together, a push hands out less, conversations first"
    return f"about {total:,.0f} hours of reading, of all reviewers together{items}; {hint}"


def _with_gold(state: ReviewState) -> ReviewState:
    """The review state with gold, after storing the rows of the gold file that saferec.toml names."""
    if name := state.ws.config.review.gold:
        path = state.ws.root / name
        conversations = set(state.texts.filter(kind="sensitivity")["subject"])
        rows = gold_and_decoys.read_gold(path, conversations, state.taxonomy, state.gold)
        workspace.append(state.ws, tables.GOLD, rows)
    return replace(state, gold=workspace.read(state.ws, tables.GOLD))


def _decoys(state: ReviewState, assignments: pl.DataFrame, avoid: frozenset[tuple[str, str]]) -> pl.DataFrame:
    """New decoys for these tasks: at most one per conversation, which is never replaced."""
    if not (share := state.ws.config.review.decoys):
        return state.decoys.clear()
    untouched = assignments.join(state.decoys, on=tables.SUBJECT, how="anti")
    untouched = untouched.join(state.reviews, on=tables.SUBJECT, how="anti")
    ever_claimed = claims(state.ever)  # a former claim may be right
    return gold_and_decoys.decoys(untouched, state.given, ever_claimed, state.gold, state.taxonomy, share, avoid=avoid)


# ---- where to send it


def _paths(state: ReviewState, people: People, to: Place) -> dict[str, Path]:
    """reviewer -> file of their tasks; empty if the tasks go to a server or the page."""
    return {name: to.folder_of(state.ws) / f"{name}.csv" for name in people.names} if isinstance(to, Files) else {}


def _to_files(state: ReviewState, people: People, to: Files) -> Send:
    """Writes one CSV per person named, and the guidelines beside them."""
    folder, paths = to.folder_of(state.ws), _paths(state, people, to)
    stamps = {path: _stamp(path) for path in paths.values()}
    checks.check_pulled(state, [path for path, stamp in stamps.items() if stamp])

    def send(units: pl.DataFrame, revoked: pl.DataFrame) -> Figures:
        for path, stamp in stamps.items():
            if _stamp(path) != stamp:  # somebody saved it after check_pulled
                raise ReviewError(f"{path}: it was changed just now: run `review pull` on it, then this again")
        due, key = units.filter(pl.col("reviewer").is_in(people.names)), partial(sheet_id, state.ws.secret, guideline())
        open_sheets = task_conversion.sheets(due, state.texts, state.taxonomy, {}, key)
        # tasks assigned before files had keys are recorded too: their files may still come back
        old = [(task, list[str](), list[str](), "", "") for task in sorted(unkeyed(state))]
        rows = [*old, *(task_conversion.record(sheet, guideline(), state.taxonomy) for sheet in open_sheets)]
        workspace.append(state.ws, tables.KEYED, tables.KEYED.frame(rows))  # before anybody gets the file
        kept, taken_out = {sheet.task.id for sheet in open_sheets}, Counter[str]()
        for name, path in paths.items():
            with suppress(files.NoSheet):  # as check_pulled: a file of something else is replaced
                written = files.lines(path) if stamps[path] else ()
                taken_out[name] = sum(
                    bool(row.cell("verdict")) and base_id(row.cell("task")) not in kept for row in written
                )
        count = files.push(open_sheets, state.taxonomy, guideline(), paths)
        with whole_files.replacing(folder / GUIDELINES.name) as tmp:
            tmp.write_text(page_for("In a file") + files.traits_page(state.taxonomy), encoding="utf-8")
        figures: Figures = {"rows": count, "folder": str(folder)}
        return figures | ({"answered_rows_taken_out": dict(+taken_out), "then": CORRECT} if +taken_out else {})

    return send


def _stamp(path: Path) -> tuple[int, int] | None:
    """Differs after somebody wrote to the file; None if there is no file."""
    return (path.stat().st_mtime_ns, path.stat().st_size) if path.exists() else None


def _sender(state: ReviewState, people: People, to: Place) -> Send:
    if isinstance(to, Files):
        return _to_files(state, people, to)
    return _to_page(state, people) if isinstance(to, ReviewPage) else _to_server(state, people, to)


def _to_page(state: ReviewState, people: People) -> Send:
    """Adds tasks to the ledger and sends nothing: the page shows all open tasks of the people in the ledger."""

    def send(units: pl.DataFrame, revoked: pl.DataFrame) -> Figures:
        due, key = units.filter(pl.col("reviewer").is_in(people.names)), partial(keyed_id, state.ws.secret, links.TOOL)
        open_sheets = task_conversion.sheets(due, state.texts, state.taxonomy, {}, key)
        # keys depend on the questions alone: an open page also shows later proposals and facts
        rows = [(links.TOOL, sheet.task.reviewer, sheet.key, "", "there") for sheet in open_sheets]
        workspace.append(state.ws, tables.SENT, tables.SENT.frame(rows))
        counts = dict(sorted(Counter(sheet.task.reviewer for sheet in open_sheets).items()))
        return {"open": counts, "then": "`saferec-build review serve` opens the page and prints each person's link"}

    return send


def _to_server(state: ReviewState, people: People, to: LabelStudio | Argilla) -> Send:
    server = connections.connect(state.ws, to)

    def send(units: pl.DataFrame, revoked: pl.DataFrame) -> Figures:
        figures: Figures = {"sent": servers.send(state, server, units, revoked, people.names), "server": server.url}
        log_in = connections.how_to_log_in(state, server, people.names)
        return figures | ({"then": log_in} if log_in else {})

    return send
