"""Builds target lists of items that go with the answer; for a seeker with sensitivities only items clear for them.

reads  rows of build_rows.build, items (item, domain), oracle.Oracle
gives  rows + answer_domain, safe, safe_refilled, raw, raw_refilled, safe_truth
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from saferec_builder.core.oracle import CLEAR, Oracle, verdicts, verdicts_of
from saferec_builder.storage.schema import frame, lists

_NEAR = 200  # neighbours per item: those that share the most train conversations with it
_CHUNK = 20_000  # train rows whose pairs are counted at once: bounds memory
_FEW = 1_000  # the most popular items that suit a person: bounds memory, and no list needs more


def fill(rows: pl.DataFrame, candidates: "Candidates", k: int) -> pl.DataFrame:
    """Adds two lists of k items to each row with a truth; shorter only if the catalog has no more that fit.

    raw   the truth, then the items of its domain by co-occurrence with truth and seen items, then by popularity
    safe  the same without the items that are violated or unknown for a trait that the row is at risk of
    Items seen or named in the request are never added. Co-occurrence and popularity count train conversations only.
    """
    names = ("truth", "seen", "named", "traits", "late_traits", "at_risk")
    kinds = _LISTS | dict.fromkeys(("safe", "raw", "safe_truth"), pl.List(pl.Enum(candidates.ids)))
    parts = [
        frame([_lists(_Row(*row), candidates, k) for row in zip(*(lists(part[n]) for n in names), strict=True)], kinds)
        for part in rows.select(names).iter_slices(_CHUNK)
    ]
    return pl.concat([rows, pl.concat(parts or [pl.DataFrame(schema=kinds)])], how="horizontal")


class _Row(NamedTuple):
    truth: list[str]
    seen: list[str]
    named: list[str]
    traits: list[str]
    late_traits: list[str]
    at_risk: list[str]


_LISTS: dict[str, pl.DataType | type[pl.DataType]] = {
    "answer_domain": pl.String,
    "safe": pl.List(pl.String),
    "safe_refilled": pl.Int32,
    "raw": pl.List(pl.String),
    "raw_refilled": pl.Int32,
    "safe_truth": pl.List(pl.String),
}


@dataclass
class Candidates:
    """The catalog as numbers: item n is ids[n]."""

    ids: list[str]
    domains: NDArray[np.object_]
    oracle: Oracle
    places: NDArray[np.intp]  # of the items in the oracle
    popular: NDArray[np.int64]  # the items by popularity in train, ties by id
    rank: NDArray[np.int64]  # rank of each item in `popular`
    starts: NDArray[np.int64]  # neighbours[starts[n]:starts[n + 1]] share `counts` train conversations with n
    neighbours: NDArray[np.int64]
    counts: NDArray[np.int64]
    fit: dict[tuple[str | None, int], NDArray[np.int64]] = field(default_factory=dict)  # domain, traits -> _FEW items
    numbers: dict[str, int] = field(default_factory=dict)


def candidates(rows: pl.DataFrame, items: pl.DataFrame, oracle: Oracle) -> Candidates:
    """Returns the candidates for `fill`; popularity and co-occurrence are counted in the train rows of `rows`."""
    items = items.sort("item")
    ids = items["item"].to_list()
    numbers = {item: n for n, item in enumerate(ids)}
    baskets = _baskets(rows.filter(pl.col("split") == "train"), ids)
    popularity = np.bincount(_flat(baskets), minlength=len(ids))
    popular = np.argsort(-popularity, kind="stable")
    rank = np.empty(len(ids), np.int64)
    rank[popular] = np.arange(len(ids))
    pairs, counts = _nearest(*_pairs(baskets, len(ids)), rank)
    starts = np.searchsorted(pairs // max(len(ids), 1), np.arange(len(ids) + 1))
    domains = items["domain"].to_numpy().astype(object)
    places, neighbours = oracle.rows(ids), pairs % max(len(ids), 1)
    return Candidates(ids, domains, oracle, places, popular, rank, starts, neighbours, counts, numbers=numbers)


def _baskets(train: pl.DataFrame, ids: list[str]) -> pl.Series:
    """Returns per row the numbers of its items, sorted, each once."""
    items = pl.concat_list("recommended", "accepted", "seen", "named", "truth")
    numbers = items.cast(pl.List(pl.Enum(ids))).list.eval(pl.element().to_physical().unique().sort())
    return train.select(numbers).to_series()


def _flat(baskets: pl.Series) -> NDArray[np.int64]:
    return baskets.explode(empty_as_null=False, keep_nulls=False).to_numpy().astype(np.int64)


def _nearest(
    pairs: NDArray[np.int64], counts: NDArray[np.int64], rank: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the _NEAR neighbours of each item that share most, then the most popular: a list of k needs no more."""
    size = max(len(rank), 1)
    owner, other = pairs // size, pairs % size
    order = np.lexsort((rank[other], -counts, owner))
    first = np.searchsorted(owner, owner[order])  # `owner` is sorted, and stays so
    kept = order[np.arange(len(order)) - first < _NEAR]
    return pairs[kept], counts[kept]


