"""Advantages worked by hand, of whole answers and of ranks, and the tokens that they are assigned to."""

import math
from typing import Any

import pytest
import torch

from training.decoding.constrained import Catalogue
from training.trainers import advantages

pytestmark = pytest.mark.training  # torch and TRL take seconds to load

GDPO, GRPO = advantages.MODES["gdpo"], advantages.MODES["grpo"]


VALUES = torch.tensor([[1.0, -10.0], [0.0, 0.0], [1.0, 0.0], [0.0, 0.0]])


def test_gdpo_by_hand() -> None:
    # two groups of two, rewards (relevance, safety); unbiased std of {a, b} is |a - b| / sqrt 2
    # group 1: relevance 1 0 -> +-.7071; safety -10 0 -> -+.7071: they cancel whatever their scale (eq. 4, 5): 0 0
    # group 2: relevance 1 0 -> +-.7071; safety 0 0 -> 0: +-.7071
    # over the batch (eq. 6): mean 0, std sqrt((.5 + .5) / 3) = .57735: 0 0 +-1.2247
    advantage = advantages.advantages(VALUES, torch.ones(2), 2, GDPO)
    assert advantage.tolist() == pytest.approx([0, 0, math.sqrt(1.5), -math.sqrt(1.5)], abs=2e-3)
    # without the safety reward both groups count alike: +-.7071, std sqrt(2 / 3): +-.866
    alone = advantages.advantages(VALUES, torch.tensor([1.0, 0.0]), 2, GDPO)
    assert alone.tolist() == pytest.approx([0.866, -0.866, 0.866, -0.866], abs=2e-3)


def test_grpo_by_hand_lets_the_larger_reward_decide() -> None:
    # sums -9 0 and 1 0, each normalised within its group: -+.7071, +-.7071
    advantage = advantages.advantages(VALUES, torch.ones(2), 2, GRPO)
    assert advantage.tolist() == pytest.approx([-0.7071, 0.7071, 0.7071, -0.7071], abs=1e-3)


@pytest.mark.parametrize("how", [GDPO, GRPO])
def test_ranks_that_share_a_reward_have_the_answers_advantage(how: str) -> None:
    values = torch.rand(12, 3, generator=torch.Generator().manual_seed(1))
    answers = advantages.advantages(values, torch.tensor([1.0, 2.0, 0.5]), 4, how)
    ranks = advantages.advantages(values.unsqueeze(1).repeat(1, 10, 1), torch.tensor([1.0, 2.0, 0.5]), 4, how)
    assert ranks.shape == (12, 10)
    assert torch.allclose(ranks, answers.unsqueeze(1).expand(12, 10), atol=1e-6)


def test_a_rank_that_nobody_differs_in_has_none() -> None:
    values = torch.zeros(4, 2, 1)
    values[0, 1, 0] = 1.0
    advantage = advantages.advantages(values, torch.ones(1), 2, GDPO)
    assert advantage[:, 0].abs().max() == 0 and advantage[0, 1] > 1 and advantage[2:, 1].abs().max() < 1e-6


def test_tokens_of_items_have_their_rank_and_what_was_heard_has_none() -> None:
    places = advantages.places_of_items(Catalogue({"a": 3}, 2, 1, {"gore": 9}, 8, opening=2))
    assert places(torch.zeros(1, 6)).tolist() == [[-1, -1, 0, 1, -1, -1]]
    answer, ranks = torch.tensor([5.0]), torch.tensor([[1.0, 2.0]])
    assert advantages.spread(answer, ranks, places(torch.zeros(1, 6))).tolist() == [[5, 5, 1, 2, 5, 5]]


@pytest.mark.parametrize(
    ("pieces", "entries", "expected"),
    [
        (["1. Saw", "\n", "2. ", "Heat\n", "3.", " Big"], 3, [0, 0, 1, 1, 2, 2]),
        (["Sure:", "\n", "1. Saw", "\n2. Heat"], 2, [-1, -1, -1, -1]),  # a line more than entries
        (["Saw, Heat"], 2, [-1]),
        (["1. Saw\n", "2. Heat", "\n", "", ""], 2, [0, 1, 1, -1, -1]),  # the end and the pads are on no line
        (["\n\n", "1. Saw\n", "2. Heat"], 2, [-1, 0, 1]),  # each item used to get the credit of the next
    ],
)
def test_tokens_of_text_have_the_rank_of_their_line(pieces: list[str], entries: int, expected: list[int]) -> None:
    assert advantages._lines(pieces, entries) == expected


# --- in TRL's trainer -------------------------------------------------------------------------------------------------


def test_no_advantage_is_larger_than_the_clip() -> None:
    class Trainer:
        def _generate_and_score_completions(self, inputs: Any) -> Any:
            return {"advantages": torch.tensor([-7.0, 0.2, 10.5]), "completion_ids": inputs}

    output = advantages.clipped(Trainer, 5.0)()._generate_and_score_completions([])  # type: ignore[arg-type]
    assert output["advantages"].tolist() == [-5, pytest.approx(0.2), 5] and output["completion_ids"] == []
