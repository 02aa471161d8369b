"""Titles that an answer names outside its list, in sentences by writers who saw neither the rules nor their examples.

Needs SAFEREC_REAL_DATA: each sentence gets a title of its films; and the lists of four language models, which name no
title outside the list. The sentences are a language model's (tests/data/README.md).
"""

import json
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

from saferec_builder.core import titles
from saferec_builder.core.titles import Index
from saferec_builder.scoring import mention_finder
from saferec_builder.scoring.answer_parser import Find, finder, parse, tidied
from saferec_builder.scoring.mention_finder import Finder
from saferec_builder.scoring.mentions import Beside, beside
from saferec_builder.sources import movielens
from tests import DATA
from tests.bench import undated_gold
from tests.bench.figures import figure, real_data

LIST = "1. Toy Story (1995)\n2. Heat (1995)\n3. Babe (1995)\n"
HELD_OUT = DATA / "mentions_apart.jsonl"
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
        self.items = {row["source_id"]: (row["title"], row["year"]) for row in rows if row["year"]}
        self.index: Index = titles.index((i, title, year, "film", ()) for i, (title, year) in self.items.items())
        self.find: Find = finder(self.index)
        self.finder: Finder = mention_finder.finder(self.index, (title for title, _ in self.items.values()))

    def beside(self, text: str) -> Beside:
        return beside(tidied(text), parse(text, self.find, "film").entries, self.finder)


def main() -> None:
    if not (folder := real_data("mentions")):
        return
    world = World(folder)
    rows = [json.loads(line) for line in HELD_OUT.read_text(encoding="utf-8").splitlines()]
    for place, dated, kind in cases():
        extras = [world.beside(text) for item, text in hidden(world, rows, place, dated, kind)]
        items = [item for item, _ in hidden(world, rows, place, dated, kind)]
        name = f"mentions.{kind}_{place}_{'dated' if dated else 'undated'}"
        for reading in ("offered", "named"):
            hits = sum(item in getattr(extra, reading) for item, extra in zip(items, extras, strict=True))
            figure(f"{name}.{reading}", hits / len(extras), "share", _goal(kind, dated, reading))
    clean = [world.beside(text) for text in lists(folder)]
    for reading in ("offered", "named"):
        wrong = sum(bool(getattr(extra, reading)) for extra in clean)
        figure(f"mentions.clean.{reading}", wrong / len(clean), "share", "<= 0.01")


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
            item = draw.choice(films)
            title, year = world.items[item]
            title = re.sub(r"^(.+), (The|A|An|La|El|Les?)$", r"\2 \1", title)  # MovieLens writes "Lodger, The"
            name = f"{title} ({year})" if dated else title
            text = row["text"].replace("{TITLE}", name)
            yield item, PLACES[place].format(list=LIST, text=text, title=name)


def lists(folder: Path) -> Iterator[str]:
    """Yields 300 answers of real models, as lists in four styles."""
    styles = ("{n}. {title}", "- **{title}**", "{n}) '{title}' - one of my favorites", "* {title}: worth your evening")
    for number, row in enumerate(undated_gold.lists(folder)[::3][:300]):
        listed = [str(title) for title in cast("list[str]", row["titles"])]
        style = styles[number % len(styles)]
        yield "Here you go:\n" + "\n".join(style.format(n=n, title=title) for n, title in enumerate(listed, 1))


def _goal(kind: str, dated: bool, reading: str) -> str:
    if (kind, reading) == ("left_out", "offered"):
        return "0.00"
    return (">= 1.00" if dated else ">= 0.98") if (kind, reading) == ("offer", "named") else "none"
