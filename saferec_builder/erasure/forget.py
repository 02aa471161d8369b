"""forget: erases people from a workspace, so that nothing of theirs is left in it and mining never brings them back.

An intent (.forget.json) says who goes, by ids alone; then each place is written anew without them, every step as often
as need be. Whoever is killed in between runs it again: it ends what was begun first. While the intent is there no other
command writes what people said.
"""

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from annotation import outbox
from annotation.review_destinations import Argilla, LabelStudio
from exports.report import PAGE
from saferec_builder.core.counts import many
from saferec_builder.core.errors import ReviewError, StoreError, whole_object
from saferec_builder.core.json_value import JsonValue
from saferec_builder.core.progress import Progress
from saferec_builder.erasure import people, places, review_server, rows
from saferec_builder.erasure.people import Gone, Receipt
from saferec_builder.mining import removals as wishes
from saferec_builder.sources.conversation_rows import Source
from saferec_builder.storage import database, tables, whole_files, workspace
from saferec_builder.storage.workspace import FORGETTING, Workspace


@dataclass(frozen=True)
class Forgotten:
    """What was erased, or with `dry` would be.

    receipts  each wish and its conversations; one that names nobody has none, and mining will leave it out
    rows      of each table, and lines of lists (`lines`), tasks of the own review server (`tasks`)
    files     with `dry`: where they stand beside the tables; else what still names them, for the owner to look at
    unread    files and folders that cannot be read, so that nobody knows
    emptied   releases and copies of releases whose data was deleted
    outside   what no program here can reach, and what to do about it
    resumed   conversations of an erasure that had been broken off
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
        """What was counted, each kind by its name."""
        lines, tasks = (self.rows.get(name, 0) for name in ("lines", "tasks"))
        kinds = {"rows of tables": sum(self.rows.values()) - lines - tasks, "lines of files": lines}
        kinds |= {"tasks on review servers": tasks} if tasks else {}
        return ", ".join(f"{n:,} {kind}" for kind, n in kinds.items())

    def figures(self, root: Path) -> dict[str, JsonValue]:
        """The receipt, its files under `root`, for a command's last lines."""
        told: dict[str, JsonValue] = {"where": {name: n for name, n in self.rows.items() if n}}
        told |= {"resumed": self.resumed} if self.resumed else {}
        for receipt in self.receipts:
            more = f" (the same people have {receipt.more} more)" if receipt.more else ""
            known = ", known before" if receipt.before else ""
            held = many(len(receipt.conversations), "conversation", "conversations")
            told[receipt.wish] = f"{held}{more}{known}"
        files = ("files" if self.dry else "still_in", self.files)
        for name, paths in (("releases", self.emptied), files, ("not_read", self.unread)):
            told |= {name: [str(path.relative_to(root)) for path in paths]} if paths else {}
        return told | {f"do_{n}": what for n, what in enumerate(self.outside, 1)}

    @property
    def fault(self) -> str | None:
        """What somebody has to look at: all else is done."""
        if unmet := [receipt.wish for receipt in self.receipts if not receipt.met]:
            then = "would leave" if self.dry else "will leave"
            return (
                f"forget: nobody here is meant by {', '.join(unmet[:5])}: if that is how a source or release spells it,"
                f" mining {then} them out; if not, run it again with the right spelling (a name that nobody has does no"
                " harm)"
            )
        for paths, what in ((self.files, "still named in"), (self.unread, "nobody can read")):
            if paths and not self.dry:
                others = f" and {n} other files" if (n := len(paths) - 1) else ""
                return f"forget: {what} {paths[0]}{others}: look there"
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
    """Erases the people that are meant (people.meant), or everybody in removals.csv; there is no way back.

    An erasure that was broken off is ended first; without names that is all.

    only: `id` or `author`, where a name could mean both. to: the team's review server, where tasks about them are on
    one; no_server: it is there no more. dry: looks only.
    progress: of the files that are searched, which are many where a workspace is old.
    UsageError where nobody is asked for; ReviewError where tasks are on a server that nobody named; StoreError where
    another command is at work.
    """
    names = [names] if isinstance(names, str) else names  # else each letter would be a person
    with workspace.undisturbed(ws):
        intent, before = ws.root / FORGETTING, None
        if intent.exists():
            if dry:
                raise StoreError(f"{ws.root}: an erasure was broken off: run `saferec-build forget`: it ends that")
            gone = _read(intent)
            _check_server(ws, gone, to, no_server)
            before = _erase(ws, gone, to, progress, again=True)
            if not names:
                there = wishes.read_removals(ws.root / wishes.FILE).wishes
                waits = (
                    [f"{wishes.FILE}: this only ended the erasure before: run `forget` again for these"]
                    if there
                    else []
                )
                return replace(before, outside=[*before.outside, *waits])
        gone, receipts = people.meant(ws, names, source, only)
        _check_server(ws, gone, to, no_server)
        held = _check_readable(ws, gone)
        if dry:
            return _looked(ws, gone, receipts, held, to, progress)
        whole_files.write_private(intent, json.dumps(gone.facts()).encode())
        made = replace(_erase(ws, gone, to, progress), receipts=receipts)
        return _joined(before, made) if before else made


