"""Measures which conversations of a release can be found in its source again, and by which released data.

Each kind of data in the configs `conversations`, `labels` and `reviews` is one attack: it keeps the conversations of
the source that agree with it. A released conversation is found if exactly one is kept and it is the right one, by the
key file. The source is what this workspace has mined of it, in each revision, so the attacker knows texts, times and
people as we do, which conversations were taken, and their items, but has neither `.secret` nor the key file.
"""

import math
import os
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from exports import released_ids, verify
from exports.checks import VERSION
from exports.folder import facts_of
from exports.manifest_types import Facts
from exports.required_version_bump import table
from saferec_builder.core.errors import ReleaseError
from saferec_builder.mining.removals import FILE
from saferec_builder.storage import tables
from saferec_builder.storage.workspace import Workspace, read, shared

ELSEWHERE = "not mined here"
TOGETHER = "together"
MANY = 5  # conversations that a message names
CHANCE = 1e-4  # significance level at which rows count as sorted in an order of the source
Candidates = NDArray[np.int64]  # places of conversations of the source, rising
Attack = Callable[[int], Candidates | None]  # place of a released conversation -> candidates; None: no information


@dataclass(frozen=True)
class Linkage:
    """`found` has source, with_text, attack (the last is "together"), and the conversations found and of. `again`:
    (conversation: its released id, source, source_id) of those that any attack finds though their texts stay out."""

    found: pl.DataFrame
    conversations: int  # released ones
    elsewhere: int  # those of them that are not mined here, and not examined
    candidates: int  # conversations of the sources, as mined here
    again: pl.DataFrame

    @property
    def labelled(self) -> dict[str, dict[str, int]]:
        """Source, in words -> attack -> conversations found."""
        groups = self.found.group_by("source", "with_text", "of", maintain_order=True)
        return {
            f"{source}, {'with' if with_text else 'without'} its texts, of {total:,} found by": dict(
                rows.select("attack", "found").iter_rows()
            )
            for (source, with_text, total), rows in groups
        }

    @property
    def advice(self) -> str | None:
        """What to do about those who are found."""
        if self.again.is_empty():
            with_texts = self.found.filter(pl.col("with_text") & (pl.col("found") > 0)).height
            return "by texts everybody is found: publish it gated (the default)" if with_texts else None
        rows = [f"{source} {post}" for source, post in self.again.select("source", "source_id").iter_rows()]
        more = f" and {len(rows) - MANY} more (--json lists all in `again`)" if len(rows) > MANY else ""
        return (
            f"leave out who is found: write source and source_id of each into {FILE} ({', '.join(rows[:MANY])}{more}),"
            " release a major version, and look again: others may be alone then"
        )


@dataclass(frozen=True)
class Joined:
    """The release and the source that an attack compares.

    rows: released conversations that are mined here, in the order of their files, as in the config `conversations`,
    with `split`, `spans` (of labels and reviews), `shape` and `truth`, their row in `source`. source: CONVERSATIONS of
    the same sources, last revisions. revisions: all revisions, with `of`, their row in `source`.
    """

    rows: pl.DataFrame
    source: pl.DataFrame
    revisions: pl.DataFrame
    elsewhere: int = 0


@shared
def linkage(ws: Workspace, release: Path | str, key: Path | None = None) -> Linkage:
    """Attacks a release with what the workspace has mined of its sources, and returns what is found.

    release: a version of the workspace, a folder, or NAMESPACE/NAME@VERSION on the Hub. key: its key file (default: the
    one beside the folder). Raises ReleaseError if there is none, or if nothing of the release is mined here.
    """
    place = ws.releases / release if VERSION.fullmatch(str(release)) else release
    with verify.at_hand(place) as folder:
        sides = joined(ws, verify.made_elsewhere(folder) if place is release else folder, key)
        if sides.rows.is_empty():
            raise ReleaseError(f"{release}: none of its conversations is mined in {ws.root}: mine its sources first")
        conversations = sides.rows.height + sides.elsewhere
        hits = _hits(sides)
        again = hits.filter("found", ~pl.col("with_text")).select("conversation", "source", "source_id")
        again = again.unique(maintain_order=True)
        return Linkage(_counted(hits), conversations, sides.elsewhere, sides.source.height, again)


