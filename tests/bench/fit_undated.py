"""python -m tests.bench.fit_undated: fits the weights of core/undated.py on the tuning half of the titles.

A conditional logit by Newton's method with a ridge, on four catalogs of different coverage, so that it also learns from
works that a catalog lacks. The other half is not read.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from saferec_builder.core import titles, undated
from tests.bench import undated_gold as gold

RIDGE = 0.5
SEEN = ("spelt", "words", "decades", "genres")
KNOWN = tuple(name for name in undated.WEIGHTS if name not in SEEN)


def main() -> None:
    folder = Path(os.environ["SAFEREC_REAL_DATA"])
    rows = [row for catalog in gold.catalogs(folder) for row in taught(catalog, gold.shown(folder, gold.TUNED))]
    for name, weight in zip((*KNOWN, *SEEN), fit(rows), strict=True):
        print(f'    "{name}": {weight:.2f},')


def taught(catalog: gold.Catalog, shown: Sequence[gold.Shown]) -> list[tuple[NDArray[np.float64], NDArray[np.bool_]]]:
    """Returns (features of each work with the title, whether it is meant) for each read title that the catalog has."""
    rows = []
    for title in shown:
        match = titles.find(catalog.bare, title.title, None, "film")
        items = [match.item] if match.item else list(match.candidates)
        if items and title.year not in ("none", "unsure"):
            others = undated.company(gold.others(catalog, title))
            words = len(titles.normal(title.title).split())
            seen = [undated.features(title.title, words, catalog.index.works[item], others) for item in items]
            features = [catalog.known[item].features() for item in items]
            x = [
                [*(k[name] for name in KNOWN), *(row[name] for name in SEEN)]
                for k, row in zip(features, seen, strict=True)
            ]
            rows.append((np.array(x), np.array([gold.right(catalog, item, title) for item in items])))
    return rows


def fit(rows: Sequence[tuple[NDArray[np.float64], NDArray[np.bool_]]]) -> NDArray[np.float64]:
    """Weights of the largest penalised likelihood; if no work is meant, the outside option is."""
    w = np.zeros(len(KNOWN) + len(SEEN))
    for _ in range(60):
        gradient, hessian = -RIDGE * w, RIDGE * np.eye(len(w))
        for x, meant in rows:
            u = x @ w
            e = np.exp(u - max(u.max(), 0))
            p = e / (e.sum() + np.exp(-max(u.max(), 0)))
            mean = p @ x
            hessian += (x * p[:, None]).T @ x - np.outer(mean, mean)
            gradient += (p * meant / (p @ meant) @ x if meant.any() else 0) - mean
        w = w + 0.7 * np.linalg.solve(hessian, gradient)
    return w


if __name__ == "__main__":
    main()
