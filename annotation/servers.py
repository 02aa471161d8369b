"""Review servers behind `review push` and `review pull`: what is sent there, what comes back, and the ledger."""

from collections import Counter
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from functools import partial

import polars as pl

from annotation import connections, losses, outbox, review_history, sent_pages
from annotation.connections import Client
from annotation.review_state import ReviewState
from annotation.tools import local_label_studio as managed, sync, task_conversion as sheets
from annotation.tools.guidelines import guideline
from annotation.tools.task_conversion import Ours, Response, Sheet
from annotation.tools.tasks_and_answers import Pulled, Task, Turns, base_id, keyed_id, shown
from saferec_builder import catalog
from saferec_builder.core.errors import ReviewError
from saferec_builder.mining import withheld
from saferec_builder.storage import tables, workspace
from saferec_builder.storage.workspace import Workspace

Held = list[tuple[sync.Project, sync.Ledger, list[Sheet]]]  # a project, what it holds, and the tasks that belong there


def send(
    desk: ReviewState, server: Client, units: pl.DataFrame, back: pl.DataFrame, names: list[str]
) -> dict[str, dict[str, int]]:
    """Sends every open task of everybody named and deletes what was taken back (`back`: kind, subject, reviewer).

    Gives per person what was new, there already, found, gone, taken back; that is done with everybody, named or not.
    """
    connections.known(desk, server, names)
    accounts = connections.accounts_of(desk.ws, server, names)
    key = partial(keyed_id, desk.ws.secret, server.tool)
    made = sheets.sheets(units, desk.texts, desk.taxonomy, sources(desk), key)
    sent: dict[str, dict[str, int]] = {}
    ledgers: dict[str, sync.Ledger] = {}  # as the server was found
    pushed = shown(desk.assignments, desk.texts)
    now = set(desk.texts.filter("current").select("kind", "subject", "digest").iter_rows())
    for name in names:
        mine = [sheet for sheet in made if sheet.task.reviewer == name]
        done = sync.Pushed()
        held: Held = []
        projects, answered = _projects(desk, server, name, accounts[name], mine, done)
        for project, here in projects:
            ledger = ledgers[project.place] = _ledger(desk.ws, server.tool, project.place)
            sync.settled(server, project.id, ledger, done)
            held.append((project, ledger, sent_pages.as_sent(desk.ws, here, {*ledger.there, *answered}, key)))
        through = _through(desk, server, held, answered)
        for project, ledger, here in held:
            tasks = {s.key: server.task_of(s, guideline(), desk.taxonomy) for s in here if s.key not in through}
            pages = {key: server.page_of(task) for key, task in tasks.items() if key not in ledger.there}
            sent_pages.keep(desk.ws, [sheet for sheet in here if sheet.key in pages], pages, desk.taxonomy)
            sync.push(server, project.id, tasks, ledger, done=done)
        done.skipped += len(through)
        # of all their projects: with another number of cards a task may lie in another one
        again = {base_id(sheet.key) for *_, here in held for sheet in here}
        times = Counter(base_id(key) for _, ledger, _ in held for key in ledger.there)
        again |= {base for base, n in times.items() if n > 1}
        for project, ledger, here in held:
            old = sent_pages.outdated(ledger.there, {sheet.key for sheet in here}, again, pushed, now)
            done.taken_back += sync.withdraw(server, project.id, old, ledger)
        sent[name] = {key: n for key, n in vars(done).items() if n or key in ("added", "skipped")}
    for name, n in _take_back(desk, server, pushed, back, ledgers).items():
        counts = sent.setdefault(name, {})
        counts["taken_back"] = counts.get("taken_back", 0) + n
    return sent


def _projects(
    desk: ReviewState, server: Client, name: str, account: str, mine: list[Sheet], done: sync.Pushed
) -> tuple[list[tuple[sync.Project, list[Sheet]]], set[str]]:
    """Somebody's projects, each with the tasks that belong there; made where there are some and there is none.

    What lies open in those of another layout, for other traits, or that somebody edited, is taken back; with the keys
    of what was answered there.
    """
    mark = _mark(desk.ws, name)
    there = server.projects(mark)
    closed = sent_pages.edited(desk.ws, there, server.project_page_there)
    done.edited += len(sent_pages.without_another(there, closed))
    # a place may depend on the number of cards: up to three, up to eight, more (argilla.SIZES)
    places = {server.place(mark, role, n) for role in ("reviewer", "adjudicator") for n in range(10)}
    still = [p for p in there if p.id not in closed]
    homes = {place: list[Sheet]() for place in sorted(places) if any(p.place.startswith(place) for p in still)}
    for sheet in mine:
        homes.setdefault(server.place(mark, sheet.task.role, len(sheet.units)), []).append(sheet)
    found = []
    for place, here in homes.items():
        same = [p for p in still if p.place.startswith(place)]
        sent_pages.note(desk.ws, place, server.project_page(place, desk.taxonomy), map(server.project_page_there, same))
        made = server.project(place, name, account, desk.taxonomy, closed)
        sent_pages.note(desk.ws, place, server.project_page_there(made), ())  # another version may keep it otherwise
        found.append((made, here))
    answered = set[str]()
    for left in there:
        if left.id not in {project.id for project, _ in found}:
            ledger = _ledger(desk.ws, server.tool, left.place)
            sync.settled(server, left.id, ledger, done)
            done.taken_back += sync.withdraw(server, left.id, set(ledger.there), ledger)
            answered |= ledger.there.keys()
    return found, answered


