"""Rollouts of a training: each prompt is read once for its group, and the draws are the same as TRL's."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.worlds import chat_model
from training.decoding import generate, rollouts
from training.trainers.fit import lora

pytestmark = pytest.mark.training


def trained(folder: Path, **changed: Any) -> tuple[list[list[int]], dict[str, Any], Any]:
    """Returns (completions, weights, trainer's class) after two steps from the model in `folder`; the seed is fixed."""
    from datasets import Dataset
    from trl import GRPOConfig  # type: ignore[attr-defined]

    policy = generate.load(str(folder))
    with_theirs, rank = changed.pop("theirs", False), changed.pop("rank", 0)
    # ends of answers are made likelier, or no answer this short would have one
    likelier = {"sequence_bias": [[[policy.tokenizer.eos_token_id], 3.0]]}
    fixed = {"per_device_train_batch_size": 8, "num_generations": 4, "max_steps": 2, "learning_rate": 0.05, "seed": 5}
    fixed |= {"max_completion_length": 12, "temperature": 0.9, "generation_kwargs": likelier, "bf16": False}
    fixed |= {"use_cpu": True, "activation_checkpointing": False, "report_to": "none", "save_strategy": "no"}
    args = GRPOConfig(output_dir=str(folder.parent / "trainer"), **fixed | changed)
    rows = [{"prompt": [{"role": "user", "content": " ".join(["a film"] * (n + 1))}]} for n in range(4)]
    completions: list[list[int]] = []

    def length(completion_ids: list[list[int]], **_: Any) -> list[float]:
        completions.extend(completion_ids)
        return [float(sum(ids) % 7) for ids in completion_ids]

    from trl import GRPOTrainer  # type: ignore[attr-defined]

    kind = GRPOTrainer if with_theirs else rollouts.trainer(policy, rows, args)
    trainer = kind(
        model=policy.model,
        args=args,
        train_dataset=Dataset.from_list(rows),
        processing_class=policy.tokenizer,
        reward_funcs=length,
        peft_config=lora(rank),
    )
    trainer.train()
    return completions, {name: value.clone() for name, value in trainer.model.state_dict().items()}, kind


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return chat_model.write(tmp_path_factory.mktemp("chat") / "model", ["a film", "another film of the year"])


@pytest.mark.parametrize("rank", [0, 2])
def test_what_is_drawn_and_learnt_is_what_trl_draws_and_learns(chat: Path, rank: int) -> None:
    theirs, learnt, _ = trained(chat, theirs=True, rank=rank)
    ours, weights, kind = trained(chat, rank=rank)
    assert kind.__name__ == "Free" and ours == theirs
    end = generate.load(str(chat)).tokenizer.eos_token_id
    assert any(ids[-1] == end and len(ids) < 12 for ids in ours) and any(len(ids) == 12 for ids in ours)
    assert all(torch.allclose(weights[name], learnt[name], atol=1e-6) for name in learnt)


def test_who_draws_otherwise_is_left_to_trl(chat: Path) -> None:
    from trl import GRPOTrainer  # type: ignore[attr-defined]

    policy = generate.load(str(chat))
    settings = {"use_vllm": False, "use_transformers_continuous_batching": False, "cache_implementation": None}
    settings |= {"generation_kwargs": None}
    others = [("use_vllm", True), ("cache_implementation", "offloaded"), ("cache_implementation", "static")]
    # beams had no rows in our cache (a traceback); without a cache other tokens were drawn; the third was ignored
    for kwargs in ({"num_beams": 2}, {"use_cache": False}, {"cache_implementation": "offloaded"}):
        others.append(("generation_kwargs", kwargs))
    for name, value in others:
        assert rollouts.trainer(policy, [], SimpleNamespace(**settings | {name: value})) is GRPOTrainer
    assert rollouts.trainer(policy, [], SimpleNamespace(**settings)) is not GRPOTrainer


def test_a_rollout_names_no_item_that_its_seeker_has_seen_however_the_request_names_it(policy: Any) -> None:
    """Only items whose "Title (Year)" stands in the request were out: people write titles otherwise."""
    turn = {"role": "user", "content": "I liked item g. Something like it?"}
    excluded = rollouts._excluded(policy, [{"prompt": [turn], "seen": ["g"]}])
    assert excluded(generate.prompt_tokens(policy.tokenizer, [{"prompt": [turn]}])[0]) == ["g"]
