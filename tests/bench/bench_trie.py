"""What the masks of a trie cost a step of decoding: 10,000 titles, 32 rows, lists of ten; CPU time of one thread."""

import random
import statistics
import time

import torch

from tests.bench.figures import figure
from training.decoding.trie import Trie, mask

TITLES, ROWS, WORDS, K = 10_000, 32, 8_000, 10


def main() -> None:
    torch.set_num_threads(1)
    trie, chance = world(), random.Random(1)
    shut = [chance.sample(sorted(trie.places), 5) for _ in range(ROWS)]
    steps: list[float] = []
    for _ in range(3):
        (process,) = mask(trie, shut, 1)
        ids, scores = torch.ones(ROWS, 1, dtype=torch.long), torch.rand(ROWS, WORDS)
        while (ids[:, -1] != trie.end).any():
            start = time.process_time()
            found = process(ids, scores)
            if ids.size(1) > 1:  # the first step lays out the rows' states, once for a list
                steps.append(1000 * (time.process_time() - start))
            ids = torch.cat([ids, torch.multinomial(found.softmax(-1), 1)], dim=1)
    figure("trie.ms_a_step", statistics.mean(steps), "ms", "<= .2")
    figure("trie.ms_a_step_median", statistics.median(steps), "ms", "none")


def world() -> Trie:
    """Names of 4 to 12 tokens, of which few are frequent, as in titles."""
    chance = random.Random(0)
    weights = [1 / (n + 10) for n in range(10, WORDS)]
    names: set[tuple[int, ...]] = set()
    while len(names) < TITLES:
        names.add((*chance.choices(range(10, WORDS), weights, k=chance.randint(3, 11)), 9))
    numbers = [(2 + n % 7, 1) for n in range(K)]
    return Trie(sorted(names), {str(n): n for n in range(TITLES)}, numbers, end=0)
