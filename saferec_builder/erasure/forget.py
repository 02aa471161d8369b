"""forget: erases people from a workspace, so that nothing of theirs is left in it and mining never brings them back.

An intent (.forget.json) says by ids alone who is to be erased; then each place is written again without them. Every
step can be repeated. If a run is killed, the next one first finishes the erasure that was begun. While the intent
exists, no other command writes what people said.
"""

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from annotation import connections, outbox, servers
from annotation.review_destinations import Argilla, LabelStudio
from annotation.tools.local_label_studio import check_machine
from annotation.tools.tasks_and_answers import SHEET
from exports.report import PAGE
from saferec_builder.core.counts import many
from saferec_builder.core.errors import ReviewError, StoreError, whole_object
from saferec_builder.core.json_value import JsonValue
from saferec_builder.core.progress import Progress
from saferec_builder.erasure import people, places, review_server, rows
from saferec_builder.erasure.people import Erasure, Receipt
from saferec_builder.mining import clusters, removals as wishes
from saferec_builder.sources.conversation_rows import Source
from saferec_builder.storage import database, shards, tables, whole_files, workspace
from saferec_builder.storage.workspace import FORGETTING, Workspace


@dataclass(frozen=True)
class Forgotten:
    """What was erased, or with `dry` would be.

    receipts  each wish and its conversations; a wish that matches nobody has none, and mining leaves out whom it names
    rows      number of rows per table, of lines in lists (`lines`) and of tasks on review servers (`tasks`)
    files     with `dry`: files beside the tables that name them; else files that still name them, for the owner
    unread    files and folders that cannot be read, so that it is unknown whether they name them
    emptied   releases and copies of releases whose data was deleted
    outside   what this program cannot reach, and what to do about it
    resumed   number of conversations of an interrupted erasure that this run finished
    """

    receipts: list[Receipt]
    rows: dict[str, int]
    files: list[Path]
    emptied: list[Path]
    outside: list[str]
    dry: bool
    resumed: int = 0
    unread: list[Path] = field(default_factory=list)

    @property
    def total(self) -> str:
        """The counts in words, per kind."""
        lines, tasks = (self.rows.get(name, 0) for name in ("lines", "tasks"))
        rows = sum(self.rows.values()) - lines - tasks
        counts = [many(rows, "row of tables", "rows of tables"), many(lines, "line of files", "lines of files")]
        counts += [many(tasks, "task on review servers", "tasks on review servers")] * bool(tasks)
        return ", ".join(counts)

    def figures(self, root: Path) -> dict[str, JsonValue]:
        """The receipt for a command's last lines; paths of files are relative to `root`."""
        figures: dict[str, JsonValue] = {"where": {name: n for name, n in self.rows.items() if n}}
        figures |= {"resumed": self.resumed} if self.resumed else {}
        for receipt in self.receipts:
            more = f" (people in these have {receipt.more} more)" if receipt.more else ""
            earlier = ", known before" if receipt.before else ""
            conversations = many(len(receipt.conversations), "conversation", "conversations")
            figures[receipt.wish] = f"{conversations}{more}{earlier}"
        files = ("files" if self.dry else "still_in", self.files)
        for name, paths in (("releases", self.emptied), files, ("not_read", self.unread)):
            figures |= {name: [str(path.relative_to(root)) for path in paths]} if paths else {}
        return figures | {f"do_{n}": task for n, task in enumerate(self.outside, 1)}

    @property
    def fault(self) -> str | None:
        """The message about what the owner has to check, or None; everything else is done."""
        if unmet := [receipt.wish for receipt in self.receipts if not receipt.met]:
            verb = "would leave" if self.dry else "will leave"
            kept = "" if self.dry else " (that the name is kept does no harm, as nobody has it)"
            return (
                f"forget: nobody here is meant by {', '.join(unmet[:5])}, so nothing was erased for it: if that is how"
                f" a source or release spells it, mining {verb} them out; if it is a typo, run it again with the right"
                f" spelling{kept}"
            )
        for paths, finding in ((self.files, "still named in"), (self.unread, "nobody can read")):
            if paths and not self.dry:
                others = f" and {many(n, 'other file', 'other files')}" if (n := len(paths) - 1) else ""
                return f"forget: {finding} {paths[0]}{others}: look there"
        return None


