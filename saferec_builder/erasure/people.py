"""Finds the people whom a request to be forgotten means, and the names by which a workspace holds them.

reads  names, or removals.csv; conversations, origins, assignments, labels, reviews, design
gives  Erasure: what has to be erased, as the file of an erasure under way (.forget.json) holds it
"""

import re
import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl

from annotation import outbox, sampling_design
from annotation.tools.tasks_and_answers import tasks
from exports import formats
from exports.folder import MANIFEST, facts_of
from saferec_builder.core.counts import many
from saferec_builder.core.errors import UsageError, is_utf8, near
from saferec_builder.core.release_files import SUMS
from saferec_builder.mining import removals as wishes
from saferec_builder.sources.conversation_rows import Source
from saferec_builder.storage import tables, texts_on_disk, workspace
from saferec_builder.storage.workspace import Workspace

Pair = tuple[str, str]
KINDS = ("id", "author")  # what a name may be in its source


@dataclass(frozen=True)
class Erasure:
    """What has to be erased; holds no name in clear and no text."""

    forgotten: list[Pair] = field(default_factory=list)  # rows of FORGOTTEN
    revisions: list[Pair] = field(default_factory=list)  # conversation, digest
    whole: dict[str, str] = field(default_factory=dict)  # conversation without a remaining revision -> a random name
    ids: list[Pair] = field(default_factory=list)  # ids of `whole` in their sources, keyed like `forgotten`; never kept
    inputs: list[Pair] = field(default_factory=list)  # source and name of each file that they were read from
    others: list[str] = field(default_factory=list)  # further names: released ids, tasks, pseudonyms
    before: list[str] = field(default_factory=list)  # names of people erased before: their files may be back
    tasks: list[str] = field(default_factory=list)  # ids of tasks about the revisions
    tombstones: list[dict[str, Any]] = field(default_factory=list)  # rows of TOMBSTONES

    @property
    def names(self) -> list[str]:
        """Every name that stands for them, and for nobody else, in a file."""
        return sorted({*self.whole, *self.others, *self.before, *self.tasks})


@dataclass(frozen=True)
class Receipt:
    """The result of one wish. `before`: one of its names was erased before; `more`: the number of conversations of the
    same people that it does not name."""

    wish: str
    conversations: list[str]
    before: bool
    more: int = 0

    @property
    def met(self) -> bool:
        """Whether the wish means anybody, now or before."""
        return self.before or bool(self.conversations)


def find(ws: Workspace, names: Sequence[str], source: str, only: str = "") -> tuple[Erasure, list[Receipt]]:
    """Returns what has to be erased, and a receipt per name: an id of a conversation (in its source, here or in a
    release), an id of a post, an author or a pseudonym. `only`: one of KINDS, for names in a source. Without names:
    everybody in removals.csv. Raises UsageError if nobody is named, or if a name is the id of one person and the author
    name of another."""
    names = [name.strip() for name in names]  # as sources and removals.csv are read
    for name in names:  # empty is a shell's variable that is not set
        if not name or not is_utf8(name):
            problem = f"a name is {'not UTF-8' if name else 'empty'}"
            raise UsageError(f"forget: {problem}: expected ids and authors, or no name at all for {wishes.FILE}")
    if only and only not in KINDS:
        raise UsageError(f"forget --only {only}: expected {' or '.join(KINDS)}: what the names are in their source")
    if only and not names:
        raise UsageError(f"forget --only {only} says what names are: give some, or leave it out for {wishes.FILE}")
    rows = texts_on_disk.narrow(ws)
    valid = sorted({*Source, *(part for name in rows["source"].unique() for part in (name, name.partition(":")[0]))})
    if source and not source.startswith("hf:") and source.lower() not in map(str.lower, valid):
        raise UsageError(f"forget --source {source}: no such source: {near(source, valid)}")
    posts = wishes.standing(rows, workspace.read(ws, tables.ORIGINS))
    named_wishes = [(name, _wish(ws, posts, source.lower(), name, only)) for name in names]
    matches = [posts.select("conversation", "digest").clear()]
    if not names:
        removals = wishes.of_workspace(ws)
        if not removals:
            raise UsageError(f"{ws.place}: whom to forget? Name somebody, or write them into {wishes.FILE}")
        named_wishes = [(f"{wishes.FILE}:{wish.line}", wish) for wish in removals.wishes]
        matches.append(wishes.removed(removals, posts))  # also from a backup that was put back
    forgotten, receipts, aliases, old = set[Pair](), list[Receipt](), _aliases(ws, posts), set[str]()
    erased = set(workspace.read(ws, tables.FORGOTTEN).iter_rows())
    for name, wish in named_wishes:
        revisions, keys = _match(ws, posts, aliases, name if names else "", wish)
        matches.append(revisions)
        given = wishes.hashed(wish, (), ws.secret)  # as it is spelt: each source that is mined adds keys
        before = any(not wishes.nobody_keys([key]) <= erased for key in given & erased)  # a typo given twice is nobody
        forgotten |= keys if before or revisions.height else keys | wishes.nobody_keys(given)
        old |= _old_names(ws, name if names else "", wish, posts["source"].unique()) if before else set()
        receipts.append(Receipt(name, revisions["conversation"].unique().sort().to_list(), before))
    revisions = pl.concat(matches).unique().sort("conversation", "digest")
    rest = rows.join(revisions, on="conversation", how="anti")
    for n, receipt in enumerate(receipts):
        seekers = rows.filter(pl.col("conversation").is_in(receipt.conversations))["seeker"].drop_nulls()
        others = rest.filter(pl.col("seeker").is_in(seekers.implode()))["conversation"]
        receipts[n] = replace(receipt, more=others.n_unique())
    return _erasure(ws, posts, rows, revisions, forgotten, old), receipts


