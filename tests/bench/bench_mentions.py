"""Titles that an answer names outside its list, in sentences that the product does not learn from.

Needs SAFEREC_REAL_DATA: each sentence gets titles of its films; and the lists of four language models, which name no
title outside the list. The sentences are language models' (tests/data/README.md): on `looked_at` the limits were set
and failures read, not on `fresh`. Likewise the first third of the lists.
"""

import random
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import cast

from saferec_builder.core import titles
from saferec_builder.core.titles import Index
from saferec_builder.scoring.answer_parser import Find, finder, parse, tidied
from saferec_builder.scoring.mention_finder import Finder
from saferec_builder.scoring.mentions import Beside, beside, title_finder
from saferec_builder.sources import movielens
from tests import DATA
from tests.bench import undated_gold
from tests.bench.figures import figure, json_lines, real_data

LIST = "1. Toy Story (1995)\n2. Heat (1995)\n3. Babe (1995)\n"
DRAWS = 3  # films for each sentence
SENTENCES = {"looked_at": DATA / "mentions_apart.jsonl", "fresh": DATA / "mentions_fresh.jsonl"}
PLACES = {  # places of a hidden title: after a list, in a reason, in a second list, under a second key
    "sentence": "{list}\n{text}",
    "reason": "1. Toy Story (1995) - Light and warm. {text}\n2. Heat (1995)\n3. Babe (1995)",
    "bullet": "{list}\nAlso worth a look:\n- {title}",
    "key": '{{"recommendations": ["Toy Story (1995)", "Heat (1995)"], "bonus": ["{title}"]}}',
}


class World:
    """The films of MovieLens, and the finders that read an answer."""

    def __init__(self, folder: Path) -> None:
        rows = list(movielens.read(folder / "movielens27k").rows.iter_rows(named=True))
        self.items = {row["source_id"]: (titles.spoken(row["title"]), row["year"]) for row in rows if row["year"]}
        self.index: Index = titles.index((i, title, year, "film", ()) for i, (title, year) in self.items.items())
        self.find: Find = finder(self.index)
        self.finder: Finder = title_finder(self.index, (title for title, _ in self.items.values()))

    def read(self, text: str) -> tuple[set[str | None], Beside]:
        """Returns (items of the list, what the answer names beside it)."""
        entries = parse(text, self.find, "film").entries
        return {entry.item for entry in entries}, beside(tidied(text), entries, self.finder, self.find)


def main() -> None:
    if not (folder := real_data("mentions")):
        return
    world = World(folder)
    for name, path in SENTENCES.items():
        rows = list(json_lines(path))
        for place, dated, kind in cases():
            answers = [(item, *world.read(text)) for item, text in hidden(world, rows, place, dated, kind)]
            figure_of = f"mentions.{name}.{kind}_{place}_{'dated' if dated else 'undated'}"
            for reading in ("offered", "named"):
                # an item that became an entry of the list is judged there
                hits = [item in getattr(extra, reading) or item in listed for item, listed, extra in answers]
                figure(f"{figure_of}.{reading}", sum(hits) / len(hits), "share", _goal(kind, dated, reading))
    for third, name in enumerate(("looked_at", "fresh", "fresh_too")):
        clean = [world.read(text) for text in lists(folder, third)]
        for reading in ("offered", "named"):
            wrong = sum(bool(getattr(extra, reading) - listed) for listed, extra in clean)
            figure(f"mentions.clean.{name}.{reading}", wrong / len(clean), "share", "<= 0.01")
        shared = sum(any(map(listed.isdisjoint, extra.shared)) for listed, extra in clean)
        figure(f"mentions.clean.{name}.shared", shared / len(clean), "share", "none")


def cases() -> Iterator[tuple[str, bool, str]]:
    """Yields (place, whether the title has its year, kind of sentence)."""
    for dated in (True, False):
        yield from ((place, dated, "offer") for place in PLACES)
        yield from (("sentence", dated, kind) for kind in ("left_out", "other"))


def hidden(
    world: World, rows: Sequence[dict[str, str]], place: str, dated: bool, kind: str
) -> Iterator[tuple[str, str]]:
    """Yields (item, answer that names it outside its list): a film for each sentence, the same ones in every place."""
    draw = random.Random(kind)
    films = [i for i, (title, year) in world.items.items() if world.find(title, None if not dated else year, None) == i]
    for row in rows:
        if row["kind"] == kind:
            for item in draw.sample(films, DRAWS):
                title, year = world.items[item]
                name = f"{title} ({year})" if dated else title
                text = row["text"].replace("{TITLE}", name)
                yield item, PLACES[place].format(list=LIST, text=text, title=name)


def lists(folder: Path, third: int) -> Iterator[str]:
    """Yields 300 answers of real models, as lists in four styles. One model went on to invent the next turns of the
    conversation ("[|Human|] Hello!"), where a server would have stopped it: they are cut."""
    styles = ("{n}. {title}", "- **{title}**", "{n}) '{title}' - one of my favorites", "* {title}: worth your evening")
    for number, row in enumerate(undated_gold.lists(folder)[third::3][:300]):
        listed = takewhile(lambda title: "[|" not in title, map(str, cast("list[str]", row["titles"])))
        style = styles[number % len(styles)]
        yield "Here you go:\n" + "\n".join(style.format(n=n, title=title) for n, title in enumerate(listed, 1))


def _goal(kind: str, dated: bool, reading: str) -> str:
    if (kind, reading) == ("left_out", "offered"):
        return "0.00"
    return (">= 1.00" if dated else ">= 0.98") if (kind, reading) == ("offer", "named") else "none"