def forget(
    ws: Workspace,
    names: Sequence[str] | str = (),
    *,
    source: str = "",
    only: str = "",
    to: LabelStudio | Argilla | None = None,
    no_server: bool = False,
    dry: bool = False,
    progress: Progress | None = None,
) -> Forgotten:
    """Erases the people whom these names mean (people.find), or everybody in removals.csv; there is no way back.
    An interrupted erasure is finished first; without names that is all that happens.

    only: `id` or `author`, where a name could mean both. to: the team's review server, if it holds tasks about them;
    no_server: that server does not exist any more. dry: only counts, and changes nothing. progress: counts the files
    that are searched. Raises UsageError if no names are given and removals.csv names nobody, ReviewError if tasks are
    on a server that is not given (`dry` names it in `outside`), and StoreError while another command is at work.
    """
    names = [names] if isinstance(names, str) else names  # else each letter would be a name
    with workspace.undisturbed(ws):
        intent, earlier = ws.root / FORGETTING, None
        if intent.exists():
            if dry:
                raise StoreError(f"{ws.place}: an erasure was broken off: run `saferec-build forget`: it ends that")
            erasure = _read_intent(intent)
            _check_server(ws, erasure, to, no_server)
            earlier = _erase(ws, erasure, to, progress, again=True)
            if not names:
                open_wishes = wishes.read_removals(ws.root / wishes.FILE).wishes
                reminder = f"{wishes.FILE}: this only ended the erasure before: run `forget` again for these"
                return replace(earlier, outside=[*earlier.outside, *[reminder] * bool(open_wishes)])
        erasure, receipts = people.find(ws, names, source, only)
        names_back, texts_back = places.put_back(ws)
        before, revisions = sorted({*erasure.before, *names_back}), [*erasure.revisions, *texts_back]
        erasure = replace(erasure, before=before, revisions=revisions)
        if not dry:
            _check_server(ws, erasure, to, no_server)
        for table in tables.TABLES.values():  # damaged ones stop it here: once it has begun, none can be repaired
            workspace.count(ws, table)
        releases = places.releases_with(ws, erasure)
        if dry:
            preview = _preview(ws, erasure, receipts, releases, to, progress)
            needed = _needed_server(ws, erasure, to, no_server)
            return replace(preview, outside=[*needed, *preview.outside])
        whole_files.write_private(intent, json.dumps(asdict(erasure)).encode())
        result = replace(_erase(ws, erasure, to, progress), receipts=receipts)
        return _merged(earlier, result) if earlier else result


def _preview(
    ws: Workspace,
    erasure: Erasure,
    receipts: list[Receipt],
    releases: list[Path],
    to: LabelStudio | Argilla | None,
    progress: Progress | None,
) -> Forgotten:
    """What an erasure would remove; changes nothing."""
    tasks = set(erasure.tasks)
    lines, copies = places.clean_lists(ws, erasure, dry=True, progress=progress)
    on_team = review_server.on_team_servers(ws, tasks).height
    on_servers = review_server.erase_own(ws, tasks, dry=True) + (on_team if to else 0)
    counts = {"tasks": on_servers, "lines": lines, **rows.counted(ws, erasure)}
    paths, unread = places.files_naming(ws, erasure, copies, progress)
    todo = _todo(ws, erasure, releases, team=on_team > 0, dry=True)
    return Forgotten(receipts, counts, paths, releases, todo, dry=True, unread=unread)


def _merged(earlier: Forgotten, later: Forgotten) -> Forgotten:
    """The results of two erasures as one."""
    rows = {name: later.rows.get(name, 0) + earlier.rows.get(name, 0) for name in earlier.rows | later.rows}
    pairs = ((earlier.files, later.files), (earlier.emptied, later.emptied), (earlier.unread, later.unread))
    files, emptied, unread = ([*dict.fromkeys([*first, *second])] for first, second in pairs)
    todo = [*dict.fromkeys([*earlier.outside, *later.outside])]
    return Forgotten(later.receipts, rows, files, emptied, todo, later.dry, earlier.resumed, unread)


