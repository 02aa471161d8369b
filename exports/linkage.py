"""Who has the source of a release: which of its conversations do they find there again, and by what?

Each thing that the configs `conversations`, `labels` and `reviews` tell is one attack: it leaves the conversations of
the source with which it agrees. A released conversation is found where one is left and it is the right one, as the key
file tells. The source is what this workspace has mined of it, each revision, so the attacker knows texts, times and
people as we do, which conversations were taken, and what items are found in these. Neither `.secret` nor the key file
is theirs.
"""

import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from exports import released_ids, verify
from exports.checks import VERSION
from exports.folder import facts_of
from exports.required_version_bump import table
from saferec_builder.core.errors import ReleaseError
from saferec_builder.storage import tables
from saferec_builder.storage.workspace import Workspace, read, shared

ELSEWHERE = "not mined here"
TOGETHER = "together"
CHANCE = 1e-4  # so rarely rows stand in an order of the source that nobody gave them
Left = NDArray[np.bool_]  # of each conversation of the source: whether it may be the one
Attack = Callable[[int], Left | None]  # place of a released conversation -> what it leaves; None: it tells nothing


@dataclass(frozen=True)
class Linkage:
    """`found`: source, with_text, attack (the last is "together"), found, of: conversations."""

    found: pl.DataFrame
    conversations: int  # released ones
    elsewhere: int  # of these, those that are not mined here: nothing is said of them
    candidates: int  # conversations of the sources, as mined here


@dataclass(frozen=True)
class Joined:
    """Both sides of the attack.

    rows: released conversations that are mined here, in the order of their files, as in the config `conversations`,
    with `split`, `spans` (of labels and reviews) and `truth`, their row in `source`. source: CONVERSATIONS of the same
    sources, last revisions. revisions: all of these, with `of`, the row in `source`.
    """

    rows: pl.DataFrame
    source: pl.DataFrame
    revisions: pl.DataFrame
    elsewhere: int = 0


@shared
def linkage(ws: Workspace, release: Path | str, key: Path | None = None) -> Linkage:
    """Holds a release against what the workspace has mined of its sources.

    release: a version of the workspace, a folder, or NAMESPACE/NAME@VERSION of the Hub. key: its key file, which says
    who is right; the one beside the folder if None. ReleaseError where there is none, or nothing of the release is
    mined here.
    """
    here = ws.releases / release if VERSION.fullmatch(str(release)) else release
    with verify.at_hand(here) as home:
        both = joined(ws, home, key)
        if both.rows.is_empty():
            raise ReleaseError(f"{release}: none of its conversations is mined in {ws.root}: mine its sources first")
        many = both.rows.height + both.elsewhere
        return Linkage(_found(both.rows, attacks(both)), many, both.elsewhere, both.source.height)


def joined(ws: Workspace, home: Path, key: Path | None = None) -> Joined:
    """A release beside what is mined here, by its key file."""
    facts = facts_of(home)
    at = key or released_ids.path_of(Path(os.path.abspath(home)))
    held = released_ids.read(at, f"{facts['name']} {facts['version']}").select("conversation", "subject")
    rows = table((home, facts), "conversations").join(held, on="conversation", how="left", maintain_order="left")
    of = pl.col("source").is_in(rows["source"].unique().implode())
    revisions = read(ws, tables.CONVERSATIONS).filter(of)
    source = tables.last(revisions, "conversation")
    truth = source.select(subject="conversation").with_row_index("truth")
    revisions = revisions.join(truth.rename({"subject": "conversation", "truth": "of"}), on="conversation")
    labels = table((home, facts), "labels", ["conversation", "spans"])
    reviews = table((home, facts), "reviews", ["subject", "spans"]).rename({"subject": "conversation"})
    said = [one.select("conversation", "spans") for one in (labels, reviews) if one.height]
    spans = pl.concat(said).explode("spans").drop_nulls().unique() if said else labels
    spans = spans.group_by("conversation").agg("spans")
    for name, more in (("subject", truth), ("conversation", spans)):
        rows = rows.join(more, on=name, how="left", maintain_order="left")
    here = rows.drop_nulls("truth")
    return Joined(here, source, revisions, rows.height - here.height)


