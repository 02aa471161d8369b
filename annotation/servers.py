"""Exchanges tasks and answers with a review server, for `review push` and `review pull`; keeps the ledger."""

from collections import Counter
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from functools import partial

import polars as pl

from annotation import connections, losses, outbox, review_history, sent_pages
from annotation.connections import Client
from annotation.review_state import ReviewState
from annotation.tools import local_label_studio, sync, task_conversion
from annotation.tools.guidelines import guideline
from annotation.tools.task_conversion import Ours, Response, Sheet
from annotation.tools.tasks_and_answers import Pulled, Task, Turns, base_id, keyed_id, shown
from saferec_builder import catalog
from saferec_builder.core.errors import ReviewError
from saferec_builder.mining import withheld
from saferec_builder.storage import database, tables, workspace
from saferec_builder.storage.workspace import Workspace

Holdings = list[tuple[sync.Project, sync.Ledger, list[Sheet]]]  # (project, its ledger, the sheets that belong in it)


def send(
    state: ReviewState, server: Client, units: pl.DataFrame, revoked: pl.DataFrame, names: list[str]
) -> dict[str, dict[str, int]]:
    """Sends every open task of the people named; deletes `revoked` tasks (kind, subject, reviewer) and withheld ones.

    Returns reviewer -> counts (the fields of sync.Pushed). Tasks are deleted for all reviewers, named or not.
    """
    accounts = connections.accounts_of(state, server, names)
    key = partial(keyed_id, state.ws.secret, server.tool)
    open_sheets = task_conversion.sheets(units, state.texts, state.taxonomy, sources(state), key)
    sent: dict[str, dict[str, int]] = {}
    ledgers: dict[str, sync.Ledger] = {}  # place -> ledger, checked against the server
    assigned = shown(state.assignments, state.texts)
    current = set(state.texts.filter("current").select("kind", "subject", "digest").iter_rows())
    for name in names:
        theirs = [sheet for sheet in open_sheets if sheet.task.reviewer == name]
        done = sync.Pushed()
        holdings: Holdings = []
        projects, elsewhere = _projects(state, server, name, accounts[name], theirs, done)
        for project, expected in projects:
            ledger = ledgers[project.place] = _ledger(state.ws, server.tool, project.place)
            sync.settled(server, project.id, ledger, done)
            holdings.append((project, ledger, sent_pages.renewed(state.ws, expected, key)))
        answered = _already_answered(state, server, holdings, elsewhere)
        for project, ledger, expected in holdings:
            tasks = {s.key: server.task_of(s, state.taxonomy) for s in expected if s.key not in answered}
            pages = {key: server.page_of(task) for key, task in tasks.items() if key not in ledger.there}
            sent_pages.keep(state.ws, [sheet for sheet in expected if sheet.key in pages], pages, state.taxonomy)
            sync.push(server, project.id, tasks, ledger, done=done)
        done.already_there += len(answered)
        # over all projects of a person: with another number of cards a task may be in another project
        resent = {base_id(sheet.key) for *_, expected in holdings for sheet in expected}
        copies = Counter(base_id(key) for _, ledger, _ in holdings for key in ledger.there)
        resent |= {base for base, n in copies.items() if n > 1}
        for project, ledger, expected in holdings:
            outdated = sent_pages.outdated(ledger.there, {sheet.key for sheet in expected}, resent, assigned, current)
            done.taken_back += sync.withdraw(server, project.id, outdated, ledger)
        sent[name] = {key: n for key, n in vars(done).items() if n or key in ("added", "already_there")}
    for name, n in _take_back(state, server, assigned, revoked, ledgers).items():
        counts = sent.setdefault(name, {})
        counts["taken_back"] = counts.get("taken_back", 0) + n
    return sent


