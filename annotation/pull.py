"""review pull: what came back, as rows of reviews."""

from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

import polars as pl

from annotation import connections, outbox, rejections, review_history, servers
from annotation.review_destinations import Files, Place, ReviewPage
from annotation.review_state import ReviewState, gather, open_units
from annotation.tools import file_answers
from annotation.tools.guidelines import guideline
from annotation.tools.quotes import locate
from annotation.tools.tasks_and_answers import SHEET, TASK, Pulled, Task, base_id, shown
from saferec_builder.core.counts import Counts
from saferec_builder.core.errors import UsageError
from saferec_builder.core.json_value import JsonValue
from saferec_builder.storage import tables, workspace
from saferec_builder.storage.schema import Span
from saferec_builder.storage.workspace import Workspace


@dataclass(frozen=True)
class PullResult:
    """Counts are of answers. `rejected` are the rows of the table drops that this pull added: place, reason, detail."""

    counts: Counts
    rejected: pl.DataFrame
    not_answered_yet: int

    def whys(self) -> list[str]:
        """Why rows were rejected, the first place of each reason: of a sheet without a column all say the same."""
        alike: dict[tuple[str, str], list[str]] = {}
        for place, reason, detail in self.rejected.select("place", "reason", "detail").iter_rows():
            alike.setdefault((reason, detail), []).append(place)
        return [
            f"{places[0]}: {reason}: {detail}" + f" (and {len(places) - 1:,} more rows)" * (len(places) > 1)
            for (reason, detail), places in alike.items()
        ]


@workspace.shared
def pull(ws: Workspace, from_: Place, *, only: Mapping[str, Collection[str]] | None = None) -> PullResult:
    """Appends what people answered there to the table reviews; the same answers again are no new rows.

    What cannot be taken is rejected, and can be corrected there and pulled again. ReviewError where a server or a file
    cannot be read: then nothing is taken. `only`: of a server's projects (ids), and their tasks where there are any.
    """
    if isinstance(from_, ReviewPage):
        raise UsageError("--tool page: answers are stored as they are given: there is nothing to pull")
    files = from_.csvs(ws) if isinstance(from_, Files) else []
    with ordered(ws):
        desk = gather(ws)
        if isinstance(from_, Files):
            desk = outbox.adopted(desk, files=files)
            pulled = of_files(desk, files, from_.named)
        else:
            pulled = servers.fetch(desk, connections.connect(ws, from_), only)
        _leave_out(desk, pulled)
        added = workspace.append(ws, tables.REVIEWS, new(desk, pulled))
    rejected = tables.DROPS.frame(pulled.drops)
    workspace.append(ws, tables.DROPS, rejected)
    rejections.keep(ws, pulled)
    dropped = dict(rejected["reason"].value_counts().sort("reason").iter_rows())
    skipped = len(pulled.answers) - added + pulled.repeated
    waiting = _waiting(gather(ws) if added and pulled.empty else desk, pulled)
    figures: dict[str, JsonValue] = {"not_answered_yet": waiting} if isinstance(from_, Files) else {}
    figures |= {"not_asked_any_more": done} if (done := len(pulled.empty) - waiting) else {}
    figures |= {"no_sheets": pulled.no_sheets} if pulled.no_sheets else {}
    figures |= {"tasks_of_the_version_before": pulled.unkeyed} if pulled.unkeyed else {}
    figures |= {"answers_gone_there": dict(pulled.vanished)} if pulled.vanished else {}
    advice = []
    if pulled.missing:
        figures |= {"gone_unanswered": dict(pulled.missing)}
        advice.append(f"projects of {' and '.join(pulled.missing)} are not on the server any more")
    if pulled.edited:
        figures |= {"edited_projects": list(pulled.edited)}
        who = " and ".join(pulled.edited)
        advice.append(f"somebody edited projects of {who}: nothing is taken any more of what is answered there")
    if advice:
        then = "`saferec-build review push` to the same people makes new ones, with what is open"
        figures |= {"next": f"{'; '.join(advice)}: {then}"}
    counts = Counts("review pull", added, skipped, dropped, figures)
    return PullResult(counts, rejected, waiting)


def _waiting(desk: ReviewState, pulled: Pulled) -> int:
    """Rows of files without an answer; not those whose task is open no more: answered elsewhere, or by what was just
    pulled, or taken back."""
    who = ("kind", "subject", "reviewer", "role")
    still = set(open_units(desk, frozenset()).select(who).iter_rows()) if pulled.empty else set()
    return sum(task is None or attrgetter(*who)(task) in still for task in pulled.empty)


