"""How well each item fits a request, by what others took up: nearest requests, a ridge regression and co-occurrence.

reads  rows of the train split: prompt, seen, truth
gives  per request a number for each item; it needs no model and no GPU

nearest       sum over the NEAREST training requests (BM25) of their likeness, of those who took up the item
ridge         least squares from the words of the request and the seen items to the items taken up
co-occurrence how often who had seen the seen items took up the item, divided by its popularity to the power FLAT
Each is divided by its largest value; relevance is the mean of the three. Popularity decides ties.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from saferec_builder.core.progress import Progress, counted
from saferec_builder.scoring.metrics import Floats
from training.data import Row

Places = NDArray[np.int64]
NEAREST = 100  # training requests that are listened to
K1, B = 1.2, 0.75  # BM25's usual constants
FEATURES = 4000  # the most frequent words and seen items that the ridge regression knows: bounds time and memory
PENALTY = 20.0
FLAT = 0.3
_BLOCK = 1000  # training rows at once


class Index:
    """BM25 over texts: `scores` gives each text's likeness to a query."""

    def __init__(self, texts: Sequence[str]) -> None:
        counts = [Counter(words(text)) for text in texts]
        lengths = np.array([sum(count.values()) for count in counts], float)
        long = lengths / (lengths.mean() or 1.0) if len(lengths) else lengths
        holders: dict[str, list[tuple[int, int]]] = {}
        for n, count in enumerate(counts):
            for word, often in count.items():
                holders.setdefault(word, []).append((n, often))
        self.size = len(texts)
        self.postings: dict[str, tuple[Places, Floats]] = {
            word: self._weighed(np.array(held), long) for word, held in holders.items()
        }

    def _weighed(self, held: NDArray[np.int64], long: Floats) -> tuple[Places, Floats]:
        rows, often = held[:, 0], held[:, 1]
        rare = np.log1p((self.size - len(rows) + 0.5) / (len(rows) + 0.5))
        return rows, rare * often * (K1 + 1) / (often + K1 * (1 - B + B * long[rows]))

    def scores(self, query: str) -> Floats:
        found = np.zeros(self.size)
        for word in dict.fromkeys(words(query)):
            if word in self.postings:
                rows, weights = self.postings[word]
                found[rows] += weights
        return found


@dataclass(frozen=True)
class Ranker:
    items: Mapping[str, int]  # id -> place
    index: Index
    taken: Sequence[Places]  # [training row] the items taken up
    popular: Floats  # [item] 0..1
    features: Mapping[str, int]
    weights: Floats  # [feature, item]
    together: Mapping[str, Counter[int]]  # seen item -> items taken up by who had seen it, and by how many

    def relevance(self, row: Row) -> Floats:
        """[item] 0..1 or below for items that others left, in the order of the release's items."""
        return (self.near(row) + self._ridge(row) + self._beside(row)) / 3 + 1e-6 * self.popular

    def near(self, row: Row) -> Floats:
        """[item] 0..1 by the nearest requests alone."""
        likeness, found = self.index.scores(request(row)), np.zeros(len(self.items))
        for n in nearest(likeness, NEAREST):
            found[self.taken[n]] += likeness[n]
        return _scaled(found)

    def _ridge(self, row: Row) -> Floats:
        # a set has another order in each process, and a sum of floats another last digit: ties would fall otherwise
        known = sorted(self.features[name] for name in _named(row) if name in self.features)
        return _scaled(self.weights[known].sum(axis=0))

    def _beside(self, row: Row) -> Floats:
        found = np.zeros(len(self.items))
        for seen in row["seen"]:
            for place, often in self.together.get(seen, {}).items():
                found[place] += often
        return _scaled(found / np.maximum(self.popular, 1e-9) ** FLAT)


def fit(train: Sequence[Row], items: Mapping[str, int], progress: Progress | None = None) -> Ranker:
    """A ranker of these items (id -> place). An injected row is the same person once more, and left out.

    progress: a step is _BLOCK rows.
    """
    train = [row for row in train if row["condition"] != "injected" and row["prompt"]]
    taken = [np.array(sorted({items[i] for i in row["truth"] if i in items}), np.int64) for row in train]
    popular = np.bincount(np.concatenate([np.zeros(0, np.int64), *taken]), minlength=len(items)).astype(float)
    together: dict[str, Counter[int]] = {}
    for row, found in zip(train, taken, strict=True):
        for seen in row["seen"]:
            together.setdefault(seen, Counter()).update(found.tolist())
    named = [_named(row) for row in train]
    often = Counter(name for found in named for name in found)
    chosen = sorted((name for name in often if often[name] > 1), key=lambda name: (-often[name], name))[:FEATURES]
    features = {name: n for n, name in enumerate(chosen)}
    known = [[features[name] for name in found if name in features] for found in named]
    weights = _solved(known, len(features), taken, len(items), progress)
    index = Index([request(row) for row in train])
    return Ranker(items, index, taken, popular / (popular.max(initial=0) or 1.0), features, weights, together)


def _solved(
    known: Sequence[Sequence[int]], width: int, taken: Sequence[Places], items: int, progress: Progress | None
) -> Floats:
    """(X'X + PENALTY I)^-1 X'Y, with X and Y made of so many rows at a time."""
    gram, cross = PENALTY * np.eye(width), np.zeros((width, items))
    for start in counted(range(0, len(known), _BLOCK), progress):
        some = range(start, min(start + _BLOCK, len(known)))
        x, y = np.zeros((len(some), width)), np.zeros((len(some), items))
        for n in some:
            x[n - start, known[n]] = 1.0
            y[n - start, taken[n]] = 1.0
        gram += x.T @ x
        cross += x.T @ y
    return np.asarray(np.linalg.solve(gram, cross), np.float64)


def _named(row: Row) -> set[str]:
    return {f"word {word}" for word in words(request(row))} | {f"seen {item}" for item in row["seen"]}


def _scaled(score: Floats) -> Floats:
    top = score.max(initial=0.0)
    return score / top if top > 0 else np.zeros(len(score))


def request(row: Row) -> str:
    """What the person said, without the answers between."""
    return "\n".join(message["content"] for message in row["prompt"] if message["role"] == "user")


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def nearest(likeness: Floats, most: int) -> list[int]:
    """The rows of most likeness, none without any; ties by their order."""
    order = np.argsort(-likeness, kind="stable")[:most]
    return [int(n) for n in order if likeness[n] > 0]
