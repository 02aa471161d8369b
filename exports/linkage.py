"""Who has the source of a release: which of its conversations do they find there again, and by what?

Each thing that is released is one attack: it leaves the conversations of the source with which it agrees. A released
conversation is found where one is left and it is the right one, as the key file tells. The source is what this
workspace has mined of it, so the attacker knows texts, times and people as we do, and of what is released even the
items. Neither `.secret` nor the key file is theirs.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from exports import released_ids, verify
from exports.folder import facts_of
from exports.formats import NAMED
from exports.required_version_bump import table
from saferec_builder.core.errors import ReleaseError
from saferec_builder.storage import tables
from saferec_builder.storage.workspace import Workspace, read, shared

ELSEWHERE = "not mined here"
TOGETHER = "together"
Left = NDArray[np.bool_]  # of each conversation of the source: whether it may be the one
Attack = Callable[[int], Left | None]  # place of a released conversation -> what it leaves; None: it tells nothing


@dataclass(frozen=True)
class Linkage:
    """`found`: source, with_text, attack (the last is "together"), found, of: conversations."""

    found: pl.DataFrame
    conversations: int  # released ones
    elsewhere: int  # of these, those that are not mined here: nothing is said of them
    candidates: int  # conversations of the sources, as mined here


@shared
def linkage(ws: Workspace, release: Path | str, key: Path | None = None) -> Linkage:
    """Holds a release against what the workspace has mined of its sources.

    release: a folder, or NAMESPACE/NAME@VERSION of the Hub. key: its key file, which says who is right; the one beside
    the folder if None. ReleaseError where there is none, or nothing of the release is mined here.
    """
    with verify.at_hand(release) as home:
        rows, source = joined(ws, home, key)
        ours = rows.drop_nulls("truth")
        if ours.is_empty():
            raise ReleaseError(f"{release}: none of its conversations is mined in {ws.root}: mine its sources first")
        found = _found(ours, attacks(ours, source))
        return Linkage(found, rows.height, rows.height - ours.height, source.height)


def joined(ws: Workspace, home: Path, key: Path | None = None) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(released conversations in the order of their files, conversations of the source).

    The first as in the config `conversations`, with `spans` (evidence of all its labels), `items` (what it is about,
    from the key file where it is not released), `shows` (whether items are released) and `truth` (its row in the
    second; null where it is not mined here). The second are CONVERSATIONS, last revisions, of the sources of the first.
    """
    facts = facts_of(home)
    held = released_ids.read(key or released_ids.path_of(home), f"{facts['name']} {facts['version']}")
    rows = table((home, facts), "conversations")
    labels = table((home, facts), "labels", ["conversation", "spans"]).explode("spans").drop_nulls()
    spans = labels.group_by("conversation").agg("spans")
    source = tables.last(read(ws, tables.CONVERSATIONS), "conversation").filter(
        pl.col("source").is_in(rows["source"].unique().implode())
    )
    at = source.select(subject="conversation").with_row_index("truth")
    known = held.select("conversation", "subject", **{f"key_{name}": name for name in NAMED})
    rows = rows.join(known, on="conversation", how="left", maintain_order="left")
    rows = rows.join(at, on="subject", how="left", maintain_order="left")
    rows = rows.join(spans, on="conversation", how="left", maintain_order="left")
    shown, kept = (_sets(rows, prefix) for prefix in ("", "key_"))
    return rows.with_columns(items=pl.when(shown != "").then(shown).otherwise(kept), shows=shown != ""), source


def _sets(rows: pl.DataFrame, prefix: str) -> pl.Series:
    """The items of each row as one text; empty where there are none."""
    lists = [pl.col(f"{prefix}{name}").fill_null([]).list.sort().list.join(" ") for name in NAMED]
    return rows.select(pl.concat_str(lists, separator="\n").str.strip_chars()).to_series()


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
    """Whether one candidate is left by all of these, and the right one."""
    said = [one for one in left if one is not None]
    both = np.logical_and.reduce(said) if said else np.zeros(0, np.bool_)
    return bool(both.sum() == 1 and both[truth])


