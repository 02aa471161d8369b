"""Who is meant by a wish to be forgotten, and by which names they stand in a workspace.

reads  names, or removals.csv; conversations, origins, assignments, labels, reviews, design
gives  Gone: what has to go, as the file of an erasure under way holds it
"""

import re
import secrets
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl

from annotation import outbox, sampling_design
from annotation.tools.tasks_and_answers import tasks
from exports import formats, released_ids
from exports.folder import MANIFEST, facts_of
from saferec_builder.core.errors import UsageError, near
from saferec_builder.core.release_files import SUMS
from saferec_builder.mining import removals as wishes
from saferec_builder.sources.conversation_rows import Source
from saferec_builder.storage import tables, texts_on_disk, workspace
from saferec_builder.storage.workspace import Workspace

Pair = tuple[str, str]
KINDS = ("id", "author")  # what a name may be in its source


@dataclass(frozen=True)
class Gone:
    """What has to go; no name in clear and no text."""

    forgotten: list[Pair] = field(default_factory=list)  # rows of FORGOTTEN
    revisions: list[Pair] = field(default_factory=list)  # conversation, digest
    whole: dict[str, str] = field(default_factory=dict)  # conversations of which no revision stays -> a random name
    ids: list[Pair] = field(default_factory=list)  # of these in their sources, as in `forgotten`; for nobody to keep
    inputs: list[Pair] = field(default_factory=list)  # source and name of each file that they were read from
    others: list[str] = field(default_factory=list)  # further names: released ids, tasks, pseudonyms
    before: list[str] = field(default_factory=list)  # names of those who were erased before: files may be back
    tasks: list[str] = field(default_factory=list)  # ids of tasks about the revisions
    tombstones: list[dict[str, Any]] = field(default_factory=list)  # rows of TOMBSTONES

    @property
    def names(self) -> list[str]:
        """All that names them in a file, and nobody else."""
        return sorted({*self.whole, *self.others, *self.before, *self.tasks})

    def facts(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Receipt:
    """What a wish has come to. `before`: it was known before; `more`: conversations of the same people that it does not
    name."""

    wish: str
    conversations: list[str]
    before: bool
    more: int = 0

    @property
    def met(self) -> bool:
        return self.before or bool(self.conversations)


def meant(ws: Workspace, names: Sequence[str], source: str, only: str = "") -> tuple[Gone, list[Receipt]]:
    """Whom these names mean: each an id of a conversation (in its source, here or in a release), an id of a post, an
    author or a pseudonym; `only` one of KINDS, of the names in a source. Without names everybody in removals.csv.
    UsageError where nobody is asked for, or where a name means an id of one and somebody else, too."""
    if only and only not in KINDS:
        raise UsageError(f"forget --only {only}: expected {' or '.join(KINDS)}: what the names are in their source")
    if only and not names:
        raise UsageError(f"forget --only {only} says what names are: give some, or leave it out for {wishes.FILE}")
    rows = texts_on_disk.narrow(ws)
    from_ = sorted({*Source, *(part for name in rows["source"].unique() for part in (name, name.partition(":")[0]))})
    if source and not source.startswith("hf:") and source.lower() not in map(str.lower, from_):
        raise UsageError(f"forget --source {source}: no such source: {near(source, from_)}")
    there = wishes.standing(rows, workspace.read(ws, tables.ORIGINS))
    asked = [(name, _wish(ws, there, source.lower(), name, only)) for name in names]
    found = [there.select("conversation", "digest").clear()]
    if not names:
        removals = wishes.asked(ws)
        if not removals:
            raise UsageError(f"{ws.root}: whom to forget? Name somebody, or write them into {wishes.FILE}")
        asked = [(f"{wishes.FILE}:{wish.line}", wish) for wish in removals.wishes]
        found.append(wishes.removed(removals, there))  # also of a backup that was put back
    forgotten, receipts, called, once = set[Pair](), list[Receipt](), _called(ws, there), set[str]()
    before = set(workspace.read(ws, tables.FORGOTTEN).iter_rows())
    for name, wish in asked:
        revisions, known = _one(ws, there, called, name if names else "", wish)
        found.append(revisions)
        forgotten |= known
        once |= _once_called(ws, name if names else "", wish, there["source"].unique()) if known <= before else set()
        receipts.append(Receipt(name, revisions["conversation"].unique().sort().to_list(), known <= before))
    revisions = pl.concat(found).unique().sort("conversation", "digest")
    return _gone(ws, rows, revisions, forgotten, once), [_with_more(each, rows, revisions) for each in receipts]


def _wish(ws: Workspace, there: pl.DataFrame, source: str, name: str, only: str) -> wishes.Wish:
    """What this name means, which may be an id or an author: of two people it is asked which."""
    of_id, of_author = (wishes.wish(source, name, ""), wishes.wish(source, "", name))
    if only:
        return dict(zip(KINDS, (of_id, of_author), strict=True))[only]
    found = [
        set(wishes.removed(wishes.together([one], ws.secret), there)["conversation"]) for one in (of_id, of_author)
    ]
    if all(found) and found[0] != found[1]:
        raise UsageError(
            f"forget {name}: an id (of {len(found[0])} conversations), and the name of an author (in {len(found[1])}),"
            " who may be somebody else: say which with --only id or --only author"
        )
    return wishes.wish(source, name, name)


def releases(ws: Workspace) -> set[Path]:
    """Folders of releases and of copies of them, wherever they lie in the workspace."""
    return {path.parent for path in ws.root.rglob(MANIFEST) if (path.parent / SUMS).is_file()}


def _datasets(ws: Workspace) -> list[str]:
    """What the dataset is called, and was in each release: names there rest on it."""
    return sorted({ws.config.dataset.name, *(facts_of(home)["name"] for home in releases(ws))})


def ids_of(ws: Workspace, conversations: Collection[str]) -> list[str]:
    """What these conversations are called here and in releases."""
    named = (released_ids.released(ws, name, one) for name in _datasets(ws) for one in conversations)
    return [*conversations, *named]


def _called(ws: Workspace, there: pl.DataFrame) -> dict[str, tuple[str, str]]:
    """What a conversation or an author is called, here and in releases -> (column, value) of `there`."""
    datasets, found = _datasets(ws), dict[str, tuple[str, str]]()
    for one in there["conversation"].unique():
        names = [one, *(released_ids.released(ws, name, one) for name in datasets)]
        found |= dict.fromkeys(names, ("conversation", one))
    for who in there["seeker"].drop_nulls().unique():
        names = [who, *(formats.pseudonym(name, who) for name in datasets)]
        found |= dict.fromkeys(names, ("seeker", who))
    return found


def _one(
    ws: Workspace, there: pl.DataFrame, called: dict[str, tuple[str, str]], name: str, wish: wishes.Wish
) -> tuple[pl.DataFrame, set[Pair]]:
    """(revisions that a wish means, rows of FORGOTTEN)."""
    found = wishes.removed(wishes.together([wish], ws.secret), there)
    forgotten = wishes.hashed(wish, there["source"].unique(), ws.secret)
    if name not in called:
        return found, forgotten
    column, value = called[name]
    here = there.filter(pl.col(column) == value)
    for source, post in here.select("source", "source_id").unique().iter_rows():
        if column != "conversation":
            forgotten.add((source, value))
        elif post:  # a file may say where a conversation comes from without an id of it
            forgotten.add((source, wishes.id_key(source, post.strip(), ws.secret)))
    return pl.concat([found, here.select("conversation", "digest")]).unique(), forgotten


def _once_called(ws: Workspace, name: str, wish: wishes.Wish, there: pl.Series) -> set[str]:
    """What somebody was called here and in releases who was erased before: files may have been put back."""
    datasets, who = _datasets(ws), replace(wish, ids=frozenset())
    sources = {*there, *(source for source, _ in workspace.read(ws, tables.FORGOTTEN).iter_rows()), *Source} - {""}
    conversations = {tables.digest(one, post) for where, post in wish.ids for one in ([where] if where else sources)}
    people = {key for _, key in wishes.hashed(who, sources, ws.secret)}
    ours = {name} if re.fullmatch("[0-9a-f]{16}", name) else set[str]()
    released = {released_ids.released(ws, name, one) for name in datasets for one in conversations | ours}
    named = {formats.pseudonym(name, one) for name in datasets for one in people | ours}
    return conversations | people | ours | released | named


def _with_more(receipt: Receipt, rows: pl.DataFrame, revisions: pl.DataFrame) -> Receipt:
    theirs = rows.filter(pl.col("conversation").is_in(receipt.conversations))["seeker"].drop_nulls()
    left = rows.filter(pl.col("seeker").is_in(theirs.implode())).join(revisions, on="conversation", how="anti")
    return replace(receipt, more=left["conversation"].n_unique())


def _gone(
    ws: Workspace, rows: pl.DataFrame, revisions: pl.DataFrame, forgotten: set[Pair], once_called: set[str]
) -> Gone:
    stays = rows.join(revisions, on=["conversation", "digest"], how="anti")
    about = rows.join(revisions, on=["conversation", "digest"], how="semi")
    ends = rows.join(stays, on="conversation", how="anti").join(revisions, on="conversation", how="semi")
    whole = ends["conversation"].unique().sort().to_list()
    seekers = ends["seeker"].drop_nulls().unique()
    seekers = seekers.filter(~seekers.is_in(stays["seeker"].drop_nulls().implode()))
    posts = ends.select("source", "source_id").drop_nulls()
    others = [*ids_of(ws, whole), *seekers]
    others += [formats.pseudonym(name, one) for name in _datasets(ws) for one in seekers]
    design, given, labels, reviews = (
        workspace.read(ws, table) for table in (tables.DESIGN, tables.ASSIGNMENTS, tables.LABELS, tables.REVIEWS)
    )
    erased = workspace.read(ws, tables.TOMBSTONES).select("kind", "subject", "draw", "stratum", batch=pl.lit(""))
    design = pl.concat([design, erased])  # a place between their neighbours, whoever of these went before
    return Gone(
        forgotten=sorted(forgotten),
        revisions=revisions.rows(),
        ids=sorted({(one, wishes.id_key(one, name.strip(), ws.secret)) for one, name in posts.iter_rows()}),
        whole={one: f"gone-{secrets.token_hex(8)}" for one in whole},
        inputs=about.select("source", "source_file").drop_nulls().unique().sort("source", "source_file").rows(),
        others=others,
        before=sorted(once_called.difference(stays["conversation"], stays["seeker"])),
        tasks=_tasks(ws, given, revisions),
        tombstones=sampling_design.tombstones(design, given, labels, reviews, whole).to_dicts(),
    )


def _tasks(ws: Workspace, given: pl.DataFrame, revisions: pl.DataFrame) -> list[str]:
    about = given.filter(kind="sensitivity").drop("digest").join(revisions, left_on="subject", right_on="conversation")
    pairs = set(revisions.iter_rows())
    waiting = [name for name, task in outbox.tasks(ws).items() if (task.subject, task.digest) in pairs]
    return sorted({*tasks(about), *waiting})
