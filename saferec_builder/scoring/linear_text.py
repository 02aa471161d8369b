"""A linear model of short texts: one logistic regression per label over words and characters; numpy only.

    model = fit(texts, truth, labels)   # truth[n, label] is 1, 0, or nan where nobody knows
    model.score(texts)                  # probabilities, [text, label]

Features are words (1-2) and characters (3-5, within words; `fit` may leave them out), sublinear tf-idf with rows of
length 1, of every term that stands in at least two training texts.
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

C = 10.0  # inverse strength of the L2 penalty, which spares the bias alone
LEAST = 2  # training texts that a term stands in
STEPS, MEMORY, TOLERANCE = 100, 8, 1e-3  # of L-BFGS: the gradient's largest part at the end
ROUGH = 1e-2  # the same in `cross_fit`, over C and the root of the rarer side: no rate changes by it in `bench learned`
_WORD = re.compile(r"\w+(?:['’]\w+)*")


@dataclass(frozen=True)
class LinearText:
    """weights and idf: one row per term of the vocabulary; the last row of weights is `own`."""

    labels: tuple[str, ...]
    terms: tuple[str, ...]
    idf: Floats
    weights: Floats
    bias: Floats

    def score(self, texts: Sequence[str], own: bool = True) -> Floats:
        """Probability of each label in each text, [text, label].

        own: the texts are from where the model is used, as those were that `fit` was told to be.
        """
        found = [terms(text, self.terms[:1] < ("w:",)) for text in texts]  # "c:" comes before "w:"
        rows = _rows(found, self._places, self.idf, np.full(len(texts), float(own)))
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
    """A model of these labels. truth: [text, label], nan where it is not known (such a text is left out for it).

    own: which texts are from where the model will be used (default: all); a column of its own learns how much more or
    less frequent a label is there. characters: of words alone `fit` takes a seventh of the time. A label without a text
    that has it, or without one that has it not, scores the share (yes + 1) / (yes + no + 2) everywhere. progress: a
    step is a label.
    """
    ready = _prepared(texts, own, characters)
    columns = counted([*np.asarray(truth, dtype=np.float64).T], progress)
    return ready.model(labels, [_solve(ready.rows, column) for column in columns])


def cross_fit(
    texts: Sequence[str],
    truth: Floats,
    labels: Sequence[str],
    folds: Sequence[int],
    *,
    own: Sequence[bool] | None = None,
    progress: Progress | None = None,
) -> tuple[LinearText, ...]:
    """Model n is fitted as by `fit` on all texts but those of fold n, so that it scores these as texts that it has not
    seen; a text of fold -1 is in every model. The terms and how rare they are come from all texts. progress: a step
    is a model."""
    ready, fold, known = _prepared(texts, own, True), np.asarray(folds), np.asarray(truth, dtype=np.float64)
    models: list[LinearText] = []
    for n in counted(range(int(fold.max(initial=0)) + 1), progress):
        mine = np.where((fold == n)[:, None], np.nan, known).T
        # from nothing: the solution of another fold has seen this one, and where it stops it is not forgotten
        models.append(ready.model(labels, [_solve(ready.rows, column, ROUGH) for column in mine]))
    return tuple(models)


def terms(text: str, characters: bool = True) -> Counter[str]:
    """How often each term stands in a text: `w:` words and pairs of words, `c:` characters with the words' edges."""
    words = _WORD.findall(text.lower().replace("’", "'"))
    found = Counter(f"w:{word}" for word in words)
    found.update(f"w:{a} {b}" for a, b in pairwise(words))
    for word in (f" {w} " for w in words if characters):
        found.update(f"c:{word[n : n + k]}" for k in (3, 4, 5) for n in range(len(word) - k + 1))
    return found


# ---- sparse rows


@dataclass(frozen=True)
class _Rows:
    """Compressed rows: of row n the terms places[starts[n] : starts[n + 1]]; none is empty (`own` is in each)."""

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
        """The transposed product."""
        sizes = np.diff(np.append(self.starts, len(self.places)))
        return np.bincount(self.places, self.values * np.repeat(errors, sizes), self.width).astype(np.float64)


