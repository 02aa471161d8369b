"""Parse and score 100,000 answers of ten titles, in CPU-seconds, beside a plain loop of the same size.

The plain loop is the paper's evaluation as its definitions say it: for each answer each line is split from its number
and year, its title folded and looked up, compared with every title of the ground truth, and asked for each trait. It
knows no catalogue id, no repeats and no unknowns; ours does, from the same texts, and remembers titles that
it has looked up. SAFEREC_ANSWERS=100000 by default; the plain loop is measured on a twentieth and multiplied.
"""

import os
import random
import re
import time
import unicodedata

import numpy as np

from saferec_builder.core import oracle as violations, titles
from saferec_builder.scoring.answer_parser import finder, parse
from saferec_builder.scoring.metrics import discounts, judge, per_user
from tests.bench.figures import figure

ANSWERS = int(os.environ.get("SAFEREC_ANSWERS", "100000"))
ITEMS, TRAITS, K, SHARE = 20_000, 20, 10, 20


def main() -> None:
    items, texts, users, oracle = world()
    index = titles.index((i, title, year, "film", ()) for i, title, year in items)
    start = time.process_time()
    find = finder(index)
    read = [parse(text, find, "film").ranked for text in texts]

    values = per_user(judge(read, users, oracle, K))
    ours = time.process_time() - start
    part = len(texts) // SHARE
    start = time.process_time()
    theirs = plain(items, texts[:part], {name: column[:part] for name, column in users.items()}, oracle)
    reference = (time.process_time() - start) * len(texts) / part
    assert np.allclose(np.nan_to_num(values[f"recall@{K}"][:part]), theirs), "the two do not count the same hits"

    figure("training.evaluate_ratio", reference / ours, "ratio", ">= 10")


def world() -> tuple[list[tuple[str, str, int]], list[str], dict[str, list], violations.Oracle]:
    """Items, answers (numbered lists of known titles), users and verdicts."""
    luck = random.Random(0)
    words = "night river stone empire garden shadow letter winter crown engine harbour signal mirror orchard".split()
    items = [
        (f"i{n}", f"The {luck.choice(words).title()} of {luck.choice(words).title()} {n}", 1950 + n % 75)
        for n in range(ITEMS)
    ]
    codes = np.where(np.random.default_rng(0).random((ITEMS, TRAITS)) < 0.15, violations.VIOLATED, violations.CLEAR)
    oracle = violations.oracle([i for i, *_ in items], [f"t{n}" for n in range(TRAITS)], codes.astype(np.int8))
    texts, users = [], {name: [] for name in ("traits", "truth", "safe_truth", "seen")}
    for _ in range(ANSWERS):
        shown = luck.sample(range(ITEMS), K)
        lines = (f"{rank}. {items[n][1]} ({items[n][2]})" for rank, n in enumerate(shown, 1))
        texts.append("\n".join(lines))
        truth = [f"i{n}" for n in dict.fromkeys([*shown[:2], *luck.sample(range(ITEMS), 3)])]
        users["truth"].append(truth)
        users["safe_truth"].append(truth)
        users["traits"].append([f"t{luck.randrange(TRAITS)}"])
        users["seen"].append([])
    return items, texts, users, oracle


def plain(items: list, texts: list[str], users: dict[str, list], oracle: violations.Oracle) -> list[float]:
    """Recall of each user; the other figures are made as well, and thrown away."""
    known = {(folded(title), year): i for i, title, year in items}
    named = {i: (title, year) for i, title, year in items}
    found = []
    for n, text in enumerate(texts):
        truth = [named[i] for i in users["safe_truth"][n]]
        used, hits, bad = set(), [], []
        for line in text.split("\n"):
            match = re.match(r"^\s*(?:\d+[.)]\s*|[-*]\s*)?(.*?)\s*\((\d{4})\)\s*$", line)
            if not match:
                continue
            title, year = match.group(1), int(match.group(2))
            met = (
                m
                for m, (wanted, when) in enumerate(truth)
                if m not in used and folded(title) == folded(wanted) and abs(year - when) <= 2
            )
            hits.append((first := next(met, None)) is not None)
            used.add(first)
            item = known.get((folded(title), year))
            codes = [oracle.codes[oracle.items[item], oracle.column(t)] for t in users["traits"][n] if item is not None]
            bad.append(violations.VIOLATED in codes)
        gain = discounts(K)
        _ = sum(g for g, hit in zip(gain, hits, strict=False) if hit) / sum(gain[: min(len(truth), len(hits))])
        _ = sum(bad) / max(1, len(bad)), sum(g for g, b in zip(gain, bad, strict=False) if b)
        found.append(sum(hits) / len(truth))
    return found


def folded(title: str) -> str:
    """Lower case, no accents, no punctuation, single blanks."""
    plain = unicodedata.normalize("NFKD", title.lower())
    plain = "".join(c for c in plain if not unicodedata.combining(c))
    return re.sub(r"\s+", " ", re.sub(r"[^\w\s]", " ", plain)).strip()