def _read_intent(intent: Path) -> Erasure:
    facts = whole_object(intent.read_bytes())
    if facts is None:
        raise StoreError(f"{intent}: damaged: put your copy of the workspace back, then run `saferec-build forget`")
    pairs = {name: [tuple(row) for row in facts.get(name, ())] for name in ("forgotten", "revisions", "ids", "inputs")}
    return Erasure(**{**facts, **pairs})


def _check_server(ws: Workspace, erasure: Erasure, to: LabelStudio | Argilla | None, no_server: bool) -> None:
    if erasure.tasks:
        check_machine(connections.server_folder(ws))
    for problem in _needed_server(ws, erasure, to, no_server):
        raise ReviewError(f"forget: {problem}")


def _needed_server(ws: Workspace, erasure: Erasure, to: LabelStudio | Argilla | None, no_server: bool) -> list[str]:
    """The team's server that an erasure needs and was not given, in one line; none if there is no such server."""
    sent = review_server.on_team_servers(ws, set(erasure.tasks))
    if sent.is_empty() or to or no_server:
        return []
    tool = sent["tool"][0].replace("_", "-")
    return [
        f"{many(sent.height, 'task about them is', 'tasks about them are')} on a review server ({tool}): give it with"
        f" --tool {tool}, --url and --token, so that nothing is left there either; or say --no-server if it is there no"
        " more"
    ]


# ---- the steps, in an order that leaves no way back to the names


def _erase(
    ws: Workspace, erasure: Erasure, to: LabelStudio | Argilla | None, progress: Progress | None, *, again: bool = False
) -> Forgotten:
    """Runs the steps, each of which can be repeated; the last one deletes the intent, once the result is complete."""
    # first, so that mining leaves them out whatever happens next
    keys = [*erasure.forgotten, *(wishes.task_key(task, ws.secret) for task in erasure.tasks)]
    keys += [wishes.conversation_key(conversation, ws.secret) for conversation in people.ids_of(ws, erasure.whole)]
    workspace.append(ws, tables.FORGOTTEN, tables.FORGOTTEN.frame(keys))
    tasks = set(erasure.tasks)
    counts = {"tasks": review_server.erase_own(ws, tasks)}
    if to:
        counts["tasks"] += servers.erase(ws, connections.connect(ws, to), tasks)
    counts["lines"], copies = places.clean_lists(ws, erasure, progress=progress)
    outbox.erase(ws, set(erasure.revisions))
    emptied = places.empty_releases(ws, erasure, again=again)
    moved = zip((tables.ASSIGNMENTS, tables.REVIEWS), rows.moved(ws, erasure), strict=True)
    changed = [(tables.REVIEWS, rows.noted(ws, erasure)), (tables.DECOYS, rows.planted(ws, erasure))]
    database.replace(ws.database, [*moved, *changed])  # before the texts are deleted
    counts |= {table.name: shards.rewrite(ws.root, table, change) for table, change in rows.changes(ws, erasure)}
    clusters.erased(ws)
    new = [(tables.TOMBSTONES, tables.TOMBSTONES.frame(erasure.tombstones)), (tables.KEYED, rows.had_keys(ws, erasure))]
    counts |= database.erase(ws.database, rows.in_database(ws, erasure), new)
    database.scrub(ws.database)
    for shard in (ws.root / "mining").glob("[!i]*"):  # all but the items: with other removals mining makes other shards
        shutil.rmtree(shard) if shard.is_dir() else shard.unlink()
    wishes.drop_erased(ws)
    resumed = len({conversation for conversation, _ in erasure.revisions}) if again else 0
    todo = _todo(ws, erasure, emptied, team=bool(to))
    page = [ws.root / PAGE] * _anybody(erasure)  # deleted after `todo`, which names it
    for leftover in (*page, *ws.root.glob("workspace.db.schema-*.bak"), *ws.root.glob("*.tmp")):
        leftover.unlink(missing_ok=True)
    paths, unread = places.files_naming(ws, erasure, copies, progress)
    result = Forgotten([], counts, paths, emptied, todo, False, resumed, unread)
    (ws.root / FORGETTING).unlink(missing_ok=True)
    return result


