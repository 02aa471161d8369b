"""Whoever holds the dump joins it with a release: how many of 200 invented people are found, and by what.

Of a source that keeps its texts. The attacker has every id, author, second, text and named item of the source, and the
open files of the release; neither `.secret` nor the key file. `found` is the share of the conversations for which what
is released leaves one candidate, and that is the right one. The same release with its texts is the control: there
everybody has to be found.
"""

import random
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl

from exports.release import release
from saferec_builder.mining.conversations import pseudonym
from saferec_builder.storage import tables
from saferec_builder.storage.workspace import Workspace
from tests.bench.figures import figure
from tests.worlds import release_world as world

PEOPLE, A_DAY, K = 200, 10, 5
ITEMS_GOAL = "none: sets of items find people where texts do, as the card says"
TRAITS = ("gore", "needles", "spiders_snakes")
Row = dict[str, Any]
Leaves = Callable[[Row], set[str]]  # a released row -> the posts of the dump that it may be


def main() -> None:
    """Releases the world without and with its texts, and joins both with the dump."""
    with tempfile.TemporaryDirectory() as folder:
        ws, dump = _world(Path(folder))
        bare = release(ws, "1.0.0", allow=["no-safety"])
        _report("", ws, dump, bare.folder)
        combinations = _combinations(bare.folder)
        figure("linkage.combinations_below_k", combinations, "of all", "0")
        whole = release(ws, "2.0.0", allow=["no-safety", "reddit"], with_text=True)
        _report("control_", ws, dump, whole.folder)


