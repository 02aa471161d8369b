"""Constrained decoding by a trie of catalogue names, for models that answer in text: which token may come next.

The rules of decoding/constrained.py for models whose items are text: only names of the catalogue, none twice, none that
the seeker has seen, k lines and then the end; fewer only if the catalogue has no more. A line is "N.", then
" Title (Year)" with its line break. Only `States.allowed` computes which tokens may follow, for all rows together, in a
few dozen numpy operations: torch is slower on arrays this small.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import LogitsProcessor, LogitsProcessorList, PreTrainedTokenizerBase

from training.data import Release

BASE = 1 << 24  # larger than every token id
Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]
Row = tuple[int, int, int, int]  # a node: its parent or -1, and `token`, `names` and `ends` of Nodes


@dataclass(frozen=True)
class Trie:
    names: Sequence[tuple[int, ...]]  # tokens of each name with its line break, sorted
    places: Mapping[str, int]  # item -> index of its name; two items may share one
    numbers: Sequence[tuple[int, ...]]  # tokens of "1.", "2.", ... "k."
    end: int

    @property
    def length(self) -> int:
        """Number of tokens of the longest answer, without its end."""
        return sum(map(len, self.numbers)) + len(self.numbers) * max(map(len, self.names))

    @cached_property
    def nodes(self) -> "Nodes":
        return _nodes(self)


@dataclass(frozen=True)
class Nodes:
    """The trie as arrays over its nodes: node 0 is its root; the children of a node are adjacent.

    One more entry after all nodes stands for no node: no name goes through it, and a row that reaches it is done.
    """

    key: Numbers  # parent * BASE + token, ascending
    token: Numbers  # token that leads to the node
    stop: Numbers  # index after the last child
    children: Numbers  # number of children
    names: Numbers  # number of names through the node; 1 for nodes outside names
    next_node: Numbers  # node to continue from: the root after the last token of a line's number, else the node itself
    ends: Numbers  # index of the name that ends here; len(path) - 1 for none
    path: Numbers  # (names + 1, depth) nodes of each name; the last row is for no name
    lines: Numbers  # first node of each line, then of the end
    done: int


def _nodes(trie: Trie) -> Nodes:
    """Builds the tree of the names, then a chain of nodes for the number of each line and one for the end."""
    (rows, path), none, lines = _tree(trie.names), len(trie.names), list[int]()
    for number in [*trie.numbers, (trie.end,)]:
        lines.append(len(rows))
        rows += [(-1, -1, 1, none), *((n, token, 1, none) for n, token in enumerate(number, len(rows)))]
    indices, done = np.arange(len(rows)), len(rows) - 1
    next_node = np.append(indices, done)
    next_node[np.array(lines[1:]) - 1] = 0
    parent, token, names, ends = np.array([*rows, (-1, 0, 0, none)]).T.copy()
    parents = parent[:-1]
    key = np.where(parents < 0, indices * BASE - 1, parents * BASE + token[:-1])
    children = np.bincount(parents[parents >= 0], minlength=len(rows))
    stop = key.searchsorted(indices * BASE) + children
    token[done], stop[done], children[done] = trie.end, done + 1, 1  # the end follows the end
    key = np.append(key, len(rows) * BASE)
    path[path < 0] = len(rows)  # shorter paths are padded with the last node
    return Nodes(key, token, stop, children, names, next_node, ends, path, np.array(lines), done)


def _tree(names: Sequence[tuple[int, ...]]) -> tuple[list[Row], Numbers]:
    """Returns the nodes by level, so that children of a node are adjacent, and Nodes.path, padded with -1."""
    nodes, none = list[Row](), len(names)
    path = np.full((none + 1, max(map(len, names)) + 1), -1)
    queue = deque([(-1, -1, 0, none, 0)])  # parent, token, and names [start, stop) with equal first `depth` tokens
    while queue:
        parent, token, start, stop, depth = queue.popleft()
        path[start:stop, depth] = n = len(nodes)
        is_name = len(names[start]) == depth  # a line break ends a name, so no name begins another
        nodes.append((parent, token, stop - start, start if is_name else none))
        for next_token, group in groupby(() if is_name else range(start, stop), key=lambda name: names[name][depth]):
            members = list(group)
            queue.append((n, next_token, members[0], members[-1] + 1, depth + 1))
    return nodes, path


def over(release: Release, tokenizer: PreTrainedTokenizerBase) -> Trie:
    """Returns the trie of the items of a release, by their names; skips names that are not parsed as their item."""
    items = [item for item in release.items.values() if release.find(item.title, item.year, item.domain) == item.id]
    spellings = {item.id: _tokens(tokenizer, f" {item.name}\n") for item in items}
    names = sorted(set(spellings.values()))
    places = {item: bisect_left(names, spelling) for item, spelling in spellings.items()}
    numbers = [_tokens(tokenizer, f"{n}.") for n in range(1, release.k + 1)]
    return Trie(names, places, numbers, tokenizer.eos_token_id)


def _tokens(tokenizer: PreTrainedTokenizerBase, text: str) -> tuple[int, ...]:
    return tuple(tokenizer.encode(text, add_special_tokens=False))


class States:
    """The positions of answers in the trie, one per row; excluded = items that a row may not name."""

    def __init__(self, trie: Trie, excluded: Sequence[Iterable[str]]) -> None:
        self.nodes = nodes = trie.nodes
        self.remaining = np.tile(nodes.names.astype(np.int32), (len(excluded), 1))  # unused names through each node
        self.offsets = np.arange(len(excluded)) * len(nodes.names)  # offset of each row in the flattened `remaining`
        for row, items in zip(self.remaining, excluded, strict=True):
            for name in {trie.places[item] for item in items if item in trie.places}:
                row[nodes.path[name]] -= 1
        self.line = np.zeros(len(excluded), np.int64)
        self.node = self._line_start()

    def _line_start(self) -> Numbers:
        """Returns the first node of the next line; the end if no name remains."""
        lines = self.nodes.lines
        return np.where(self.remaining[:, 0] > 0, lines[self.line], lines[-1])

    def allowed(self) -> tuple[Numbers, Numbers, Flags]:
        """Returns (row, token, whether it may come next) for all children of the rows' nodes, ordered by row."""
        nodes, count = self.nodes, self.nodes.children[self.node]
        row = np.arange(len(count)).repeat(count)
        child = (nodes.stop[self.node] - count.cumsum()).repeat(count)
        child += np.arange(len(row))
        remaining = self.remaining.reshape(-1).take(self.offsets.repeat(count) + child)
        return row, nodes.token.take(child), remaining > 0

    def advance(self, tokens: Numbers) -> None:
        """Advances each row by its token, which must be open; after the end, or with any other token, a row is done."""
        nodes, remaining, key = self.nodes, self.remaining.reshape(-1), self.node * BASE + tokens
        child = nodes.key.searchsorted(key)
        is_open = (nodes.key[child] == key) & (remaining[self.offsets + child] > 0)
        name = nodes.ends[np.where(is_open, child, -1)]
        ends_name = name < len(nodes.path) - 1
        remaining[self.offsets[:, None] + nodes.path[name]] -= 1
        self.line += ends_name
        self.node = np.where(ends_name, self._line_start(), np.where(is_open, nodes.next_node[child], nodes.done))