def _rows(found: Sequence[Counter[str]], known: dict[str, int], idf: Floats, own: Floats) -> _Rows:
    starts, places, values, end = [], [], [], 0
    for terms_, here in zip(found, own, strict=True):
        kept = [(known[t], n) for t, n in terms_.items() if t in known]
        at = np.array([place for place, _ in kept], dtype=np.int64)
        value = (1 + np.log(np.array([n for _, n in kept], dtype=np.float64))) * idf[at]
        value = value / (np.linalg.norm(value) or 1.0)
        starts.append(end)
        places.append(np.append(at, len(known)))
        values.append(np.append(value, here))
        end += len(kept) + 1
    none = np.zeros(0)
    return _Rows(
        np.array(starts, dtype=np.int64),
        np.concatenate([none.astype(np.int64), *places]),
        np.concatenate([none, *values]),
        len(known) + 1,
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
    found = [terms(text, characters) for text in texts]
    counts = Counter(term for each in found for term in each)
    known = tuple(sorted(term for term, n in counts.items() if n >= LEAST))
    idf = np.log((1 + len(texts)) / (1 + np.array([counts[t] for t in known], dtype=np.float64))) + 1
    here = np.ones(len(texts)) if own is None else np.asarray(own, dtype=np.float64)
    return _Prepared(known, idf, _rows(found, {term: n for n, term in enumerate(known)}, idf, here))


# ---- logistic regression


def _solve(rows: _Rows, truth: Floats, rough: float = 0.0) -> Floats:
    """Weights and, last, the bias that minimise |w|^2 / 2 + C * log loss, by L-BFGS (Nocedal 1980)."""
    known = ~np.isnan(truth)
    signs = np.where(truth == 1, 1.0, -1.0)
    point = np.zeros(rows.width + 1)
    yes, no = int((signs[known] > 0).sum()), int((signs[known] < 0).sum())
    point[-1] = np.log((yes + 1) / (no + 1))
    if not yes or not no:
        return point
    least = max(TOLERANCE, rough * C * float(np.sqrt(min(yes, no))))

    def value(at: Floats) -> tuple[float, Floats]:
        margin = signs * (rows.times(at[:-1]) + at[-1])
        loss = float(np.logaddexp(0, -margin)[known].sum())
        error = np.where(known, -C * signs * _sigmoid(-margin), 0.0)
        gradient = np.append(rows.back(error) + at[:-1], error.sum())
        return _dot(at[:-1], at[:-1]) / 2 + C * loss, gradient

    return _minimum(value, point, least)


def _minimum(value: Callable[[Floats], tuple[float, Floats]], point: Floats, least: float) -> Floats:
    """Where a convex function has its minimum; value: a point's value and gradient, which ends at `least`."""
    past: deque[tuple[Floats, Floats]] = deque(maxlen=MEMORY)  # steps, and how the gradient changed in each
    now, gradient = value(point)
    for _ in range(STEPS):
        if np.abs(gradient).max() < least:
            break
        step = _direction(gradient, past)
        size, slope = (1.0 if past else _dot(gradient, gradient) ** -0.5), _dot(step, gradient)
        while True:
            there, changed = value(point + size * step)
            if there <= now + 1e-4 * size * slope or size < 1e-12:
                break
            size /= 2
        if _dot(changed - gradient, step) > 0:
            past.append((size * step, changed - gradient))
        point, now, gradient = point + size * step, there, changed
    return point


def _direction(gradient: Floats, past: Sequence[tuple[Floats, Floats]]) -> Floats:
    """Downhill, by what the last steps tell of the curvature (the two-loop recursion)."""
    way, shares = -gradient, []
    for step, change in reversed(past):
        shares.append(_dot(step, way) / _dot(step, change))
        way = way - shares[-1] * change
    if past:
        step, change = past[-1]
        way = way * (_dot(step, change) / _dot(change, change))
    for (step, change), share in zip(past, reversed(shares), strict=True):
        way = way + step * (share - _dot(change, way) / _dot(step, change))
    return way


def _dot(a: Floats, b: Floats) -> float:
    """Not `a @ b`, which sums in another order for each number of threads, and whose threads wait for one another where
    the machine is busy: a fit took ten times as long."""
    return float(np.einsum("i,i", a, b))


def _sigmoid(x: Floats) -> Floats:
    shares: Floats = np.exp(-np.logaddexp(0, -x))
    return shares
