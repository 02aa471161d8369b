"""Whoever holds the dump joins it with a release: how many of 200 invented posts are found, and by what.

Of a source that keeps its texts: posts of some 130 people in 300 days, so that many a day has one post, and whoever
wrote on these two days is one person. The attacker has every id, author, second, text and named item of the source, our
code, and the open files of the release; neither `.secret` nor the key file. `found` is the share of the conversations
for which what is released leaves one candidate, and that is the right one. The same release with its texts is the
control: there everybody has to be found.
"""

import random
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl

from exports import injection
from exports.release import release
from saferec_builder.core import taxonomy
from saferec_builder.mining.conversations import pseudonym
from saferec_builder.storage import tables
from saferec_builder.storage.workspace import Workspace
from tests.bench.figures import figure
from tests.worlds import release_world as world

POSTS, PEOPLE, DAYS, K = 200, 200, 300, 5
ITEMS_GOAL = "none: sets of items find people where texts do, as the card says"
TRAITS = ("gore", "needles", "spiders_snakes")
WISHES = (
    *("With zombies! ", "About sharks. ", "Something erotic. ", "With orphans. ", "A stoner film. ", "Depressing. "),
    *("A tragic one. ", "A ghost story. "),
)
Row = dict[str, Any]
Leaves = Callable[[Row], set[str]]  # a released row -> the posts of the dump that it may be


def main() -> None:
    """Releases the world without and with its texts, and joins both with the dump."""
    with tempfile.TemporaryDirectory() as folder:
        ws, dump = _world(Path(folder))
        bare = release(ws, "1.0.0", allow=["no-safety"], inject="all")
        _report("", ws, dump, bare.folder)
        figure("linkage.combinations_below_k", _combinations(ws, dump, bare.folder), "of all", "0")
        cost = bare.manifest["combinations"] or {}
        figure("linkage.labels_withheld", cost["withheld"] / cost["traits"], "of all", "told")
        whole = release(ws, "2.0.0", allow=["no-safety", "reddit"], with_text=True, inject="all")
        _report("control_", ws, dump, whole.folder)


def _world(folder: Path) -> tuple[Workspace, list[Row]]:
    """(the workspace, the dump in its order): requests at random seconds, each naming some films."""
    rng, ws = random.Random(27), Workspace.create(folder / "ws")
    dump, rows, said = list[Row](), list[Row](), list[Row]()
    for n in range(POSTS):
        named = rng.sample(world.LETTERS, rng.randint(3, 7))
        words = " ".join(rng.sample(["calm", "short", "funny", "old", "quiet", "bright", "slow", "warm"], 4))
        asks = "".join(rng.sample(WISHES, rng.choice((0, 0, 0, 1, 2, 3))))
        author = f"author{rng.randrange(PEOPLE)}"
        talk = (
            f"I faint. {asks}Something {words}, no. {n}?",
            "Try " + ", ".join(map(world.film, named)),
            "Thanks!",
        )
        row = world.conversation(f"t3_{rng.randrange(36**6):x}", *talk, source="reddit", accepted=named[0])
        row["time"] += timedelta(days=rng.randrange(DAYS), seconds=rng.randrange(86_400))
        post = row["source_id"]
        row |= {"conversation": tables.digest("reddit", post), "recommended": [world.ref(x) for x in named]}
        dump.append(row | {"author": author})
        rows.append(row | {"seeker": pseudonym("reddit", author, ws.secret)})
        has = [t for t in TRAITS if rng.random() < 0.3]
        verdicts = {t: "present" if t in has else "absent" for t in TRAITS}
        said += [world.label(rows[-1], t, v, "faint" if v == "present" else None) for t, v in verdicts.items()]
    world.fill(ws, rows, said)
    return ws, sorted(dump, key=lambda row: row["time"])


def _report(name: str, ws: Workspace, dump: list[Row], home: Path) -> None:
    rows, truth = _released(ws, dump, home)
    attacks = _attacks(dump, rows)
    goal = "1" if name else "0"
    first, rest = ("ids", "order", "time", "people"), ("digest", "offsets", "lengths", "wanted")
    figure(f"linkage.{name}matched_ids_order_time", _found(rows, truth, [attacks[a] for a in first]), "of all", goal)
    together = [attacks[a] for a in (*first, *rest)]
    figure(f"linkage.{name}matched_all_but_items", _found(rows, truth, together), "of all", goal)
    figure(
        f"linkage.{name}matched_items", _found(rows, truth, [attacks["items"]]), "of all", ITEMS_GOAL if name else goal
    )
    if not name:
        figure("linkage.drawn_over_chance", _over_chance(rows, truth, attacks["drawn"]), "of all", "0, by chance +-.2")
    del attacks["drawn"]  # a guess: where it is wrong, it would hide what others find
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
    ours = pl.read_parquet(home / "data" / "grpo" / "*.parquet").filter(condition="injected")
    injected = dict(ours.select("made_from", "traits").iter_rows())
    more = (
        {"spans": spans.get(name, []), "named": named[name], "injected": injected.get(name)}
        for name in (row["conversation"] for row in rows)
    )
    return [row | each for row, each in zip(rows, more, strict=True)], truth


