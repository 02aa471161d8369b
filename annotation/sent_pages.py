"""Records what review servers were sent: each task's questions, and each project's page (interface, guidelines).

Whoever logs in to an open Label Studio may change a page, and thereby what an answer means. A project that was edited
once stays `edited`, even if its page is restored, since nobody knows which answers were given on which page: no more
answers are taken from it. The next push creates another project in its place.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace

import polars as pl

from annotation.tools import sync, task_conversion
from annotation.tools.guidelines import guideline
from annotation.tools.task_conversion import Response, Sheet
from annotation.tools.tasks_and_answers import SAID_AGAIN, Pulled, Task, base_id
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.storage import tables, workspace
from saferec_builder.storage.workspace import Workspace

EDITED = "edited"  # in place of a page's digest; no digest looks like it
REFUSED = "refused"  # likewise
OTHER_TASK = "somebody changed the text or the question"
OTHER_PAGE = "somebody edited the interface or the guidelines of its project"


def keep(ws: Workspace, new: list[Sheet], pages: Mapping[str, str], taxonomy: Taxonomy) -> None:
    """Records what these tasks ask and show, before they are sent; `pages`: key of a task -> digest of its page."""
    _write(ws, [*pages.items()])
    rows = tables.KEYED.frame(task_conversion.record(sheet, guideline(), taxonomy) for sheet in new)
    workspace.append(ws, tables.KEYED, rows)


def renewed(ws: Workspace, open_sheets: list[Sheet], key: Callable[[str, list[str]], str]) -> list[Sheet]:
    """The sheets; a task with an answer that counts for nobody is done for the server, and gets a new key. `key` makes
    one (task_conversion.sheets)."""
    refused, keyed = _refused(ws), list[Sheet]()
    for sheet in open_sheets:
        name = sheet.key
        while name in refused:
            name = key(sheet.task.id, [name])
        keyed.append(replace(sheet, key=name))
    return keyed


def answered(ws: Workspace, open_sheets: list[Sheet], answered_keys: Collection[str], taxonomy: Taxonomy) -> set[str]:
    """The keys of the sheets that an answer on the server covers already; `answered_keys`: the answered tasks.

    A reader's answer covers the whole text, even claims made later; an adjudicator's only the traits that were asked.
    Answers that were rejected, given by somebody else or under another taxonomy cover nothing."""
    refused = _refused(ws)
    bases, valid = {*map(base_id, refused)}, {*answered_keys} - refused
    keyed = workspace.read(ws, tables.KEYED).filter(pl.col("task").is_in(valid), taxonomy=taxonomy.digest)
    traits_of: dict[str, list[set[str]]] = {}
    for key, traits in keyed.select("task", "asked").iter_rows():
        traits_of.setdefault(base_id(key), []).append({*traits})

    def is_covered(sheet: Sheet) -> bool:
        base = base_id(sheet.key)
        # rejected in a file, or by a version that did not record it: it is not known which answer it was
        earlier = [] if sheet.rejected and base not in bases else traits_of.get(base, [])
        return any(sheet.task.role != "adjudicator" or {*sheet.asked} <= traits for traits in earlier)

    return {sheet.key for sheet in open_sheets if sheet.key in valid or is_covered(sheet)}


def refuse(ws: Workspace, responses: Iterable[Response], pulled: Pulled) -> None:
    """Records the tasks with an answer that this pull has rejected, or that is not their reader's."""
    skipped = {row for row in pulled.returned if row[3] == task_conversion.SKIPPED}  # its reader is not asked again
    places = {row[2] for row in pulled.drops if row not in skipped and row[3] != SAID_AGAIN}
    _write(ws, [(response.key, REFUSED) for response in responses if response.place in places])


def outdated(
    server_keys: Collection[str],
    tasks: Collection[str],
    resent: Collection[str],
    pushed: Mapping[str, Task],
    texts: Collection[tuple[str, str, str]],
) -> set[str]:
    """The keys in a project that are not asked any more: about a former text, for an adjudicator who is asked something
    else now, or sent again since (`resent`: ids of tasks), in other words or about other traits. `server_keys`: all
    keys in the project; `tasks`: keys that are asked there; `texts`: kind, subject, digest of the current texts."""

    outdated = set[str]()
    for key in set(server_keys).difference(tasks):
        task = pushed.get(base_id(key))
        is_former = task and (task.role == "adjudicator" or (task.kind, task.subject, task.digest) not in texts)
        if is_former or base_id(key) in resent:
            outdated.add(key)
    return outdated


def note(ws: Workspace, mark: str, page: str) -> None:
    """Records a page that projects of this mark are about to show."""
    _write(ws, [(mark.replace(" ", "-"), page)])


def edited(ws: Workspace, projects: Iterable[sync.Project], page: Callable[[sync.Project], str]) -> set[str]:
    """The ids of the projects that were edited, now or at an earlier check. `page`: digest of what one shows now."""
    pages, edited_names = _pages(ws), dict[str, str]()
    for project in projects:
        sent = pages.get(project.mark)
        # not its place: that is part of its description, which can be edited as well
        name = f"{project.mark} {project.id} {project.made}"
        if name in pages or (sent and page(project) not in sent):
            edited_names[project.id] = name
    _write(ws, [(name, EDITED) for name in edited_names.values()])
    return {*edited_names}


def as_asked(
    ws: Workspace, tool: str, responses: Iterable[Response], pulled: Pulled, closed: Collection[str]
) -> Iterator[Response]:
    """The responses to this workspace's tasks, each with the questions on record, even if the server shows others;
    `closed`: ids of the edited projects. An answer given on another page is marked (`changed`).

    Tasks of the previous version have no record; if they are in the ledger, they count as the server shows them.
    """
    keyed = tables.last(workspace.read(ws, tables.KEYED), "task").rows_by_key(["task"], named=True, unique=True)
    sent = set(workspace.read(ws, tables.SENT).filter(tool=tool)["task"])
    pages = _pages(ws)
    for response in responses:
        digests = pages.get(response.key, set()) - {REFUSED}
        differs = bool(digests) and response.page not in digests
        response.changed = OTHER_PAGE if response.project in closed else OTHER_TASK if differs else ""
        if row := keyed.get(response.key):
            facts = {"asked": row["asked"], "shown": frozenset(row["shown"])}
            yield replace(response, **facts, guideline=row["guideline"], taxonomy=row["taxonomy"])
        elif response.key in sent:
            pulled.unkeyed += 1
            yield response
        else:
            pulled.drop(response.place, "not pushed", f"task {response.key!r} was never pushed from this workspace")


def without_another(projects: Iterable[sync.Project], closed: Collection[str]) -> set[str]:
    """The marks of edited projects that no push has replaced yet."""
    projects = list(projects)
    return {p.mark for p in projects if p.id in closed} - {p.mark for p in projects if p.id not in closed}


def _pages(ws: Workspace) -> Mapping[str, set[str]]:
    """Key of a task, or mark or name of a project -> digests of the pages that it was sent with."""
    pages = workspace.read(ws, tables.TASK_PAGES).group_by("task").agg("page")
    return {key: set(sent) for key, sent in pages.iter_rows()}


def _refused(ws: Workspace) -> set[str]:
    return {key for key, pages in _pages(ws).items() if REFUSED in pages}


def _write(ws: Workspace, rows: list[tuple[str, str]]) -> None:
    workspace.append(ws, tables.TASK_PAGES, tables.TASK_PAGES.frame(sorted(rows)))
