"""Constrained decoding by a trie of catalogue names, for models that answer in text: which token may come next.

The rules of decoding/constrained.py for models whose items are text: only names of the catalogue, none twice, none that
the seeker has seen, k lines and then the end; fewer only where the catalogue has no more to give. A line is "N.", then
" Title (Year)" with its line break. `States.open` is the one place that says what may follow, for all rows together: a
few dozen numpy operations on arrays so small that torch takes longer for each.
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

BASE = 1 << 24  # above every token's number
Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]
Row = tuple[int, int, int, int]  # of a node: its parent or -1, and of Nodes `token`, `names`, `ends`


@dataclass(frozen=True)
class Trie:
    names: Sequence[tuple[int, ...]]  # tokens of each written name and its line break, sorted
    places: Mapping[str, int]  # item -> its name; two items may share one
    numbers: Sequence[tuple[int, ...]]  # tokens of "1.", "2.", ... "k."
    end: int

    @property
    def length(self) -> int:
        """Tokens of the longest answer, without its end."""
        return sum(map(len, self.numbers)) + len(self.numbers) * max(map(len, self.names))

    @cached_property
    def nodes(self) -> "Nodes":
        return _nodes(self)


@dataclass(frozen=True)
class Nodes:
    """The trie as arrays over its nodes: node 0 is its root, the children of a node are neighbours.

    Behind all nodes stands one more, for no node: nothing goes through it, and whoever comes to it is done.
    """

    key: Numbers  # parent * BASE + token: ascending
    token: Numbers  # that leads to it
    stop: Numbers  # behind its last child
    children: Numbers  # how many
    names: Numbers  # how many names go through it; 1 for what is no part of a name
    goes: Numbers  # where an answer stands that has come to it: the last token of a number leads to the root
    ends: Numbers  # the name that it ends; len(path) - 1 for none
    path: Numbers  # (names + 1, depth) nodes that a name goes through; the last row is for none
    lines: Numbers  # where each line begins, and behind the last one the end
    done: int


def _nodes(trie: Trie) -> Nodes:
    """The tree of the names, then a chain of nodes for each line's number and one for the end."""
    (rows, path), none, lines = _tree(trie.names), len(trie.names), list[int]()
    for number in [*trie.numbers, (trie.end,)]:
        lines.append(len(rows))
        rows += [(-1, -1, 1, none), *((n, token, 1, none) for n, token in enumerate(number, len(rows)))]
    places, done = np.arange(len(rows)), len(rows) - 1
    goes = np.append(places, done)
    goes[np.array(lines[1:]) - 1] = 0
    parent, token, names, ends = np.array([*rows, (-1, 0, 0, none)]).T.copy()
    above = parent[:-1]
    key = np.where(above < 0, places * BASE - 1, above * BASE + token[:-1])
    children = np.bincount(above[above >= 0], minlength=len(rows))
    stop = key.searchsorted(places * BASE) + children
    token[done], stop[done], children[done] = trie.end, done + 1, 1  # what follows the end is the end
    key = np.append(key, len(rows) * BASE)
    path[path < 0] = len(rows)  # behind a path that is short stands the last node
    return Nodes(key, token, stop, children, names, goes, ends, path, np.array(lines), done)


def _tree(names: Sequence[tuple[int, ...]]) -> tuple[list[Row], Numbers]:
    """(nodes level by level, so that the children of one are neighbours; Nodes.path, -1 behind the end of a name)."""
    found, none = list[Row](), len(names)
    path = np.full((none + 1, max(map(len, names)) + 1), -1)
    runs = deque([(-1, -1, 0, none, 0)])  # parent, token, and the names [start, stop) that begin alike for `depth`
    while runs:
        parent, token, start, stop, depth = runs.popleft()
        path[start:stop, depth] = n = len(found)
        whole = len(names[start]) == depth  # a line break ends a name, so no name begins another
        found.append((parent, token, stop - start, start if whole else none))
        for one, group in groupby(() if whole else range(start, stop), key=lambda m: names[m][depth]):
            same = list(group)
            runs.append((n, one, same[0], same[-1] + 1, depth + 1))
    return found, path


def over(release: Release, tokenizer: PreTrainedTokenizerBase) -> Trie:
    """The trie of a release's items, as its lists write them; a name that would not be read as its item is left out."""
    named = [i for i in release.items.values() if release.find(i.title, i.year, i.domain) == i.id]
    spelt = {i.id: _tokens(tokenizer, f" {i.name}\n") for i in named}
    names = sorted(set(spelt.values()))
    places = {item: bisect_left(names, spelling) for item, spelling in spelt.items()}
    numbers = [_tokens(tokenizer, f"{n}.") for n in range(1, release.k + 1)]
    return Trie(names, places, numbers, tokenizer.eos_token_id)


