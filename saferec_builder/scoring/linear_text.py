"""A linear model of short texts: one logistic regression per label over words and characters; numpy only.

    model = fit(texts, truth, labels)   # truth[n, label] is 1, 0, or nan if unknown
    model.score(texts)                  # probabilities, [text, label]

Features are words (1-2) and characters (3-5, within words; `fit` may leave them out), sublinear tf-idf with rows of
length 1, for every term in at least two training texts.
"""

import re
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from saferec_builder.core.progress import Progress, counted

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

C = 10.0  # inverse strength of the L2 penalty on everything but the bias
ENOUGH = 50  # texts with a label, over all labels, before a model of them may claim anything
LEAST = 2  # training texts with a term, at least
STEPS, MEMORY, TOLERANCE = 100, 8, 1e-3  # of L-BFGS: it stops at this largest gradient component
ROUGH = 5e-3  # the same in `cross_fit`, times C and the root of the rarer class: moves a score by .013 at most
_WORD = re.compile(r"\w+(?:['’]\w+)*")


@dataclass(frozen=True)
class LinearText:
    """weights and idf: one row per term of the vocabulary; the last row of weights is for `own`."""

    labels: tuple[str, ...]
    terms: tuple[str, ...]
    idf: Floats
    weights: Floats
    bias: Floats

    def score(self, texts: Sequence[str], own: bool = True) -> Floats:
        """Probability of each label in each text, [text, label].

        own: the texts come from where the model is used, like those marked `own` in `fit`.
        """
        counts = [terms(text, self.terms[:1] < ("w:",)) for text in texts]  # "c:" comes before "w:"
        rows = _rows(counts, self._places, self.idf, np.full(len(texts), float(own)))
        return _sigmoid(np.stack([rows.times(w) for w in self.weights.T], axis=1) + self.bias)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {term: n for n, term in enumerate(self.terms)}


def fit(
    texts: Sequence[str],
    truth: Floats,
    labels: Sequence[str],
    *,
    own: Sequence[bool] | None = None,
    characters: bool = True,
    progress: Progress | None = None,
) -> LinearText:
    """A model of these labels. truth: [text, label], nan if unknown (the text is left out for that label).

    own: which texts come from where the model will be used (default: all); a column of its own learns how much more or
    less frequent a label is there. characters: without them `fit` takes a seventh of the time. A label without a
    positive or without a negative text scores the share (yes + 1) / (yes + no + 2) everywhere. progress: a step is a
    label.
    """
    prepared = _prepared(texts, own, characters)
    columns = counted([*np.asarray(truth, dtype=np.float64).T], progress)
    return prepared.model(labels, [_solve(prepared.rows, column) for column in columns])


def cross_fit(
    texts: Sequence[str],
    truth: Floats,
    labels: Sequence[str],
    folds: Sequence[int],
    n_folds: int,
    *,
    own: Sequence[bool] | None = None,
    progress: Progress | None = None,
) -> tuple[LinearText, ...]:
    """Model n is fitted like `fit` on all texts but those of fold n, so that it scores these as unseen texts; a text of
    fold -1 is in every model, and the more there are, the shorter it takes: all models start from what these say. The
    terms and their idf come from all texts. progress: a step is a model."""
    prepared, fold, values = _prepared(texts, own, True), np.asarray(folds), np.asarray(truth, dtype=np.float64)
    # not from another fold's solution: it has seen this fold, and would not forget it before it stops
    always = np.where((fold >= 0)[:, None], np.nan, values).T
    shared = [_solve(prepared.rows, column, rough=2 * ROUGH) for column in always]
    models: list[LinearText] = []
    for n in counted(range(n_folds), progress):
        columns = np.where((fold == n)[:, None], np.nan, values).T
        solved = [_solve(prepared.rows, *pair, ROUGH) for pair in zip(columns, shared, strict=True)]
        models.append(prepared.model(labels, solved))
    return tuple(models)


def terms(text: str, characters: bool = True) -> Counter[str]:
    """How often each term occurs in a text: `w:` words and pairs of words, `c:` characters with the words' edges."""
    words = _WORD.findall(text.lower().replace("’", "'"))
    counts = Counter(f"w:{word}" for word in words)
    counts.update(f"w:{a} {b}" for a, b in pairwise(words))
    for word in (f" {w} " for w in words if characters):
        counts.update(f"c:{word[n : n + k]}" for k in (3, 4, 5) for n in range(len(word) - k + 1))
    return counts


# ---- sparse rows


@dataclass(frozen=True)
class _Rows:
    """Compressed rows: row n has the terms places[starts[n] : starts[n + 1]]; none is empty (`own` is in each)."""

    starts: Ints
    places: Ints
    values: Floats
    width: int

    def times(self, weights: Floats) -> Floats:
        if not len(self.starts):
            return np.zeros(0)
        sums: Floats = np.add.reduceat(self.values * weights[self.places], self.starts)
        return sums

    def back(self, errors: Floats) -> Floats:
        """The product with the transposed matrix."""
        sizes = np.diff(np.append(self.starts, len(self.places)))
        return np.bincount(self.places, self.values * np.repeat(errors, sizes), self.width).astype(np.float64)