def _wish(ws: Workspace, posts: pl.DataFrame, source: str, name: str, only: str) -> wishes.Wish:
    """The wish for a name, which may be an id or an author; raises UsageError if it is both, of different people."""
    of_id, of_author = (wishes.wish(source, name, ""), wishes.wish(source, "", name))
    if only:
        return dict(zip(KINDS, (of_id, of_author), strict=True))[only]
    hits = [
        set(wishes.removed(wishes.together([wish], ws.secret), posts)["conversation"]) for wish in (of_id, of_author)
    ]
    if all(hits) and hits[0] != hits[1]:
        raise UsageError(
            f"forget {name}: an id (of {many(len(hits[0]), 'conversation', 'conversations')}), and the name of an"
            f" author (in {len(hits[1])}), who may be somebody else: say which with --only id or --only author"
        )
    return wishes.wish(source, name, name)


def releases(ws: Workspace) -> set[Path]:
    """Folders of releases and of their copies, anywhere in the workspace."""
    return {path.parent for path in ws.root.rglob(MANIFEST) if (path.parent / SUMS).is_file()}


def dataset_names(ws: Workspace) -> list[str]:
    """Names of the dataset, now and in each release: released ids and pseudonyms depend on them."""
    return sorted({ws.config.dataset.name, *(facts_of(folder)["name"] for folder in releases(ws))})


def ids_of(ws: Workspace, conversations: Collection[str]) -> list[str]:
    """Ids of these conversations here and in releases."""
    names = (ws.released_id(conversation, name) for name in dataset_names(ws) for conversation in conversations)
    return [*conversations, *names]


def _aliases(ws: Workspace, posts: pl.DataFrame) -> dict[str, tuple[str, str]]:
    """Name of a conversation or an author, here or in a release -> (column, value) of `posts`."""
    datasets, aliases = dataset_names(ws), dict[str, tuple[str, str]]()
    for conversation in posts["conversation"].unique():
        names = [conversation, *(ws.released_id(conversation, dataset) for dataset in datasets)]
        aliases |= dict.fromkeys(names, ("conversation", conversation))
    for seeker in posts["seeker"].drop_nulls().unique():
        names = [seeker, *(formats.pseudonym(dataset, seeker) for dataset in datasets)]
        aliases |= dict.fromkeys(names, ("seeker", seeker))
    return aliases


def _match(
    ws: Workspace, posts: pl.DataFrame, aliases: dict[str, tuple[str, str]], name: str, wish: wishes.Wish
) -> tuple[pl.DataFrame, set[Pair]]:
    """(revisions that a wish means, rows of FORGOTTEN)."""
    matches = wishes.removed(wishes.together([wish], ws.secret), posts)
    forgotten = wishes.hashed(wish, posts["source"].unique(), ws.secret)
    if name not in aliases:
        return matches, forgotten
    column, value = aliases[name]
    hits = posts.filter(pl.col(column) == value)
    for source, post in hits.select("source", "source_id").unique().iter_rows():
        if column != "conversation":
            forgotten.add((source, value))
        elif post:  # a file may name the source of a conversation without its id there
            forgotten.add((source, wishes.id_key(source, post.strip(), ws.secret)))
    return pl.concat([matches, hits.select("conversation", "digest")]).unique(), forgotten


