"""mine reddit: dumps become conversations in two passes over shards, each of which can be killed and run again.

file -> posts of the wanted subreddits, with placeholders and pseudonyms, in buckets by submission
bucket -> requests, the talk with those who asked, conversations
Nothing that an author wrote or is called reaches the disk before the first pass has replaced it.
"""

import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import polars as pl

from saferec_builder import catalog, sources
from saferec_builder.mining import conversations as mine, language, privacy, removals as wishes
from saferec_builder.mining.privacy import names as given_names
from saferec_builder.sources import Read, Rows, conversation_rows as conversations, reddit, threads
from saferec_builder.storage import parallel as engine, tables

_SMALL = 32 << 20  # bytes of dumps for which no second process is worth its start
_HELD = 20_000  # posts that a worker holds before it writes them
_PART = 2 << 20  # packed bytes of conversations that the command holds
_FORM = 7  # of what shards hold: another form, or another finder of titles, is another shard
_POSTS = pl.Schema(
    {**reddit.POSTS, "names": pl.List(pl.String)}
)  # names: keyed digests of those that were hidden in it
_MARKS = pl.Schema({c: kind for c, kind in tables.MARKS.schema.items() if c != "revision"})
_WRITTEN = {"conversations": conversations.SCHEMA, "marks": _MARKS, "drops": tables.DROPS.schema}


@dataclass(frozen=True)
class Job:
    """What every shard needs to know; small, since it is sent to each worker."""

    rules: threads.Rules
    secret: bytes
    removals: wishes.Removals
    buckets: int
    items: Path | None  # the merged catalog

    @property
    def mark(self) -> str:
        """Shards of another catalog, secret, set of rules or search for personal data or distress are other shards."""
        items = self.items.stem if self.items else ""
        wishes = [sorted(self.removals.ids), sorted(self.removals.authors)]
        wishes += [sorted(self.removals.forgotten)] if self.removals.forgotten else []
        key = mine.pseudonym("", "", self.secret)
        searches = (privacy.rules(), language.rules())
        return tables.digest(_FORM, str(self.rules), key, wishes, self.buckets, items, *searches)


_WORD = re.compile(given_names.LOW)
Part = tuple[Read, pl.DataFrame]


def read(
    files: list[Path], job: Job, folder: Path, how: engine.How
) -> tuple[Iterator[Part], dict[str, int], dict[str, float], pl.DataFrame]:
    """(conversations with pseudonyms and drops, and their marks, part by part; figures; CPU seconds per step; whom
    removals.csv named in the files).

    A conversation is in one part only.
    """
    if how.workers is None and sum(path.stat().st_size for path in files) < _SMALL:
        how = replace(how, workers=1)
    shards = {f"file-{_identity(path, job.mark)}": (path, job) for path in files}
    first = engine.map_shards(read_file, shards, folder, how)
    parts = [folder / name for name in first]
    every = tables.digest(sorted(first))
    buckets = {f"bucket-{every}-{n:05d}": (parts, n, job) for n in range(job.buckets)}
    second = engine.map_shards(join_bucket, buckets, folder, how)
    met = {name for facts in first.values() for name in facts.pop("met")}
    honoured = pl.DataFrame([(reddit.SOURCE, name) for name in sorted(met)], tables.HONOURED.schema, orient="row")
    figures: Counter[str] = Counter()
    for facts in (*first.values(), *second.values()):
        figures.update(facts)
    counted = {k: int(v) for k, v in sorted(figures.items()) if not k.startswith("seconds_")}
    seconds = {k.removeprefix("seconds_"): float(v) for k, v in sorted(figures.items()) if k.startswith("seconds_")}
    return _parts([folder / name for name in (*first, *second)]), counted, seconds, honoured


def _parts(shards: list[Path]) -> Iterator[Part]:
    """What the shards hold; small ones together."""
    some: list[Path] = []
    size = 0
    for shard in shards:
        some.append(shard)
        size += sum(path.stat().st_size for name in _WRITTEN for path in shard.glob(f"{name}*.parquet"))
        if size > _PART or shard is shards[-1]:
            rows, marks, drops = (_all(some, name) for name in _WRITTEN)
            yield Read(rows, drops), marks
            some, size = [], 0


_read = partial(pl.read_parquet, glob=False)  # a workspace may stand in "team[1]"


def _all(shards: list[Path], name: str) -> pl.DataFrame:
    found = [path for shard in shards for path in sorted(shard.glob(f"{name}*.parquet"))]
    return pl.concat([pl.DataFrame(schema=_WRITTEN[name]), *map(_read, found)])


