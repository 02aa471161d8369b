"""Constrained decoding with item tokens: which token may come next in a list of catalogue items.

An answer has `opening` tokens for predicted traits, or for none, if the model was trained so; then only items, none
twice, none that the seeker has seen, exactly k of them, and then the end; fewer than k only if the catalogue has no
more. Only `permitted` implements this rule: sampling, greedy answers and the log-probabilities of GDPO all call it,
because training on probabilities of tokens that could not be sampled drifts away.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor
from transformers import LogitsProcessor

from saferec_builder.core.errors import TrainingError, strict_json

FILE = "items.json"


@dataclass(frozen=True)
class Catalogue:
    """The item tokens of a model: {item id: token}, the length of a list, and the token that ends it.

    traits = {trait: token}, nothing = the token for "no trait", opening = number of such tokens before the items.
    domains = {item id: domain}: works of one written name share a token, and the request's domain tells them apart;
    it is not saved: the release has it.
    """

    tokens: Mapping[str, int]
    k: int
    end: int
    traits: Mapping[str, int] = field(default_factory=dict)
    nothing: int = -1
    opening: int = 0
    domains: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def length(self) -> int:
        return self.opening + self.k

    def items(self, ids: Sequence[int], domain: str | None) -> list[str]:
        """Returns the items that a completion names, in order; of several with one written name, that of the domain,
        or else the first."""
        works = [self._works_by_token[token] for token in ids if token in self._works_by_token]
        return [by_domain.get(domain, next(iter(by_domain.values()))) for by_domain in works]

    @cached_property
    def _works_by_token(self) -> dict[int, dict[str | None, str]]:
        by_token: dict[int, dict[str | None, str]] = {}
        for item, token in self.tokens.items():
            by_token.setdefault(token, {}).setdefault(self.domains.get(item), item)
        return by_token

    def answer(self, items: Iterable[str], traits: Iterable[str]) -> list[int]:
        """Returns the tokens to learn: `opening` traits, padded with `nothing`, then the items, and the end."""
        opening = [token for trait, token in self.traits.items() if trait in set(traits)][: self.opening]
        opening += [self.nothing] * (self.opening - len(opening))
        return [*opening, *(self.tokens[item] for item in items), self.end]

    def mask(self, excluded: Sequence[Sequence[str]], prompt_length: int) -> LogitsProcessor:
        return Mask(self, excluded, prompt_length)

    def log_probabilities(
        self, excluded: Sequence[Sequence[str]], completions: Tensor, logits: Tensor
    ) -> tuple[Tensor, Tensor]:
        """(log p of each token, entropy), both (rows, length), under the masks; 0 for padding after the end."""
        allowed = permitted_along(self, blocked(self, excluded, logits.size(-1)).to(logits.device), completions)
        logs = logits.float().masked_fill(~allowed, float("-inf")).log_softmax(dim=-1)
        chosen = logs.gather(-1, completions.unsqueeze(-1)).squeeze(-1)
        entropy = -(logs.exp() * logs.masked_fill(~allowed, 0.0)).sum(dim=-1)
        return chosen.masked_fill(chosen.isinf(), 0.0), entropy


def save(folder: Path, catalogue: Catalogue) -> None:
    facts = {"tokens": dict(catalogue.tokens), "k": catalogue.k, "end": catalogue.end, "traits": dict(catalogue.traits)}
    facts |= {"nothing": catalogue.nothing, "said": catalogue.opening}
    (folder / FILE).write_text(json.dumps(facts, indent=0))


def load(folder: str | Path) -> Catalogue | None:
    """Returns the catalogue of the model in `folder`; None for a model without item tokens, which decodes freely."""
    path = Path(folder) / FILE
    if not path.is_file():
        return None
    try:
        facts = strict_json(path.read_text())
        tokens, traits = ({str(i): int(t) for i, t in facts[name].items()} for name in ("tokens", "traits"))
        k, end, nothing, opening = (int(facts[name]) for name in ("k", "end", "nothing", "said"))
        return Catalogue(tokens, k, end, traits, nothing, opening)
    except (ValueError, KeyError, AttributeError, TypeError) as fault:
        raise TrainingError(f"{path}: not a table of item tokens ({fault!r}): train the model again") from None


def blocked(catalogue: Catalogue, excluded: Sequence[Sequence[str]], vocabulary: int) -> Tensor:
    """(rows, vocabulary) bool: blocked words (`permitted` opens `end` and `nothing`), and a row's excluded items."""
    words = torch.ones(vocabulary, dtype=torch.bool)
    words[[*catalogue.tokens.values(), *catalogue.traits.values()]] = False
    rows = words.repeat(len(excluded), 1)
    for row, items in zip(rows, excluded, strict=True):
        row[[catalogue.tokens[item] for item in items if item in catalogue.tokens]] = True
    return rows


def permitted(catalogue: Catalogue, taken: Tensor, position: int) -> Tensor:
    """(rows, vocabulary) bool: tokens permitted at `position` of the answer; taken = blocked and already used ones."""
    free = ~taken
    trait_tokens = list(catalogue.traits.values())
    traits = free[:, trait_tokens]
    if position < catalogue.opening:
        free.zero_()
        free[:, trait_tokens], free[:, catalogue.nothing] = traits, True
        return free
    free[:, trait_tokens] = False
    if position >= catalogue.length:
        free.zero_()
    free[~free.any(dim=1), catalogue.end] = True
    return free


def permitted_along(catalogue: Catalogue, blocked: Tensor, completions: Tensor) -> Tensor:
    """(rows, length, vocabulary) bool: `permitted` at each position of finished completions (rows, length)."""
    taken, steps = blocked.clone(), []
    for position in range(completions.size(1)):
        steps.append(permitted(catalogue, taken, position))
        taken.scatter_(1, completions[:, position : position + 1], True)
    return torch.stack(steps, dim=1)


class Mask(LogitsProcessor):
    """The masks for `generate`, over prompts padded on the left to one length."""

    def __init__(self, catalogue: Catalogue, excluded: Sequence[Sequence[str]], prompt_length: int) -> None:
        self.catalogue, self.excluded, self.prompt_length = catalogue, excluded, prompt_length
        self.blocked: Tensor | None = None

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        if self.blocked is None:
            self.blocked = blocked(self.catalogue, self.excluded, scores.size(1)).to(scores.device)
        taken = self.blocked.scatter(1, input_ids[:, self.prompt_length :], True)
        free = permitted(self.catalogue, taken, input_ids.size(1) - self.prompt_length)
        return scores.masked_fill(~free, float("-inf"))
