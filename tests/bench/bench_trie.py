"""Cost of a trie's masks per decoding step: 10,000 titles, 32 rows, lists of ten; CPU time of one thread.

The time goes to some forty small operations whose code and data are no longer in the caches after the softmax between
two steps, and to the thousands of titles' first tokens of a row at the root.
"""

import random
import statistics
import time

import torch

from tests.bench.figures import figure
from training.decoding.trie import Mask, Trie

TITLES, ROWS, WORDS, K = 10_000, 32, 8_000, 10


def main() -> None:
    torch.set_num_threads(1)
    trie, rng = world(), random.Random(1)
    excluded = [rng.sample(sorted(trie.places), 5) for _ in range(ROWS)]
    steps: list[float] = []
    for _ in range(3):
        process = Mask(trie, excluded, 1)
        ids, scores = torch.ones(ROWS, 1, dtype=torch.long), torch.rand(ROWS, WORDS)
        while (ids[:, -1] != trie.end).any():
            start = time.process_time()
            masked = process(ids, scores)
            if ids.size(1) > 1:  # the first step sets up the rows' states, once per list
                steps.append(1000 * (time.process_time() - start))
            ids = torch.cat([ids, torch.multinomial(masked.softmax(-1), 1)], dim=1)
    figure("trie.ms_a_step", statistics.mean(steps), "ms", "<= .2")
    figure("trie.ms_a_step_median", statistics.median(steps), "ms", "none")


def world() -> Trie:
    """Names of 4 to 12 tokens, a few of which are frequent, as in titles."""
    rng = random.Random(0)
    weights = [1 / (n + 10) for n in range(10, WORDS)]
    names: set[tuple[int, ...]] = set()
    while len(names) < TITLES:
        names.add((*rng.choices(range(10, WORDS), weights, k=rng.randint(3, 11)), 9))
    numbers = [(2 + n % 7, 1) for n in range(K)]
    return Trie(sorted(names), {str(n): n for n in range(TITLES)}, numbers, end=0)
