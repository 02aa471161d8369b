"""What review servers were sent to show: each task's question, and the page of each project (interface, guidelines).

keep      before a task is sent
as_sent   tasks under the keys that the server knows them by
answered  those that an answer on the server speaks for
refuse    after a pull: those with an answer that counts for nobody, or was rejected
outdated  what is asked there no more
note      before a project is made or mended
edited    the projects whose page is none that was sent: whoever logs in to an open Label Studio may change it, and with
          it what an answer means
as_asked  answers, each with what its task asked by this record; what was answered on another page is held back

A project that was found edited stays so: nothing more is taken from it, even if its page is put back, since nobody
knows which of its answers were given on which page. The next push opens another project in its stead.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace

import polars as pl

from annotation.tools import sync, task_conversion as sheets
from annotation.tools.guidelines import guideline
from annotation.tools.task_conversion import Response, Sheet
from annotation.tools.tasks_and_answers import SAID_AGAIN, Pulled, Task, base_id
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.storage import tables, workspace
from saferec_builder.storage.workspace import Workspace

EDITED = "edited"  # stands where a page's digest does; no digest is like it
REFUSED = "refused"  # stands there beside it
OTHER_TASK = "somebody changed the text or the question"
OTHER_PAGE = "somebody edited the interface or the guidelines of its project"


def keep(ws: Workspace, new: list[Sheet], pages: Mapping[str, str], taxonomy: Taxonomy) -> None:
    """Writes down what these tasks ask and show; `pages`: by the key of a task."""
    _write(ws, [*pages.items()])
    rows = tables.KEYED.frame(sheets.record(sheet, guideline(), taxonomy) for sheet in new)
    workspace.append(ws, tables.KEYED, rows)


def as_sent(
    ws: Workspace, made: list[Sheet], there: Collection[str], key: Callable[[str, list[str]], str]
) -> list[Sheet]:
    """What a version before has put there stays as it is, where it asks the same, and is not asked twice. What somebody
    else has answered there is done for the server: open it is under another key. `there`: the keys that the server
    holds; `key` makes one (task_conversion.sheets)."""
    refused = _refused(ws)
    keyed = workspace.read(ws, tables.KEYED).select("task", "asked")
    asked = {key: {*traits} for key, traits in keyed.filter(pl.col("task").is_in([*there])).iter_rows()}

    def sent(sheet: Sheet) -> str:
        mine, own = {*sheet.asked}, sheet.key
        while own in refused:
            own = key(sheet.task.id, [own])
        keys = (own, *(former for former in sheet.former if former not in refused))
        return next((each for each in keys if each in there and asked.get(each, mine) == mine), own)

    return [replace(sheet, key=sent(sheet)) for sheet in made]


def answered(ws: Workspace, made: list[Sheet], there: Collection[str], taxonomy: Taxonomy) -> set[str]:
    """The keys of those of `made` that an answer on the server speaks for already; `there`: the keys of the answered
    tasks. A reader has read the whole text, whatever was proposed since; an adjudicator ruled on what they were asked.
    What was rejected, answered by somebody else or under another taxonomy, is asked again."""
    refused = _refused(ws)
    noted, told = {*map(base_id, refused)}, {*there} - refused
    keyed = workspace.read(ws, tables.KEYED).filter(pl.col("task").is_in(told), taxonomy=taxonomy.digest)
    asked: dict[str, list[set[str]]] = {}
    for key, traits in keyed.select("task", "asked").iter_rows():
        asked.setdefault(base_id(key), []).append({*traits})

    def spoken_for(sheet: Sheet) -> bool:
        base = base_id(sheet.key)
        # in a file, or by a version that did not note it: nobody knows which answer it was
        before = [] if sheet.rejected and base not in noted else asked.get(base, [])
        return any(sheet.task.role != "adjudicator" or {*sheet.asked} <= traits for traits in before)

    return {sheet.key for sheet in made if sheet.key in told or spoken_for(sheet)}


def refuse(ws: Workspace, found: Iterable[Response], pulled: Pulled) -> None:
    """Writes down which tasks have an answer that this pull has rejected, or that is not their reader's."""
    kept = {row for row in pulled.returned if row[3] == sheets.SKIPPED}  # who skips their own is not asked again
    places = {row[2] for row in pulled.drops if row not in kept and row[3] != SAID_AGAIN}
    _write(ws, [(each.key, REFUSED) for each in found if each.place in places])


