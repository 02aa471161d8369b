"""Constrained decoding by a trie of catalogue names, for models that answer in text: which token may come next.

The rules of decoding/constrained.py for models whose items are text: only names of the catalogue, none twice, none that
the seeker has seen, k lines and then the end; fewer only where the catalogue has no more to give. A line is "N.", then
" Title (Year)" with its line break. `States.open` is the one place that says what may follow: a few tensor operations
for all rows together.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import torch
from torch import Tensor
from transformers import LogitsProcessor, LogitsProcessorList, PreTrainedTokenizerBase

from training.data import Release

BASE = 1 << 24  # above every token's number


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
    """The trie as tensors over its nodes: node 0 is its root, the children of a node are neighbours."""

    key: Tensor  # parent * BASE + token: ascending
    token: Tensor  # that leads to it
    first: Tensor  # its first child
    children: Tensor  # how many
    names: Tensor  # how many names go through it; 1 for what is no part of a name
    goes: Tensor  # where an answer stands that has come to it: the last token of a number leads to the root
    ends: Tensor  # the name that it ends; len(path) - 1 for none
    path: Tensor  # (names + 1, depth) nodes that a name goes through; the last row is for none
    lines: Tensor  # where each line begins, and behind the last one the end
    done: int

    def to(self, device: torch.device) -> "Nodes":
        moved = {name: value.to(device) for name, value in vars(self).items() if isinstance(value, Tensor)}
        return Nodes(**moved, done=self.done)


def _nodes(trie: Trie) -> Nodes:
    names, none = trie.names, len(trie.names)
    runs, depth, parent, token = [(0, none)], [0], [-1], [-1]  # a node is the run of names that begin alike
    path = torch.full((none + 1, max(map(len, names)) + 1), -1)
    for n, (start, stop) in enumerate(runs):  # which grows: level by level, so that children are neighbours
        path[start:stop, depth[n]] = n
        if len(names[start]) > depth[n]:  # a line break ends a name, so no name begins another
            for one, group in groupby(range(start, stop), key=lambda m: names[m][depth[n]]):
                found = list(group)
                runs.append((found[0], found[-1] + 1))
                depth.append(depth[n] + 1)
                parent.append(n)
                token.append(one)
    ends = [start if len(names[start]) == deep else none for (start, _), deep in zip(runs, depth, strict=True)]
    goes, lines = list(range(len(runs))), []
    for number in [*trie.numbers, (trie.end,)]:
        lines.append(len(parent))
        parent += [-1, *range(len(parent), len(parent) + len(number))]
        token += [-1, *number]
        goes += [*range(len(goes), len(goes) + len(number)), 0]
    goes[-1] = done = len(parent) - 1
    places, above = torch.arange(len(parent)), torch.tensor(parent)
    key = torch.where(above < 0, places * BASE - 1, above * BASE + torch.tensor(token))
    first, children = torch.searchsorted(key, places * BASE), torch.bincount(above[above >= 0], minlength=len(parent))
    token[done], first[done], children[done] = trie.end, done, 1  # what follows the end is the end
    through = [stop - start for start, stop in runs] + [1] * (len(parent) - len(runs))
    led, names_through, leads, ended, begun = map(
        torch.tensor, (token, through, goes, ends + [none] * (len(parent) - len(ends)), lines)
    )
    short = path % (len(parent) + 1)  # behind a path that is short stands the number behind all nodes
    return Nodes(key, led, first, children, names_through, leads, ended, short, begun, done)


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

    def __init__(self, trie: Trie, excluded: Sequence[Iterable[str]], device: torch.device) -> None:
        self.nodes = nodes = trie.nodes.to(device)
        left = torch.cat([nodes.names, nodes.names.new_zeros(1)]).int()  # behind all nodes one for paths that are short
        self.left = left.repeat(len(excluded), 1)  # names through a node that may still be named
        taken = [{trie.places[item] for item in items if item in trie.places} for items in excluded]
        for row, names in zip(self.left, taken, strict=True):
            row.index_add_(
                0, nodes.path[sorted(names)].flatten(), left.new_full((1,), -1).expand(len(names) * nodes.path.size(1))
            )
        self.line = torch.zeros(len(excluded), dtype=torch.long, device=device)
        self.at = self._begun()

    def _begun(self) -> Tensor:
        """Where the next line begins; the end where nothing is left to name."""
        lines = self.nodes.lines
        return torch.where(self.left[:, 0] > 0, lines[self.line], lines[-1])

    def open(self) -> tuple[Tensor, Tensor, Tensor]:
        """(row, token, whether it may come next) of all children of the rows' nodes, in the order of the rows.

        Flat numbers and index_select throughout: on a CPU several times as fast as the same with brackets.
        """
        nodes = self.nodes
        count = nodes.children.index_select(0, self.at)
        row = torch.repeat_interleave(count)
        start = nodes.first.index_select(0, self.at) - count.cumsum(0) + count
        child = start.index_select(0, row).add_(torch.arange(len(row), device=row.device))
        left = self.left.view(-1).index_select(0, (row * self.left.size(1)).add_(child))
        return row, nodes.token.index_select(0, child), left > 0

    def take(self, tokens: Tensor) -> None:
        """Goes on by a token a row, which is open; after the end, or by any other, a row is done."""
        nodes, key = self.nodes, self.at * BASE + tokens
        child = torch.searchsorted(nodes.key, key).clamp(max=nodes.done)
        known = (nodes.key[child] == key) & (self.left.gather(1, child.unsqueeze(1)).squeeze(1) > 0)
        name = torch.where(known, nodes.ends[child], len(nodes.path) - 1)
        named, paths = name < len(nodes.path) - 1, nodes.path[name]
        self.left.scatter_add_(1, paths, self.left.new_full((1, 1), -1).expand_as(paths))
        self.line += named
        self.at = torch.where(named, self._begun(), torch.where(known, nodes.goes[child], nodes.done))


def mask(trie: Trie, excluded: Sequence[Iterable[str]], prompt_length: int) -> LogitsProcessorList:
    """The masks as `generate` takes them, over prompts that are padded on the left to one length."""
    return LogitsProcessorList([_Mask(trie, excluded, prompt_length)])


class _Mask(LogitsProcessor):
    def __init__(self, trie: Trie, excluded: Sequence[Iterable[str]], prompt_length: int) -> None:
        self.trie, self.excluded, self.prompt_length = trie, excluded, prompt_length

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        if input_ids.size(1) == self.prompt_length:
            self.states = States(self.trie, self.excluded, scores.device)
        else:
            self.states.take(input_ids[:, -1])
        row, token, free = self.states.open()
        place, shut = (row * scores.size(1)).add_(token), float("-inf")
        there = scores.flatten().index_select(0, place).masked_fill_(~free, shut)
        return torch.full_like(scores, shut).flatten().scatter_(0, place, there).view_as(scores)


def log_probabilities(
    trie: Trie, excluded: Sequence[Iterable[str]], completions: Tensor, logits: Tensor
) -> tuple[Tensor, Tensor]:
    """(log p of each token, entropy), both (rows, length), under the masks; 0 for padding after the end."""
    states, width = States(trie, excluded, logits.device), completions.size(1)
    parts: list[tuple[Tensor, Tensor, Tensor]] = []  # of every open token: its place, itself, whether it was drawn
    for place in range(width):
        row, token, free = states.open()
        drawn = free & (token == completions[row, place]) & (states.at != states.nodes.done)[row]
        there = torch.zeros_like(states.at, dtype=torch.bool).index_put((row[drawn],), drawn[drawn])
        kept = free & there[row]
        parts.append((row[kept] * width + place, token[kept], drawn[kept]))
        states.take(completions[:, place])
    places, tokens, chosen = (torch.cat(found) for found in zip(*parts, strict=True))
    open_logits = logits.flatten(0, 1)[places, tokens].float()
    none = torch.zeros(completions.numel(), dtype=open_logits.dtype, device=logits.device)
    top = none.scatter_reduce(0, places, open_logits.detach(), "amax", include_self=False)
    total = none.index_add(0, places, (open_logits - top[places]).exp())
    logs = open_logits - top[places] - total[places].log()
    entropy = none.index_add(0, places, -logs.exp() * logs)
    return none.index_add(0, places[chosen], logs[chosen]).view_as(completions), entropy.view_as(completions)