def mask(trie: Trie, excluded: Sequence[Iterable[str]], prompt_length: int) -> LogitsProcessorList:
    """Returns the masks for `generate`, over prompts padded on the left to one length."""
    return LogitsProcessorList([_Mask(trie, excluded, prompt_length)])


class _Mask(LogitsProcessor):
    def __init__(self, trie: Trie, excluded: Sequence[Iterable[str]], prompt_length: int) -> None:
        self.trie, self.excluded, self.prompt_length = trie, excluded, prompt_length

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        if input_ids.size(1) == self.prompt_length:
            self.states = States(self.trie, self.excluded)
        else:
            self.states.advance(input_ids[:, -1].numpy(force=True))
        row, token, is_open = self.states.allowed()
        positions = torch.from_numpy((row * scores.size(1) + token)[is_open]).to(scores.device)
        masked = torch.full_like(scores, float("-inf")).flatten()
        return masked.scatter_(0, positions, scores.flatten().index_select(0, positions)).view_as(scores)


def log_probabilities(
    trie: Trie, excluded: Sequence[Iterable[str]], completions: Tensor, logits: Tensor
) -> tuple[Tensor, Tensor]:
    """(log p of each token, entropy), both (rows, length), under the masks; 0 for padding after the end."""
    states, width, answers = States(trie, excluded), completions.size(1), completions.numpy(force=True)
    parts: list[tuple[Numbers, Numbers, Flags]] = []  # of every open token: position, token, whether it was sampled
    for position in range(width):
        row, token, is_open = states.allowed()
        sampled = is_open & (token == answers[row, position]) & (states.node != states.nodes.done)[row]
        row_sampled = np.zeros(len(answers), bool)
        row_sampled[row[sampled]] = True
        used = is_open & row_sampled[row]
        parts.append((row[used] * width + position, token[used], sampled[used]))
        states.advance(answers[:, position])
    joined = (torch.from_numpy(np.concatenate(part)) for part in zip(*parts, strict=True))
    positions, tokens, chosen = (part.to(logits.device) for part in joined)
    open_logits = logits.flatten(0, 1)[positions, tokens].float()
    zeros = torch.zeros(completions.numel(), dtype=open_logits.dtype, device=logits.device)
    top = zeros.scatter_reduce(0, positions, open_logits.detach(), "amax", include_self=False)
    total = zeros.index_add(0, positions, (open_logits - top[positions]).exp())
    logs = open_logits - top[positions] - total[positions].log()
    entropy = zeros.index_add(0, positions, -logs.exp() * logs)
    return zeros.index_add(0, positions[chosen], logs[chosen]).view_as(completions), entropy.view_as(completions)