def _through(desk: ReviewState, server: Client, held: Held, answered: Collection[str]) -> set[str]:
    """The keys of somebody's tasks that they have answered on the server, and nobody has pulled: asked in other words,
    or about other traits, they are not sent anew. `answered`: what was answered in projects that are left."""
    unsent = [sheet for _, ledger, here in held for sheet in here if sheet.key not in ledger.there]
    bases, found = {base_id(sheet.key) for sheet in unsent}, {*answered}
    for project, ledger, _ in held:
        if not bases.isdisjoint(map(base_id, ledger.there)):
            found |= {key for key, _, done in server.keys(project.id) if done}
    return sent_pages.answered(desk.ws, unsent, found, desk.taxonomy)


def settle(ws: Workspace, server: Client) -> None:
    """Makes the ledgers say what the server holds of this workspace, as far as they cannot know."""
    for project in server.projects(_mark(ws)):
        sync.settled(server, project.id, _ledger(ws, server.tool, project.place), sync.Pushed())


def _take_back(
    desk: ReviewState, server: Client, pushed: dict[str, Task], back: pl.DataFrame, ledgers: dict[str, sync.Ledger]
) -> Counter[str]:
    """Deletes the tasks of `back` and about withheld conversations, with their answers where a removal was asked for.

    Gives reviewer -> tasks, of everybody who had one: a wish counts also where somebody else is named.
    """
    found = Counter[str]()
    erased = set(withheld.erased(desk.ws).iter_rows())
    gone = set(back.select("kind", "subject", "reviewer").iter_rows())
    removed = {base for base, task in pushed.items() if (task.subject, task.digest) in erased}
    held = {base for base, task in pushed.items() if task.kind == "sensitivity" and task.subject in desk.withheld}
    held |= {base for base, task in pushed.items() if (task.kind, task.subject, task.reviewer) in gone}
    for name in sorted({pushed[base].reviewer for base in removed | held}):
        for project in server.projects(_mark(desk.ws, name)):
            ledger = ledgers.get(project.place) or _ledger(desk.ws, server.tool, project.place)
            there = {key: base_id(key) for key in ledger.there}
            back_now = {key for key, base in there.items() if base in removed | held}
            answered = {key for key in back_now if there[key] in removed}
            found[name] += sync.withdraw(server, project.id, back_now, ledger, answered)
    return +found


def erase(ws: Workspace, server: Client, tasks: Collection[str]) -> int:
    """Deletes these tasks (ids) on the server, with their answers, whoever has them."""
    found = 0
    for project in server.projects(_mark(ws)):
        ledger = _ledger(ws, server.tool, project.place)
        sync.settled(server, project.id, ledger, sync.Pushed())
        keys = {key for key in ledger.there if base_id(key) in tasks}
        found += sync.withdraw(server, project.id, keys, ledger, keys)
    return found


def _mark(ws: Workspace, name: str | None = None) -> str:
    """Begins the description of our projects there: of this workspace, of this reviewer; it tells nobody who."""
    mine = f"saferec-builder {tables.digest('workspace', ws.secret.hex())}"
    return mine if name is None else f"{mine} {tables.digest('reviewer', name, ws.secret.hex())}"


def _ledger(ws: Workspace, tool: str, place: str) -> sync.Ledger:
    def note(rows: list[tuple[str, str, str]]) -> None:
        workspace.append(ws, tables.SENT, tables.SENT.frame((tool, place, *row) for row in rows))

    rows = workspace.read(ws, tables.SENT).filter(tool=tool, place=place).select("task", "remote", "state")
    return sync.Ledger.of(rows.iter_rows(), note, partial(_made, ws))


def _made(ws: Workspace) -> set[str]:
    """The keys of all tasks that this workspace ever sent: each is written down before."""
    return {task for table in (tables.KEYED, tables.SENT) for task in workspace.read(ws, table)["task"]}


def sources(desk: ReviewState) -> dict[str, list[str]]:
    """item -> what is known of it, each line with where it stands; a reviewer sees them beside the flags."""
    items = desk.texts.filter(pl.col("kind") == "item_flag").select(item="subject")
    if items.is_empty():
        return {}
    _, links = catalog.merge(workspace.read(desk.ws, tables.CATALOG_ROWS))
    known = workspace.read(desk.ws, tables.WARNINGS).filter(pl.col("kind") != "review")
    found: dict[str, list[str]] = {}
    for row in known.join(links.join(items, on="item", how="semi"), on="ref").iter_rows(named=True):
        votes = f"{row['yes']} yes, {row['no']} no" if row["yes"] is not None else row["answer"] or ""
        answer = votes or (f"severity {row['severity']} of 3" if row["severity"] is not None else "")
        where = ", ".join(part for part in (row["source"], row["url"]) if part)
        found.setdefault(row["item"], []).append(f"{row['topic']}: {answer} ({where})")
    return found