def _old_names(ws: Workspace, name: str, wish: wishes.Wish, mined: pl.Series) -> set[str]:
    """Names, here and in releases, of somebody who was erased before: files may have been put back."""
    datasets, author_wish = dataset_names(ws), replace(wish, ids=frozenset())
    sources = {*mined, *(source for source, _ in workspace.read(ws, tables.FORGOTTEN).iter_rows()), *Source} - {""}
    conversations = {tables.digest(s, post) for origin, post in wish.ids for s in ([origin] if origin else sources)}
    authors = {key for _, key in wishes.hashed(author_wish, sources, ws.secret)}
    own_id = {name} if re.fullmatch("[0-9a-f]{16}", name) else set[str]()
    released = {ws.released_id(key, dataset) for dataset in datasets for key in conversations | own_id}
    pseudonyms = {formats.pseudonym(dataset, key) for dataset in datasets for key in authors | own_id}
    return conversations | authors | own_id | released | pseudonyms


def _erasure(
    ws: Workspace,
    standing: pl.DataFrame,
    rows: pl.DataFrame,
    revisions: pl.DataFrame,
    forgotten: set[Pair],
    old_names: set[str],
) -> Erasure:
    remaining = rows.join(revisions, on=["conversation", "digest"], how="anti")
    erased = rows.join(revisions, on=["conversation", "digest"], how="semi")
    ended = rows.join(remaining, on="conversation", how="anti").join(revisions, on="conversation", how="semi")
    whole = ended["conversation"].unique().sort().to_list()
    seekers = ended["seeker"].drop_nulls().unique()
    seekers = seekers.filter(~seekers.is_in(remaining["seeker"].drop_nulls().implode()))
    posts = ended.select("source", "source_id").drop_nulls()
    # by their ids, too: a file may hold the same posts under another name, or under none; of a thread on Reddit these
    # are their own posts only, since its other posts are of other people
    theirs = standing.join(ended, "conversation", "semi").drop_nulls("source_id")
    is_theirs = pl.col("seeker").is_in([key for _, key in forgotten]).fill_null(False)
    theirs = theirs.filter(is_theirs | (pl.col("source") != Source.reddit)).select("source", "source_id")
    forgotten = forgotten | _keyed_ids(ws, theirs)
    others = [*ids_of(ws, whole), *seekers]
    others += [formats.pseudonym(dataset, seeker) for dataset in dataset_names(ws) for seeker in seekers]
    design, assignments, labels, reviews = (
        workspace.read(ws, table) for table in (tables.DESIGN, tables.ASSIGNMENTS, tables.LABELS, tables.REVIEWS)
    )
    tombstones = workspace.read(ws, tables.TOMBSTONES).select("kind", "subject", "draw", "stratum", batch=pl.lit(""))
    design = pl.concat([design, tombstones])  # so that a place lies between its neighbours, also those erased before
    sent = assignments.filter(kind="sensitivity").drop("digest")
    sent = sent.join(revisions, left_on="subject", right_on="conversation")
    pairs = set(revisions.iter_rows())
    unsent = [name for name, task in outbox.tasks(ws).items() if (task.subject, task.digest) in pairs]
    return Erasure(
        forgotten=sorted(forgotten),
        revisions=revisions.rows(),
        ids=sorted(_keyed_ids(ws, posts)),
        whole={name: f"gone-{secrets.token_hex(8)}" for name in whole},
        inputs=erased.select("source", "source_file").drop_nulls().unique().sort("source", "source_file").rows(),
        others=others,
        before=sorted(old_names.difference(remaining["conversation"], remaining["seeker"])),
        tasks=sorted({*tasks(sent), *unsent}),
        tombstones=sampling_design.tombstones(design, assignments, labels, reviews, whole).to_dicts(),
    )


def _keyed_ids(ws: Workspace, posts: pl.DataFrame) -> set[Pair]:
    """Rows of FORGOTTEN for ids (source, source_id) as their sources have them."""
    return {(source, wishes.id_key(source, post.strip(), ws.secret)) for source, post in posts.iter_rows()}