def _found(rows: pl.DataFrame, of: dict[str, Attack]) -> pl.DataFrame:
    hits: dict[str, list[bool]] = {name: [] for name in (*of, TOGETHER)}
    for place, truth in enumerate(rows["truth"].to_list()):
        left = {name: attack(place) for name, attack in of.items()}
        for name, one in left.items():
            hits[name].append(alone([one], truth))
        hits[TOGETHER].append(alone(left.values(), truth))
    texts = (pl.col("turns").list.len().fill_null(0) > 0).any().over("source")
    parts = rows.select("source", with_text=texts)
    every = pl.concat(parts.with_columns(attack=pl.lit(name), found=pl.Series(hit)) for name, hit in hits.items())
    by = every.group_by("source", "with_text", "attack", maintain_order=True)
    return by.agg(pl.col("found").sum(), of=pl.len()).sort("source", maintain_order=True)


def alone(left: Iterable[Left | None], truth: int) -> bool:
    """Whether one candidate is left by all of these, and the right one. What leaves nobody is out of date, and tells
    nothing."""
    said = [one for one in left if one is not None and one.any()]
    both = np.logical_and.reduce(said) if said else np.zeros(0, np.bool_)
    return bool(both.sum() == 1 and both[truth])


def attacks(both: Joined) -> dict[str, Attack]:
    """What each thing that is released leaves of the source; each row's source is told."""
    rows, source, revisions = both.rows, both.source, both.revisions
    exact = rows.select(pl.col("time").str.len_chars().max().fill_null(0)).item()  # as it is released
    days = source["time"].dt.strftime("%Y-%m-%dT%H:%M:%SZ").str.slice(0, exact)
    sets = _sets(rows)
    known = dict(zip(rows["truth"], sets, strict=True))
    items = pl.Series([known.get(n) for n in range(source.height)], dtype=pl.String)
    owner = revisions["of"].to_numpy()

    def once(attack: Attack) -> Attack:
        """Of revisions, as an attack on their conversations."""
        return lambda n: None if (left := attack(n)) is None else _these(source.height, owner[left])

    found = {
        "ids": _ids(rows, source),
        "digest": once(_same(rows["digest"], revisions["digest"])),
        "time": _same(rows["time"], days),
        "people": _people(rows, source["seeker"], days),
        "order": _order(rows, source),
        "evidence": once(_evidence(rows, revisions)),
        "texts": once(_same(_words(rows), _words(revisions))),
        "items": _same(sets, items),
    }
    within = _same(rows["source"], source["source"])
    return {name: _and(attack, within) for name, attack in found.items()}


def _and(attack: Attack, other: Attack) -> Attack:
    def both(n: int) -> Left | None:
        left, also = attack(n), other(n)
        return left if left is None or also is None else left & also

    return both


def _same(ours: pl.Series, theirs: pl.Series) -> Attack:
    """Leaves what has the same value; a null tells nothing."""
    numbers = pl.concat([ours.cast(pl.String), theirs.cast(pl.String)]).rank("dense").fill_null(0).to_numpy()
    here, there = numbers[: len(ours)], numbers[len(ours) :]
    return lambda n: there == here[n] if here[n] else None


def _these(height: int, places: Sequence[int] | NDArray[np.uint32]) -> Left:
    left = np.zeros(height, np.bool_)
    left[np.asarray(places, np.int64)] = True
    return left


def _words(rows: pl.DataFrame) -> pl.Series:
    texts = pl.col("turns").list.eval(pl.element().struct.field("text")).list.join("\x1f")
    return rows.select(pl.when(texts != "").then(texts)).to_series()


def _sets(rows: pl.DataFrame) -> pl.Series:
    """The items of each row as one text; null where none are released."""
    lists = [pl.col(name).fill_null([]) for name in ("recommended", "accepted", "seen")]
    each = pl.concat_str([one.list.sort().list.join(" ") for one in lists], separator="\n")
    return rows.select(pl.when(pl.sum_horizontal(one.list.len() for one in lists) > 0).then(each)).to_series()