def _world(folder: Path) -> tuple[Workspace, list[Row]]:
    """(the workspace, the dump in its order): ten requests a day, at random seconds, each naming some films."""
    rng, ws = random.Random(27), Workspace.create(folder / "ws")
    dump, rows, said = list[Row](), list[Row](), list[Row]()
    for n in range(PEOPLE):
        named = rng.sample(world.LETTERS, rng.randint(3, 7))
        words = " ".join(rng.sample(["calm", "short", "funny", "old", "quiet", "bright", "slow", "warm"], 4))
        talk = (f"I faint. Something {words}, no. {n}?", "Try " + ", ".join(map(world.film, named)), "Thanks!")
        row = world.conversation(f"t3_{rng.randrange(36**6):x}", *talk, source="reddit", accepted=named[0])
        row["time"] += timedelta(days=n // A_DAY, seconds=rng.randrange(86_400))
        post = row["source_id"]
        row |= {"conversation": tables.digest("reddit", post), "recommended": [world.ref(x) for x in named]}
        dump.append(row | {"author": f"author{n}"})
        rows.append(row | {"seeker": pseudonym("reddit", f"author{n}", ws.secret)})
        has = [t for t in TRAITS if rng.random() < 0.3]
        verdicts = {t: "present" if t in has else "absent" for t in TRAITS}
        said += [world.label(rows[-1], t, v, "faint" if v == "present" else None) for t, v in verdicts.items()]
    world.fill(ws, rows, said)
    return ws, sorted(dump, key=lambda row: row["time"])


def _report(name: str, ws: Workspace, dump: list[Row], home: Path) -> None:
    rows, truth = _released(ws, dump, home)
    attacks = _attacks(dump, rows)
    goal = "1" if name else "0"
    first, rest = ("ids", "order", "time"), ("digest", "offsets", "lengths")
    figure(f"linkage.{name}matched_ids_order_time", _found(rows, truth, [attacks[a] for a in first]), "of all", goal)
    together = [attacks[a] for a in (*first, *rest)]
    figure(f"linkage.{name}matched_all_but_items", _found(rows, truth, together), "of all", goal)
    figure(
        f"linkage.{name}matched_items", _found(rows, truth, [attacks["items"]]), "of all", ITEMS_GOAL if name else goal
    )
    figure(f"linkage.{name}matched_together", _found(rows, truth, list(attacks.values())), "of all", goal)


def _released(ws: Workspace, dump: list[Row], home: Path) -> tuple[list[Row], dict[str, str]]:
    """(released conversations with evidence, in the order of the files; released id -> post)."""
    names = world.released(ws, *(row["conversation"] for row in dump))
    truth = {name: row["source_id"] for name, row in zip(names, dump, strict=True)}
    splits = [home / "data" / "conversations" / f"{split}.parquet" for split in ("train", "validation", "test")]
    rows = [row for path in splits if path.exists() for row in pl.read_parquet(path).iter_rows(named=True)]
    labels = pl.read_parquet(home / "data" / "labels" / "*.parquet").group_by("conversation").agg("spans")
    spans = {c: [span for of in some for span in of] for c, some in labels.iter_rows()}
    named = {name: row["recommended"] for name, row in zip(names, dump, strict=True)}
    more = ({"spans": spans.get(name, []), "named": named[name]} for name in (row["conversation"] for row in rows))
    return [row | each for row, each in zip(rows, more, strict=True)], truth


def _attacks(dump: list[Row], rows: list[Row]) -> dict[str, Leaves]:
    """What each thing that is released leaves of the dump; all of it where it is not released."""
    every, post = {row["source_id"] for row in dump}, "source_id"
    unkeyed = {name: row[post] for row in dump for name in _names(row)}
    titles = dict(zip(map(world.item, world.LETTERS), map(world.ref, world.LETTERS), strict=True))
    order = _order(dump, rows)

    def ids(row: Row) -> set[str]:
        known = {unkeyed[row[c]] for c in ("conversation", "source_id", "seeker", "digest") if row[c] in unkeyed}
        return known or every

    def fits(row: Row, here: Callable[[Row], bool]) -> set[str]:
        return {one[post] for one in dump if here(one)}

    def items(row: Row) -> set[str]:
        named = {titles[item] for item in row["recommended"]}
        return fits(row, lambda one: set(one["recommended"]) == named) if named else every

    def offsets(row: Row) -> set[str]:
        return fits(row, lambda one: all(_stands(one, span) for span in row["spans"])) if row["spans"] else every

    def lengths(row: Row) -> set[str]:
        texts = [turn["text"] for turn in row["turns"] or []]
        return fits(row, lambda one: [turn["text"] for turn in one["turns"]] == texts) if texts else every

    return {
        "ids": ids,
        "order": lambda row: order.get(row["conversation"], every),
        "time": lambda row: fits(row, lambda one: str(one["time"]).startswith(row["time"][:10])),
        "digest": lambda row: fits(row, lambda one: one["digest"] == row["digest"]) if row["digest"] else every,
        "offsets": offsets,
        "lengths": lengths,
        "items": items,
    }


def _names(row: Row) -> list[str]:
    """What anybody can compute of a conversation without a key."""
    post, author = row["source_id"], row["author"]
    return [post, author, row["conversation"], tables.digest("reddit", author), tables.digest(post), row["digest"]]


def _stands(one: Row, span: Row) -> bool:
    """Whether words of this length stand there: between white space, as quotes do."""
    text = one["turns"][span["turn"]]["text"]
    return span["end"] <= len(text) and text[span["start"] : span["end"]] == span["quote"]


def _order(dump: list[Row], rows: list[Row]) -> dict[str, set[str]]:
    """Where the rows of a day are in one of the dump's own orders (time, id, author), each is the one at its place.

    Of ten a day in no such order that holds by chance once in 3.6 million days.
    """
    found: dict[str, set[str]] = {}
    labelled = {row["conversation"]: row for row in rows}
    for day in {row["time"][:10] for row in rows}:
        ours = [row for row in labelled.values() if row["time"][:10] == day]
        theirs = [one for one in dump if str(one["time"]).startswith(day)]
        for key in ("time", "source_id", "author"):
            there = sorted(theirs, key=lambda one: one[key])
            same = [_same(row, one) for row, one in zip(ours, there, strict=False)]
            if len(ours) == len(there) and all(same):
                found |= {row["conversation"]: {one["source_id"]} for row, one in zip(ours, there, strict=True)}
    return found


def _same(row: Row, one: Row) -> bool:
    """By the items: where these are not released, an attacker who knows them all the same is as strong as one gets."""
    return set(row["named"]) == set(one["recommended"])


def _found(rows: list[Row], truth: dict[str, str], attacks: list[Leaves]) -> float:
    """The share of conversations of which these leave one candidate, and the right one."""
    left = [(truth[row["conversation"]], set.intersection(*(attack(row) for attack in attacks))) for row in rows]
    return sum(one == {post} for post, one in left) / len(rows)


def _combinations(home: Path) -> float:
    """The share of what is told of people's traits, withheld ones included, that fewer than K share."""
    labels = pl.read_parquet(home / "data" / "labels" / "*.parquet").sort("trait")
    told = labels.group_by("conversation").agg(of=pl.concat_str("trait", "verdict", separator=" ").str.join(", "))
    each = told.filter(pl.col("of").str.contains("present|withheld")).group_by("of").len()
    return each.filter(pl.col("len") < K).height / max(1, each.height)


if __name__ == "__main__":
    main()
