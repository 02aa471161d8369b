"""Review servers behind `review push` and `review pull`: who is asked where, with which token, and the ledger."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import polars as pl

from annotation import outbox, pull as incoming
from annotation.desk import Desk
from annotation.tools import answers, argilla, label_studio, managed_server as managed, sync, task_sheet as sheets
from annotation.tools.answers import Pulled, Task, base_id, task_id
from annotation.tools.guidelines import guideline
from saferec_builder import catalog
from saferec_builder.core.errors import ReviewError, UsageError
from saferec_builder.mining import withheld
from saferec_builder.storage import tables, workspace as store
from saferec_builder.storage.tables import digest
from saferec_builder.storage.workspace import Workspace


def home(ws: Workspace) -> Path:
    """Folder of the workspace's own Label Studio."""
    return ws.root / "label-studio"


def _host(url: str) -> str:
    try:
        return urlsplit(url).netloc
    except ValueError:
        raise UsageError(f"--url {url}: this is no address: wanted one like https://labels.example.org") from None


def connect(ws: Workspace, tool: str, url: str | None, token: str | None) -> Any:
    """The team's server where --url says so, else the workspace's own."""
    if url and "@" in _host(url):
        raise UsageError(
            "--url holds a user or password: give the token with --token (or SAFEREC_REVIEW_TOKEN) instead"
        )
    if tool == "argilla":
        if not url or not token:
            raise UsageError("--tool argilla: give --url, and --token (or SAFEREC_REVIEW_TOKEN) of an owner there")
        return argilla.Server(url, token)
    if url:
        if not token:
            raise UsageError(f"--url {url}: give --token too (or SAFEREC_REVIEW_TOKEN): your account page shows it")
        return label_studio.Server(url, token)
    facts = managed.state(home(ws))
    if facts is None:
        raise UsageError(
            "there is no review server yet: run `saferec-build review up`, give --url and --token, or say --tool files"
        )
    return label_studio.Server(facts["url"], facts["token"])


def push(
    desk: Desk, server: Any, units: pl.DataFrame, back: pl.DataFrame, names: list[str]
) -> dict[str, dict[str, int]]:
    """Sends every open task of everybody named and deletes what was taken back (`back`: kind, subject, reviewer).

    Says per person what was new, there already, found, gone, taken back; that is done with everybody, named or not.
    """
    _check_accounts(desk, _known(desk.ws, server), names)
    accounts = _accounts(desk.ws, server, names)
    made = sheets.sheets(units, desk.texts, desk.taxonomy, sources(desk))
    told = {}
    ledgers: dict[str, Any] = {}  # as the server was found
    pushed = _pushed(desk)
    now = set(desk.texts.filter("current").select("kind", "subject", "digest").iter_rows())

    def hidden(key: str) -> bool:  # in a former text; or asked of an adjudicator before, and now something else is
        task = pushed.get(answers.base_id(key))
        former = task is not None and (task.kind, task.subject, task.digest) not in now
        return task is not None and (task.role == "adjudicator" or former)

    for name in names:
        mine = [sheet for sheet in made if sheet.task.reviewer == name]
        project = server.project(_mark(desk.ws, name), name, accounts[name], desk.taxonomy)
        ledger = ledgers[project.place] = _ledger(desk.ws, server.tool, project.place)
        tasks = {sheet.key: server.task_of(sheet, guideline(), desk.taxonomy) for sheet in mine}
        done = sync.push(server, project.id, tasks, ledger)
        # in other words before, if the taxonomy was another one; or answered in other words since
        asked = {answers.base_id(key) for key in tasks}
        asked |= {base for base, times in Counter(map(answers.base_id, ledger.there)).items() if times > 1}
        old = {key for key in ledger.there if key not in tasks and (hidden(key) or answers.base_id(key) in asked)}
        done.taken_back = sync.withdraw(server, project.id, old, ledger)
        for left in server.projects(_mark(desk.ws, name)):
            if left.id != project.id:  # made for other traits, in a tool that cannot change what it asks about
                before = _ledger(desk.ws, server.tool, left.place)
                done.taken_back += sync.withdraw(server, left.id, set(before.there), before)
        told[name] = {key: n for key, n in vars(done).items() if n or key in ("added", "skipped")}
    for name, n in _take_back(desk, server, pushed, back, ledgers).items():
        told[name] = (said := told.get(name, {})) | {"taken_back": said.get("taken_back", 0) + n}
    return told


