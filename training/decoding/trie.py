"""Constrained decoding by a trie of catalogue names, for models that answer in text: which token may come next.

The rules of decoding/constrained.py for models whose items are text: a line is "N.", then " Title (Year)" with its line
break. Only `States` computes which tokens may follow, for all rows together, in a few dozen numpy operations: torch is
slower on arrays this small.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import LogitsProcessor, PreTrainedTokenizerBase

from training.data import Release

Numbers = NDArray[np.int64]
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

    def mask(self, excluded: Sequence[Iterable[str]], prompt_length: int) -> LogitsProcessor:
        return Mask(self, excluded, prompt_length)

    def log_probabilities(
        self, excluded: Sequence[Iterable[str]], completions: Tensor, logits: Tensor
    ) -> tuple[Tensor, Tensor]:
        """(log p of each token, entropy), both (rows, length), under the masks; 0 for padding after the end."""
        answers, (width, vocabulary) = completions.numpy(force=True), logits.shape[1:]
        states, parts = States(self, excluded, width * vocabulary), list[Numbers]()
        for position, tokens in enumerate(answers.T):
            parts += [places[unused > 0] + position * vocabulary for places, unused in states.children()]
            states.advance(tokens)
        open_places = np.concatenate(parts)
        index = open_places // vocabulary  # faster in numpy than in torch
        is_chosen = open_places == index * vocabulary + answers.take(index)
        places, positions, chosen = (torch.from_numpy(a).to(logits.device) for a in (open_places, index, is_chosen))
        open_logits = logits.flatten()[places].float()
        zeros = torch.zeros(completions.numel(), dtype=open_logits.dtype, device=logits.device)
        top = zeros.scatter_reduce(0, positions, open_logits.detach(), "amax", include_self=False)
        total = zeros.index_add(0, positions, (open_logits - top[positions]).exp())
        logs = open_logits - top[positions] - total[positions].log()
        entropy = zeros.index_add(0, positions, -logs.exp() * logs)
        return zeros.index_add(0, positions[chosen], logs[chosen]).view_as(completions), entropy.view_as(completions)


@dataclass(frozen=True)
class Nodes:
    """The trie as arrays over its nodes: node 0 is its root; the children of a node are adjacent, by token."""

    keys: Numbers  # parent * stride + token, ascending: finds the child by a token; the last node is the end
    stride: int
    token: Numbers  # token that leads to the node
    stop: Numbers  # index after the last child
    children: Numbers  # number of children; 0 for the root, whose children are the nodes 1, 2, ... stop[0] - 1
    names: Numbers  # number of names through the node; 1 for nodes outside names
    target: Numbers  # the node itself; the root after a line's number; ~name where that name ends
    path: Numbers  # (names, depth) nodes of each name down to its first that no name shares, padded with the root
    lines: Numbers  # first node of each line, then of the end


def _nodes(trie: Trie) -> Nodes:
    """Builds the tree of the names, then a chain of nodes for the number of each line and one for the end."""
    (rows, path), lines = _tree(trie.names), list[int]()
    for number in [*trie.numbers, (trie.end,)]:
        lines.append(len(rows))
        # its tokens lead from one node to the next; nothing leads to the first
        rows += [(-1, -1, 1, -1), *((n, token, 1, -1) for n, token in enumerate(number, len(rows)))]
    parent, token, names, ends = np.array(rows).T.copy()
    indices, end, stride = np.arange(len(rows)), len(rows) - 1, int(token.max()) + 2
    # a node without a parent keeps the order of the keys, and is found by no token, as these are 0 or more
    keys = np.where(parent < 0, indices * stride - 1, parent * stride + token)
    target = np.where(ends < 0, indices, ~ends)
    last_of_number = np.array(lines[1:]) - 1
    target[last_of_number] = 0  # a name follows
    children = np.bincount(parent[parent >= 0], minlength=len(rows))
    children[0] = 0
    stop = np.zeros_like(indices)
    stop[parent] = indices + 1  # the last child of a parent is written last
    stop[end], children[end] = end + 1, 1  # the end follows the end
    return Nodes(keys, stride, token, stop, children, names, target, path, np.array(lines))


def _tree(names: Sequence[tuple[int, ...]]) -> tuple[list[Row], Numbers]:
    """Returns the nodes by level, so that children of a node are adjacent, and Nodes.path."""
    nodes = list[Row]()
    path, shared = np.zeros((len(names), max(map(len, names)) + 1), np.int64), 0
    queue = deque([(-1, -1, 0, len(names), 0)])  # parent, token, names [start, stop) with equal first `depth` tokens
    while queue:
        parent, token, start, stop, depth = queue.popleft()
        path[start:stop, depth] = n = len(nodes)
        shared = max(shared, depth * (stop - start > 1))
        is_name = len(names[start]) == depth  # a line break ends a name, so no name begins another
        nodes.append((parent, token, stop - start, start if is_name else -1))
        for next_token, group in groupby(() if is_name else range(start, stop), key=lambda name: names[name][depth]):
            members = list(group)
            queue.append((n, next_token, members[0], members[-1] + 1, depth + 1))
    return nodes, path[:, : shared + 2].copy()  # `take` of a view would copy all of it


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
    """The positions of answers in the trie, one per row; excluded = items that a row may not name. A token is given by
    its place in flattened scores: row * stride + token."""

    def __init__(self, trie: Trie, excluded: Sequence[Iterable[str]], stride: int) -> None:
        self.nodes = nodes = trie.nodes
        self.remaining = np.tile(nodes.names.astype(np.int32), (len(excluded), 1))  # unused names through each node
        for row, items in zip(self.remaining, excluded, strict=True):
            for name in {trie.places[item] for item in items if item in trie.places}:
                row[nodes.path[name]] -= 1
        rows = np.arange(len(excluded))
        self.flat, self.first_node = self.remaining.ravel(), rows * len(nodes.token)
        self.first_place = rows * stride
        # the first node of each line of a row, or the end if no name remains for the line, and the row's present line
        has_name = np.arange(len(nodes.lines)) < self.remaining[:, :1]
        self.lines, self.line = np.where(has_name, nodes.lines, nodes.lines[-1]).ravel(), rows * len(nodes.lines)
        self.node = self.lines.take(self.line)
        self.order = np.arange(len(excluded) * nodes.children.max())
        # the root has thousands of children: their places are computed once
        of_root = slice(1, nodes.stop[0])
        self.root_places = self.first_place[:, None] + nodes.token[of_root]
        self.root_remaining = self.remaining[:, of_root]

    def children(self) -> list[tuple[Numbers, Numbers]]:
        """Returns the places of children: of rows within a name, and of rows at the root; with their unused names."""
        nodes, count = self.nodes, self.nodes.children.take(self.node)
        # children are adjacent and end before `stop`. With nodes that have 2 and 3 children, the list of all has 0 1 of
        # the first, at stop - 2, and 2 3 4 of the second, at stop - 5
        child = (nodes.stop.take(self.node) - count.cumsum()).repeat(count)
        child += self.order[: len(child)]
        places = self.first_place.repeat(count)
        places += nodes.token.take(child)
        child += self.first_node.repeat(count)
        at_root = (self.node == 0).nonzero()[0]
        return [(places, self.flat.take(child)), (self.root_places.take(at_root, 0), self.root_remaining[at_root])]

    def advance(self, tokens: Numbers) -> None:
        """Advances each row by a token that may come next; after the end by any."""
        nodes = self.nodes
        child = nodes.keys.searchsorted(self.node * nodes.stride + tokens)
        # after the end `child` may be past the last node, which is the end
        node = nodes.target.take(child, mode="clip")
        is_name = node < 0
        ended = is_name.nonzero()[0]
        used = nodes.path.take(~node.take(ended), 0)  # nodes of the names that end here: each is used once
        used += self.first_node.take(ended)[:, None]
        self.flat[used] -= 1
        self.line += is_name
        np.copyto(node, self.lines.take(self.line), where=is_name)
        self.node = node


class Mask(LogitsProcessor):
    """The masks for `generate`, over prompts padded on the left to one length. Each step is written into the same
    tensor, so that it costs the same for every size of vocabulary."""

    def __init__(self, trie: Trie, excluded: Sequence[Iterable[str]], prompt_length: int) -> None:
        self.trie, self.excluded, self.prompt_length = trie, excluded, prompt_length
        self.written = list[Numbers]()  # places that the last step wrote

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        if input_ids.size(1) == self.prompt_length:
            self.states = States(self.trie, self.excluded, scores.size(1))
            self.masked = torch.full(scores.shape, float("-inf"), dtype=scores.dtype, device=scores.device)
            self.flat = _flat(self.masked)
        else:
            self.states.advance((input_ids if input_ids.is_cpu else input_ids.cpu()).numpy()[:, -1])
        for places in self.written:
            self.flat[places] = -np.inf
        flat, children = _flat(scores), self.states.children()
        self.written = [places for places, _ in children]
        for places, unused in children:
            index = torch.from_numpy(places).to(scores.device) if isinstance(flat, Tensor) else places
            values = flat.take(index)
            values[unused == 0] = -np.inf
            self.flat[index] = values
        return self.masked


def _flat(scores: Tensor) -> Any:
    """Returns a flat view: of numpy, which is faster than torch on so few values, if they are on the CPU."""
    return scores.numpy().ravel() if scores.is_cpu else scores.flatten()