def _identity(path: Path, mark: str) -> str:
    facts = path.stat()
    return tables.digest(path.name, facts.st_size, facts.st_mtime_ns, mark)


@contextmanager
def _clock(seconds: Counter[str], step: str) -> Iterator[None]:
    start = time.process_time()
    yield
    seconds[f"seconds_{step}"] += time.process_time() - start  # type: ignore[assignment]


# ---- first pass: a file


def read_file(work: tuple[Path, Job], folder: Path) -> dict[str, Any]:
    """Writes posts-BUCKET-N.parquet and drops-N.parquet; says what became of the lines."""
    path, job = work
    met = set[str]()
    tally, counts, held = reddit.Tally(), Counter[str](), _Held(folder, job.buckets)
    blocks = reddit.read(path, job.rules.subreddits, tally)
    while True:
        with _clock(counts, "reading"):
            found = next(blocks, None)
        if found is None:
            break
        posts, rejects = found
        met.update(_met(posts, job))
        posts, gone = _wished(posts, job.removals)
        with _clock(counts, "privacy"):
            posts = _private(posts, job, counts)
        counts.update(removed=len(gone), lines_rejected=len(rejects))
        with _clock(counts, "writing"):
            held.add(posts, tables.DROPS.frame(rejects + gone))
    with _clock(counts, "writing"):
        held.write()
    counts.update(lines=tally.lines, posts=tally.passed - counts.pop("removed"))
    return {**counts, "met": sorted(met)}


@dataclass
class _Held:
    """Posts and drops that wait until they are worth files of their own."""

    folder: Path
    buckets: int
    posts: list[pl.DataFrame] = field(default_factory=list)
    drops: list[pl.DataFrame] = field(default_factory=list)
    written: int = 0

    def add(self, posts: pl.DataFrame, drops: pl.DataFrame) -> None:
        self.posts.append(posts)
        self.drops.append(drops)
        if sum(frame.height for frame in (*self.posts, *self.drops)) > _HELD:
            self.write()

    def write(self) -> None:
        """A reply and its parent share their submission, so a bucket is closed."""
        posts = pl.concat([pl.DataFrame(schema=_POSTS), *self.posts])
        number = {link: int(tables.digest(link), 16) % self.buckets for link in posts["link"].unique()}
        table = pl.DataFrame(list(number.items()), {"link": pl.String, "_bucket": pl.Int64}, orient="row")
        split = posts.join(table, "link", "left", maintain_order="left").partition_by("_bucket", as_dict=True)
        for (bucket,), part in split.items():
            part.drop("_bucket").write_parquet(self.folder / f"posts-{bucket}-{self.written}.parquet")
        pl.concat([tables.DROPS.empty, *self.drops]).write_parquet(self.folder / f"drops-{self.written}.parquet")
        self.posts, self.drops, self.written = [], [], self.written + 1


def _met(posts: pl.DataFrame, job: Job) -> pl.Series:
    """Pseudonyms of the ids and authors here that removals.csv names."""
    named = posts.with_columns(source=pl.lit(reddit.SOURCE))
    ids, people = (named.select("source", name=column).drop_nulls() for column in ("post", "author"))
    return wishes.met(job.removals, ids, people, job.secret)["who"]


def _wished(posts: pl.DataFrame, removals: wishes.Removals) -> tuple[pl.DataFrame, Rows]:
    ids = removals.ids_in(reddit.SOURCE, posts["post"])
    authors = removals.people_in(reddit.SOURCE, posts["author"])
    gone = pl.col("post").is_in(ids) | pl.col("author").is_in(authors)
    places = posts.filter(gone)["place"]
    return posts.filter(~gone), [sources.drop("mine", reddit.SOURCE, place, wishes.REMOVED) for place in places]


def _private(posts: pl.DataFrame, job: Job, counts: Counter[str]) -> pl.DataFrame:
    columns = ("title", "text", "flair")  # in some forums authors write their own flair
    number = pl.int_range(posts.height, eager=True)
    talks = pl.concat([number] * len(columns))
    texts, known = pl.concat([posts[c].rename("") for c in columns]), privacy.Known(set)
    clean, found = privacy.redact_all(texts, talks, titles(job.items), known=known)
    counts.update({f"replaced_{kind}": n for kind, n in found.items()})
    hidden = {c: clean.slice(n * posts.height, posts.height) for n, c in enumerate(columns)}
    names = [sorted(_name_key(name, job) for name in known[n]) for n in number]
    named = posts.with_columns(pl.Series("names", names, _POSTS["names"]), source=pl.lit(reddit.SOURCE), **hidden)
    return mine.pseudonyms(named, job.secret, "author").select(list(_POSTS))