def outdated(
    there: Collection[str],
    tasks: Collection[str],
    again: Collection[str],
    pushed: Mapping[str, Task],
    now: Collection[tuple[str, str, str]],
) -> set[str]:
    """Of the keys that a project holds those that are asked no more: in a former text, of an adjudicator who is asked
    something else now, or sent anew since (`again`: ids of tasks), in other words or about other traits. `tasks`: the
    keys that are asked there; `now`: kind, subject, digest of the current texts."""

    def hidden(key: str) -> bool:
        task = pushed.get(base_id(key))
        return task is not None and (task.role == "adjudicator" or (task.kind, task.subject, task.digest) not in now)

    return {key for key in there if key not in tasks and (base_id(key) in again or hidden(key))}


def note(ws: Workspace, mark: str, page: str, found: Iterable[str]) -> None:
    """Writes down a page that projects of this mark are about to show. `found`: what those show that are there, which
    is taken as sent where there is no record at all: the version before kept none."""
    mark = mark.replace(" ", "-")
    pages = {page} if mark in _pages(ws) else {*found, page}
    _write(ws, [(mark, each) for each in pages])


def edited(ws: Workspace, projects: Iterable[sync.Project], page: Callable[[sync.Project], str]) -> set[str]:
    """The ids of those that were edited, by now or when they were looked at before. `page`: what one shows now."""
    pages, found = _pages(ws), dict[str, str]()
    for project in projects:
        known = pages.get(project.mark)
        # not by its place: that stands in its description, which can be edited as well
        name = f"{project.mark} {project.id} {project.made}"
        if name in pages or (known and page(project) not in known):
            found[project.id] = name
    _write(ws, [(name, EDITED) for name in found.values()])
    return {*found}


def as_asked(
    ws: Workspace, tool: str, found: Iterable[Response], pulled: Pulled, closed: Collection[str]
) -> Iterator[Response]:
    """The responses to tasks of ours, each with what it was asked by our own record, whatever the server says now;
    `closed` are the edited projects (ids).

    Tasks of the version before have no record; those that the ledger knows are taken as they stand there.
    """
    keyed = tables.last(workspace.read(ws, tables.KEYED), "task").rows_by_key(["task"], named=True, unique=True)
    sent = set(workspace.read(ws, tables.SENT).filter(tool=tool)["task"])
    pages = _pages(ws)
    for each in found:
        sent_as = pages.get(each.key, set()) - {REFUSED}
        other = bool(sent_as) and each.page not in sent_as
        each.changed = OTHER_PAGE if each.project in closed else OTHER_TASK if other else ""
        if row := keyed.get(each.key):
            facts = {"asked": row["asked"], "shown": frozenset(row["shown"])}
            yield replace(each, **facts, guideline=row["guideline"], taxonomy=row["taxonomy"])
        elif each.key in sent:
            pulled.unkeyed += 1
            yield each
        else:
            pulled.drop(each.place, "not pushed", f"task {each.key!r} was never pushed from this workspace")


def without_another(projects: Iterable[sync.Project], closed: Collection[str]) -> set[str]:
    """The marks of edited projects in whose stead no push has opened another yet."""
    projects = list(projects)
    return {p.mark for p in projects if p.id in closed} - {p.mark for p in projects if p.id not in closed}


def _pages(ws: Workspace) -> Mapping[str, set[str]]:
    """Key of a task, or place of a project -> the pages that it was sent to show."""
    pages = workspace.read(ws, tables.TASK_PAGES).group_by("task").agg("page")
    return {key: set(sent) for key, sent in pages.iter_rows()}


def _refused(ws: Workspace) -> set[str]:
    return {key for key, pages in _pages(ws).items() if REFUSED in pages}


def _write(ws: Workspace, rows: list[tuple[str, str]]) -> None:
    workspace.append(ws, tables.TASK_PAGES, tables.TASK_PAGES.frame(sorted(rows)))