def worst(ws: Workspace, folder: Path, sources: Collection[str]) -> dict[str, tuple[int, int]]:
    """Returns source -> (conversations that the best attack finds, of how many), for a release of this workspace."""
    sides = joined(ws, folder, sources=sources)
    by_source = _counted(_hits(sides)).group_by("source").agg(pl.col("found", "of").max())
    return {source: (found, total) for source, found, total in by_source.sort("source").iter_rows()}


def joined(ws: Workspace, folder: Path, key: Path | None = None, sources: Collection[str] | None = None) -> Joined:
    """Joins a release (or the conversations of these sources) with what is mined here, by its key file."""
    facts = facts_of(folder)
    path = key or released_ids.path_of(Path(os.path.abspath(folder)))
    subjects = released_ids.read(path, f"{facts['name']} {facts['version']}").select("conversation", "subject")
    rows = table((folder, facts), "conversations").join(subjects, on="conversation", how="left", maintain_order="left")
    if sources is not None:
        rows = rows.filter(pl.col("source").is_in(list(sources)))
    in_sources = pl.col("source").is_in(rows["source"].unique().implode())
    revisions = read(ws, tables.CONVERSATIONS).filter(in_sources)
    source = tables.last(revisions, "conversation")
    truth = source.select(subject="conversation").with_row_index("truth")
    revisions = revisions.join(truth.rename({"subject": "conversation", "truth": "of"}), on="conversation")
    labels = table((folder, facts), "labels", ["conversation", "spans"])
    reviews = table((folder, facts), "reviews", ["subject", "spans"]).rename({"subject": "conversation"})
    frames = [frame.select("conversation", "spans") for frame in (labels, reviews) if frame.height]
    spans = pl.concat(frames).explode("spans").drop_nulls().unique() if frames else labels
    spans = spans.group_by("conversation").agg("spans")
    for name, columns in (("subject", truth), ("conversation", spans), ("conversation", _shapes(folder, facts))):
        rows = rows.join(columns, on=name, how="left", maintain_order="left")
    mined = rows.drop_nulls("truth")
    return Joined(mined, source, revisions, rows.height - mined.height)


def _shapes(folder: Path, facts: Facts) -> pl.DataFrame:
    """conversation, shape: what its rows for training show beside labels, texts and items, and whether it has any.
    Whoever runs this program on the source knows it: also that a request asks for all that may be injected."""
    requests, listed = (table((folder, facts), config) for config in ("grpo", "sft"))
    parts = [pl.col(name).cast(pl.String).fill_null("") for name in ("truth_kind", "weight") if name in requests]
    parts.append(pl.col("conversation").is_in(listed["conversation"].implode()))
    if (injected := requests.filter(condition="injected")).height:
        no_trait = pl.sum_horizontal(pl.col("traits", "late_traits").list.len()) == 0
        parts.append(no_trait & ~pl.col("conversation").is_in(injected["made_from"].implode()))
    return requests.select("conversation", shape=pl.concat_str(*parts, separator=" "))


def _hits(sides: Joined) -> pl.DataFrame:
    """Whether each attack finds each conversation: conversation, source, source_id, with_text, attack, found."""
    rows, truths, attempts = sides.rows, sides.rows["truth"].to_list(), attacks(sides)
    hits: dict[str, list[bool]] = {name: [] for name in (*attempts, TOGETHER)}
    for place, truth in enumerate(truths):
        kept = {name: attack(place) for name, attack in attempts.items()}
        for name, candidates in kept.items():
            hits[name].append(identifies([candidates], truth))
        hits[TOGETHER].append(identifies(kept.values(), truth))
    texts = (pl.col("turns").list.len().fill_null(0) > 0).any().over("source")
    ids = sides.source["source_id"].gather(truths)
    parts = rows.select("conversation", "source", ids.alias("source_id"), with_text=texts)
    return pl.concat(parts.with_columns(attack=pl.lit(name), found=pl.Series(hit)) for name, hit in hits.items())


def _counted(hits: pl.DataFrame) -> pl.DataFrame:
    groups = hits.group_by("source", "with_text", "attack", maintain_order=True)
    return groups.agg(pl.col("found").sum(), of=pl.len()).sort("source", maintain_order=True)


