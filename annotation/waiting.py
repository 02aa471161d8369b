"""Counts what waits for reviewers and for `adjudicate`; remembers the counts until the workspace changes."""

from dataclasses import asdict, dataclass, field
from datetime import date
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from saferec_builder import __version__
from saferec_builder.mining import withheld
from saferec_builder.storage import tables, whole_files, workspace
from saferec_builder.storage.config import FILE
from saferec_builder.storage.workspace import Workspace

if TYPE_CHECKING:
    from annotation.review_state import ReviewState

_FILE = "tables/waiting.json"  # for a large workspace the counts take ten seconds
_READ = [table for table in tables.TABLES.values() if table is not tables.DROPS]  # to which `release` adds
_WRITTEN = ("removals.csv", ".opt-outs.json")  # files of people's wishes, beside the tables


class State(NamedTuple):
    """A fingerprint of the workspace: it differs after any change to what it covers."""

    rows: dict[str, list[int] | list[str]]  # per table, as returned by workspace.state
    files: list[tuple[str, str]]
    taxonomy: str


@dataclass(frozen=True)
class Waiting:
    """Conversations for the next push (proposed and assigned to nobody, or without a place in the draw of the audit)
    and how many of them had a place in the design: an earlier push put them off, or they were proposed since; open
    tasks; units whose readers disagree and that no adjudicator has; and units whose label `adjudicate` would change,
    without those of withheld conversations. `tools`: those that the open tasks were handed out with. `capped`: those of
    `put_off` that a daily cap keeps for another day; `rejected`: open tasks with an answer that could not be taken;
    `short`: conversations that lack a reader, though some were given them."""

    unsent: int
    put_off: int
    tasks: int
    disputed: int
    unlabelled: int
    tools: list[str] = field(default_factory=list)
    capped: int = 0
    rejected: int = 0
    short: int = 0


def waiting(ws: Workspace) -> Waiting:
    """The counts for the workspace as it is now; raises StoreError if a table that is read is damaged."""
    today = date.today().isoformat()  # the batch of a capped push, in which a reviewer's severe tasks are counted
    fingerprint = tables.digest(__version__, list(Waiting.__annotations__), today, *state(ws, *_READ))
    if stored := whole_files.remembered(ws.root / _FILE, fingerprint):
        return Waiting(**stored)
    counts = _count(ws, today)
    whole_files.remember(ws.root / _FILE, fingerprint, asdict(counts))
    return counts


def state(ws: Workspace, *some: tables.Table) -> State:
    """The state of these tables, or of all, of what people write beside them, and of the taxonomy. Of saferec.toml the
    settings that `ws` was opened with: it may have changed since."""
    files = [(name, path.read_bytes().hex()) for name in _WRITTEN if (path := ws.root / name).is_file()]
    return State(workspace.state(ws, *some), [*files, (FILE, ws.config.model_dump_json())], ws.taxonomy.digest)


def _count(ws: Workspace, today: str) -> Waiting:
    # these imports take half a second, and nearly every `status` does without them
    from annotation import aggregation, rejections, review_state, reviewer_opt_outs as opt_outs
    from annotation.tools.tasks_and_answers import SHEET, base_id, ids

    review = review_state.gather(ws)
    units = review_state.open_units(review, opt_outs.avoided(ws))
    unlabelled = withheld.without(aggregation.differing(review.judged, review.labels), review.withheld).height
    tasks = units.select("kind", "subject", "reviewer").n_unique()
    sent = [(base_id(task), tool) for task, tool in workspace.read(ws, tables.SENT).select("task", "tool").iter_rows()]
    sent += [(base_id(task), "files") for task in workspace.read(ws, tables.KEYED)["task"] if task.endswith(SHEET)]
    still_open = set(ids(units))
    tools = sorted({tool for task, tool in sent if task in still_open})
    rulings = units.filter(role="adjudicator")  # without tasks that were taken back
    disputed = review.disputed.join(rulings, on=tables.UNIT, how="anti").height
    unsent = _unsent(review)
    # every push gives the proposed conversations a place in the design, and an audit needs one for each
    put_off = unsent.join(review.design, on=["kind", "subject"], how="semi")
    capped = _capped(review, put_off, today)
    rejected = sum(rejections.waiting(units).values())
    short = _short(review, opt_outs.avoided(ws))
    return Waiting(unsent.height, put_off.height, tasks, disputed, unlabelled, tools, capped, rejected, short)


def _short(review: "ReviewState", avoid: frozenset[tuple[str, str]]) -> int:
    """How many conversations that readers were given lack some by the rule of a push: two readers of whom one handed a
    conversation back never close it, and without this nobody would be told."""
    from annotation import review_state, routing, sampling_design
    from annotation.task_assignment import Plan

    found, due = review_state.found_units(review), review_state.queue(review)
    revoked = routing.revoked(review.assignments, found, due, review.standing, avoid)
    readers = review.assignments.filter(role="reviewer")
    given = review_state.readable(review).join(readers, on=["kind", "subject"], how="semi")
    plan = Plan(
        readers=review.readers,
        audit=review.ws.config.review.audit,
        zone=sampling_design.zone(review.design),
        census=sampling_design.census(review.design),
        gold=frozenset(review.gold.select("kind", "subject").iter_rows()),
        orders=review.orders,
        auto=review.auto,
    )
    return len(routing.short(given, review.proposals, review.assignments, review.disputed.clear(), plan, revoked))


def _capped(review: "ReviewState", put_off: pl.DataFrame, today: str) -> int:
    """How many of these hold a severe trait, if fewer reviewers than each needs may have more of these today."""
    from annotation.task_assignment import claims

    cap, text = review.ws.config.review.severe_a_day, ["kind", "subject"]
    severe = claims(review.proposals).filter(pl.col("trait").is_in(review.taxonomy.severe)).select(text).unique()
    readers = review.assignments.filter(role="reviewer")
    counts = readers.filter(batch=today).join(severe, on=text, how="semi").group_by("reviewer").len()
    free = readers["reviewer"].n_unique() - counts.filter(pl.col("len") >= cap).height
    return put_off.join(severe, on=text, how="semi").height if cap and free < review.readers else 0


def _unsent(review: "ReviewState") -> pl.DataFrame:
    """kind, subject. A push with an audit gives every conversation a place in the sampling design, drawn or not."""
    from annotation.task_assignment import claims

    current = withheld.without(review.known.filter("current", kind="sensitivity"), review.withheld)
    auto = pl.DataFrame(sorted(review.auto), schema={"subject": pl.String, "trait": pl.String}, orient="row")
    to_read = claims(review.proposals).join(auto, on=["subject", "trait"], how="anti")  # sure claims need no reader
    proposed = current.join(to_read, on=["kind", "subject"], how="semi")
    undrawn = current.join(review.design, on=["kind", "subject"], how="anti")
    unsent = pl.concat([proposed, *[undrawn] * bool(review.ws.config.review.audit)])
    return unsent.join(review.assignments, on=["kind", "subject"], how="anti").select("kind", "subject").unique()