def _tokens(tokenizer: PreTrainedTokenizerBase, text: str) -> tuple[int, ...]:
    return tuple(tokenizer.encode(text, add_special_tokens=False))


class States:
    """Where answers stand in the trie, one a row; excluded = items that a row may not name."""

    def __init__(self, trie: Trie, excluded: Sequence[Iterable[str]]) -> None:
        self.nodes = nodes = trie.nodes
        self.left = np.tile(nodes.names.astype(np.int32), (len(excluded), 1))  # names through a node, not yet taken
        self.begin = np.arange(len(excluded)) * len(nodes.names)  # of each row in what is left, as flat numbers
        for row, items in zip(self.left, excluded, strict=True):
            for name in {trie.places[item] for item in items if item in trie.places}:
                row[nodes.path[name]] -= 1
        self.line = np.zeros(len(excluded), np.int64)
        self.at = self._begun()

    def _begun(self) -> Numbers:
        """Where the next line begins; the end where nothing is left to name."""
        lines = self.nodes.lines
        return np.where(self.left[:, 0] > 0, lines[self.line], lines[-1])

    def open(self) -> tuple[Numbers, Numbers, Flags]:
        """(row, token, whether it may come next) of all children of the rows' nodes, in the order of the rows."""
        nodes, count = self.nodes, self.nodes.children[self.at]
        row = np.arange(len(count)).repeat(count)
        child = (nodes.stop[self.at] - count.cumsum()).repeat(count)
        child += np.arange(len(row))
        left = self.left.reshape(-1).take(self.begin.repeat(count) + child)
        return row, nodes.token.take(child), left > 0

    def take(self, tokens: Numbers) -> None:
        """Goes on by a token a row, which is open; after the end, or by any other, a row is done."""
        nodes, left, key = self.nodes, self.left.reshape(-1), self.at * BASE + tokens
        child = nodes.key.searchsorted(key)
        known = (nodes.key[child] == key) & (left[self.begin + child] > 0)
        name = nodes.ends[np.where(known, child, -1)]
        named = name < len(nodes.path) - 1
        left[self.begin[:, None] + nodes.path[name]] -= 1
        self.line += named
        self.at = np.where(named, self._begun(), np.where(known, nodes.goes[child], nodes.done))


def mask(trie: Trie, excluded: Sequence[Iterable[str]], prompt_length: int) -> LogitsProcessorList:
    """The masks as `generate` takes them, over prompts that are padded on the left to one length."""
    return LogitsProcessorList([_Mask(trie, excluded, prompt_length)])


class _Mask(LogitsProcessor):
    def __init__(self, trie: Trie, excluded: Sequence[Iterable[str]], prompt_length: int) -> None:
        self.trie, self.excluded, self.prompt_length = trie, excluded, prompt_length

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        if input_ids.size(1) == self.prompt_length:
            self.states = States(self.trie, self.excluded)
        else:
            self.states.take(input_ids[:, -1].numpy(force=True))
        row, token, free = self.states.open()
        place = torch.from_numpy((row * scores.size(1) + token)[free]).to(scores.device)
        shut = torch.full_like(scores, float("-inf")).flatten()
        return shut.scatter_(0, place, scores.flatten().index_select(0, place)).view_as(scores)


def log_probabilities(
    trie: Trie, excluded: Sequence[Iterable[str]], completions: Tensor, logits: Tensor
) -> tuple[Tensor, Tensor]:
    """(log p of each token, entropy), both (rows, length), under the masks; 0 for padding after the end."""
    states, width, answers = States(trie, excluded), completions.size(1), completions.numpy(force=True)
    parts: list[tuple[Numbers, Numbers, Flags]] = []  # of every open token: its place, itself, whether it was drawn
    for place in range(width):
        row, token, free = states.open()
        drawn = free & (token == answers[row, place]) & (states.at != states.nodes.done)[row]
        there = np.zeros(len(answers), bool)
        there[row[drawn]] = True
        kept = free & there[row]
        parts.append((row[kept] * width + place, token[kept], drawn[kept]))
        states.take(answers[:, place])
    joined = (torch.from_numpy(np.concatenate(found)) for found in zip(*parts, strict=True))
    places, tokens, chosen = (found.to(logits.device) for found in joined)
    open_logits = logits.flatten(0, 1)[places, tokens].float()
    none = torch.zeros(completions.numel(), dtype=open_logits.dtype, device=logits.device)
    top = none.scatter_reduce(0, places, open_logits.detach(), "amax", include_self=False)
    total = none.index_add(0, places, (open_logits - top[places]).exp())
    logs = open_logits - top[places] - total[places].log()
    entropy = none.index_add(0, places, -logs.exp() * logs)
    return none.index_add(0, places[chosen], logs[chosen]).view_as(completions), entropy.view_as(completions)
