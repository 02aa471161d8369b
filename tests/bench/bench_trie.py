"""Cost of a trie's masks per decoding step: 10,000 titles, 32 rows, lists of ten; CPU time of one thread.

On two busy cores, three runs each in turn: .35 to .37 ms (up to .51 when more was running), of which .11 write the
result, 1 MB of -inf with some 9,000 scores, mostly of rows that begin a name. More than half of the rest finds these
scores in the trie, the other part takes the last token. Storing caps for the rows at the root, instead of looking up
their tokens again, took .40 to .49; everything in torch .50 to .56: an operation on such a small array costs more
there.
"""

import random
import statistics
import time

import torch
from torch import Tensor

from tests.bench.figures import figure
from training.decoding.trie import Trie, mask

TITLES, ROWS, WORDS, K = 10_000, 32, 8_000, 10


def main() -> None:
    torch.set_num_threads(1)
    trie, rng = world(), random.Random(1)
    excluded = [rng.sample(sorted(trie.places), 5) for _ in range(ROWS)]
    steps: list[float] = []
    floor: list[float] = []
    for _ in range(3):
        (process,) = mask(trie, excluded, 1)
        ids, scores = torch.ones(ROWS, 1, dtype=torch.long), torch.rand(ROWS, WORDS)
        while (ids[:, -1] != trie.end).any():
            start = time.process_time()
            masked = process(ids, scores)
            if ids.size(1) > 1:  # the first step sets up the rows' states, once per list
                steps.append(1000 * (time.process_time() - start))
                floor.append(write_alone(masked, scores))
            ids = torch.cat([ids, torch.multinomial(masked.softmax(-1), 1)], dim=1)
    figure("trie.ms_a_step", statistics.mean(steps), "ms", "<= .2")
    figure("trie.ms_a_step_median", statistics.median(steps), "ms", "none")
    figure("trie.ms_to_write_it", statistics.mean(floor), "ms", "none")


def write_alone(found: Tensor, scores: Tensor) -> float:
    """ms to write the result if all open places are given: no way to find them can be cheaper."""
    place = found.flatten().isfinite().nonzero().squeeze(1)
    start = time.process_time()
    torch.full_like(scores, float("-inf")).flatten().scatter_(0, place, scores.flatten().index_select(0, place))
    return 1000 * (time.process_time() - start)


def world() -> Trie:
    """Names of 4 to 12 tokens, a few of which are frequent, as in titles."""
    rng = random.Random(0)
    weights = [1 / (n + 10) for n in range(10, WORDS)]
    names: set[tuple[int, ...]] = set()
    while len(names) < TITLES:
        names.add((*rng.choices(range(10, WORDS), weights, k=rng.randint(3, 11)), 9))
    numbers = [(2 + n % 7, 1) for n in range(K)]
    return Trie(sorted(names), {str(n): n for n in range(TITLES)}, numbers, end=0)