def _projects(
    state: ReviewState, server: Client, name: str, account: str, theirs: list[Sheet], done: sync.Pushed
) -> tuple[list[tuple[sync.Project, list[Sheet]]], set[str]]:
    """A person's projects with the sheets that belong in each, and the keys answered in their other projects.

    Creates a project if there is none for some sheets. The others have another layout or other traits, or somebody
    edited them: their open tasks are taken back.
    """
    mark = _mark(state.ws, name)
    existing = server.projects(mark)
    closed = sent_pages.edited(state.ws, existing, server.project_page_there)
    done.edited += len(sent_pages.without_another(existing, closed))
    # a place may depend on the number of cards: up to three, up to eight, more (argilla.SIZES)
    places = {server.place(mark, role, n) for role in ("reviewer", "adjudicator") for n in range(10)}
    usable = [p for p in existing if p.id not in closed]
    by_place = {place: list[Sheet]() for place in sorted(places) if any(p.place.startswith(place) for p in usable)}
    for sheet in theirs:
        by_place.setdefault(server.place(mark, sheet.task.role, len(sheet.units)), []).append(sheet)
    projects = []
    for place, expected in by_place.items():
        sent_pages.note(state.ws, place, server.project_page(place, state.taxonomy))
        project = server.project(place, name, account, state.taxonomy, closed)
        sent_pages.note(state.ws, place, server.project_page_there(project))  # other versions store it otherwise
        projects.append((project, expected))
    answered = set[str]()
    for old in existing:
        if old.id not in {project.id for project, _ in projects}:
            ledger = _ledger(state.ws, server.tool, old.place)
            sync.settled(server, old.id, ledger, done)
            done.taken_back += sync.withdraw(server, old.id, set(ledger.there), ledger)
            answered |= ledger.there.keys()
    return projects, answered


def _already_answered(state: ReviewState, server: Client, holdings: Holdings, elsewhere: Collection[str]) -> set[str]:
    """The keys of a person's tasks that they answered on the server, perhaps in other words or about other traits, and
    that were not pulled yet: these are not sent again. `elsewhere`: keys answered in projects no longer in use."""
    unsent = [sheet for _, ledger, expected in holdings for sheet in expected if sheet.key not in ledger.there]
    bases, answered = {base_id(sheet.key) for sheet in unsent}, {*elsewhere}
    for project, ledger, _ in holdings:
        if not bases.isdisjoint(map(base_id, ledger.there)):
            answered |= {key for key, _, done in server.keys(project.id) if done}
    return sent_pages.answered(state.ws, unsent, answered, state.taxonomy)


def settle(ws: Workspace, server: Client) -> None:
    """Updates the ledgers to what the server holds of this workspace, where they may be wrong."""
    for project in server.projects(_mark(ws)):
        sync.settled(server, project.id, _ledger(ws, server.tool, project.place), sync.Pushed())


def _take_back(
    state: ReviewState, server: Client, tasks: dict[str, Task], revoked: pl.DataFrame, ledgers: dict[str, sync.Ledger]
) -> Counter[str]:
    """Deletes the tasks of `revoked` and of withheld conversations; with their answers if a removal was asked for.

    Returns reviewer -> number of tasks, for all reviewers: an opt-out applies to people who are not named, too.
    """
    counts = Counter[str]()
    erased = set(withheld.erased(state.ws).iter_rows())
    taken = set(revoked.select("kind", "subject", "reviewer").iter_rows())
    removed = {base for base, task in tasks.items() if (task.subject, task.digest) in erased}
    hidden = {base for base, task in tasks.items() if task.kind == "sensitivity" and task.subject in state.withheld}
    hidden |= {base for base, task in tasks.items() if (task.kind, task.subject, task.reviewer) in taken}
    for name in sorted({tasks[base].reviewer for base in removed | hidden}):
        for project in server.projects(_mark(state.ws, name)):
            ledger = ledgers.get(project.place) or _ledger(state.ws, server.tool, project.place)
            base_of = {key: base_id(key) for key in ledger.there}
            keys = {key for key, base in base_of.items() if base in removed | hidden}
            with_answers = {key for key in keys if base_of[key] in removed}
            counts[name] += sync.withdraw(server, project.id, keys, ledger, with_answers)
    return +counts


