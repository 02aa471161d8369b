"""What waits for people, and for `adjudicate`: worked out once for what a workspace holds, then remembered."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from saferec_builder import __version__
from saferec_builder.mining import withheld
from saferec_builder.storage import tables, whole_files, workspace
from saferec_builder.storage.workspace import Workspace

if TYPE_CHECKING:
    from annotation.review_state import Desk

_FILE = "tables/waiting.json"  # of a large workspace they take ten seconds
_WRITTEN = ("saferec.toml", "removals.csv", ".opt-outs.json")  # what people, and their wishes, add to the tables


class State(NamedTuple):
    """Another one after anybody has changed what it is of."""

    rows: dict[str, list[int] | list[str]]  # of tables, as workspace.state names them
    files: list[tuple[str, str]]
    taxonomy: str


@dataclass(frozen=True)
class Waiting:
    """Conversations that the next push deals with (proposed and given to nobody, or without a place in the draw of the
    audit) and how many of them an earlier push put off, tasks that are open, units whose readers disagree and that no
    adjudicator has before them, and units whose label `adjudicate` would change."""

    unsent: int
    put_off: int
    tasks: int
    disputed: int
    unlabelled: int


def waiting(ws: Workspace) -> Waiting:
    """As the workspace is now; StoreError where a table that is read is damaged."""
    of = tables.digest(__version__, list(Waiting.__annotations__), *state(ws))
    if known := whole_files.remembered(ws.root / _FILE, of):
        return Waiting(**known)
    found = _counted(ws)
    whole_files.remember(ws.root / _FILE, of, asdict(found))
    return found


def state(ws: Workspace, *some: tables.Table) -> State:
    """What stands in these tables, or in all, in the files that people write beside them, and in the taxonomy."""
    files = [(name, path.read_bytes().hex()) for name in _WRITTEN if (path := ws.root / name).is_file()]
    return State(workspace.state(ws, *some), files, ws.taxonomy.digest)


def _counted(ws: Workspace) -> Waiting:
    # half a second of imports, and nearly every `status` does without
    from annotation import aggregation, review_state, reviewer_opt_outs as opt_outs

    desk = review_state.gather(ws)
    units = review_state.open_units(desk, opt_outs.avoided(ws))
    unlabelled = aggregation.changed(desk.judged, desk.labels).height
    tasks = units.select("kind", "subject", "reviewer").n_unique()
    ruled = units.filter(role="adjudicator")  # a task that was taken back is none of these
    disputed = desk.disputed.join(ruled, on=tables.UNIT, how="anti").height
    unsent = _unsent(desk)
    # every push gives all that there is a place in the design, and an audit needs one
    put_off = unsent.join(desk.design, on=["kind", "subject"], how="semi").height
    return Waiting(unsent.height, put_off, tasks, disputed, unlabelled)


def _unsent(desk: "Desk") -> pl.DataFrame:
    """kind, subject. Of a push with an audit every conversation gets a place in the sampling design, drawn or not."""
    from annotation.task_assignment import claims

    current = withheld.without(desk.known.filter("current", kind="sensitivity"), desk.withheld)
    auto = pl.DataFrame(sorted(desk.auto), schema={"subject": pl.String, "trait": pl.String}, orient="row")
    read = claims(desk.proposals).join(auto, on=["subject", "trait"], how="anti")  # what is sure enough needs nobody
    proposed = current.join(read, on=["kind", "subject"], how="semi")
    undrawn = current.join(desk.design, on=["kind", "subject"], how="anti")
    wanted = pl.concat([proposed, *[undrawn] * bool(desk.ws.config.review.audit)])
    return wanted.join(desk.assignments, on=["kind", "subject"], how="anti").select("kind", "subject").unique()
