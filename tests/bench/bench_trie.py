"""What the masks of a trie cost a step of decoding: 10,000 titles, 32 rows, lists of ten; CPU time of one thread.

On two cores that other work kept busy, three runs of each in turn: .35 to .37 ms (up to .51 where more was running), of
which .11 write the result, 1 MB of -inf with some 9,000 scores, mostly of rows that begin a name. Of the rest more than
half finds these scores in the trie, the other part takes the last token. Caps that are kept for the rows at the root,
instead of looking their tokens up anew, took .40 to .49; all in torch .50 to .56: an operation on an array so small
costs it more.
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
    trie, chance = world(), random.Random(1)
    shut = [chance.sample(sorted(trie.places), 5) for _ in range(ROWS)]
    steps: list[float] = []
    floor: list[float] = []
    for _ in range(3):
        (process,) = mask(trie, shut, 1)
        ids, scores = torch.ones(ROWS, 1, dtype=torch.long), torch.rand(ROWS, WORDS)
        while (ids[:, -1] != trie.end).any():
            start = time.process_time()
            found = process(ids, scores)
            if ids.size(1) > 1:  # the first step lays out the rows' states, once for a list
                steps.append(1000 * (time.process_time() - start))
                floor.append(write_alone(found, scores))
            ids = torch.cat([ids, torch.multinomial(found.softmax(-1), 1)], dim=1)
    figure("trie.ms_a_step", statistics.mean(steps), "ms", "<= .2")
    figure("trie.ms_a_step_median", statistics.median(steps), "ms", "none")
    figure("trie.ms_to_write_it", statistics.mean(floor), "ms", "none")


def write_alone(found: Tensor, scores: Tensor) -> float:
    """ms to write the result where every place that is open is given: no way to find them can be cheaper."""
    place = found.flatten().isfinite().nonzero().squeeze(1)
    start = time.process_time()
    torch.full_like(scores, float("-inf")).flatten().scatter_(0, place, scores.flatten().index_select(0, place))
    return 1000 * (time.process_time() - start)


def world() -> Trie:
    """Names of 4 to 12 tokens, of which few are frequent, as in titles."""
    chance = random.Random(0)
    weights = [1 / (n + 10) for n in range(10, WORDS)]
    names: set[tuple[int, ...]] = set()
    while len(names) < TITLES:
        names.add((*chance.choices(range(10, WORDS), weights, k=chance.randint(3, 11)), 9))
    numbers = [(2 + n % 7, 1) for n in range(K)]
    return Trie(sorted(names), {str(n): n for n in range(TITLES)}, numbers, end=0)
