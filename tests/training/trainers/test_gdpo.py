"""GDPO: rank credit in the loss, adapters, and the reference model of the KL term."""

import math
import re
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
import torch

from saferec_builder.core.errors import TrainingError
from tests.conftest import Patch
from tests.worlds import small_release
from training import data, settings
from training.decoding import constrained, generate, rollouts
from training.evaluation import rewards
from training.trainers import advantages, gdpo

pytestmark = pytest.mark.training


def run(world: Path, monkeypatch: Patch, tmp_path: Path, *changes: str) -> dict[str, Any]:
    """Runs two GDPO steps from the model in `start`; returns the trainer, TRL's outputs, and its rewards."""
    from trl import GRPOTrainer  # type: ignore[attr-defined]

    caught: dict[str, Any] = {"outputs": [], "rewards": []}
    scored, rewarded = GRPOTrainer._generate_and_score_completions, GRPOTrainer._calculate_rewards

    @wraps(scored)
    def watch(self: Any, inputs: Any) -> Any:
        caught["trainer"] = self
        caught["outputs"].append(scored(self, inputs))
        return dict(caught["outputs"][-1])

    @wraps(rewarded)
    def watched(self: Any, *given: Any) -> Any:
        caught["rewards"].append(rewarded(self, *given))
        return caught["rewards"][-1]

    monkeypatch.setattr(GRPOTrainer, "_generate_and_score_completions", watch)
    monkeypatch.setattr(GRPOTrainer, "_calculate_rewards", watched)
    release = data.open_release(world / "release")
    fixed = "per_device_train_batch_size=8 num_generations=4 max_steps=2 saferec.checks=1 learning_rate=0.1".split()
    config = settings.read("gdpo", [*fixed, *changes])
    rows = data.rows(release.folder, "grpo", "train")
    policy = replace(generate.load(str(world / "start")), masked=config["saferec"]["mask"])
    caught["done"] = gdpo.train(policy, rows, release, config, tmp_path / "out", lambda _: {"score": 0.0}, seed=3)
    return caught


@pytest.mark.parametrize("mode", ["gdpo", "grpo"])
def test_advantages_are_trls_and_the_kl_term_goes_by_the_given_model(world, monkeypatch, tmp_path, mode: str) -> None:
    caught = run(world, monkeypatch, tmp_path, f"saferec.mode={mode}", "beta=0.1")
    for values, output in zip(caught["rewards"], caught["outputs"], strict=True):
        assert values.shape == (8, 3) and values.std(0).max() > 0
        ours = advantages.advantages(values, torch.ones(3), 4, advantages.MODES[mode])
        assert torch.allclose(ours, output["advantages"], atol=1e-4)
    start = generate.load(str(world / "start")).model.state_dict()
    reference = caught["trainer"].ref_model.state_dict()
    assert all(torch.equal(reference[name], start[name]) for name in start)
    assert any(not torch.equal(value, start[name]) for name, value in weights_of(caught).items())
    kl = [line["kl"] for line in caught["trainer"].state.log_history if "kl" in line]
    assert kl and all(math.isfinite(value) for value in kl)


def test_rank_credit_reaches_the_loss_and_is_sequence_credit_where_ranks_agree(world, monkeypatch, tmp_path) -> None:
    assert [*rewards.RANKS] == [*rewards.OURS]
    by_sequence = run(world, monkeypatch, tmp_path / "whole", "saferec.credit=sequence")
    with monkeypatch.context() as patch:
        # every rank has the answer's reward
        for name, reward in rewards.OURS.items():
            same = lambda judged, weights, reward=reward: reward(judged, weights)[:, None].repeat(4, 1)  # noqa: E731
            patch.setitem(rewards.RANKS, name, same)  # type: ignore[arg-type]
        ranks = run(world, patch, tmp_path / "ranks", "saferec.credit=rank")
    expected, equal = weights_of(by_sequence), weights_of(ranks)
    assert all(torch.allclose(expected[name], equal[name], atol=1e-5) for name in expected)
    apart = weights_of(run(world, monkeypatch, tmp_path / "apart", "saferec.credit=rank"))
    assert any(not torch.allclose(expected[name], apart[name], atol=1e-5) for name in expected)