def settle(ws: Workspace, server: Any) -> None:
    """Makes the ledgers say what the server holds of this workspace, as far as they cannot know."""
    for project in server.projects(_mark(ws)):
        sync.settled(server, project.id, _ledger(ws, server.tool, project.place), sync.Pushed())


def _take_back(
    desk: Desk, server: Any, pushed: dict[str, Task], back: pl.DataFrame, ledgers: dict[str, Any]
) -> dict[str, int]:
    """Deletes the tasks of `back` and about withheld conversations, with their answers where a removal was asked for.

    Gives reviewer -> tasks, of everybody who had one: a wish counts also where somebody else is named.
    """
    told: dict[str, int] = {}
    erased = set(withheld.erased(desk.ws).iter_rows())
    gone = set(back.select("kind", "subject", "reviewer").iter_rows())
    removed = {base for base, task in pushed.items() if (task.subject, task.digest) in erased}
    held = {base for base, task in pushed.items() if task.kind == "sensitivity" and task.subject in desk.withheld}
    held |= {base for base, task in pushed.items() if (task.kind, task.subject, task.reviewer) in gone}
    for name in sorted({pushed[base].reviewer for base in removed | held}):
        for project in server.projects(_mark(desk.ws, name)):
            ledger = ledgers.get(project.place) or _ledger(desk.ws, server.tool, project.place)
            there = {key: answers.base_id(key) for key in ledger.there}
            wanted = {key for key, base in there.items() if base in removed | held}
            answered = {key for key in wanted if there[key] in removed}
            if taken := sync.withdraw(server, project.id, wanted, ledger, answered):
                told[name] = told.get(name, 0) + taken
    return told


def _accounts(ws: Workspace, server: Any, names: list[str]) -> dict[str, str]:
    """reviewer -> account on the server: made on the workspace's own, looked up on a team's."""
    facts = managed.state(home(ws))
    if facts is None or facts["url"] != server.url:
        return {name: ws.config.review.accounts.get(name, name) for name in names}
    made = {}
    for name in names:
        if name not in facts["accounts"]:
            managed.account(home(ws), facts, server.invite, name)
        made[name] = facts["accounts"][name]["email"]
    server.invite()  # and the link is dead that a killed push, or another version, has left open
    return made


def _mark(ws: Workspace, name: str | None = None) -> str:
    """Begins the description of our projects there: of this workspace, of this reviewer; it tells nobody who."""
    mine = f"saferec-builder {digest('workspace', ws.secret.hex())}"
    return mine if name is None else f"{mine} {digest('reviewer', name, ws.secret.hex())}"


def _ledger(ws: Workspace, tool: str, place: str) -> Any:
    def note(rows: list[tuple[str, str, str]]) -> None:
        full = [(tool, place, *row) for row in rows]
        store.append(ws, tables.SENT, pl.DataFrame(full, schema=tables.SENT.schema, orient="row"))

    rows = store.read(ws, tables.SENT).filter(tool=tool, place=place).select("task", "remote", "state")
    return sync.Ledger.of(rows.iter_rows(), note)


def sources(desk: Desk) -> dict[str, list[str]]:
    """item -> what is known of it, each line with where it stands; a reviewer sees them beside the flags."""
    items = desk.texts.filter(pl.col("kind") == "item_flag").select(item="subject")
    if items.is_empty():
        return {}
    _, links = catalog.merge(store.read(desk.ws, tables.CATALOG_ROWS))
    known = store.read(desk.ws, tables.WARNINGS).filter(pl.col("kind") != "review")
    found: dict[str, list[str]] = {}
    for row in known.join(links.join(items, on="item", how="semi"), on="ref").iter_rows(named=True):
        votes = f"{row['yes']} yes, {row['no']} no" if row["yes"] is not None else row["answer"] or ""
        said = votes or (f"severity {row['severity']} of 3" if row["severity"] is not None else "")
        where = ", ".join(part for part in (row["source"], row["url"]) if part)
        found.setdefault(row["item"], []).append(f"{row['topic']}: {said} ({where})")
    return found


