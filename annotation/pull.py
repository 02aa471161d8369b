"""review pull: stores the answers that came back as rows of the table reviews."""

from collections import Counter
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
from annotation.tools.tasks_and_answers import SHEET, Pulled, base_id, shown
from saferec_builder.core.counts import Counts
from saferec_builder.core.errors import UsageError
from saferec_builder.core.json_value import JsonValue
from saferec_builder.storage import tables, workspace
from saferec_builder.storage.schema import Span
from saferec_builder.storage.workspace import Workspace


@dataclass(frozen=True)
class PullResult:
    """`counts` are of answers; `rejected` are the rows that this pull added to the table drops."""

    counts: Counts
    rejected: pl.DataFrame

    def whys(self) -> list[str]:
        """Why rows were rejected: one line per reason, with its first place; a missing column rejects every row."""
        places_of: dict[tuple[str, str], list[str]] = {}
        for place, reason, detail in self.rejected.select("place", "reason", "detail").iter_rows():
            places_of.setdefault((reason, detail), []).append(place)
        return [
            f"{places[0]}: {reason}: {detail}" + f" (and {len(places) - 1:,} more rows)" * (len(places) > 1)
            for (reason, detail), places in places_of.items()
        ]


@workspace.shared
def pull(ws: Workspace, from_: Place, *, only: Mapping[str, Collection[str]] | None = None) -> PullResult:
    """Appends the answers of this destination to the table reviews; repeated answers add no rows.

    Invalid answers are rejected, and can be corrected there and pulled again. Raises ReviewError if a server or a file
    cannot be read: then nothing is stored. `only`: ids of a server's projects -> tasks to pull (none: all of them).
    """
    if isinstance(from_, ReviewPage):
        raise UsageError("--tool page: answers are stored as they are given: there is nothing to pull")
    files = from_.csvs(ws) if isinstance(from_, Files) else []
    with ordered(ws):
        state = gather(ws)
        if isinstance(from_, Files):
            state = outbox.adopted(state, files=files)
            pulled = of_files(state, files, from_.named)
            pulled.no_sheets += from_.other_tables(ws)
        else:
            pulled = servers.fetch(state, connections.connect(ws, from_), only)
        _drop_set_aside(state, pulled)
        added = workspace.append(ws, tables.REVIEWS, new(state, pulled))
    rejected = tables.DROPS.frame(pulled.drops)
    workspace.append(ws, tables.DROPS, rejected)
    rejections.keep(ws, pulled)
    dropped = dict(rejected["reason"].value_counts().sort("reason").iter_rows())
    skipped = len(pulled.answers) - added + pulled.repeated
    waiting = _waiting(state, pulled)
    tasks = _tasks_by(pulled)
    figures: dict[str, JsonValue] = {"tasks": sum(tasks.values()), "tasks_by": tasks} if tasks else {}
    if isinstance(from_, Files):
        figures |= {"rows_of_files": pulled.rows, "not_answered_yet": waiting}
    figures |= {"not_asked_any_more": done} if (done := len(pulled.empty) - waiting) else {}
    figures |= {"no_sheets": pulled.no_sheets} if pulled.no_sheets else {}
    figures |= {"columns_not_read": sorted(pulled.unread)} if pulled.unread else {}
    figures |= {"tasks_of_the_version_before": pulled.unkeyed} if pulled.unkeyed else {}
    figures |= {"answers_gone_there": dict(pulled.vanished)} if pulled.vanished else {}
    advice = []
    if pulled.missing:
        figures |= {"gone_unanswered": dict(pulled.missing)}
        advice.append(f"projects of {' and '.join(pulled.missing)} are not on the server any more")
    if pulled.edited:
        figures |= {"edited_projects": list(pulled.edited)}
        owners = " and ".join(pulled.edited)
        advice.append(f"somebody edited projects of {owners}: nothing is taken any more of what is answered there")
    if advice:
        remedy = "`saferec-build review push` to the same people makes new ones, with what is open"
        figures |= {"next": f"{'; '.join(advice)}: {remedy}"}
    counts = Counts("review pull", added, skipped, dropped, figures)
    return PullResult(counts, rejected)


def _tasks_by(pulled: Pulled) -> dict[str, int]:
    """Reviewer -> number of tasks with answers of theirs, by which they can check that all of them arrived."""
    tasks = {(kind, subject, reviewer, role) for kind, subject, _, reviewer, role in pulled.answers}
    return dict(sorted(Counter(reviewer for _, _, reviewer, _ in tasks).items()))


def _waiting(state: ReviewState, pulled: Pulled) -> int:
    """The number of rows of files without an answer whose task is unknown or still open: not answered elsewhere, nor
    to its end by this pull, and not taken back."""
    if not pulled.empty:
        return 0
    units = open_units(state, frozenset()).filter((pl.col("trait") == "*") | (pl.col("role") == "adjudicator"))
    unanswered = {*units.select(tables.ANSWER).iter_rows()} - pulled.answers.keys()
    open_tasks = {(kind, subject, *who) for kind, subject, _, *who in unanswered}
    return sum(task is None or attrgetter(*tables.ASSIGNMENTS.key)(task) in open_tasks for task in pulled.empty)