def weights_of(caught: dict[str, Any]) -> dict[str, Any]:
    return {name: value.detach().clone() for name, value in caught["trainer"].model.state_dict().items()}


def test_an_adapter_with_rows_of_items_learns_without_masks_too(world, monkeypatch, tmp_path) -> None:
    # TRL reads the bias of the head, which peft's wrapper of a head with trained rows did not have
    free = ("saferec.lora=2", "saferec.mask=false", "saferec.credit=sequence", "logging_steps=1")
    # an untrained model without masks names no item, so that all its answers would have the same reward
    worth = lambda completion_ids, **_: [float(sum(ids) % 7) for ids in completion_ids]  # noqa: E731
    monkeypatch.setattr(rewards, "functions", lambda *_: [worth])
    result = run(world, monkeypatch, tmp_path, *free)["done"]
    assert result["steps"] == 2 and max(line.get("grad_norm", 0) for line in result["log"]) > 0


def test_a_reference_model_reads_no_more_answers_at_once_than_a_pass(world, monkeypatch, tmp_path) -> None:
    """TRL asks it about all passes of a step: it took several times the memory that `memory` plans."""
    rows, scored = set[int](), constrained.Catalogue.log_probabilities

    def watched(self: Any, excluded: Any, completions: torch.Tensor, logits: torch.Tensor) -> Any:
        rows.add(len(logits))
        return scored(self, excluded, completions, logits)

    monkeypatch.setattr(constrained.Catalogue, "log_probabilities", watched)
    passes = ("per_device_train_batch_size=4", "gradient_accumulation_steps=2")
    caught = run(world, monkeypatch, tmp_path, *passes, "beta=0.1", "saferec.credit=sequence")
    assert rows == {4} and {len(output["ref_per_token_logps"]) for output in caught["outputs"]} == {8}


def test_what_we_override_of_trl_is_listed_and_there() -> None:
    """Fails where TRL moves a method: see gdpo.PRIVATE for what takes its place."""
    from trl import GRPOTrainer  # type: ignore[attr-defined]

    gdpo.refuse_another_trl()
    sources = [Path(module.__file__).read_text() for module in (advantages, rollouts)]
    overridden = {name for text in sources for name in re.findall(r"^        def (_[a-z]\w+)", text, re.MULTILINE)}
    assert overridden == {*gdpo.PRIVATE} and len(overridden) <= 4

    class Renamed(GRPOTrainer):
        _generate_single_turn = None

    class Changed(GRPOTrainer):
        def _calculate_rewards(self, inputs: Any) -> None: ...

    for trainer, name in ((Renamed, "_generate_single_turn"), (Changed, "_calculate_rewards")):
        with pytest.raises(TrainingError, match=rf"GRPOTrainer\.{name}\(.*is not there: expected a version"):
            gdpo.refuse_another_trl(trainer)


def test_the_papers_rewards_go_by_risk_and_not_by_our_verdict(release, rows) -> None:
    # b is violated by our verdict (votes), with a risk of .5 at most; a has .7 (a weak guide alone), verdict unknown
    risks = {item: {"gore": {"a": 0.7, "b": 0.5, "c": 0.66}.get(item, 0.0)} for item in release.items} | {"j": {}}
    text_model = generate.PolicyModel(None, None, None)
    functions = gdpo.functions(text_model, replace(release, risks=risks), "paper", rewards.Weights())
    safety = next(f for f in functions if f.__name__ == "safety")
    texts = [*map(small_release.listed, "abcj"), "1. Invented (1999)"]
    users = {name: [rows[0][name]] * len(texts) for name in ("traits", "truth", "safe_truth", "seen", "domain")}
    assert safety(texts, **users) == [-1, 0, -1, 0, 0]  # j has no risk; an invented title is safe, too