def touched(ws: Workspace, server: Client, seen: Mapping[str, sync.Touched]) -> dict[str, sync.Touched]:
    """project -> what was touched there lately; `seen` is what earlier looks have found."""
    return {p.id: server.touched(p, seen.get(p.id, frozenset())) for p in server.projects(_mark(ws))}


def fetch(desk: ReviewState, server: Client, only: Mapping[str, Collection[str]] | None = None) -> Pulled:
    """Everything that people answered on the server, as answers of the workspace's reviewers.

    With `only` what they answered in these projects, of these tasks where there are any.
    """
    projects = server.projects(_mark(desk.ws))
    if not projects:
        raise ReviewError(f"{server.url} holds nothing of this workspace: run `saferec-build review push` first")
    names = sorted({*desk.assignments["reviewer"], *outbox.people(desk.ws)})
    people = server.names(connections.known(desk, server, names), names)
    pulled = Pulled(tool=server.tool, missing=losses.unanswered(desk, server.tool, projects))
    ours = _ours(desk, outbox.tasks(desk.ws) | shown(desk.assignments, desk.texts))
    some: Mapping[str, Collection[str]] = {p.id: () for p in projects} if only is None else only
    closed = sent_pages.edited(desk.ws, [p for p in projects if p.id in some], server.project_page_there)
    pulled.edited = _whose(desk.ws, names, sent_pages.without_another(projects, closed))
    try:
        there = [
            each
            for project in projects
            if project.id in some
            for each in server.responses(project, people, ours, some[project.id], _keys(desk.ws, server.tool, project))
        ]
    finally:
        managed.clear_exports(connections.home(desk.ws))
    every = list(sent_pages.as_asked(desk.ws, server.tool, there, pulled, closed))
    seen = {base_id(each.key) for each in every}
    if only is None:
        pulled.vanished = losses.answers(desk, server.tool, projects, seen)
    _take(pulled, every, outbox.adopted(desk, seen=seen), ours)
    sent_pages.refuse(desk.ws, every, pulled)
    return pulled


def _take(pulled: Pulled, every: list[Response], desk: ReviewState, ours: Ours) -> None:
    """Adds what counts of all responses; what was asked and said last comes last, and counts."""
    stamp = {"tool": pulled.tool, "guideline": guideline(), "taxonomy": desk.taxonomy.digest, "simulated": False}
    tasks, before = shown(desk.assignments, desk.texts), review_history.answered(desk.reviews)
    had = set(desk.reviews.drop_nulls("time").select("kind", "subject", "reviewer", "time").iter_rows())
    first = datetime.min.replace(tzinfo=UTC)
    for response in sorted(every, key=lambda each: (each.taxonomy == desk.taxonomy.digest, each.time or first)):
        task, dropped = tasks.get(base_id(response.key)), len(pulled.drops)
        if task is None:
            pulled.drop(response.place, "not pushed", f"task {response.key!r} was never pushed from this workspace")
            continue
        same = (task.kind, task.subject, response.who, response.time) in had
        if same and response.changed == sent_pages.OTHER_PAGE:
            response.changed = ""  # it was taken before somebody edited the page
        traits = before.get((task.kind, task.subject, response.who, task.role), {})
        if response.taxonomy not in (None, desk.taxonomy.digest):  # a later list's traits were not there to be left out
            traits = {trait: lists for trait, lists in traits.items() if response.taxonomy in lists}
        sheets.take(pulled, response, task, ours(response.key), traits, stamp, desk.taxonomy)
        if response.outcome in (sheets.READ, sheets.RATHER_NOT) and len(pulled.drops) == dropped:
            pulled.mend(task)


def _whose(ws: Workspace, names: list[str], marks: set[str]) -> list[str]:
    """The reviewers whose projects these are."""
    mine = {name: _mark(ws, name).replace(" ", "-") for name in names}
    return [name for name in names if any(mark.startswith(mine[name]) for mark in marks)]


def _keys(ws: Workspace, tool: str, project: sync.Project) -> dict[str, str]:
    """task on the server -> its key as we sent it, whatever stands there now."""
    rows = workspace.read(ws, tables.SENT).filter(pl.col("remote") != "", tool=tool, place=project.place)
    return dict(rows.select("remote", "task").iter_rows())


def _ours(desk: ReviewState, tasks: dict[str, Task]) -> Ours:
    """key -> the turns of the workspace's own text that the task is about."""
    row_of = {key: n for n, key in enumerate(desk.texts.select("kind", "subject", "digest").iter_rows())}

    def turns(key: str) -> Turns:
        task = tasks.get(base_id(key))
        return desk.texts["turns"][row_of[task.kind, task.subject, task.digest]].to_list() if task else []

    return turns