def _drop_set_aside(state: ReviewState, pulled: Pulled) -> None:
    """Drops the answers of people whose work is set aside, each time that their file or project is pulled."""
    set_aside = review_history.aside(state.reviews)
    for key in [key for key in pulled.answers if key[3] in set_aside]:
        del pulled.answers[key]
        pulled.drop(pulled.places[key], review_history.SET_ASIDE, f"{key[2]}: `review set-aside --undo` lets it count")


def of_files(state: ReviewState, paths: list[Path], named: Collection[Path] = ()) -> Pulled:
    """The answers in these files. A file that is no task file is skipped, or refused if it is in `named`."""
    # if a text was read to its end in a file, answers on a server came later: their absence in the file means nothing
    read_in_file = ((pl.col("trait") == "*") & (pl.col("tool") == "files")).any().over(tables.ASSIGNMENTS.key)
    last_in_file = pl.col("tool").last().over(tables.ANSWER) == "files"
    answered = review_history.answered(state.reviews.filter(~read_in_file | last_in_file))
    rows = workspace.read(state.ws, tables.KEYED).select("task", "asked", "guideline", "taxonomy").iter_rows()
    # keys of files only: on a server everybody sees the keys of all tasks
    keyed = {task: (traits, guide, digest) for task, traits, guide, digest in rows if task.endswith(SHEET)}
    records = file_answers.Records(
        tasks=shown(state.assignments, state.texts),
        texts=state.texts,
        taxonomy=state.taxonomy,
        before=answered,
        keyed=keyed,
        old=unkeyed(state),
        marked=_marked_spans(state),
        former=_former_traits(state),
    )
    pulled = file_answers.pull(paths, records, named)
    _guard_unkeyed(state, pulled)
    return pulled


def _former_traits(state: ReviewState) -> dict[str, list[str]]:
    """digest of a taxonomy -> those of its traits that have left since: pushes recorded them, or somebody answered."""
    frames = workspace.read(state.ws, tables.ASKED), state.reviews
    rows = pl.concat(frame.select("taxonomy", "trait") for frame in frames).unique()
    left = rows.filter(~pl.col("trait").is_in([*state.taxonomy.slugs, "*"]))
    return dict(left.group_by("taxonomy").agg("trait").iter_rows())


def _marked_spans(state: ReviewState) -> dict[tuple[str, str, str, str], list[list[Span]]]:
    """Kind, subject, trait, reviewer ('' for proposals) -> the spans proposed or marked, the last first."""
    claims = state.ever.sort(pl.col("verdict") == "present", maintain_order=True).with_columns(reviewer=pl.lit(""))
    marked: dict[tuple[str, str, str, str], list[list[Span]]] = {}
    for frame in (claims, state.reviews):
        rows = frame.filter(review_history.claims()).select("kind", "subject", "trait", "reviewer", "spans")
        for *key, spans in rows.reverse().iter_rows():
            marked.setdefault((key[0], key[1], key[2], key[3]), []).append(spans)
    return marked


def unkeyed(state: ReviewState) -> set[str]:
    """`Task.id` of the tasks whose files the previous version may have handed out without a key. Tasks that went to a
    server are not among them: everybody there may have seen their ids."""
    keys = workspace.read(state.ws, tables.KEYED)["task"]
    if keys.str.ends_with(SHEET).any():  # the first push with keys has recorded them
        return {key for key in keys if key == base_id(key)}
    task_ids = shown(state.assignments, state.known).keys()
    return task_ids - {base_id(task) for task in workspace.read(state.ws, tables.SENT)["task"]}


def _guard_unkeyed(state: ReviewState, pulled: Pulled) -> None:
    """Takes an answer without a key only once, so that nobody who knows a task's id can overwrite an answer."""
    answered = set(state.reviews.select(tables.ANSWER).iter_rows())
    for key in new(state, pulled).select(tables.ANSWER).iter_rows() if pulled.once else ():
        if key in pulled.once and key in answered:
            del pulled.answers[key]
            detail = f"{key[2]}: answered before: the next push writes a sheet on which it can be changed"
            pulled.drop(pulled.places[key], "sheet of the version before", detail)
    pulled.unkeyed = len({(key[0], key[1], *key[3:]) for key in pulled.once & pulled.answers.keys()})


def new(state: ReviewState, pulled: Pulled) -> pl.DataFrame:
    """REVIEWS rows of the answers that are new or changed."""
    schema = {name: kind for name, kind in tables.REVIEWS.schema.items() if name != "review"}
    answers = pl.DataFrame(list(pulled.answers.values()), schema=schema)
    # in a demo workspace all answers are simulated, with every tool
    answers = answers.with_columns(simulated=pl.lit(state.ws.config.demo))
    return review_history.record(answers, state.reviews, state.taxonomy.digest)


def ordered(ws: Workspace) -> AbstractContextManager[None]:
    """A lock for reading and adding reviews: the last row on a unit counts, so rows have to be in order of time.

    Without it, a pull that began before its reviewer was set aside, and ended after, would let that work count again.
    """
    return workspace.alone(ws, "review pull", wait=True)