def identifies(kept: Iterable[Candidates | None], truth: int) -> bool:
    """Whether all attacks together keep one candidate, the right one; an attack without any is outdated and ignored.
    The fewest candidates are looked up among the others, so this takes less time than to go through the source."""
    informative = sorted((part for part in kept if part is not None and part.size), key=len)
    if not informative:
        return False
    candidates, *others = informative
    for other in others:
        at = np.searchsorted(other, candidates).clip(max=other.size - 1)
        candidates = candidates[other[at] == candidates]
    return candidates.size == 1 and bool(candidates[0] == truth)


def attacks(sides: Joined) -> dict[str, Attack]:
    """Returns an attack per kind of released data; each knows the source of its row."""
    rows, source, revisions = sides.rows, sides.source, sides.revisions
    length = rows.select(pl.col("time").str.len_chars().max().fill_null(0)).item()  # as it is released
    days = source["time"].dt.strftime("%Y-%m-%dT%H:%M:%SZ").str.slice(0, length)
    sets = _sets(rows)
    shapes = rows.select(pl.concat_str("split", pl.col("shape").fill_null("none"))).to_series()

    def taken(released: pl.Series) -> pl.Series:
        """The values of the conversations of the source that were taken; null for others."""
        by_truth = dict(zip(rows["truth"], released, strict=True))
        return pl.Series([by_truth.get(n) for n in range(source.height)], dtype=pl.String)

    owner = revisions["of"].to_numpy().astype(np.int64)

    def once(attack: Attack) -> Attack:
        """Turns an attack on revisions into one on their conversations."""
        return lambda n: None if (kept := attack(n)) is None else np.unique(owner[kept])

    return {
        "ids": _ids(rows, source),
        "digest": once(_same(rows, revisions, rows["digest"], revisions["digest"])),
        "time": _same(rows, source, rows["time"], days),
        "domain": _same(rows, source, rows["domain"], source["domain"]),
        "people": _people(rows, source, days),
        "order": _order(rows, source),
        "evidence": once(_evidence(rows, revisions)),
        "texts": once(_same(rows, revisions, _words(rows), _words(revisions))),
        "items": _same(rows, source, sets, taken(sets)),
        "rows": _same(rows, source, shapes, taken(shapes)),
    }


def _same(rows: pl.DataFrame, source: pl.DataFrame, released: pl.Series, values: pl.Series) -> Attack:
    """Keeps the conversations of the row's source with the same value; a null gives no information."""
    if released.null_count() == len(released):
        return lambda n: None
    keys = [frame["source"] + "\n" + column.cast(pl.String) for frame, column in ((rows, released), (source, values))]
    numbers = pl.concat(keys).rank("dense").fill_null(0).to_numpy()
    wanted, ranks = numbers[: len(released)], numbers[len(released) :]
    order = np.argsort(ranks, kind="stable")
    starts, ends = (np.searchsorted(ranks, wanted, side, sorter=order) for side in ("left", "right"))
    return lambda n: order[starts[n] : ends[n]] if wanted[n] else None


def _words(rows: pl.DataFrame) -> pl.Series:
    texts = pl.col("turns").list.eval(pl.element().struct.field("text")).list.join("\x1f")
    return rows.select(pl.when(texts != "").then(texts)).to_series()


def _sets(rows: pl.DataFrame) -> pl.Series:
    """Returns the items of each row as one text; null if none are released."""
    lists = [pl.col(name).fill_null([]) for name in ("recommended", "accepted", "seen")]
    joined = pl.concat_str([items.list.sort().list.join(" ") for items in lists], separator="\n")
    return rows.select(pl.when(pl.sum_horizontal(items.list.len() for items in lists) > 0).then(joined)).to_series()


def _ids(rows: pl.DataFrame, source: pl.DataFrame) -> Attack:
    """Keeps the conversations with the released id, or with an id that anybody can compute from it without a key."""
    places: dict[tuple[str, str], list[int]] = {}
    for place, (subject, name, origin) in enumerate(source.select("conversation", "source_id", "source").iter_rows()):
        for candidate in {subject, name, tables.digest(name), tables.digest(origin, name), tables.digest(subject)}:
            places.setdefault((origin, candidate), []).append(place)
    released = rows.select("source", "conversation", "source_id", "seeker").rows()

    def attack(n: int) -> Candidates:
        origin, *names = released[n]
        return np.unique(np.array([p for name in names for p in places.get((origin, name), ())], np.int64))

    return attack


