"""Linkage: an attacker with the dump joins it with a release. How many of 200 invented posts are found, and by what?

The source keeps its texts: posts of some 130 people in 300 days, so that many days have one post, and the author of
posts on two such days is unique. The attacks are those of `saferec-build linkage`, and one on injected rows.
The same release with its texts is the control: there everybody has to be found.
"""

import random
import tempfile
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from exports import injection, linkage
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


def main() -> None:
    """Releases the world without and with its texts, and joins both with the dump."""
    with tempfile.TemporaryDirectory() as folder:
        ws, authors = _world(Path(folder))
        without_texts = release(ws, "1.0.0", allow=["no-safety"], inject="all")
        _report("", ws, without_texts.folder)
        figure("linkage.combinations_below_k", _combinations(ws, authors, without_texts.folder), "of all", "0")
        cost = without_texts.manifest["combinations"] or {}
        figure("linkage.labels_withheld", cost["withheld"] / cost["traits"], "of all", "told")
        with_texts = release(ws, "2.0.0", allow=["no-safety", "reddit"], with_text=True, inject="all")
        _report("control_", ws, with_texts.folder)


def _world(folder: Path) -> tuple[Workspace, dict[str, str]]:
    """Returns (the workspace, conversation -> author): requests at random seconds, each naming some films."""
    rng, ws = random.Random(27), Workspace.create(folder / "ws")
    authors, rows, labels = dict[str, str](), list[Row](), list[Row]()
    for n in range(POSTS):
        letters = rng.sample(world.LETTERS, rng.randint(3, 7))
        words = " ".join(rng.sample(["calm", "short", "funny", "old", "quiet", "bright", "slow", "warm"], 4))
        wishes = "".join(rng.sample(WISHES, rng.choice((0, 0, 0, 1, 2, 3))))
        author = f"author{rng.randrange(PEOPLE)}"
        answer = "Try " + ", ".join(map(world.film, letters))
        turns = (f"I faint. {wishes}Something {words}, no. {n}?", answer, "Thanks!")
        row = world.conversation(f"t3_{rng.randrange(36**6):x}", *turns, source="reddit", accepted=letters[0])
        row["time"] += timedelta(days=rng.randrange(DAYS), seconds=rng.randrange(86_400))
        post = row["source_id"]
        row |= {"conversation": tables.digest("reddit", post), "recommended": [world.ref(x) for x in letters]}
        authors[row["conversation"]] = author
        rows.append(row | {"seeker": pseudonym("reddit", author, ws.secret)})
        traits = [t for t in TRAITS if rng.random() < 0.3]
        verdicts = {t: "present" if t in traits else "absent" for t in TRAITS}
        labels += [world.label(rows[-1], t, v, "faint" if v == "present" else None) for t, v in verdicts.items()]
    world.fill(ws, rows, labels)
    return ws, authors


def _report(name: str, ws: Workspace, home: Path) -> None:
    join = linkage.joined(ws, home)
    rows, source, attacks = join.rows, join.source, linkage.attacks(join)
    attacks["wanted"] = _by_injection(rows, source, home)
    goal, days = ("1", "told: by days and people") if name else ("0", "0")
    by_order = ("ids", "order", "time", "people")
    figure(f"linkage.{name}matched_ids_order_time", _found(rows, [attacks[a] for a in by_order]), "of all", days)
    but_items = [attack for kind, attack in attacks.items() if kind != "items"]
    figure(f"linkage.{name}matched_all_but_items", _found(rows, but_items), "of all", goal)
    figure(f"linkage.{name}matched_items", _found(rows, [attacks["items"]]), "of all", ITEMS_GOAL if name else goal)
    figure(f"linkage.{name}matched_together", _found(rows, attacks.values()), "of all", goal)


def _by_injection(rows: pl.DataFrame, source: pl.DataFrame, home: Path) -> linkage.Attack:
    """An attack by somebody with our code and sentences: posts that do not ask for what is injected."""
    banks = injection.banks()
    choice = injection.Choice(injection.chosen("all", taxonomy.load().slugs, banks), banks)
    asks = [turns[0]["text"] for turns in source["turns"]]
    # the traits that each request asks for; these texts name no item
    requested = [{trait for trait, words in banks.wanted.items() if words.search(text)} for text in asks]
    allowed = [{*choice.traits} - wishes for wishes in requested]
    injected_rows = pl.read_parquet(home / "data" / "grpo" / "*.parquet").filter(condition="injected")
    injected = dict(injected_rows.select("made_from", "traits").iter_rows())
    names = rows["conversation"].to_list()

    def wanted(n: int) -> linkage.Candidates | None:
        traits_in = injected.get(names[n])
        return np.flatnonzero([traits >= {*traits_in} for traits in allowed]) if traits_in else None

    return wanted


def _found(rows: pl.DataFrame, attacks: Iterable[linkage.Attack]) -> float:
    """The share of conversations for which the attacks leave one candidate, the right one."""
    chosen = list(attacks)
    hits = [linkage.identifies([attack(n) for attack in chosen], truth) for n, truth in enumerate(rows["truth"])]
    return sum(hits) / len(hits)


def _combinations(ws: Workspace, authors: dict[str, str], home: Path) -> float:
    """The share of combinations of a conversation's traits, withheld ones included, that fewer than K people of a split
    share."""
    author_of = dict(zip(world.released(ws, *authors), authors.values(), strict=True))
    labels = pl.concat(
        pl.read_parquet(path).with_columns(split=pl.lit(path.stem)) for path in home.glob("data/labels/*.parquet")
    )
    by_conversation = labels.sort("trait").group_by("split", "conversation", maintain_order=True)
    sets = by_conversation.agg(of=pl.concat_str("trait", "verdict", separator=" ").str.join(", "))
    sets = sets.with_columns(who=pl.col("conversation").replace_strict(author_of))
    groups = sets.filter(pl.col("of").str.contains("present|withheld")).group_by("split", "of").agg(pl.n_unique("who"))
    return groups.filter(pl.col("who") < K).height / max(1, groups.height)