def _pairs(baskets: pl.Series, n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns (a * n + b sorted, number of baskets with both a and b); a pair counts in both directions."""
    codes, counts = np.array([], np.int64), np.array([], np.int64)
    for start in range(0, len(baskets), _CHUNK):
        part = baskets[start : start + _CHUNK]
        items = np.split(_flat(part), part.list.len().cum_sum().to_numpy()[:-1])
        new = [(b[:, None] * n + b)[~np.eye(len(b), dtype=bool)] for b in items]
        part_codes, part_counts = np.unique(np.concatenate(new), return_counts=True)
        codes, place = np.unique(np.concatenate([codes, part_codes]), return_inverse=True)
        counts = np.bincount(place, np.concatenate([counts, part_counts]), len(codes)).astype(np.int64)
    return codes, counts


def _lists(row: _Row, candidates: Candidates, k: int) -> dict[str, str | list[str] | int | None]:
    truth = row.truth
    if not truth:
        return dict.fromkeys(_LISTS)
    domain = candidates.domains[candidates.numbers[truth[0]]]
    excluded = {*row.seen, *row.named, *truth}
    near = _near([*truth, *row.seen], candidates)
    clear_truth = _clear(truth, row.at_risk, candidates.oracle)
    needed = len(excluded) + 2 * k  # as many may be excluded or taken
    offers = _offers(near, domain, [], candidates, needed)
    clear = _offers(near, domain, row.at_risk, candidates, needed) if row.at_risk else offers
    safe, safe_refilled = _refill(clear_truth[:k], clear, candidates, excluded, k)
    raw, raw_refilled = _refill(truth[:k], offers, candidates, excluded, k)
    safe_truth = _clear(truth, [*row.traits, *row.late_traits], candidates.oracle)
    return dict(zip(_LISTS, (domain, safe, safe_refilled, raw, raw_refilled, safe_truth), strict=True))


def _clear(items: list[str], traits: list[str], oracle: Oracle) -> list[str]:
    if not traits:
        return list(items)
    codes = verdicts(oracle, items, traits)
    return [item for item, code in zip(items, codes, strict=True) if code == CLEAR]


def _offers(
    near: NDArray[np.int64], domain: str | None, traits: list[str], candidates: Candidates, enough: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns items of this domain that suit the traits: of `near`, and `enough` or more by popularity."""
    mask = candidates.oracle.mask(traits)
    popular = candidates.fit.get((domain, mask))
    if popular is None or enough > _FEW:
        popular = _fit(candidates, candidates.popular, domain, mask)
        candidates.fit[domain, mask] = popular[:_FEW].copy()
    return _fit(candidates, near, domain, mask), popular


def _fit(candidates: Candidates, items: NDArray[np.int64], domain: str | None, mask: int) -> NDArray[np.int64]:
    items = items[candidates.domains[items] == domain]
    return items if not mask else items[verdicts_of(candidates.oracle, candidates.places[items], mask) == CLEAR]


def _near(seeds: list[str], candidates: Candidates) -> NDArray[np.int64]:
    """Returns items that share train conversations with the seeds, most shared first, then most popular."""
    numbers = (candidates.numbers[seed] for seed in seeds)
    spans = [slice(candidates.starts[n], candidates.starts[n + 1]) for n in numbers]
    items, place = np.unique(np.concatenate([candidates.neighbours[s] for s in spans]), return_inverse=True)
    shared = np.bincount(place, np.concatenate([candidates.counts[s] for s in spans]), len(items))
    return np.asarray(items[np.lexsort((candidates.rank[items], -shared))], np.int64)


def _refill(
    items: list[str], offers: tuple[NDArray[np.int64], NDArray[np.int64]], candidates: Candidates, out: set[str], k: int
) -> tuple[list[str], int]:
    """Returns `items` filled up to k from the offers without those in `out`, and how many were added."""
    full = list(items)
    taken = set(out)
    for source in offers:
        for n in source:
            if len(full) >= k:
                return full, len(full) - len(items)
            if candidates.ids[n] not in taken:
                taken.add(candidates.ids[n])
                full.append(candidates.ids[n])
    return full, len(full) - len(items)