def erase(ws: Workspace, server: Client, tasks: Collection[str]) -> int:
    """Deletes these tasks (ids) of all reviewers on the server, with their answers; returns how many."""
    count = 0
    for project in server.projects(_mark(ws)):
        ledger = _ledger(ws, server.tool, project.place)
        sync.settled(server, project.id, ledger, sync.Pushed())
        keys = {key for key in ledger.there if base_id(key) in tasks}
        count += sync.withdraw(server, project.id, keys, ledger, keys)
    return count


def _mark(ws: Workspace, name: str | None = None) -> str:
    """The prefix of the descriptions of this workspace's projects, or of one reviewer's; it reveals no name."""
    prefix = f"saferec-builder {tables.digest('workspace', ws.secret.hex())}"
    return prefix if name is None else f"{prefix} {tables.digest('reviewer', name, ws.secret.hex())}"


def _ledger(ws: Workspace, tool: str, place: str) -> sync.Ledger:
    def note(rows: list[tuple[str, str, str]]) -> None:
        frame = tables.SENT.frame((tool, place, *row) for row in rows)
        if workspace.append(ws, tables.SENT, frame) < frame.height:  # a server restored from its backup repeats its ids
            database.erase(ws.database, [(tables.SENT, frame)], [(tables.SENT, frame)])  # now these rows are the last

    rows = workspace.read(ws, tables.SENT).filter(tool=tool, place=place).select("task", "remote", "state")

    def made() -> set[str]:  # each key is recorded before it is sent
        return {task for table in (tables.KEYED, tables.SENT) for task in workspace.read(ws, table)["task"]}

    return sync.Ledger.of(rows.iter_rows(), note, made)


def sources(state: ReviewState) -> dict[str, list[str]]:
    """item -> known facts, one per line, each with its source; a reviewer sees them beside the flags."""
    items = state.texts.filter(pl.col("kind") == "item_flag").select(item="subject")
    if items.is_empty():
        return {}
    _, links = catalog.merge(workspace.read(state.ws, tables.CATALOG_ROWS))
    warnings = workspace.read(state.ws, tables.WARNINGS).filter(pl.col("kind") != "review")
    facts: dict[str, list[str]] = {}
    for row in warnings.join(links.join(items, on="item", how="semi"), on="ref").iter_rows(named=True):
        votes = f"{row['yes']} yes, {row['no']} no" if row["yes"] is not None else row["answer"] or ""
        answer = votes or (f"severity {row['severity']} of 3" if row["severity"] is not None else "")
        origin = ", ".join(part for part in (row["source"], row["url"]) if part)
        facts.setdefault(row["item"], []).append(f"{row['topic']}: {answer} ({origin})")
    return facts


def touched(ws: Workspace, server: Client, seen: Mapping[str, sync.Touched]) -> dict[str, sync.Touched]:
    """project -> what was touched in it recently; `seen`: the results of earlier calls."""
    return {p.id: server.touched(p, seen.get(p.id, frozenset())) for p in server.projects(_mark(ws))}


def fetch(state: ReviewState, server: Client, only: Mapping[str, Collection[str]] | None = None) -> Pulled:
    """All answers on the server, as answers of the workspace's reviewers.

    `only`: project -> tasks to read (none: all of them).
    """
    projects = server.projects(_mark(state.ws))
    if not projects:
        raise ReviewError(f"{server.url} holds nothing of this workspace: run `saferec-build review push` first")
    unassigned = outbox.tasks(state.ws)
    names = sorted({*state.assignments["reviewer"], *(task.reviewer for task in unassigned.values())})
    people = server.names(connections.account_names(state, server, names), names)
    pulled = Pulled(tool=server.tool, missing=losses.unanswered(state, server.tool, projects))
    ours = _turns_of(state, unassigned | shown(state.assignments, state.texts))
    tasks: Mapping[str, Collection[str]] = {p.id: () for p in projects} if only is None else only
    closed = sent_pages.edited(state.ws, [p for p in projects if p.id in tasks], server.project_page_there)
    edited = sent_pages.without_another(projects, closed)
    prefix = {name: _mark(state.ws, name).replace(" ", "-") for name in names}
    pulled.edited = [name for name in names if any(mark.startswith(prefix[name]) for mark in edited)]
    try:
        raw = [
            r
            for project in projects
            if project.id in tasks
            for r in server.responses(project, people, ours, tasks[project.id], _keys(state.ws, server.tool, project))
        ]
    finally:
        local_label_studio.clear_exports(connections.server_folder(state.ws))
    responses = list(sent_pages.as_asked(state.ws, server.tool, raw, pulled, closed))
    answered_ids = {base_id(r.key) for r in responses}
    if only is None:
        pulled.vanished = losses.answers(state, server.tool, projects, answered_ids)
    _add_answers(pulled, responses, outbox.adopted(state, seen=answered_ids), ours)
    sent_pages.refuse(state.ws, responses, pulled)
    return pulled


