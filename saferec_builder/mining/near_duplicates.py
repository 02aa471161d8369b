"""Clusters duplicate and near-duplicate requests: exact after normalising, or 0.8 of word triples in common.

reads  requests of the conversations (current revision), clusters so far
gives  new rows of CLUSTERS, for the conversations whose cluster changed

Exact copies are found by hash. One of each is sketched (MinHash) and banded (LSH). Pairs that share a band are verified
on their word triples, so that nothing is joined by an estimate; if more than _ALL_PAIRS share one, each is compared
only with so many before it. `splits` keeps a cluster in one split.
"""

from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from saferec_builder.storage import tables

SAME = 0.8  # Jaccard of word triples
_BANDS, _ROWS = 20, 6  # 120 permutations: a pair at 0.8 shares a band with 1 - (1 - 0.8^6)^20 = 0.998
_GRAM = 3
_ODD = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F], np.uint64)  # mixes the hashes of a run's words
_MIX = np.random.default_rng(7).integers(1, 1 << 63, _BANDS * _ROWS, np.uint64) | np.uint64(1)  # a band's hash
_ALL_PAIRS = 64  # up to so many rows of a band are all compared with each other; in larger bands each with 64 before it


def requests(conversations: pl.DataFrame) -> pl.DataFrame:
    """(conversation, text: the seeker's turns as plain lower-case words)."""
    seeker = pl.col("turns").list.filter(pl.element().struct["role"] == "seeker")
    texts = seeker.list.eval(pl.element().struct["text"]).list.join(" ")
    plain = texts.str.to_lowercase().str.replace_all(r"[^\pL\pN]+", " ").str.strip_chars()
    return conversations.select("conversation", text=plain)


def clusters(requests: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    """Rows of CLUSTERS to append: of conversations whose cluster differs from their last row (no row: no cluster)."""
    current = _clustered(requests.sort("conversation"))
    past = tables.last(known, "conversation").rename({"cluster": "was", "revision": "old"})
    both = current.join(past, "conversation", "left", maintain_order="left")
    changed = both.filter(~pl.col("cluster").eq_missing(pl.col("was")))
    return changed.with_columns(revision=(pl.col("old") + 1).fill_null(0).cast(pl.Int32)).select(
        list(tables.CLUSTERS.columns)
    )


def _clustered(requests: pl.DataFrame) -> pl.DataFrame:
    """(conversation, cluster; null if it has no near-duplicate), sorted by id."""
    distinct = requests.group_by("text", maintain_order=True).agg("conversation")
    roots = _joined(distinct.height, similar(distinct["text"]))
    first = distinct["conversation"].list.first()
    grouped = distinct.select("conversation", "text", head=first.gather(roots)).explode("conversation")
    several = (pl.len().over("head") > 1) & (pl.col("text") != "")  # texts without a word ("...", "?") are no copies
    cluster = pl.when(several).then(pl.col("head"))
    return grouped.select("conversation", cluster=cluster).sort("conversation")


def similar(texts: pl.Series) -> list[tuple[int, int]]:
    """Pairs of row numbers of distinct texts whose word triples are at least SAME alike."""
    if texts.len() < 2:
        return []
    from rensa import RMinHashLSH

    index = RMinHashLSH(threshold=SAME, num_perm=_BANDS * _ROWS, num_bands=_BANDS)
    flagged = np.flatnonzero(index.query_duplicate_flags_matrix_one_shot(_sketches(*_shingles(texts))))
    if flagged.size < 2:
        return []
    hashes, offsets = _shingles(texts.gather(flagged))
    sets = [frozenset(hashes[a:b].tolist()) for a, b in pairwise(offsets.tolist())]
    near = sorted(_candidates(_sketches(hashes, offsets)))
    alike = [(a, b) for a, b in near if len(sets[a] & sets[b]) / len(sets[a] | sets[b]) >= SAME]
    return [(int(flagged[a]), int(flagged[b])) for a, b in alike]


def _shingles(texts: pl.Series) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """(hashes of all runs of three words, offsets of each text's runs); a shorter text is one run."""
    words = texts.str.split(" ")
    counts = words.list.len().to_numpy().astype(np.int64)
    word = words.explode().hash(seed=7).to_numpy()
    ends = np.cumsum(counts)
    runs = np.maximum(counts - (_GRAM - 1), 1)
    offsets = np.concatenate([[0], np.cumsum(runs)])
    # index of the first word of each run
    first = np.arange(offsets[-1]) - np.repeat(offsets[:-1] - (ends - counts), runs)
    hashes = word[first]
    last = np.repeat(ends, runs) - 1
    for n, odd in enumerate(_ODD, 1):
        step = first + n
        hashes = hashes * odd + np.where(step <= last, word[np.minimum(step, last)], np.uint64(n))
    return hashes, offsets.astype(np.uint64)


def _sketches(hashes: NDArray[np.uint64], offsets: NDArray[np.uint64]) -> Any:
    """One row of MinHashes per text, as rensa stores it."""
    from rensa import RMinHash

    return RMinHash.digest_matrix_from_flat_token_hashes(hashes, offsets, _BANDS * _ROWS, 42)


def _candidates(sketches: Any) -> set[tuple[int, int]]:
    """Pairs of rows that share a band (rarely by a hash collision); the caller verifies each."""
    pairs: set[tuple[int, int]] = set()
    mixed = np.array(sketches.to_rows(), np.uint32) * _MIX
    for band in range(_BANDS):
        group = mixed[:, band * _ROWS : (band + 1) * _ROWS].sum(axis=1)
        order = np.argsort(group, kind="stable")
        edges = np.flatnonzero(np.diff(group[order], prepend=~group[order[:1]], append=~group[order[-1:]]))
        for n in np.flatnonzero(np.diff(edges) > 1).tolist():
            rows = order[edges[n] : edges[n + 1]].tolist()
            pairs.update((a, b) for n, b in enumerate(rows) for a in rows[max(0, n - _ALL_PAIRS) : n])
    return pairs


def _joined(n: int, pairs: list[tuple[int, int]]) -> list[int]:
    """The first row of each row's group of connected rows."""
    parent = list(range(n))

    def root(row: int) -> int:
        while parent[row] != row:
            parent[row] = row = parent[parent[row]]
        return row

    for a, b in pairs:
        a, b = sorted((root(a), root(b)))
        parent[b] = a
    return [root(row) for row in range(n)]