def _looked(
    ws: Workspace,
    gone: Gone,
    receipts: list[Receipt],
    held: list[Path],
    to: LabelStudio | Argilla | None,
    progress: Progress | None,
) -> Forgotten:
    """What an erasure would find; nothing is changed."""
    tasks = set(gone.tasks)
    lines, copies = places.clean_lists(ws, gone, dry=True, progress=progress)
    on_team = review_server.elsewhere(ws, tasks).height
    there = review_server.erase_here(ws, tasks, dry=True) + (on_team if to else 0)
    counts = {"tasks": there, "lines": lines, **rows.counted(ws, gone)}
    found, unread = places.holding(ws, gone, copies, progress)
    outside = _outside(ws, gone, held, team=on_team > 0)
    return Forgotten(receipts, counts, found, held, outside, dry=True, unread=unread)


def _joined(before: Forgotten, made: Forgotten) -> Forgotten:
    """Two erasures as one."""
    rows = {name: n + before.rows.get(name, 0) for name, n in made.rows.items()}
    pairs = ((before.files, made.files), (before.emptied, made.emptied), (before.unread, made.unread))
    files, emptied, unread = ([*dict.fromkeys([*first, *then])] for first, then in pairs)
    outside = [*dict.fromkeys([*before.outside, *made.outside])]
    return Forgotten(made.receipts, rows, files, emptied, outside, made.dry, before.resumed, unread)


def _read(intent: Path) -> Gone:
    facts = whole_object(intent.read_bytes())
    if facts is None:
        raise StoreError(f"{intent}: damaged: put your copy of the workspace back, then run `saferec-build forget`")
    pairs = {name: [tuple(row) for row in facts.get(name, ())] for name in ("forgotten", "revisions", "ids", "inputs")}
    return Gone(**{**facts, **pairs})


def _check_server(ws: Workspace, gone: Gone, to: LabelStudio | Argilla | None, no_server: bool) -> None:
    there = review_server.elsewhere(ws, set(gone.tasks))
    if there.height and not (to or no_server):
        tool = there["tool"][0].replace("_", "-")
        raise ReviewError(
            f"forget: {there.height} tasks about them are on a review server ({tool}): give it with --tool {tool},"
            " --url and --token, so that they are deleted there too; or say --no-server if it is there no more"
        )


def _check_readable(ws: Workspace, gone: Gone) -> list[Path]:
    """`places.held`. What is damaged stops an erasure here: once it is begun, no command could mend it."""
    for table in tables.TABLES.values():
        workspace.count(ws, table)
    return places.held(ws, gone)


# ---- the steps, in the order in which they leave no way back to the names