def _add_answers(pulled: Pulled, responses: list[Response], state: ReviewState, ours: Ours) -> None:
    """Adds the answers of all responses; the latest ones count, and one on the current taxonomy before others."""
    stamp = {"tool": pulled.tool, "guideline": guideline(), "taxonomy": state.taxonomy.digest, "simulated": False}
    tasks, earlier = shown(state.assignments, state.texts), review_history.answered(state.reviews)
    stored = set(state.reviews.drop_nulls("time").select("kind", "subject", "reviewer", "time").iter_rows())
    texts, epoch = review_history.texts_answered(state.reviews), datetime.min.replace(tzinfo=UTC)
    for response in sorted(responses, key=lambda r: (r.taxonomy == state.taxonomy.digest, r.time or epoch)):
        task, drops = tasks.get(base_id(response.key)), len(pulled.drops)
        if task is None:
            pulled.drop(response.place, "not pushed", f"task {response.key!r} was never pushed from this workspace")
            continue
        asked = [*response.asked, *["*"] * (task.role != "adjudicator")]
        answers = [texts.get((task.kind, task.subject, trait, response.who, task.role), {}) for trait in asked]
        if (at := response.time) and any(
            task.digest in [*times][:-1] and all(time is None or time < at for time in times.values())
            for times in answers
        ):
            author = task if response.who == task.reviewer else None
            pulled.drop(response.place, "not the last text", review_history.LEFT_TEXT, author, response.link)
            continue
        is_stored = (task.kind, task.subject, response.who, response.time) in stored
        if is_stored and response.changed == sent_pages.OTHER_PAGE:
            response.changed = ""  # it was pulled before somebody edited the page
        if is_stored and not response.outcome:
            continue  # pulled by an earlier version, which could read its page (Argilla without cards)
        traits = earlier.get((task.kind, task.subject, response.who, task.role), {})
        if response.taxonomy not in (None, state.taxonomy.digest):  # later traits cannot have been left out
            traits = {trait: taxonomies for trait, taxonomies in traits.items() if response.taxonomy in taxonomies}
        task_conversion.take(pulled, response, task, ours(response.key), traits, stamp, taxonomy=state.taxonomy)
        if response.outcome in (task_conversion.READ, task_conversion.RATHER_NOT) and len(pulled.drops) == drops:
            pulled.mend(task)


def _keys(ws: Workspace, tool: str, project: sync.Project) -> dict[str, str]:
    """id of a task on the server -> the key it was sent with, even if it was changed there."""
    rows = workspace.read(ws, tables.SENT).filter(pl.col("remote") != "", tool=tool, place=project.place)
    return dict(rows.select("remote", "task").iter_rows())


def _turns_of(state: ReviewState, tasks: dict[str, Task]) -> Ours:
    """A function: key of a task -> the turns of its text, as the workspace holds it."""
    row_of = {key: n for n, key in enumerate(state.texts.select("kind", "subject", "digest").iter_rows())}

    def turns(key: str) -> Turns:
        task = tasks.get(base_id(key))
        return state.texts["turns"][row_of[task.kind, task.subject, task.digest]].to_list() if task else []

    return turns
