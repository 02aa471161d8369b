"""Constrained decoding by a trie of catalogue names, for models that answer in text: which token may come next.

The rules of decoding/constrained.py for models whose items are text: only names of the catalogue, none twice, none that
the seeker has seen, k lines and then the end; fewer only where the catalogue has no more to give. A line is "N.", then
" Title (Year)" with its line break; the names stand in a trie over the tokenizer, which is a sorted list of their
spellings: a node is the run of names that begin alike. `Walk.open` is the one place that says what may follow.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import torch
from torch import Tensor
from transformers import LogitsProcessor, LogitsProcessorList, PreTrainedTokenizerBase

from training.data import Release

Run = tuple[int, int]  # names[first:last] that begin alike


@dataclass(frozen=True)
class Trie:
    names: Sequence[tuple[int, ...]]  # tokens of each written name and its line break, sorted
    places: Mapping[str, int]  # item -> its name; two items may share one
    numbers: Sequence[tuple[int, ...]]  # tokens of "1.", "2.", ... "k."
    end: int
    known: dict[tuple[int, Run], dict[int, Run]] = field(default_factory=dict, repr=False)

    @property
    def length(self) -> int:
        """Tokens of the longest answer, without its end."""
        return sum(map(len, self.numbers)) + len(self.numbers) * max(map(len, self.names))

    def after(self, depth: int, run: Run) -> Mapping[int, Run]:
        """{token at `depth`: the names that go on with it} of the names in `run`."""
        if (depth, run) not in self.known:
            groups = groupby(range(*run), key=lambda n: self.names[n][depth])
            found = {token: list(group) for token, group in groups}
            self.known[depth, run] = {token: (group[0], group[-1] + 1) for token, group in found.items()}
        return self.known[depth, run]


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


class Walk:
    """One answer on its way through the trie; excluded = items that it may not name."""

    def __init__(self, trie: Trie, excluded: Iterable[str]) -> None:
        self.trie, self.taken = trie, sorted({trie.places[item] for item in excluded if item in trie.places})
        self.line, self.at, self.run, self.ended = 0, 0, (0, len(trie.names)), False

    def open(self) -> list[int]:
        """The tokens that may come next; none after the end."""
        trie = self.trie
        if self.ended:
            return []
        if self.line == len(trie.numbers) or len(self.taken) == len(trie.names):
            return [trie.end]
        number = trie.numbers[self.line]
        if self.at < len(number):
            return [number[self.at]]
        return [token for token, run in trie.after(self.at - len(number), self.run).items() if self._free(run)]

    def _free(self, run: Run) -> bool:
        return bisect_left(self.taken, run[1]) - bisect_left(self.taken, run[0]) < run[1] - run[0]

    def take(self, token: int) -> None:
        """Goes on by a token that is open; after the end whatever is padding."""
        if self.ended or token == self.trie.end:
            self.ended = True
            return
        depth = self.at - len(self.trie.numbers[self.line])
        self.at += 1
        if depth < 0:
            return
        self.run = self.trie.after(depth, self.run)[token]
        if len(self.trie.names[self.run[0]]) == depth + 1:  # a line break ends a name, so no name begins another
            self.taken.insert(bisect_left(self.taken, self.run[0]), self.run[0])
            self.line, self.at, self.run = self.line + 1, 0, (0, len(self.trie.names))


def mask(trie: Trie, excluded: Sequence[Iterable[str]], prompt_length: int) -> LogitsProcessorList:
    """The masks as `generate` takes them, over prompts that are padded on the left to one length."""
    return LogitsProcessorList([_Mask(trie, excluded, prompt_length)])


class _Mask(LogitsProcessor):
    def __init__(self, trie: Trie, excluded: Sequence[Iterable[str]], prompt_length: int) -> None:
        self.trie, self.walks, self.prompt_length = trie, [Walk(trie, items) for items in excluded], prompt_length

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        blocked = torch.ones_like(scores, dtype=torch.bool)
        for row, walk in enumerate(self.walks):
            if input_ids.size(1) > self.prompt_length:
                walk.take(int(input_ids[row, -1]))
            blocked[row, walk.open() or [self.trie.end]] = False
        return scores.masked_fill(blocked, float("-inf"))


def log_probabilities(
    trie: Trie, excluded: Sequence[Iterable[str]], completions: Tensor, logits: Tensor
) -> tuple[Tensor, Tensor]:
    """(log p of each token, entropy), both (rows, length), under the masks; 0 for padding after the end."""
    where: list[int] = []  # the place of every open token
    tokens: list[int] = []
    drawn: list[int] = []  # which of them were drawn
    width = completions.size(1)
    for row, (items, answer) in enumerate(zip(excluded, completions.tolist(), strict=True)):
        walk = Walk(trie, items)
        for place, token in enumerate(answer):
            possible = walk.open()
            if token not in possible:
                break
            drawn.append(len(tokens) + possible.index(token))
            where += [row * width + place] * len(possible)
            tokens += possible
            walk.take(token)
    places = torch.tensor(where, dtype=torch.long, device=logits.device)
    open_logits = logits.flatten(0, 1)[places, torch.tensor(tokens, dtype=torch.long, device=logits.device)].float()
    none = torch.zeros(completions.numel(), dtype=open_logits.dtype, device=logits.device)
    top = none.scatter_reduce(0, places, open_logits.detach(), "amax", include_self=False)
    total = none.index_add(0, places, (open_logits - top[places]).exp())
    logs = open_logits - top[places] - total[places].log()
    chosen = none.index_add(0, places[drawn], logs[drawn])
    entropy = none.index_add(0, places, -logs.exp() * logs)
    return chosen.view_as(completions), entropy.view_as(completions)