def _rows(counts: Sequence[Counter[str]], columns: dict[str, int], idf: Floats, own: Floats) -> _Rows:
    starts, places, values, end = [], [], [], 0
    for row, is_own in zip(counts, own, strict=True):
        in_vocabulary = [(columns[t], n) for t, n in row.items() if t in columns]
        indices = np.array([place for place, _ in in_vocabulary], dtype=np.int64)
        weights = (1 + np.log(np.array([n for _, n in in_vocabulary], dtype=np.float64))) * idf[indices]
        weights = weights / (np.linalg.norm(weights) or 1.0)
        starts.append(end)
        places.append(np.append(indices, len(columns)))
        values.append(np.append(weights, is_own))
        end += len(in_vocabulary) + 1
    empty = np.zeros(0)
    return _Rows(
        np.array(starts, dtype=np.int64),
        np.concatenate([empty.astype(np.int64), *places]),
        np.concatenate([empty, *values]),
        len(columns) + 1,
    )


@dataclass(frozen=True)
class _Prepared:
    terms: tuple[str, ...]
    idf: Floats
    rows: _Rows

    def model(self, labels: Sequence[str], solved: Sequence[Floats]) -> LinearText:
        weights = np.stack([w[:-1] for w in solved], axis=1)
        return LinearText(tuple(labels), self.terms, self.idf, weights, np.array([w[-1] for w in solved]))


def _prepared(texts: Sequence[str], own: Sequence[bool] | None, characters: bool) -> _Prepared:
    counts = [terms(text, characters) for text in texts]
    frequency = Counter(term for row in counts for term in row)
    vocabulary = tuple(sorted(term for term, n in frequency.items() if n >= LEAST))
    idf = np.log((1 + len(texts)) / (1 + np.array([frequency[t] for t in vocabulary], dtype=np.float64))) + 1
    own_column = np.ones(len(texts)) if own is None else np.asarray(own, dtype=np.float64)
    return _Prepared(vocabulary, idf, _rows(counts, {term: n for n, term in enumerate(vocabulary)}, idf, own_column))


# ---- logistic regression


def _solve(rows: _Rows, truth: Floats, start: Floats | None = None, rough: float = 0.0) -> Floats:
    """Weights and, last, the bias that minimise |w|^2 / 2 + C * log loss, by L-BFGS (Nocedal 1980) from `start`."""
    known = ~np.isnan(truth)
    signs = np.where(truth == 1, 1.0, -1.0)
    yes, no = int((signs[known] > 0).sum()), int((signs[known] < 0).sum())
    point = np.append(np.zeros(rows.width), np.log((yes + 1) / (no + 1)))
    if not yes or not no:
        return point
    point = point if start is None else start
    tolerance = max(TOLERANCE, rough * C * float(np.sqrt(min(yes, no))))

    def value(w: Floats) -> tuple[float, Floats]:
        margin = signs * (rows.times(w[:-1]) + w[-1])
        loss = float(np.logaddexp(0, -margin)[known].sum())
        error = np.where(known, -C * signs * _sigmoid(-margin), 0.0)
        gradient = np.append(rows.back(error) + w[:-1], error.sum())
        return _dot(w[:-1], w[:-1]) / 2 + C * loss, gradient

    return _minimum(value, point, tolerance)


def _minimum(value: Callable[[Floats], tuple[float, Floats]], point: Floats, tolerance: float) -> Floats:
    """The minimum of a convex function; value: returns value and gradient at a point; stops at gradient `tolerance`."""
    past: deque[tuple[Floats, Floats]] = deque(maxlen=MEMORY)  # steps, and the change of the gradient in each
    current, gradient = value(point)
    for _ in range(STEPS):
        if np.abs(gradient).max() < tolerance:
            break
        step = _direction(gradient, past)
        size, slope = (1.0 if past else _dot(gradient, gradient) ** -0.5), _dot(step, gradient)
        while True:
            candidate, new_gradient = value(point + size * step)
            if candidate <= current + 1e-4 * size * slope or size < 1e-12:
                break
            size /= 2
        if _dot(new_gradient - gradient, step) > 0:
            past.append((size * step, new_gradient - gradient))
        point, current, gradient = point + size * step, candidate, new_gradient
    return point


def _direction(gradient: Floats, past: Sequence[tuple[Floats, Floats]]) -> Floats:
    """The descent direction, by the curvature that the last steps show (the two-loop recursion)."""
    direction, shares = -gradient, []
    for step, change in reversed(past):
        shares.append(_dot(step, direction) / _dot(step, change))
        direction = direction - shares[-1] * change
    if past:
        step, change = past[-1]
        direction = direction * (_dot(step, change) / _dot(change, change))
    for (step, change), share in zip(past, reversed(shares), strict=True):
        direction = direction + step * (share - _dot(change, direction) / _dot(step, change))
    return direction


def _dot(a: Floats, b: Floats) -> float:
    """Not `a @ b`, whose order of summation depends on the number of threads, and whose threads wait for one another on
    a busy machine: a fit took ten times as long."""
    return float(np.einsum("i,i", a, b))


def _sigmoid(x: Floats) -> Floats:
    shares: Floats = np.exp(-np.logaddexp(0, -x))
    return shares