def _name_key(name: str, job: Job) -> str:
    return mine.pseudonym(reddit.SOURCE, f"name {name}", job.secret)


# ---- second pass: a bucket


def join_bucket(work: tuple[list[Path], int, Job], folder: Path) -> dict[str, Any]:
    """Writes conversations, marks and drops of the requests whose submissions fall into this bucket."""
    parts, number, job = work
    counts, drops = Counter[str](), list[dict[str, Any]]()
    with _clock(counts, "threads"):
        found = [path for part in parts for path in sorted(part.glob(f"posts-{number}-*.parquet"))]
        posts = pl.concat([pl.DataFrame(schema=_POSTS), *map(_read, found)])
        posts, again = threads.once(posts)
        asked, others = threads.requests(posts.filter(pl.col("parent").is_null()), job.rules)
        comments = posts.filter(pl.col("parent").is_not_null())
        talk, left = threads.joined(asked, comments)
        drops = again + others + left
    with _clock(counts, "privacy"):
        each = pl.concat([asked.select("link", "names"), talk.select("link", "names")]).explode("names").drop_nulls()
        names = dict(each.group_by("link").agg("names").iter_rows())
        asked, talk = (_without_names(part, names, job, counts) for part in (asked, talk))
    with _clock(counts, "linking"):
        rows = conversations.frame(threads.build(asked, talk, job.rules, mentions(job.items)))
    with _clock(counts, "language"):
        marks = language.marks(rows).with_columns(replaced=_placeholders(rows))
    rows.write_parquet(folder / "conversations.parquet")
    marks.select(list(_MARKS)).write_parquet(folder / "marks.parquet")
    tables.DROPS.frame(drops).write_parquet(folder / "drops.parquet")
    elsewhere = comments.height - talk.height - len(left)
    counts.update(requests=rows.height, replies=talk.height, comments_on_no_request=elsewhere)
    return dict(counts)


def _without_names(posts: pl.DataFrame, names: dict[str, list[str]], job: Job, counts: Counter[str]) -> pl.DataFrame:
    """Posts of conversations in another post of which a name was hidden (`names`: link -> their keys): here it is, too.

    The first pass sees each post alone, and may keep no name for the second.
    """
    at = posts["link"].is_in(list(names)).arg_true()
    for column in ("title", "text") if at.len() else ():
        texts, links, known = posts[column].gather(at), posts["link"].gather(at), privacy.Known(set)
        for text, link in zip(texts, links, strict=True):
            words = {word.removesuffix("'s").removesuffix("’s") for word in _WORD.findall((text or "").casefold())}
            known[link] |= {word for word in words if _name_key(word, job) in names[link]}
        clean, found = privacy.redact_all(texts, links, titles(job.items), known=known)
        posts = posts.with_columns(posts[column].clone().scatter(at, clean))
        counts.update({f"replaced_{kind}": n for kind, n in found.items()})
    return posts


def _placeholders(rows: pl.DataFrame) -> pl.Series:
    texts = pl.col("turns").list.eval(pl.element().struct["text"]).list.join("\n")
    return rows.select(texts.str.count_matches(mine.PLACEHOLDER).cast(pl.Int32)).to_series()


# ---- the catalog, once per process


@cache
def _finder(items: Path) -> tuple[catalog.Finder, dict[str, str]]:
    frame = _read(items)
    # an item's first ref is its own row's: an id of another collection may turn out to be another item's
    return catalog.finder(frame), dict(frame.select("item", pl.col("refs").list.first()).iter_rows())


def mentions(items: Path | None) -> threads.Items:
    """A text -> refs of the catalog's items that it names."""
    if items is None:
        return lambda text: []
    finder, names = _finder(items)
    return lambda text: list(dict.fromkeys(names[m.item] for m in catalog.in_text(finder, text) if m.item))


def titles(items: Path | None) -> privacy.Titles | None:
    """Where a text names items of the catalog: no placeholder may take their place."""
    if items is None:
        return None
    finder, _ = _finder(items)
    return lambda text: [(m.start, m.end) for m in catalog.in_text(finder, text)]
