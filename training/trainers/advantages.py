"""Computes advantages from rewards (GDPO, GRPO), and the tokens that they are given to.

gdpo         each reward is normalised within its group of rollouts, they are weighted and summed, and the sum is
             normalised over the batch (GDPO, arXiv 2601.05242, eq. 4-6; TRL calls it normalize_then_sum)
grpo         the rewards are weighted and summed, and the sum is normalised within its group (sum_then_normalize)

credit `sequence` gives an answer's advantage to all of its tokens; `rank` gives each list position an advantage of its
own, made in the same way from the shares of that rank, and the answer's own to the tokens that belong to no rank.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from accelerate.utils import gather
from torch import Tensor
from transformers import PreTrainedTokenizerBase
from trl import GRPOTrainer  # type: ignore[attr-defined]

from training.decoding.constrained import Catalogue
from training.evaluation import rewards

# mode -> TRL's name of it
MODES = {"gdpo": "normalize_then_sum", "grpo": "sum_then_normalize"}
EPSILON = 1e-4  # TRL's
NOWHERE = -1  # the rank of a token that belongs to none

Places = Callable[[Tensor], Tensor]  # completion ids (rows, length) -> the rank of each token, or NOWHERE


def advantages(values: Tensor, weights: Tensor, group: int, how: str) -> Tensor:
    """(n, ...) from values (n, ..., rewards), n = groups of `group` neighbours; every rank between is on its own.

    The same numbers as TRL's for (n, rewards); how = TRL's name of the mode.
    """
    if how == "sum_then_normalize":
        return _within((values * weights).sum(-1), group)
    total = (_within(values, group) * weights).sum(-1)
    return (total - total.mean(0)) / (total.std(0) + EPSILON)


def _within(values: Tensor, group: int) -> Tensor:
    """Each column normalised within its group of rows."""
    grouped: Tensor = values.unflatten(0, (-1, group))  # type: ignore[no-untyped-call]
    return ((grouped - grouped.mean(1, keepdim=True)) / (grouped.std(1, keepdim=True) + EPSILON)).flatten(0, 1)


def spread(whole: Tensor, ranks: Tensor, places: Tensor) -> Tensor:
    """(rows, length): each token's advantage: its rank's, from ranks (rows, k), or the whole answer's."""
    own = ranks.gather(1, places.clamp(0, ranks.size(1) - 1))
    return torch.where((places >= 0) & (places < ranks.size(1)), own, whole.unsqueeze(1))


def places_of_items(catalogue: Catalogue) -> Places:
    """Where items are tokens: the first after the predicted traits is rank 0."""

    def places(ids: Tensor) -> Tensor:
        rank = torch.arange(ids.size(1), device=ids.device) - catalogue.opening
        rank = torch.where((rank < 0) | (rank >= catalogue.k), NOWHERE, rank)
        return rank.repeat(len(ids), 1)

    return places


def places_of_lines(tokenizer: PreTrainedTokenizerBase, last: rewards.Batch) -> Places:
    """Where answers are text: the line a token stands on, for answers that hold one item on every line."""

    def places(ids: Tensor) -> Tensor:
        entries, marks = last[0][1].entries, set(tokenizer.all_special_ids)
        written = [["" if i in marks else str(tokenizer.decode([i])) for i in row] for row in ids.tolist()]
        rows = [_lines(pieces, n) for pieces, n in zip(written, entries, strict=True)]
        return torch.tensor(rows, device=ids.device)

    return places


def _lines(pieces: Sequence[str], entries: int) -> list[int]:
    """The end of an answer and what pads it (empty) stand on no line: to stop concerns the whole answer. Nor do line
    breaks before the first line."""
    text = "".join(pieces)
    written = text.strip("\n").split("\n")
    if len(written) != entries or not all(line.strip() for line in written):
        return [NOWHERE] * len(pieces)
    breaks = accumulate((piece.count("\n") for piece in pieces), initial=len(text.lstrip("\n")) - len(text))
    return [max(line, NOWHERE) if piece else NOWHERE for line, piece in zip(breaks, pieces, strict=False)]


def clipped(trainer: type[GRPOTrainer], most: float) -> type[GRPOTrainer]:
    """A GRPOTrainer with no advantage above `most` or below minus that: a lone hit among 128 answers has 10.5."""

    class Clipped(trainer):  # type: ignore[misc, valid-type]
        def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Tensor]:
            output: dict[str, Tensor] = super()._generate_and_score_completions(inputs)
            return output | {"advantages": output["advantages"].clamp(-most, most)}

    return Clipped


def ranked(
    trainer: type[GRPOTrainer], places: Places, last: rewards.Batch, weights: rewards.Weights
) -> type[GRPOTrainer]:
    """A GRPOTrainer with one advantage per rank: the loss takes (rows, length) as well as (rows,)."""

    class Ranked(trainer):  # type: ignore[misc, valid-type]
        def _calculate_rewards(self, *given: Any) -> Tensor:
            found: Tensor = super()._calculate_rewards(*given)
            shares = np.stack([reward(last[0][1], weights) for reward in rewards.RANKS.values()], axis=-1)
            self.shares = gather(torch.tensor(shares, dtype=torch.float32, device=self.accelerator.device))
            return found

        def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Tensor]:
            output: dict[str, Tensor] = super()._generate_and_score_completions(inputs)
            group = self.num_generations if self.model.training else self.num_generations_eval
            scale = self.reward_weights.to(self.shares.device)
            every = advantages(self.shares, scale, group, self.multi_objective_aggregation)
            first = self.accelerator.process_index * len(inputs)
            own = every[first : first + len(inputs)]
            output["advantages"] = spread(output["advantages"], own, places(output["completion_ids"]))
            return output

    return Ranked