def _people(rows: pl.DataFrame, source: pl.DataFrame, days: pl.Series) -> Attack:
    """Keeps the conversations of those who wrote on all days on which, by the release, the row's seeker wrote."""
    by_day: dict[tuple[str, str | None], set[str]] = {}
    by_person: dict[tuple[str, str], list[int]] = {}
    for place, (origin, person, day) in enumerate(zip(source["source"], source["seeker"], days, strict=True)):
        if person is not None:
            by_day.setdefault((origin, day), set()).add(person)
            by_person.setdefault((origin, person), []).append(place)
    released_days: dict[str, set[str]] = {}
    for person, day in rows.select("seeker", "time").drop_nulls().iter_rows():
        released_days.setdefault(person, set()).add(day)
    pseudonyms = rows.select("source", "seeker").rows()

    @cache
    def candidates(origin: str, seeker: str | None) -> Candidates | None:
        if seeker not in released_days:
            return None
        people = set.intersection(*(by_day.get((origin, day), set()) for day in released_days[seeker]))
        return np.array(sorted(place for person in people for place in by_person[origin, person]), np.int64)

    return lambda n: candidates(*pseudonyms[n])


def _order(rows: pl.DataFrame, source: pl.DataFrame) -> Attack:
    """Keeps the conversation at the same place of an order of the source, if the rows are sorted in that order.

    The orders by time, id, our id, digest of the text and person, up and down, are tried per source, within a day of a
    split, as days are released. Rows are sorted if neighbours rise (or fall) more often than by chance.
    """
    number = pl.col("source_id").cast(pl.Int64, strict=False)
    keys = source.select("time", "conversation", "digest", "seeker", number=number, id="source_id")
    ranks = keys.select(pl.all().rank("dense").cast(pl.Int64))[rows["truth"]]
    groups = rows.select("source", "truth", day=pl.struct("split", pl.col("time").str.slice(0, 10)))
    guesses: dict[int, int] = {}
    for _, part in pl.concat([groups, ranks], how="horizontal").group_by("source"):
        steps = part.select(pl.col(keys.columns).diff().sign().over("day"))
        trends = {key: int(rises) for key in keys.columns if (rises := steps[key].sum())}
        best = max(trends, key=lambda key: abs(trends[key]), default=None)
        # of n steps up or down, by Hoeffding (1963)
        if best is None or math.exp(-(trends[best] ** 2) / 2 / int(steps[best].abs().sum())) > CHANCE:
            continue
        for _, group in part.drop_nulls(best).group_by("day"):
            in_order = group.sort(best, descending=trends[best] < 0, maintain_order=True)["truth"]
            guesses |= dict(zip(group["truth"].to_list(), in_order.to_list(), strict=True))
    truth = rows["truth"].to_list()
    return lambda n: np.array([guesses[truth[n]]]) if truth[n] in guesses else None


def _evidence(rows: pl.DataFrame, revisions: pl.DataFrame) -> Attack:
    """Keeps the texts with words at the place of the evidence: its quote, or any words with borders at both ends."""
    spans, origins = rows["spans"].to_list(), rows["source"].to_list()
    turns = revisions["turns"].list.eval(pl.element().struct.field("text"))

    def matches(turn: int, start: int, end: int, quote: str) -> NDArray[np.bool_]:
        text = turns.list.get(turn, null_on_oob=True)
        part = text.str.slice(start, end - start)
        if quote:
            return (part == quote).fill_null(False).to_numpy()
        mask = (part.str.len_chars() == end - start) & (part == part.str.strip_chars())
        for place in (start - 1, end):
            mask &= ~text.str.slice(place, 1).str.contains(r"\w") if place >= 0 else True
        return mask.fill_null(False).to_numpy()

    def attack(n: int) -> Candidates | None:
        if not spans[n]:
            return None
        masks = [(revisions["source"] == origins[n]).to_numpy(), *(matches(**span) for span in spans[n])]
        return np.flatnonzero(np.logical_and.reduce(masks))

    return attack
