"""Gives each rank of a list an advantage of its own (credit `rank`), computed as TRL does for whole answers.

gdpo         each reward is normalised within its group of rollouts, they are weighted and summed, and the sum is
             normalised over the batch (GDPO, arXiv 2601.05242, eq. 4-6; TRL calls it normalize_then_sum)
grpo         the rewards are weighted and summed, and the sum is normalised within its group (sum_then_normalize)
"""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from accelerate.utils import gather
from torch import Tensor
from transformers import PreTrainedTokenizerBase
from trl.trainer.grpo_trainer import GRPOTrainer

from training.decoding.constrained import Catalogue
from training.evaluation import rewards

# mode -> its name in TRL
MODES = {"gdpo": "normalize_then_sum", "grpo": "sum_then_normalize"}
EPSILON = 1e-4  # TRL's
NOWHERE = -1  # the rank of a token without a rank

Places = Callable[[Tensor], Tensor]  # completion ids (rows, length) -> the rank of each token, or NOWHERE


def advantages(values: Tensor, weights: Tensor, group: int, how: str) -> Tensor:
    """Returns (n, ...) from values (n, ..., rewards), rows in groups of `group`; dimensions between are independent.

    Equals TRL's numbers for (n, rewards); how = name of the mode in TRL.
    """
    if how == "sum_then_normalize":
        return _normalised((values * weights).sum(-1), group)
    total = (_normalised(values, group) * weights).sum(-1)
    return (total - total.mean(0)) / (total.std(0) + EPSILON)


def _normalised(values: Tensor, group: int) -> Tensor:
    grouped: Tensor = values.unflatten(0, (-1, group))  # type: ignore[no-untyped-call]
    return ((grouped - grouped.mean(1, keepdim=True)) / (grouped.std(1, keepdim=True) + EPSILON)).flatten(0, 1)


def spread(of_answer: Tensor, ranks: Tensor, places: Tensor) -> Tensor:
    """Returns the advantage of each token, (rows, length): that of its rank, from ranks (rows, k), or of the answer."""
    by_rank = ranks.gather(1, places.clamp(0, ranks.size(1) - 1))
    return torch.where((places >= 0) & (places < ranks.size(1)), by_rank, of_answer.unsqueeze(1))


def places_of_items(catalogue: Catalogue) -> Places:
    """Returns the Places of item tokens: the first after the predicted traits is rank 0."""

    def places(ids: Tensor) -> Tensor:
        rank = torch.arange(ids.size(1), device=ids.device) - catalogue.opening
        rank = torch.where((rank < 0) | (rank >= catalogue.k), NOWHERE, rank)
        return rank.repeat(len(ids), 1)

    return places


def places_of_lines(tokenizer: PreTrainedTokenizerBase, last: rewards.Batch) -> Places:
    """Returns the Places of text tokens: the line of a token, for answers with exactly one item on every line."""

    def places(ids: Tensor) -> Tensor:
        entries, marks = last[0][1].entries, set(tokenizer.all_special_ids)
        texts = [["" if token in marks else str(tokenizer.decode([token])) for token in row] for row in ids.tolist()]
        rows = [_lines(pieces, count) for pieces, count in zip(texts, entries, strict=True)]
        return torch.tensor(rows, device=ids.device)

    return places


def _lines(pieces: Sequence[str], entries: int) -> list[int]:
    """Returns the line of each token. The end of an answer and padding (empty pieces) are on no line, because stopping
    concerns the whole answer; nor are line breaks before the first line."""
    text = "".join(pieces)
    lines = text.strip("\n").split("\n")
    if len(lines) != entries or not all(line.strip() for line in lines):
        return [NOWHERE] * len(pieces)
    breaks = accumulate((piece.count("\n") for piece in pieces), initial=len(text.lstrip("\n")) - len(text))
    return [max(line, NOWHERE) if piece else NOWHERE for line, piece in zip(breaks, pieces, strict=False)]


def clipped(trainer: type[GRPOTrainer], most: float) -> type[GRPOTrainer]:
    """Returns a GRPOTrainer that clips advantages to [-most, most]: a single hit among 128 answers has 10.5."""

    class Clipped(trainer):  # type: ignore[misc, valid-type]
        def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Tensor]:
            output: dict[str, Tensor] = super()._generate_and_score_completions(inputs)
            return output | {"advantages": output["advantages"].clamp(-most, most)}

    return Clipped


def ranked(
    trainer: type[GRPOTrainer], places: Places, last: rewards.Batch, weights: rewards.Weights
) -> type[GRPOTrainer]:
    """Returns a GRPOTrainer with one advantage per rank: TRL's loss accepts (rows, length) as well as (rows,)."""

    class Ranked(trainer):  # type: ignore[misc, valid-type]
        def _calculate_rewards(self, *args: Any) -> Tensor:
            values: Tensor = super()._calculate_rewards(*args)
            shares = np.stack([reward(last[0][1], weights) for reward in rewards.RANKS.values()], axis=-1)
            self.shares = gather(torch.tensor(shares, dtype=torch.float32, device=self.accelerator.device))
            return values

        def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Tensor]:
            output: dict[str, Tensor] = super()._generate_and_score_completions(inputs)
            group = self.num_generations if self.model.training else self.num_generations_eval
            scales = self.reward_weights.to(self.shares.device)
            all_advantages = advantages(self.shares, scales, group, self.multi_objective_aggregation)
            first = self.accelerator.process_index * len(inputs)
            of_process = all_advantages[first : first + len(inputs)]
            output["advantages"] = spread(output["advantages"], of_process, places(output["completion_ids"]))
            return output

    return Ranked
