"""The oracle against a plain reference implementation of the paper's algorithm, in CPU-seconds on the same machine.

The reference follows the paper's description: a title is lower-cased and stripped of punctuation, looked up with its
year and the two years around it, then without a year; the risk of each trait is compared with the threshold.
"""

import random
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from saferec_builder.catalog.checker import checker_of
from saferec_builder.core import oracle as violations, taxonomy as traits, titles
from tests.bench.figures import figure

ITEMS = 250_000
ASKED = 20_000
Query = tuple[str, int, tuple[str, ...]]  # title, year, traits
_MARKS = re.compile(r"[^\w\s]")


def main() -> None:
    peak, seconds = loaded()  # first: a process inherits the memory count of its parent
    world = World(ITEMS)
    reference = Reference(world)
    queries = world.asked(ASKED)
    usual, cold, warm = one_at_a_time(world, reference, queries)
    rows = np.random.default_rng(5).integers(0, ITEMS, 4_000_000)
    mask = world.oracle.mask(queries[0][2])
    resolved = min(cpu(lambda: chunks(world.oracle, rows, mask)) for _ in range(3)) / len(rows)
    figure("oracle.resolved_ratio", usual / resolved, "ratio", ">= 800")
    figure("oracle.single_cold_ratio", cold, "ratio", ">= 3")
    figure("oracle.single_warm_ratio", warm, "ratio", ">= 10")
    figure("oracle.load_250k_peak", peak, "MB", "< 1000")
    figure("oracle.load_250k", seconds, "CPU-s", "none")


def one_at_a_time(world: "World", reference: "Reference", queries: Sequence[Query]) -> tuple[float, float, float]:
    """Returns (CPU-seconds of the reference per question, how often a checker's fit into these: of new questions, of
    questions asked before); medians of seven, in turns, because what the machine does meanwhile changes."""
    rounds = []
    for _ in range(7):
        ask = checker_of(world.oracle, world.index)
        new = [(title[:1] + title[1:], traits, year) for title, year, traits in queries]  # strings not hashed yet
        usual = cpu(lambda: [reference.check(*query) for query in queries])
        cold = cpu(lambda ask=ask, new=new: [ask(*query) for query in new])
        warm = cpu(lambda ask=ask, new=new: [ask(*query) for query in new])
        rounds.append((usual / len(queries), usual / cold, usual / warm))
    usual, cold, warm = map(statistics.median, zip(*rounds, strict=True))
    return usual, cold, warm


def loaded() -> tuple[float, float]:
    """Returns (peak in MB, CPU-seconds) of a process that loads 250k items."""
    with tempfile.TemporaryDirectory() as folder:
        for step in ("make", "load"):
            command = [sys.executable, "-m", "tests.bench.bench_oracle", step, folder]
            result = subprocess.run(command, capture_output=True, text=True, check=True)
    peak, seconds = map(float, result.stdout.split())
    return peak, seconds


def chunks(oracle: violations.Oracle, rows: np.ndarray, mask: int) -> None:
    for first in range(0, len(rows), 65_536):  # as metrics do: one batch of lists at a time
        violations.verdicts_of(oracle, rows[first : first + 65_536], mask)