def _anybody(erasure: Erasure) -> bool:
    """Whether somebody who is or was here is meant; else the names are only kept, and nothing shows them."""
    return bool(erasure.revisions or erasure.before)


# ---- what this program cannot reach


def _todo(ws: Workspace, erasure: Erasure, emptied: Sequence[Path], *, team: bool, dry: bool = False) -> list[str]:
    """What the owner has to do, one line per place that applies to this workspace; `dry`: with what to do before."""
    todo = []
    if unkeyed := [str(p.relative_to(ws.root)) for p in places.without_key(ws, erasure) if p not in emptied]:
        problem = (
            "the key file is missing, so whoever was forgotten by an id of their source cannot be recognised there"
        )
        todo.append(f"{', '.join(unkeyed)}: {problem}: put it back and run this again, or delete the release")
    if not _anybody(erasure):
        return todo
    if review_server.stops_own(ws, erasure.tasks):
        todo.append("this workspace's Label Studio, which is stopped for it: `saferec-build review up` starts it again")
    if (ws.root / PAGE).exists():
        todo.append(f"{PAGE}, which is deleted too, as it shows conversations: `saferec-build report` writes it again")
    mined = sorted({name for _, name in erasure.inputs})
    todo += [f"{name}: the file that was mined, wherever it lies: take them out, or delete it" for name in mined]
    if any(source == Source.reddit for source, _ in erasure.inputs):
        todo.append("dumps of comments that were mined with it, wherever they lie: take theirs out, or delete them")
    if links := [str(path.relative_to(ws.root)) for path in places.links(ws.root)]:
        todo.append(f"{', '.join(links)}: links out of here, so nobody looked there: take them out there")
    if packed := places.packed(ws.root):
        names = dict.fromkeys(".git" if ".git" in path.parts else path.name for path in packed)
        todo.append(f"{', '.join(names)}: packed, so nobody looked into it: take them out there")
    todo += _of_releases(ws, emptied, dry=dry)
    if not erasure.revisions:  # only people who were erased before: that run listed the rest
        return todo
    batches = workspace.read(ws, tables.BATCHES)
    for server, model in batches.select("server", "model").unique(maintain_order=True).iter_rows():
        todo.append(f"{server}: files of the batches of {model}: delete them there")
    if workspace.read(ws, tables.KEYED)["task"].str.ends_with(SHEET).any():  # other tools have keys, too
        todo.append("CSVs that reviewers have, or that `review push --to` wrote elsewhere: take their rows out there")
    models = workspace.read(ws, tables.SPEND)["model"].unique().sort()
    todo += [f"whoever serves {model}: ask what is kept of the requests" for model in models]
    if team:
        todo.append(
            "the database of the review server, its log and backups: what was deleted may stay there in freed pages:"
            " its administrator has it vacuumed, and removes what is archived"
        )
    if (ws.config.store.url or "").startswith("postgresql"):
        todo.append(
            "the log (WAL) of PostgreSQL, its archive and replicas: its administrator switches segments, runs"
            " CHECKPOINT twice, and removes what is archived"
        )
    return [*todo, "backups and snapshots of this folder: if one is put back, forget the same people again"]


def _of_releases(ws: Workspace, emptied: Sequence[Path], *, dry: bool) -> list[str]:
    """What to do about releases whose data is deleted, and about what was made of them."""
    todo, versions = [], [path.name for path in emptied if path.parent == ws.releases]
    if versions:
        several = len(versions) > 1
        which = f"releases {', '.join(versions)}, each" if several else f"release {versions[0]},"
        todo.append(
            f"{which} if it is out: `saferec-build withdraw {'VERSION' if several else versions[0]} --reason ... --hub"
            " --erase`, then make and publish the next version; tell whoever has a copy, of it or of its key file"
        )
    if emptied:
        todo.append("copies of these releases that `publish --to` made: delete them, and copy the next version")
        todo.append("models that were trained on these releases: train them again on the next version")
    if emptied and dry:  # afterwards it is too late
        todo.append(
            "`diff` and the report cannot compare anything with these releases once their data is deleted: run `diff`"
            " before, or compare later versions with each other"
        )
    return todo