def attacks(rows: pl.DataFrame, source: pl.DataFrame) -> dict[str, Attack]:
    """What each thing that is released leaves of the source: `rows` and `source` as `joined` gives them."""
    days = source["time"].dt.strftime("%Y-%m-%dT%H:%M:%SZ")
    exact = rows.select(pl.col("time").str.len_chars().max().fill_null(0)).item()  # as it is released
    days = days.str.slice(0, exact)
    theirs = dict(rows.select("truth", "items").iter_rows())
    items = pl.Series([theirs.get(n) for n in range(source.height)], dtype=pl.String)
    return {
        "ids": _ids(rows, source),
        "digest": _same(rows["digest"], source["digest"]),
        "time": _same(rows["time"], days),
        "people": _people(rows, source, days),
        "order": _order(rows, source),
        "evidence": _evidence(rows, source),
        "texts": _same(_words(rows), _words(source)),
        "items": _same(rows["items"].set(~rows["shows"], None), items),
    }


def _same(ours: pl.Series, theirs: pl.Series) -> Attack:
    """Leaves what has the same value; a null tells nothing."""
    numbers = pl.concat([ours.cast(pl.String), theirs.cast(pl.String)]).rank("dense").fill_null(0).to_numpy()
    here, there = numbers[: len(ours)], numbers[len(ours) :]
    return lambda n: there == here[n] if here[n] else None


def _words(rows: pl.DataFrame) -> pl.Series:
    texts = pl.col("turns").list.eval(pl.element().struct.field("text")).list.join("\x1f")
    return rows.select(pl.when(texts != "").then(texts)).to_series()


def _ids(rows: pl.DataFrame, source: pl.DataFrame) -> Attack:
    """Leaves what anybody computes the released id, source id or pseudonym of, without a key."""
    known: dict[str, list[int]] = {}
    for n, (subject, name, where) in enumerate(source.select("conversation", "source_id", "source").iter_rows()):
        for one in {subject, name, tables.digest(name), tables.digest(where, name), tables.digest(subject)}:
            known.setdefault(one, []).append(n)
    released = rows.select("conversation", "source_id", "seeker").rows()
    return lambda n: _these(source.height, [at for one in released[n] for at in known.get(one, ())])


def _these(height: int, places: Sequence[int]) -> Left | None:
    if not places:
        return None
    left = np.zeros(height, np.bool_)
    left[list(places)] = True
    return left


def _people(rows: pl.DataFrame, source: pl.DataFrame, days: pl.Series) -> Attack:
    """Leaves what is by whoever wrote on all the days on which, as is released, this person did."""
    wrote: dict[str, set[str]] = {}
    for who, day in zip(source["seeker"], days, strict=True):
        wrote.setdefault(who or "", set()).add(day or "")
    shown: dict[str, set[str]] = {}
    for who, day in rows.select("seeker", "time").drop_nulls().iter_rows():
        shown.setdefault(who, set()).add(day)
    authors = source["seeker"].fill_null("")
    seekers = rows["seeker"].to_list()

    @cache
    def left(who: str) -> Left:
        able = [author for author, on in wrote.items() if author and shown[who] <= on]
        return authors.is_in(able).to_numpy()

    return lambda n: left(seekers[n]) if seekers[n] in shown else None


def _order(rows: pl.DataFrame, source: pl.DataFrame) -> Attack:
    """Leaves the one at the same place, where each day of each file has its rows as the source orders them.

    All days have to be of one order (time, id, digest), and enough of them: two rows stand in it by chance.
    """
    days = rows.select("truth", day=pl.struct("split", pl.col("time").str.slice(0, 10)))
    for by in ("time", "source_id", "digest"):
        places = source[by].rank("ordinal").fill_null(0)
        told = days.with_columns(place=places.gather(days["truth"]))
        steps = told.select((pl.col("place").diff() > 0).over("day")).to_series().drop_nulls()
        if len(steps) >= _STEPS and steps.all():
            truth = rows["truth"].to_list()
            return lambda n: _these(source.height, [truth[n]])
    return lambda n: None


_STEPS = 12  # pairs of neighbours, of which all stand in one of three orders by chance in less than one of a thousand


def _evidence(rows: pl.DataFrame, source: pl.DataFrame) -> Attack:
    """Leaves the texts in which words stand where evidence does: its quote, or any words from border to border."""
    spans = rows["spans"].to_list()
    turns = source["turns"].list.eval(pl.element().struct.field("text"))

    def stands(turn: int, start: int, end: int, quote: str) -> Left:
        text = turns.list.get(turn, null_on_oob=True)
        cut = text.str.slice(start, end - start)
        same = cut == quote if quote else (cut.str.len_chars() == end - start) & (cut == cut.str.strip_chars())
        return same.fill_null(False).to_numpy()

    def left(n: int) -> Left | None:
        said = [stands(one["turn"], one["start"], one["end"], one["quote"]) for one in spans[n] or ()]
        return np.logical_and.reduce(said) if said else None

    return left
