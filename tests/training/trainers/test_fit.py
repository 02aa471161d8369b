"""SFT and GDPO in this process: LoRA and its KL reference, word embeddings that stay fixed, sharded models."""

import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from saferec_builder.core import progress
from saferec_builder.core.errors import TrainingError
from tests import ROOT
from tests.worlds.bars import steps_take
from tests.worlds.fits import learn, practise
from training.decoding import constrained, generate
from training.models import word_dropout
from training.trainers import fit
from training.trainers.best_checkpoint import Keeper

pytestmark = pytest.mark.training


def weights(folder: Path) -> dict[str, Any]:
    state: dict[str, Any] = generate.load(str(folder)).model.state_dict()
    return state


def test_words_stay_where_they_are_while_items_and_traits_learn(world: Path, tmp_path: Path) -> None:
    policy = generate.load(str(world / "start"))
    words = word_dropout.words_of(policy)
    learn(world, tmp_path / "sft", "saferec.says=2")
    practise(world, tmp_path / "sft", tmp_path / "gdpo", "saferec.credit=sequence")
    practise(world, tmp_path / "sft", tmp_path / "free", "saferec.credit=sequence", "saferec.hold=false")
    name = "model.embed_tokens.weight"
    start, taught, practised, free = (
        weights(folder)[name] for folder in (world / "start", tmp_path / "sft", tmp_path / "gdpo", tmp_path / "free")
    )
    for before, after in ((start, taught), (taught, practised)):
        assert torch.equal(before[words], after[words]) and not torch.equal(before[~words], after[~words])
    assert not torch.equal(taught[words], free[words])


def item_rows(folder: Path) -> list[int]:
    catalogue = constrained.load(folder)
    assert catalogue is not None
    return [*catalogue.tokens.values(), *catalogue.traits.values(), catalogue.nothing]


def test_lora_ends_as_whole_weights_and_gdpo_is_held_to_the_sft_model(world: Path, tmp_path: Path, monkeypatch) -> None:
    assert fit.lora(0) is None and fit.lora(8).lora_alpha == 16
    from trl.trainer.grpo_trainer import GRPOTrainer

    learn(world, tmp_path / "sft", "saferec.lora=4", "learning_rate=0.1", "max_steps=2")
    start, taught = weights(world / "start"), weights(tmp_path / "sft")
    moved = [name for name in start if not torch.equal(start[name], taught[name])]
    # an adapter on the linear layers, and the rows of item tokens; here the table of words is tied to the output
    assert moved and all("proj" in n or n in ("model.embed_tokens.weight", "lm_head.weight") for n in moved)
    words = ~torch.isin(torch.arange(len(start["lm_head.weight"])), torch.tensor(item_rows(world / "start")))
    assert torch.equal(start["lm_head.weight"][words], taught["lm_head.weight"][words])
    assert not (tmp_path / "sft" / "adapter_config.json").exists()

    differences: list[float] = []
    scored = GRPOTrainer._generate_and_score_completions

    def watch(self: Any, inputs: Any) -> Any:
        output = scored(self, inputs)
        ids = torch.cat([output["prompt_ids"], output["completion_ids"]], dim=1)
        mask = torch.cat([output["prompt_mask"], output["completion_mask"]], dim=1)
        policy = generate.load(str(tmp_path / "sft"))
        keep = output["completion_ids"].size(1)
        with torch.no_grad():
            expected, _, _ = self._get_per_token_logps_and_entropies(policy.model, ids, mask, keep)
        differences.append(float((expected - output["ref_per_token_logps"]).abs().max()))
        return output

    monkeypatch.setattr(GRPOTrainer, "_generate_and_score_completions", watch)
    practise(world, tmp_path / "sft", tmp_path / "gdpo", "saferec.lora=4")
    # at the first step and after the policy has moved away
    assert len(differences) == 2 and max(differences) < 1e-4


# --- several processes, and progress ----------------------------------------------------------------------------------


def test_a_model_spread_over_two_processes_is_kept_whole(tmp_path: Path) -> None:
    """FSDP2: both processes generate, both give their half of the weights, the first writes what one alone would."""
    from transformers import AutoModelForCausalLM

    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    process = subprocess.run(
        [*launch, "-m", "tests.training.trainers.sharded", str(tmp_path)], cwd=ROOT, capture_output=True, text=True
    )
    assert process.returncode == 0 and process.stdout.count("score 1.000") == 1, process.stderr
    alone, kept = (AutoModelForCausalLM.from_pretrained(tmp_path / name).state_dict() for name in ("alone", "kept"))
    assert alone.keys() == kept.keys() and all(torch.equal(alone[name], kept[name]) for name in alone)


@pytest.mark.parametrize(
    ("kind", "adapter", "told"),
    [("ZERO3", False, "ZeRO-3"), ("FSDP", True, "saferec.lora=0"), ("FSDP", False, None), ("ZERO2", True, None)],
)
def test_what_would_end_without_weights_is_refused_at_once(kind: str, adapter: bool, told: str | None) -> None:
    plugin = SimpleNamespace(zero_stage=int(kind[-1])) if kind.startswith("ZERO") else None
    state = SimpleNamespace(deepspeed_plugin=plugin)
    trainer = SimpleNamespace(
        is_fsdp_enabled=kind == "FSDP",
        is_deepspeed_enabled=plugin is not None,
        accelerator=SimpleNamespace(state=state),
        model=SimpleNamespace(peft_config={}) if adapter else SimpleNamespace(),
    )
    if told is None:
        fit.refuse_spread(trainer)
        return
    with pytest.raises(TrainingError, match=told):
        fit.refuse_spread(trainer)


def test_a_long_training_says_where_it_stands(tmp_path: Path, monkeypatch, capsys) -> None:
    """Of 100 steps 60 were done earlier; the next takes 30 s, and so will 39 more."""
    steps_take(30.0, monkeypatch)
    checked: list[str] = []
    keeper = Keeper(tmp_path / "sft", lambda model: checked.append(model) or {"score": 1.0}, 2)
    keeper.best = {"score": 2.0}  # nothing to save
    nothing: Any = SimpleNamespace()
    state: Any = SimpleNamespace(global_step=60, max_steps=100)
    with keeper:
        keeper.on_train_begin(nothing, state, nothing)
        keeper.on_step_end(nothing, state, nothing, model="a")
        assert checked == []  # two checks in 100 steps: after 50 and 100
        assert capsys.readouterr().err == "  sft: 61 of 100 steps, about 20 min left\n"
        state.global_step = 100
        keeper.on_step_end(nothing, state, nothing, model="b")
        assert checked == ["b"]


def test_a_step_that_takes_long_says_that_it_is_at_work(tmp_path: Path, monkeypatch, capsys) -> None:
    """Steps of a minute each left a log silent; and what came after a failed training was silent, too."""
    monkeypatch.setattr(progress, "PATIENCE", 0.01)
    nothing, state = cast(Any, SimpleNamespace()), cast(Any, SimpleNamespace(global_step=0, max_steps=2))
    err = ""
    with pytest.raises(ValueError), Keeper(tmp_path / "sft", lambda model: {"score": 1.0}, 1) as keeper:
        keeper.on_train_begin(nothing, state, nothing)
        while not err:
            time.sleep(0.01)
            err = capsys.readouterr().err
        raise ValueError
    assert err == "  sft: at work for 1 s\n" and not progress._OPEN