def _leave_out(desk: ReviewState, pulled: Pulled) -> None:
    """The work of people that was set aside stays so, however often their file or project is pulled."""
    gone = review_history.aside(desk.reviews)
    for key in [key for key in pulled.answers if key[3] in gone]:
        del pulled.answers[key]
        pulled.drop(pulled.places[key], review_history.SET_ASIDE, f"{key[2]}: `review set-aside --undo` lets it count")


def of_files(desk: ReviewState, paths: list[Path], named: Collection[Path] = ()) -> Pulled:
    """The answers in these files; one that is no sheet is passed over, but where somebody `named` it."""
    # of a text that was read to its end in a file: what was said on a server came later, and no old file leaves it out
    who = ["kind", "subject", "reviewer", "role"]
    read = ((pl.col("trait") == "*") & (pl.col("tool") == "files")).any().over(who)
    here = pl.col("tool").last().over(*who, "trait") == "files"
    earlier = review_history.answered(desk.reviews.filter(~read | here))
    rows = workspace.read(desk.ws, tables.KEYED).select("task", "asked", "guideline", "taxonomy").iter_rows()
    # of sheets alone: on a server everybody sees the keys of everybody's tasks
    keyed = {task: (asked, guide, lists) for task, asked, guide, lists in rows if task.endswith(SHEET)}
    given, texts, taxonomy = desk.assignments, desk.texts, desk.taxonomy
    found = file_answers.pull(
        *(paths, given, texts, taxonomy, guideline(), locate),
        before=earlier,
        keyed=keyed,
        old=unkeyed(desk),
        named=named,
        marked=_marked(desk),
        departed=_departed(desk),
    )
    _once(desk, found)
    return found


def _departed(desk: ReviewState) -> set[tuple[Task, str, str]]:
    """The last words on traits that have left the taxonomy."""
    said = desk.reviews.filter(~pl.col("trait").is_in([*desk.taxonomy.slugs, "*"]))
    rows = tables.last(said, *tables.UNIT, *review_history.WHO).select(*TASK, "trait", "verdict")
    return {(Task(*row[: len(TASK)]), row[-2], row[-1]) for row in rows.iter_rows()}


def _marked(desk: ReviewState) -> file_answers.Marked:
    """What was proposed, and what everybody marked themselves: the last one first."""
    claims = desk.ever.sort(pl.col("verdict") == "present", maintain_order=True).with_columns(reviewer=pl.lit(""))
    found: dict[tuple[str, str, str, str], list[list[Span]]] = {}
    for frame in (claims, desk.reviews):
        rows = frame.filter(review_history.claims()).select("kind", "subject", "trait", "reviewer", "spans")
        for *key, spans in rows.reverse().iter_rows():
            found.setdefault((key[0], key[1], key[2], key[3]), []).append(spans)
    return found


def unkeyed(desk: ReviewState) -> set[str]:
    """Tasks whose sheets may have been handed out without a key, by the version before: their `task_id`. Whose task
    went to a server may have shown that id to everybody there."""
    keys = workspace.read(desk.ws, tables.KEYED)["task"]
    if keys.str.ends_with(SHEET).any():  # as the first push with keys has noted it
        return {key for key in keys if key == base_id(key)}
    given = shown(desk.assignments, desk.known).keys()
    return given - {base_id(task) for task in workspace.read(desk.ws, tables.SENT)["task"]}


def _once(desk: ReviewState, pulled: Pulled) -> None:
    """What came without a key is taken once: who knows the id of a task overwrites nobody's answer with it."""
    unit = ["kind", "subject", "trait", "reviewer", "role"]
    had = set(desk.reviews.select(unit).iter_rows())
    for key in new(desk, pulled).select(unit).iter_rows():
        if key in pulled.once and key in had:
            del pulled.answers[key]
            detail = f"{key[2]}: answered before: the next push writes a sheet on which it can be changed"
            pulled.drop(pulled.places[key], "sheet of the version before", detail)
    pulled.unkeyed = len({(key[0], key[1], *key[3:]) for key in pulled.once & pulled.answers.keys()})


def new(desk: ReviewState, pulled: Pulled) -> pl.DataFrame:
    """REVIEWS rows of the answers that say something new."""
    schema = {name: kind for name, kind in tables.REVIEWS.schema.items() if name != "review"}
    answers = pl.DataFrame(list(pulled.answers.values()), schema=schema)
    # in a demo workspace nobody real answers, whatever the tool
    answers = answers.with_columns(simulated=pl.lit(desk.ws.config.demo))
    return review_history.record(answers, desk.reviews, desk.taxonomy.digest)


def ordered(ws: Workspace) -> AbstractContextManager[None]:
    """Who adds reviews has read all that are there: the last row on a unit counts, so none may be older than it looks.

    A pull that began before its reviewer was set aside, and ended after it, would let that work count again.
    """
    return workspace.alone(ws, "review pull", wait=True)
