"""Which token may come next when an answer is a list of catalogue items, one token each.

First, where the model was taught so, `said` tokens that name the traits it heard, or nothing heard; then only items,
none twice, none that the seeker has seen, exactly k of them and then the end; fewer than k only where the catalogue has
no more to give. `permitted` is the one place that says so: sampling, greedy answers and the log-probabilities of GDPO
all call it, because training on probabilities of tokens that could not be drawn drifts away.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from saferec_builder.core.errors import TrainingError, strict_json

FILE = "items.json"


@dataclass(frozen=True)
class Catalogue:
    """The item tokens of a model: {item id: token}, the length of a list, the token that ends it.

    traits = {trait: token}, nothing = the token for "no trait heard", said = how many of these an answer begins with.
    """

    tokens: Mapping[str, int]
    k: int
    end: int
    traits: Mapping[str, int] = field(default_factory=dict)
    nothing: int = -1
    said: int = 0

    @property
    def length(self) -> int:
        """Tokens of an answer, without its end."""
        return self.said + self.k

    def items(self, ids: Sequence[int]) -> list[str]:
        """The items that a completion names, in order; where two share one written name, the first."""
        return [self._named[i] for i in ids if i in self._named]

    @cached_property
    def _named(self) -> dict[int, str]:
        return {token: item for item, token in reversed(list(self.tokens.items()))}

    def heard(self, ids: Sequence[int]) -> list[str]:
        """The traits that a completion names."""
        named = {token: trait for trait, token in self.traits.items()}
        return [named[i] for i in ids if i in named]

    def answer(self, items: Iterable[str], traits: Iterable[str]) -> list[int]:
        """The tokens to learn for this list and these traits: the first `said` of them, and nothing for the rest."""
        opening = [token for trait, token in self.traits.items() if trait in set(traits)][: self.said]
        opening += [self.nothing] * (self.said - len(opening))
        return [*opening, *(self.tokens[item] for item in items), self.end]


def save(folder: Path, catalogue: Catalogue) -> None:
    facts = {one.name: getattr(catalogue, one.name) for one in fields(catalogue)}
    facts |= {"tokens": dict(catalogue.tokens), "traits": dict(catalogue.traits)}
    (folder / FILE).write_text(json.dumps(facts, indent=0))


def load(folder: str | Path) -> Catalogue | None:
    """The catalogue of the model in `folder`; None for a model without item tokens, which decodes freely."""
    path = Path(folder) / FILE
    if not path.is_file():
        return None
    try:
        facts = strict_json(path.read_text())
        tokens, traits = ({str(i): int(t) for i, t in facts[name].items()} for name in ("tokens", "traits"))
        k, end, nothing, said = (int(facts[name]) for name in ("k", "end", "nothing", "said"))
        return Catalogue(tokens, k, end, traits, nothing, said)
    except (ValueError, KeyError, AttributeError, TypeError) as fault:
        raise TrainingError(f"{path}: not a table of item tokens ({fault!r}): train the model again") from None


def closed(catalogue: Catalogue, seen: Sequence[Sequence[str]], vocabulary: int) -> Any:
    """(rows, vocabulary) bool: tokens that are out from the start: words, and each row's seen items."""
    rows = _words(catalogue, vocabulary).repeat(len(seen), 1)
    for row, items in zip(rows, seen, strict=True):
        row[[catalogue.tokens[item] for item in items if item in catalogue.tokens]] = True
    return rows


def _words(catalogue: Catalogue, vocabulary: int) -> Any:
    """(vocabulary,) bool: what is neither an item nor a trait."""
    import torch

    words = torch.ones(vocabulary, dtype=torch.bool)
    words[[*catalogue.tokens.values(), *catalogue.traits.values()]] = False
    return words


def permitted(catalogue: Catalogue, taken: Any, position: int) -> Any:
    """(rows, vocabulary) bool: what may stand at `position` of the answer; taken = closed plus what was named."""
    free = ~taken
    naming = list(catalogue.traits.values())
    if position < catalogue.said:
        traits = free[:, naming]
        free = free.zero_()
        free[:, naming], free[:, catalogue.nothing] = traits, True
        return free
    free[:, naming] = False
    if position >= catalogue.length:
        free.zero_()
    full = ~free.any(dim=1)
    free[full, catalogue.end] = True
    return free


def permitted_along(catalogue: Catalogue, closed: Any, completions: Any) -> Any:
    """(rows, length, vocabulary) bool: `permitted` at each position of finished completions (rows, length)."""
    import torch

    taken, steps = closed.clone(), []
    for position in range(completions.size(1)):
        steps.append(permitted(catalogue, taken, position))
        taken.scatter_(1, completions[:, position : position + 1], True)
    return torch.stack(steps, dim=1)


def log_probabilities(catalogue: Catalogue, closed: Any, completions: Any, logits: Any) -> tuple[Any, Any]:
    """(log p of each token, entropy), both (rows, length), under the masks; 0 for padding after the end."""
    ok = permitted_along(catalogue, closed, completions)
    logs = logits.float().masked_fill(~ok, float("-inf")).log_softmax(dim=-1)
    chosen = logs.gather(-1, completions.unsqueeze(-1)).squeeze(-1)
    entropy = -(logs.exp() * logs.masked_fill(~ok, 0.0)).sum(dim=-1)
    return chosen.masked_fill(chosen.isinf(), 0.0), entropy


def mask(catalogue: Catalogue, closed: Any, prompt_length: int) -> Any:
    """A transformers LogitsProcessor for `generate` over prompts that are padded on the left to one length."""

    def process(ids: Any, scores: Any) -> Any:
        taken = closed.scatter(1, ids[:, prompt_length:], True)
        return scores.masked_fill(~permitted(catalogue, taken, ids.size(1) - prompt_length), float("-inf"))

    from transformers import LogitsProcessor, LogitsProcessorList

    return LogitsProcessorList([type("Mask", (LogitsProcessor,), {"__call__": lambda self, *a: process(*a)})()])
