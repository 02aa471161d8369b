"""Turns Reddit dumps into conversations, in two passes over shards, each of which can be killed and run again.

file -> posts of the configured subreddits, with placeholders and pseudonyms, in buckets by submission
bucket -> requests, the comments from and to their seekers, conversations
The first pass replaces names and personal data before anything that an author wrote reaches the disk.
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
from saferec_builder.catalog.same_work import medium
from saferec_builder.core.json_value import JsonValue
from saferec_builder.mining import conversations as mine, language, privacy, removals as wishes
from saferec_builder.mining.privacy import names as given_names
from saferec_builder.sources import Read, Rows, conversation_rows as conversations, reddit, threads
from saferec_builder.sources.input_files import places
from saferec_builder.storage import parallel as engine, tables

_SMALL = 32 << 20  # bytes of dumps: for fewer, a second process is not worth its start
_BUFFERED = 20_000  # posts and drops that a worker holds before it writes them
_PART = 2 << 20  # compressed bytes of conversations that the command holds at once
_NAMED = 5  # other subreddits that are named
_LAST = "last.txt"  # in the folder of the shards: what the last run put into the names of its shards and its catalog
_FORMAT = 9  # version of the content of shards: raise it with the content or the finder of titles
# names: keyed digests of the names that were hidden in the post
_POSTS = pl.Schema({**reddit.POSTS, "names": pl.List(pl.String)})
_MARKS = pl.Schema({c: kind for c, kind in tables.MARKS.schema.items() if c != "revision"})
_WRITTEN = {"conversations": conversations.SCHEMA, "marks": _MARKS, "drops": tables.DROPS.schema}


@dataclass(frozen=True)
class Job:
    """The settings of every shard; small, since it is sent to each worker."""

    rules: threads.Rules
    secret: bytes
    removals: wishes.Removals
    buckets: int
    items: Path | None  # the merged catalog

    @property
    def mark(self) -> str:
        """For the names of shards: a digest of removals, catalog, secret, rules, buckets and the searches of texts."""
        items = self.items.stem if self.items else ""
        names = [sorted(self.removals.ids), sorted(self.removals.authors)]
        names += [sorted(self.removals.forgotten)] if self.removals.forgotten else []
        secret_check = mine.pseudonym("", "", self.secret)
        searches = (privacy.rules(), language.rules())
        return tables.digest(_FORMAT, str(self.rules), secret_check, names, self.buckets, items, *searches)


_WORD = re.compile(given_names.LOW)
Part = tuple[Read, pl.DataFrame]


def read(
    files: list[Path], job: Job, folder: Path, how: engine.How
) -> tuple[Iterator[Part], dict[str, JsonValue], dict[str, float], pl.DataFrame]:
    """Returns (parts: conversations with pseudonyms, drops, and marks; figures; CPU seconds per step; rows of HONOURED
    for the names of removals.csv that are in the files).

    A conversation is in one part only.
    """
    if how.workers is None and sum(path.stat().st_size for path in files) < _SMALL:
        how = replace(how, workers=1)
    mark = job.mark
    folder.mkdir(exist_ok=True)
    (folder / _LAST).write_text(f"{mark} {job.items.name if job.items else ''}", encoding="utf-8")
    shards = {f"file-{mark}-{_identity(path, place)}": (path, place, job) for path, place in places(files)}
    first = engine.map_shards(read_file, shards, folder, how)
    parts = [folder / name for name in first]
    first_pass = tables.digest(sorted(first))
    buckets = {f"bucket-{mark}-{first_pass}-{n:05d}": (parts, n, job) for n in range(job.buckets)}
    second = engine.map_shards(join_bucket, buckets, folder, how)
    names = {name for facts in first.values() for name in facts.pop("met")}
    elsewhere = Counter(name for facts in first.values() for name in facts.pop("elsewhere", ()))
    honoured = pl.DataFrame([(reddit.SOURCE, name) for name in sorted(names)], tables.HONOURED.schema, orient="row")
    figures: Counter[str] = Counter()
    for facts in (*first.values(), *second.values()):
        figures.update(facts)
    if figures["lines"]:
        others = figures["lines"] - figures["lines_rejected"] - figures["posts"]
        figures["lines_of_other_subreddits_blank_or_removed"] = others
    counted: dict[str, JsonValue] = {k: int(v) for k, v in sorted(figures.items()) if not k.startswith("seconds_")}
    if elsewhere:
        listed = ", ".join(name for name, _ in elsewhere.most_common(_NAMED))
        counted["other_subreddits"] = f"{listed}: add those that you want to [reddit] subreddits in saferec.toml"
    seconds = {k.removeprefix("seconds_"): float(v) for k, v in sorted(figures.items()) if k.startswith("seconds_")}
    return _parts([folder / name for name in (*first, *second)]), counted, seconds, honoured


def _parts(shards: list[Path]) -> Iterator[Part]:
    """The content of the shards; small ones are joined."""
    batch: list[Path] = []
    size = 0
    for shard in shards:
        batch.append(shard)
        size += sum(path.stat().st_size for name in _WRITTEN for path in shard.glob(f"{name}*.parquet"))
        if size > _PART or shard is shards[-1]:
            rows, marks, drops = (_table(batch, name) for name in _WRITTEN)
            yield Read(rows, drops), marks
            batch, size = [], 0


_read = partial(pl.read_parquet, glob=False)  # the workspace's folder may be called "team[1]"


def _table(shards: list[Path], name: str) -> pl.DataFrame:
    paths = [path for shard in shards for path in sorted(shard.glob(f"{name}*.parquet"))]
    return pl.concat([pl.DataFrame(schema=_WRITTEN[name]), *map(_read, paths)])


def _identity(path: Path, place: str) -> str:
    stat = path.stat()
    return tables.digest(place, stat.st_size, stat.st_mtime_ns)


def remove_outdated(folder: Path) -> None:
    """Removes shards that no run uses again, as removals, catalog, secret or rules are others than in the last run, and
    earlier catalogs. No run may be at work: it could be reading them."""
    if not (folder / _LAST).exists():  # `forget` has emptied the folder since
        return
    kept = (folder / _LAST).read_text(encoding="utf-8").split()
    for path in folder.glob("*-*"):
        if not any(name in path.name for name in kept):
            engine.remove(path)


@contextmanager
def _clock(seconds: Counter[str], step: str) -> Iterator[None]:
    start = time.process_time()
    yield
    seconds[f"seconds_{step}"] += time.process_time() - start  # type: ignore[assignment]


# ---- first pass: a file


def read_file(work: tuple[Path, str, Job], folder: Path) -> dict[str, Any]:
    """Writes posts-BUCKET-N.parquet and drops-N.parquet; returns counts of the lines and posts."""
    path, place, job = work
    names = set[str]()
    tally, counts, buffer = reddit.Tally(), Counter[str](), _Buffer(folder, job.buckets)
    blocks = reddit.read(path, job.rules.subreddits, tally, place)
    while True:
        with _clock(counts, "reading"):
            block = next(blocks, None)
        if block is None:
            break
        posts, rejects = block
        named = posts.with_columns(source=pl.lit(reddit.SOURCE))
        ids, people = (named.select("source", name=column).drop_nulls() for column in ("post", "author"))
        names.update(wishes.met(job.removals, ids, people, job.secret)["who"])
        posts, removed = _without_removed(posts, job.removals)
        with _clock(counts, "privacy"):
            posts = _redacted(posts, job, counts)
        counts.update(removed=len(removed), lines_rejected=len(rejects))
        with _clock(counts, "writing"):
            buffer.add(posts, tables.DROPS.frame(rejects + removed))
    with _clock(counts, "writing"):
        buffer.write()
    counts.update(lines=tally.lines, posts=tally.passed - counts.pop("removed"))
    wanted = {name.lower() for name in job.rules.subreddits}
    others = [name for name, _ in tally.first.most_common() if name.lower() not in wanted]
    elsewhere = [name for name in others if not name.startswith("u_")][:_NAMED]  # u_... is the page of a person
    return {**counts, "met": sorted(names), "elsewhere": elsewhere}


@dataclass
class _Buffer:
    """Collects posts and drops until they are enough for files of their own."""

    folder: Path
    buckets: int
    posts: list[pl.DataFrame] = field(default_factory=list)
    drops: list[pl.DataFrame] = field(default_factory=list)
    written: int = 0

    def add(self, posts: pl.DataFrame, drops: pl.DataFrame) -> None:
        self.posts.append(posts)
        self.drops.append(drops)
        if sum(frame.height for frame in (*self.posts, *self.drops)) > _BUFFERED:
            self.write()

    def write(self) -> None:
        """Writes files by bucket. A bucket holds whole submissions, so a reply is in the bucket of its parent."""
        posts = pl.concat([pl.DataFrame(schema=_POSTS), *self.posts])
        buckets = {link: int(tables.digest(link), 16) % self.buckets for link in posts["link"].unique()}
        table = pl.DataFrame(list(buckets.items()), {"link": pl.String, "_bucket": pl.Int64}, orient="row")
        by_bucket = posts.join(table, "link", "left", maintain_order="left").partition_by("_bucket", as_dict=True)
        for (bucket,), part in by_bucket.items():
            part.drop("_bucket").write_parquet(self.folder / f"posts-{bucket}-{self.written}.parquet")
        pl.concat([tables.DROPS.empty, *self.drops]).write_parquet(self.folder / f"drops-{self.written}.parquet")
        self.posts, self.drops, self.written = [], [], self.written + 1


def _without_removed(posts: pl.DataFrame, removals: wishes.Removals) -> tuple[pl.DataFrame, Rows]:
    ids = removals.ids_in(reddit.SOURCE, posts["post"])
    authors = removals.people_in(reddit.SOURCE, posts["author"])
    is_removed = pl.col("post").is_in(ids) | pl.col("author").is_in(authors)
    places = posts.filter(is_removed)["place"]
    return posts.filter(~is_removed), [sources.drop("mine", reddit.SOURCE, place, wishes.REMOVED) for place in places]


def _redacted(posts: pl.DataFrame, job: Job, counts: Counter[str]) -> pl.DataFrame:
    columns = ("title", "text", "flair")  # in some forums authors write their own flair
    indexes = pl.int_range(posts.height, eager=True)
    conversation = pl.concat([indexes] * len(columns))
    texts, hidden_names = pl.concat([posts[c].rename("") for c in columns]), privacy.Known(set)
    clean, replacements = privacy.redact_all(texts, conversation, _titles(job.items), known=hidden_names)
    counts.update({f"replaced_{kind}": n for kind, n in replacements.items()})
    redacted = {c: clean.slice(n * posts.height, posts.height) for n, c in enumerate(columns)}
    names = [sorted(_name_key(name, job) for name in hidden_names[n]) for n in indexes]
    table = posts.with_columns(pl.Series("names", names, _POSTS["names"]), source=pl.lit(reddit.SOURCE), **redacted)
    return mine.pseudonyms(table, job.secret, "author").select(list(_POSTS))


def _name_key(name: str, job: Job) -> str:
    return mine.pseudonym(reddit.SOURCE, f"name {name}", job.secret)


# ---- second pass: a bucket


def join_bucket(work: tuple[list[Path], int, Job], folder: Path) -> dict[str, Any]:
    """Writes conversations, marks and drops of the requests whose submissions are in this bucket."""
    parts, number, job = work
    counts, drops = Counter[str](), list[dict[str, Any]]()
    with _clock(counts, "threads"):
        paths = [path for part in parts for path in sorted(part.glob(f"posts-{number}-*.parquet"))]
        posts = pl.concat([pl.DataFrame(schema=_POSTS), *map(_read, paths)])
        posts, repeated = threads.once(posts)
        requests, others = threads.requests(posts.filter(pl.col("parent").is_null()), job.rules)
        comments = posts.filter(pl.col("parent").is_not_null())
        talk, unjoined = threads.joined(requests, comments)
        drops = repeated + others + unjoined
    with _clock(counts, "privacy"):
        keys = pl.concat([requests.select("link", "names"), talk.select("link", "names")]).explode("names").drop_nulls()
        names = dict(keys.group_by("link").agg("names").iter_rows())
        requests, talk = (_without_names(part, names, job, counts) for part in (requests, talk))
    with _clock(counts, "linking"):
        rows = conversations.frame(threads.build(requests, talk, job.rules, mentions(job.items)))
    with _clock(counts, "language"):
        texts = rows.select(pl.col("turns").list.eval(pl.element().struct["text"]).list.join("\n")).to_series()
        marks = language.marks(rows).with_columns(replaced=texts.str.count_matches(mine.PLACEHOLDER).cast(pl.Int32))
    rows.write_parquet(folder / "conversations.parquet")
    marks.select(list(_MARKS)).write_parquet(folder / "marks.parquet")
    tables.DROPS.frame(drops).write_parquet(folder / "drops.parquet")
    no_request = comments.height - talk.height - len(unjoined)
    counts.update(requests=rows.height, replies=talk.height, comments_on_no_request=no_request)
    return dict(counts)


def _without_names(posts: pl.DataFrame, names: dict[str, list[str]], job: Job, counts: Counter[str]) -> pl.DataFrame:
    """Hides in each post the names that were hidden in another post of its conversation (`names`: link -> their keys).

    The first pass sees each post alone, and may store no name for the second.
    """
    places = posts["link"].is_in(list(names)).arg_true()
    for column in ("title", "text") if places.len() else ():
        texts, links, hidden_names = posts[column].gather(places), posts["link"].gather(places), privacy.Known(set)
        for text, link in zip(texts, links, strict=True):
            words = {word.removesuffix("'s").removesuffix("’s") for word in _WORD.findall((text or "").casefold())}
            hidden_names[link] |= {word for word in words if _name_key(word, job) in names[link]}
        clean, replacements = privacy.redact_all(texts, links, _titles(job.items), known=hidden_names)
        posts = posts.with_columns(posts[column].clone().scatter(places, clean))
        counts.update({f"replaced_{kind}": n for kind, n in replacements.items()})
    return posts


# ---- the catalog, once per process


@cache
def _finder(items: Path) -> tuple[catalog.Finder, dict[str, tuple[str, str]]]:
    """The finder of the items, and item -> (its own ref, its medium)."""
    frame = _read(items)
    # an item's first ref is that of its own row: a ref from another collection may later belong to another item
    own = frame.select("item", pl.col("refs").list.first(), "domain")
    return catalog.finder(frame), {item: (ref, medium(domain)) for item, ref, domain in own.iter_rows()}


def mentions(items: Path | None) -> threads.Items:
    """A function: a text -> refs of the catalog's items that it names. In a forum about games these are games only, in
    one about films or series none is a game or a book: nearly all others are words of another title ("To the Moon").
    """
    if items is None:
        return lambda text, domain: []
    finder, names = _finder(items)

    def named(text: str, domain: str | None) -> list[str]:
        hits = [names[m.item] for m in catalog.in_text(finder, text) if m.item]
        return list(dict.fromkeys(ref for ref, of in hits if domain is None or of == medium(domain)))

    return named


def _titles(items: Path | None) -> privacy.Titles | None:
    return None if items is None else catalog.spans(lambda: _finder(items)[0])