def _attacks(dump: list[Row], rows: list[Row]) -> dict[str, Leaves]:
    """What each thing that is released leaves of the dump; all of it where it is not released."""
    every, post = {row["source_id"] for row in dump}, "source_id"
    unkeyed = {name: row[post] for row in dump for name in _names(row)}
    titles = dict(zip(map(world.item, world.LETTERS), map(world.ref, world.LETTERS), strict=True))
    order = _order(dump, rows)
    wrote: dict[str, set[str]] = {}
    for one in dump:
        wrote.setdefault(one["author"], set()).add(str(one["time"])[:10])

    def ids(row: Row) -> set[str]:
        known = {unkeyed[row[c]] for c in ("conversation", "source_id", "seeker", "digest") if row[c] in unkeyed}
        return known or every

    def fits(row: Row, here: Callable[[Row], bool]) -> set[str]:
        return {one[post] for one in dump if here(one)}

    def time(row: Row) -> set[str]:
        return fits(row, lambda one: str(one["time"]).startswith(row["time"][:10])) if row["time"] else every

    def people(row: Row) -> set[str]:
        """Posts of whoever wrote on all the days of this person, on the day of the row."""
        if not row["seeker"] or not row["time"]:
            return every
        days = {other["time"][:10] for other in rows if other["seeker"] == row["seeker"]}
        return fits(row, lambda one: days <= wrote[one["author"]]) & time(row)

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
        "time": time,
        "people": people,
        "digest": lambda row: fits(row, lambda one: one["digest"] == row["digest"]) if row["digest"] else every,
        "offsets": offsets,
        "lengths": lengths,
        "items": items,
        **_by_injection(dump, every),
    }


def _by_injection(dump: list[Row], every: set[str]) -> dict[str, Leaves]:
    """What an injected row leaves of the dump, to whoever has our code and our sentences."""
    banks = injection.banks()
    choice = injection.Choice(injection.chosen("all", taxonomy.load().slugs, banks), banks)
    free = {one["source_id"]: {*choice.traits} - _asked(one, choice) for one in dump}

    def wanted(row: Row) -> set[str]:
        """Nothing that a request asks for is injected into it."""
        return {post for post, traits in free.items() if traits >= {*row["injected"]}} if row["injected"] else every

    def drawn(row: Row) -> set[str]:
        """What would be injected into each post, if the row's name alone drew it."""
        number = int(tables.digest("inject", row["conversation"]), 16)
        able = {name: [t for t in choice.traits if t in traits] for name, traits in free.items()}
        guess = {name for name, traits in able.items() if injection.picked(number, traits) == row["injected"]}
        return guess if row["injected"] else every

    return {"wanted": wanted, "drawn": drawn}


def _asked(one: Row, choice: injection.Choice) -> set[str]:
    """The traits that the words of a post ask for; it names no item."""
    return {trait for trait, words in choice.banks.wanted.items() if words.search(one["turns"][0]["text"])}


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

    Without days, all rows are of one: in such an order they stand by chance never.
    """
    found: dict[str, set[str]] = {}
    labelled = {row["conversation"]: row for row in rows}
    for day in {(row["time"] or "")[:10] for row in rows}:
        ours = [row for row in labelled.values() if (row["time"] or "").startswith(day)]
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


def _over_chance(rows: list[Row], truth: dict[str, str], leaves: Leaves) -> float:
    """How much more often the right post is among those that are left of injected rows than among as many others."""
    ours = [(truth[row["conversation"]], leaves(row)) for row in rows if row["injected"]]
    return sum((post in left) - len(left) / POSTS for post, left in ours) / len(ours)


def _combinations(ws: Workspace, dump: list[Row], home: Path) -> float:
    """The share of what is told of conversations' traits, withheld ones included, that fewer than K people of a split
    share."""
    names = world.released(ws, *(row["conversation"] for row in dump))
    who = dict(zip(names, (row["author"] for row in dump), strict=True))
    labels = pl.concat(
        pl.read_parquet(path).with_columns(split=pl.lit(path.stem)) for path in home.glob("data/labels/*.parquet")
    )
    told = labels.sort("trait").group_by("split", "conversation", maintain_order=True)
    sets = told.agg(of=pl.concat_str("trait", "verdict", separator=" ").str.join(", "))
    sets = sets.with_columns(who=pl.col("conversation").replace_strict(who))
    each = sets.filter(pl.col("of").str.contains("present|withheld")).group_by("split", "of").agg(pl.n_unique("who"))
    return each.filter(pl.col("who") < K).height / max(1, each.height)


if __name__ == "__main__":
    main()