def _ids(rows: pl.DataFrame, source: pl.DataFrame) -> Attack:
    """Leaves what has the released id, or any that is computed of it without a key."""
    known: dict[str, list[int]] = {}
    for n, (subject, name, where) in enumerate(source.select("conversation", "source_id", "source").iter_rows()):
        for one in {subject, name, tables.digest(name), tables.digest(where, name), tables.digest(subject)}:
            known.setdefault(one, []).append(n)
    released = rows.select("conversation", "source_id", "seeker").rows()
    return lambda n: (
        _these(source.height, at) if (at := [x for one in released[n] for x in known.get(one, ())]) else None
    )


def _people(rows: pl.DataFrame, seekers: pl.Series, days: pl.Series) -> Attack:
    """Leaves what is by whoever wrote on all the days on which, as is released, this person did."""
    authors = seekers.rank("dense").fill_null(0).to_numpy()  # 0: nobody is named
    wrote: dict[str, set[int]] = {}
    for who, day in zip(authors.tolist(), days, strict=True):
        wrote.setdefault(day or "", set()).add(who)
    shown: dict[str, set[str]] = {}
    for who, day in rows.select("seeker", "time").drop_nulls().iter_rows():
        shown.setdefault(who, set()).add(day)
    named = rows["seeker"].to_list()

    @cache
    def able(who: str) -> list[int]:
        return sorted(set.intersection(*(wrote.get(day, set()) for day in shown[who])) - {0})

    return lambda n: np.isin(authors, able(named[n])) if named[n] in shown else None


def _order(rows: pl.DataFrame, source: pl.DataFrame) -> Attack:
    """Leaves the one that stands at the same place of an order of the source, where rows stand in it.

    Tried are time, id, our id, text's digest and person, up and down, for each source by itself; within a day of a
    split, since days are told. They do where neighbours rise (or fall) more often than by chance.
    """
    number = pl.col("source_id").cast(pl.Int64, strict=False)
    keys = source.select("time", "conversation", "digest", "seeker", number=number, id="source_id")
    ranks = keys.select(pl.all().rank("dense").cast(pl.Int64))[rows["truth"]]
    of = rows.select("source", "truth", day=pl.struct("split", pl.col("time").str.slice(0, 10)))
    at: dict[int, int] = {}
    for _, part in pl.concat([of, ranks], how="horizontal").group_by("source"):
        steps = part.select(pl.col(keys.columns).diff().sign().over("day"))
        ways = {key: int(rises) for key in keys.columns if (rises := steps[key].sum())}
        best = max(ways, key=lambda key: abs(ways[key]), default=None)
        # of n steps up or down, by Hoeffding (1963)
        if best is None or math.exp(-(ways[best] ** 2) / 2 / int(steps[best].abs().sum())) > CHANCE:
            continue
        for _, one in part.drop_nulls(best).group_by("day"):
            there = one.sort(best, descending=ways[best] < 0, maintain_order=True)["truth"]
            at |= dict(zip(one["truth"].to_list(), there.to_list(), strict=True))
    truth = rows["truth"].to_list()
    return lambda n: _these(source.height, [at[truth[n]]]) if truth[n] in at else None


def _evidence(rows: pl.DataFrame, revisions: pl.DataFrame) -> Attack:
    """Leaves the texts in which words stand where evidence does: its quote, or any words from border to border."""
    spans = rows["spans"].to_list()
    turns = revisions["turns"].list.eval(pl.element().struct.field("text"))

    def stands(turn: int, start: int, end: int, quote: str) -> Left:
        text = turns.list.get(turn, null_on_oob=True)
        cut = text.str.slice(start, end - start)
        if quote:
            return (cut == quote).fill_null(False).to_numpy()
        whole = (cut.str.len_chars() == end - start) & (cut == cut.str.strip_chars())
        for at in (start - 1, end):
            whole &= ~text.str.slice(at, 1).str.contains(r"\w") if at >= 0 else True
        return whole.fill_null(False).to_numpy()

    def left(n: int) -> Left | None:
        said = [stands(one["turn"], one["start"], one["end"], one["quote"]) for one in spans[n] or ()]
        return np.logical_and.reduce(said) if said else None

    return left