def cpu(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


class World:
    """Invented films, one in twenty a remake, with random verdicts."""

    def __init__(self, size: int) -> None:
        self.rng = random.Random(3)
        syllables = [a + b + c for a in "bdfgklmnprstv" for b in "aeiou" for c in ("", "n", "r", "s")]
        self.films = []
        for n in range(size):
            words = ["".join(self.rng.choices(syllables, k=2)) for _ in range(self.rng.randint(2, 4))]
            title = (self.rng.choice(("The ", "A ", "", "", "")) + " ".join(words)).title()
            if n and self.rng.random() < 0.05:
                title = self.rng.choice(self.films)[1]
            self.films.append((f"i{n}", title, self.rng.randint(1930, 2024)))
        self.slugs = traits.load().slugs
        codes = np.random.default_rng(4).choice(3, (size, len(self.slugs)), p=[0.6, 0.3, 0.1]).astype(np.int8)
        self.oracle = violations.oracle([i for i, _, _ in self.films], self.slugs, codes)
        self.index = titles.index((item, title, year, "film", ()) for item, title, year in self.films)

    def asked(self, n: int) -> list[Query]:
        """Different titles; one in twenty is spelt differently, one in twenty is unknown, one in five is a year off."""
        people = [tuple(self.rng.sample(self.slugs, self.rng.randint(1, 3))) for _ in range(500)]
        queries = []
        for _, title, year in self.rng.sample(self.films, n):
            chance = self.rng.random()
            name = title.replace(" ", ": ", 1) if chance < 0.05 else f"{title} of Nowhere" if chance < 0.1 else title
            queries.append((name, year + (self.rng.random() < 0.2), self.rng.choice(people)))
        return queries


class Reference:
    """Looks up each title in dictionaries and fuses both sources' risks every time; an unknown title is safe."""

    def __init__(self, world: World) -> None:
        self.by_year: dict[tuple[str, int], str] = {}
        self.by_title: dict[str, str] = {}
        self.ddd: dict[str, dict[str, int]] = {}
        self.guide: dict[str, dict[str, float]] = {}
        for (item, title, year), codes in zip(world.films, world.oracle.codes[:-1].tolist(), strict=True):
            self.by_year[self.normal(title), year] = item
            self.by_title.setdefault(self.normal(title), item)
            self.ddd[item] = {s: int(code == violations.VIOLATED) for s, code in zip(world.slugs, codes, strict=True)}
            self.guide[item] = {slug: code / 3 for slug, code in zip(world.slugs, codes, strict=True)}

    @staticmethod
    def normal(title: str) -> str:
        return " ".join(_MARKS.sub(" ", title.lower()).split())

    def check(self, title: str, year: int, wanted: Sequence[str]) -> tuple[bool, dict[str, float]]:
        name = self.normal(title)
        item = None
        for shift in (0, -1, 1, -2, 2):
            item = self.by_year.get((name, year + shift))
            if item:
                break
        item = item or self.by_title.get(name)
        broken = {}
        for slug in wanted:
            risk = max(self.ddd.get(item or "", {}).get(slug, 0), self.guide.get(item or "", {}).get(slug, 0.0))
            if risk >= 0.66:
                broken[slug] = risk
        return not broken, broken


def make(folder: Path) -> None:
    """Tables of 250k films with one statement each, as in a workspace."""
    import polars as pl

    from saferec_builder.storage import tables

    rng = random.Random(1)
    words = [a + b + c for a in "bdfgklmnprstv" for b in "aeiou" for c in "bdfgklmnprstv"]
    ids = [f"imdb:tt{n:07d}" for n in range(ITEMS)]
    rows = {"source": ["csv"] * ITEMS, "source_id": list(map(str, range(ITEMS))), "domain": ["film"] * ITEMS}
    rows |= {"title": [" ".join(rng.choices(words, k=3)) for _ in ids], "year": rng.choices(range(1930, 2025), k=ITEMS)}
    rows |= {"refs": [[i] for i in ids], "aliases": [[]] * ITEMS, "genres": [["drama"]] * ITEMS, "plot": [None] * ITEMS}
    pl.DataFrame(rows, tables.CATALOG_ROWS.schema).write_parquet(folder / "rows.parquet")
    cols = {"warning": ids, "ref": ids, "topic": ["Is there blood/gore"] * ITEMS, "yes": [9] * ITEMS, "no": [1] * ITEMS}
    cols |= {"kind": ["topic"] * ITEMS, "source": ["csv"] * ITEMS}
    schema = tables.WARNINGS.schema
    pl.DataFrame({name: cols.get(name, [None] * ITEMS) for name in schema}, schema).write_parquet(
        folder / "warnings.parquet"
    )


def load(folder: Path) -> None:
    """Builds an oracle from the tables and queries it once; prints the peak in MB and the seconds."""
    import polars as pl

    from saferec_builder import catalog

    start = time.process_time()
    items, links = catalog.merge(pl.read_parquet(folder / "rows.parquet"))
    oracle, _ = catalog.risks(items, links, pl.read_parquet(folder / "warnings.parquet"), traits.load())
    match = titles.find(catalog.index(items), items["title"][7], items["year"][7])
    assert violations.verdict(oracle, match.item, ["gore"]) != "clear"  # nine of ten say yes
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, time.process_time() - start)


if __name__ == "__main__":
    {"make": make, "load": load}[sys.argv[1]](Path(sys.argv[2]))