def pull(desk: Desk, server: Any) -> Pulled:
    """Everything that was said on the server, as answers of the workspace's reviewers."""
    projects = server.projects(_mark(desk.ws))
    if not projects:
        raise ReviewError(f"{server.url} holds nothing of this workspace: run `saferec-build review push` first")
    names, known = sorted({*desk.assignments["reviewer"], *outbox.people(desk.ws)}), _known(desk.ws, server)
    _check_accounts(desk, known, names)
    people = server.names(known, names)
    stamp = {"tool": server.tool, "guideline": guideline(), "taxonomy": desk.taxonomy.digest, "simulated": False}
    pulled = Pulled(tool=server.tool)
    ours = _ours(desk, outbox.tasks(desk.ws) | _pushed(desk))
    told = [said for project in projects for said in server.said(project, people, ours)]
    desk = outbox.adopted(desk, seen={base_id(said.key) for said in told})
    tasks, before = _pushed(desk), incoming.before(desk.reviews)
    for said in sorted(told, key=lambda said: said.taxonomy == desk.taxonomy.digest):  # what was asked last counts
        task = tasks.get(base_id(said.key))
        if task is None:
            pulled.drop(said.place, "not pushed", f"task {said.key!r} was never pushed from this workspace")
            continue
        traits = before.get((task.kind, task.subject, said.who, task.role), {})
        if said.taxonomy not in (None, desk.taxonomy.digest):  # a later list's traits were not there to be left out
            traits = {trait: lists for trait, lists in traits.items() if said.taxonomy in lists}
        sheets.take(pulled, said, task, ours(said.key), set(traits), stamp, desk.taxonomy)
    return pulled


def _ours(desk: Desk, tasks: dict[str, Task]) -> Callable[[str], list[dict[str, Any]]]:
    """key -> the turns of the workspace's own text that the task is about."""
    row_of = {key: n for n, key in enumerate(desk.texts.select("kind", "subject", "digest").iter_rows())}

    def turns(key: str) -> list[dict[str, Any]]:
        task = tasks.get(base_id(key))
        return desk.texts["turns"][row_of[task.kind, task.subject, task.digest]].to_list() if task else []

    return turns


def _known(ws: Workspace, server: Any) -> dict[str, str]:
    """reviewer -> account, as saferec.toml or the workspace's own server has it."""
    facts = managed.state(home(ws))
    own = facts["accounts"] if facts and facts["url"] == server.url else {}
    return dict(ws.config.review.accounts) | {name: made["email"] for name, made in own.items()}


def _check_accounts(desk: Desk, known: dict[str, str], names: list[str]) -> None:
    """Under two names somebody would be two readers, and agree with themselves."""
    owner: dict[str, str] = {}
    for name in sorted({*names, *desk.assignments["reviewer"]}):
        account = known.get(name, name)
        if other := owner.get(account.casefold()):
            raise UsageError(
                f"{other} and {name} are both {account!r} on the review server: one person is never two readers: go on"
                " with the name that has tasks here, or mend [review] accounts in saferec.toml"
            )
        owner[account.casefold()] = name


def _pushed(desk: Desk) -> dict[str, Task]:
    """key -> task, for every text that a person may have seen."""
    texts = desk.texts.select("kind", "subject", "digest")
    pushed = desk.assignments.drop("digest").join(texts, on=["kind", "subject"])
    rows = pushed.select("kind", "subject", "digest", "reviewer", "role").iter_rows()
    return {task_id(*row): Task(*row) for row in rows}


def up(ws: Workspace, say: Callable[[str], None]) -> tuple[dict[str, Any], bool]:
    return managed.up(home(ws), say)


def down(ws: Workspace) -> bool:
    return managed.down(home(ws))