def _erase(
    ws: Workspace, gone: Gone, to: LabelStudio | Argilla | None, progress: Progress | None, *, again: bool = False
) -> Forgotten:
    """Each step can be done again; the intent goes with the last, when all that is to be told is known."""
    # first: whatever comes, mining leaves them out
    kept = [*gone.forgotten, *(wishes.task_key(task, ws.secret) for task in gone.tasks)]
    kept += [wishes.conversation_key(one, ws.secret) for one in people.ids_of(ws, gone.whole)]
    workspace.append(ws, tables.FORGOTTEN, tables.FORGOTTEN.frame(kept))
    tasks = set(gone.tasks)
    counts = {"tasks": review_server.erase_here(ws, tasks)}
    if to:
        counts["tasks"] += review_server.erase_there(ws, to, tasks)
    counts["lines"], copies = places.clean_lists(ws, gone, progress=progress)
    outbox.erase(ws, set(gone.revisions))
    emptied = places.empty_releases(ws, gone, again=again)
    moved = zip((tables.ASSIGNMENTS, tables.REVIEWS), rows.moved(ws, gone), strict=True)
    database.replace(ws.database, moved)  # while the texts are there
    counts |= {table.name: workspace.rewrite(ws, table, change) for table, change in rows.changes(ws, gone)}
    new = [(tables.TOMBSTONES, tables.TOMBSTONES.frame(gone.tombstones)), (tables.KEYED, rows.had_keys(ws, gone))]
    counts |= database.erase(ws.database, rows.in_database(ws, gone), new)
    database.scrub(ws.database)
    for left in (ws.root / PAGE, *ws.root.glob("workspace.db.schema-*.bak"), *ws.root.glob("*.tmp")):
        left.unlink(missing_ok=True)
    for shard in (ws.root / "mining").glob("[!i]*"):  # all but the items: another set of wishes has other shards
        shutil.rmtree(shard) if shard.is_dir() else shard.unlink()
    wishes.drop_erased(ws)
    resumed = len({one for one, _ in gone.revisions}) if again else 0
    outside = _outside(ws, gone, emptied, team=bool(to))
    found, unread = places.holding(ws, gone, copies, progress)
    made = Forgotten([], counts, found, emptied, outside, False, resumed, unread)
    (ws.root / FORGETTING).unlink(missing_ok=True)
    return made


# ---- what no program here reaches


def _outside(ws: Workspace, gone: Gone, emptied: Sequence[Path], *, team: bool) -> list[str]:
    """What the owner has to do, each with where: of what there is."""
    if not (gone.revisions or gone.before):
        return []
    mined = sorted({name for _, name in gone.inputs})
    said = [f"{name}: the file that was mined, wherever it lies: take them out, or delete it" for name in mined]
    if any(source == Source.reddit for source, _ in gone.inputs):
        said.append("dumps of comments that were mined with it, wherever they lie: take theirs out, or delete them")
    if links := [str(path.relative_to(ws.root)) for path in places.links(ws.root)]:
        said.append(f"{', '.join(links)}: links out of here, so nobody looked there: take them out there")
    if packed := places.packed(ws.root):
        said.append(f"{', '.join(path.name for path in packed)}: packed, so nobody looked into it: take them out there")
    for home in emptied:
        if home.parent == ws.releases:
            said.append(
                f"release {home.name}, if it is out: `saferec-build withdraw {home.name} --reason ... --hub --erase`,"
                " then make and publish the next version; tell whoever has a copy, of it or of its key file"
            )
    if emptied:
        said.append("copies of these releases that `publish --to` made: delete them, and copy the next version")
        said.append("models that were trained on these releases: train them again on the next version")
    if not gone.revisions:  # who was erased before: it was said then
        return said
    batches = workspace.read(ws, tables.BATCHES)
    for server, model in batches.select("server", "model").unique(maintain_order=True).iter_rows():
        said.append(f"{server}: files of the batches of {model}: delete them there")
    if workspace.count(ws, tables.KEYED):
        said.append("CSVs that reviewers have, or that `review push --to` wrote elsewhere: take their rows out there")
    models = workspace.read(ws, tables.SPEND)["model"].unique().sort()
    said += [f"whoever serves {model}: ask what is kept of the requests" for model in models]
    if team:
        said.append(
            "the database of the review server, its log and backups: what was deleted may stay there in freed pages:"
            " its administrator has it vacuumed, and removes what is archived"
        )
    if (ws.config.store.url or "").startswith("postgresql"):
        said.append(
            "the log (WAL) of PostgreSQL, its archive and replicas: its administrator switches segments, runs"
            " CHECKPOINT twice, and removes what is archived"
        )
    return [*said, "backups and snapshots of this folder: if one is put back, forget the same people again"]
