"""Ranks items for a request by what others took up: nearest requests, a ridge regression and co-occurrence.

nearest       sum of the BM25 similarities of those of the NEAREST training requests whose users took up the item
ridge         least squares from the words of the request and the seen items to the items taken up
co-occurrence sum over the seen items of how many users who had seen it took up the item, divided by the popularity of
              the item to the power FLAT
Each is divided by its largest value; relevance is the mean of the three. Popularity breaks ties.
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
NEAREST = 100  # number of nearest training requests
K1, B = 1.2, 0.75  # BM25's usual constants
FEATURES = 4000  # most frequent words and seen items in the ridge regression: bounds time and memory
PENALTY = 20.0
FLAT = 0.3
_BLOCK = 1000  # training rows per step


class Index:
    """BM25 over texts: `scores` returns the similarity of each text to a query."""

    def __init__(self, texts: Sequence[str]) -> None:
        counts = [Counter(words(text)) for text in texts]
        lengths = np.array([sum(count.values()) for count in counts], float)
        relative_lengths = lengths / (lengths.mean() or 1.0) if len(lengths) else lengths
        occurrences: dict[str, list[tuple[int, int]]] = {}
        for n, count in enumerate(counts):
            for word, frequency in count.items():
                occurrences.setdefault(word, []).append((n, frequency))
        self.size = len(texts)
        self.postings: dict[str, tuple[Places, Floats]] = {}
        for word, pairs in occurrences.items():
            rows, frequency = np.array(pairs).T.copy()
            idf = np.log1p((self.size - len(rows) + 0.5) / (len(rows) + 0.5))
            weights = idf * frequency * (K1 + 1) / (frequency + K1 * (1 - B + B * relative_lengths[rows]))
            self.postings[word] = rows, weights

    def scores(self, query: str) -> Floats:
        scores = np.zeros(self.size)
        for word in dict.fromkeys(words(query)):  # in their order: the last digit of a sum depends on it
            if word in self.postings:
                rows, weights = self.postings[word]
                scores[rows] += weights
        return scores


@dataclass(frozen=True)
class Ranker:
    items: Mapping[str, int]  # id -> position
    index: Index
    taken: Sequence[Places]  # [training row] positions of the items taken up
    popular: Floats  # [item] 0..1
    features: Mapping[str, int]
    weights: Floats  # [feature, item]
    together: Mapping[str, Counter[int]]  # seen item -> items taken up by users who had seen it, with their number

    def relevance(self, row: Row) -> Floats:
        """[item] 0..1, or below for items that others did not take up, in the order of the release's items."""
        return (self.near(row) + self._ridge(row) + self._co_occurrence(row)) / 3 + 1e-6 * self.popular

    def near(self, row: Row) -> Floats:
        """[item] 0..1 by the nearest requests only."""
        similarity, scores = self.index.scores(request(row)), np.zeros(len(self.items))
        for n in np.argsort(-similarity, kind="stable")[:NEAREST]:  # stable: ties by row number
            scores[self.taken[n]] += similarity[n]
        return _scaled(scores)

    def _ridge(self, row: Row) -> Floats:
        # sorted: the order of a set differs between processes, and so would the last digit of the sum, and ties
        features = sorted(self.features[name] for name in _feature_names(row) if name in self.features)
        return _scaled(self.weights[features].sum(axis=0))

    def _co_occurrence(self, row: Row) -> Floats:
        scores = np.zeros(len(self.items))
        for seen in row["seen"]:
            for place, count in self.together.get(seen, {}).items():
                scores[place] += count
        return _scaled(scores / np.maximum(self.popular, 1e-9) ** FLAT)


def fit(train: Sequence[Row], items: Mapping[str, int], progress: Progress | None = None) -> Ranker:
    """Returns a ranker of the items (id -> position), without injected rows: they repeat a person. progress: a step is
    _BLOCK rows."""
    train = [row for row in train if row["condition"] != "injected" and row["prompt"]]
    taken = [np.array(sorted({items[item] for item in row["truth"] if item in items}), np.int64) for row in train]
    popular = np.bincount(np.concatenate([np.zeros(0, np.int64), *taken]), minlength=len(items)).astype(float)
    together: dict[str, Counter[int]] = {}
    for row, positions in zip(train, taken, strict=True):
        for seen in row["seen"]:
            together.setdefault(seen, Counter()).update(positions.tolist())
    names = [_feature_names(row) for row in train]
    counts = Counter(name for of_row in names for name in of_row)
    chosen = sorted((name for name in counts if counts[name] > 1), key=lambda name: (-counts[name], name))[:FEATURES]
    features = {name: n for n, name in enumerate(chosen)}
    numbers = [[features[name] for name in of_row if name in features] for of_row in names]
    weights = _ridge_weights(numbers, len(features), taken, len(items), progress)
    index = Index([request(row) for row in train])
    return Ranker(items, index, taken, popular / (popular.max(initial=0) or 1.0), features, weights, together)


def _ridge_weights(
    features: Sequence[Sequence[int]], width: int, taken: Sequence[Places], items: int, progress: Progress | None
) -> Floats:
    """Returns (X'X + PENALTY I)^-1 X'Y, with X and Y made of _BLOCK rows at a time."""
    gram, cross = PENALTY * np.eye(width), np.zeros((width, items))
    for start in counted(range(0, len(features), _BLOCK), progress):
        block = range(start, min(start + _BLOCK, len(features)))
        x, y = np.zeros((len(block), width)), np.zeros((len(block), items))
        for n in block:
            x[n - start, features[n]] = 1.0
            y[n - start, taken[n]] = 1.0
        gram += x.T @ x
        cross += x.T @ y
    return np.asarray(np.linalg.solve(gram, cross), np.float64)


def _feature_names(row: Row) -> set[str]:
    return {f"word {word}" for word in words(request(row))} | {f"seen {item}" for item in row["seen"]}


def _scaled(score: Floats) -> Floats:
    top = score.max(initial=0.0)
    return score / top if top > 0 else np.zeros(len(score))


def request(row: Row) -> str:
    """Returns the messages of the person, without the answers between them."""
    return "\n".join(message["content"] for message in row["prompt"] if message["role"] == "user")


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())
