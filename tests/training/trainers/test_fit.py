"""SFT and GDPO in this process: packing, LoRA and what it is measured against, learning curves, checkpoints."""

import itertools
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from saferec_builder.core.errors import TrainingError
from tests import ROOT
from training import data, pipeline, settings
from training.comparison import load_policy
from training.decoding import constrained, generate
from training.evaluation import rewards
from training.models import word_dropout
from training.stages import Run
from training.trainers import best_checkpoint as best, curves, fit, gdpo, packing, sft

pytestmark = pytest.mark.training
SHORT = ["warmup_steps=0", "saferec.checks=1", "saferec.thin=0", "logging_steps=1"]


def learn(world: Path, folder: Path, *changes: str) -> dict[str, Any]:
    """A short SFT from `start`."""
    found = settings.read("sft", [*SHORT, "max_steps=1", *changes])
    table = data.rows(world / "release", "sft", "train")
    policy = generate.load(str(world / "start"))
    return sft.train(policy, table, found, folder, lambda _: {"score": 0.0})


def practise(world: Path, model: Path, folder: Path, *changes: str) -> dict[str, Any]:
    """A short GDPO from `model`."""
    fixed = ["per_device_train_batch_size=4", "num_generations=4", "max_steps=2", "learning_rate=0.1", "beta=0.1"]
    found = settings.read("gdpo", [*SHORT, *fixed, *changes])
    release = data.open_release(world / "release")
    table = data.rows(release.folder, "grpo", "train")
    policy = generate.load(str(model))
    better = itertools.count()  # each check above the one before: the last weights stay
    return gdpo.train(policy, table, release, found, folder, lambda _: {"score": float(next(better))})


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
    found = constrained.load(folder)
    assert found is not None
    return [*found.tokens.values(), *found.traits.values(), found.nothing]


def test_packed_documents_have_the_loss_that_they_have_alone(world: Path, tmp_path: Path) -> None:
    # four documents in one batch: padded to the longest, or in one row of 1024 tokens. One step, so one loss
    alone = learn(world, tmp_path / "alone", "per_device_train_batch_size=4")
    packed = learn(world, tmp_path / "packed", "packing=true", "per_device_train_batch_size=1")
    for name in ("loss", "grad_norm"):
        one, other = (next(line[name] for line in done["log"] if name in line) for done in (alone, packed))
        assert one == pytest.approx(other, rel=1e-3)


def test_packing_is_refused_where_documents_would_see_each_other(world: Path) -> None:
    model = generate.load(str(world / "start")).model
    assert packing.leak(model) < 1e-4
    with pytest.raises(TrainingError, match="wrapped cuts documents"):
        packing.refuse_leaks(model, "wrapped")
    blind = model.forward
    model.forward = lambda ids, **_: blind(input_ids=ids)  # an attention that knows no bounds
    with pytest.raises(TrainingError, match="reads across the documents"):
        packing.refuse_leaks(model, "bfd")


def test_lora_ends_as_whole_weights_and_gdpo_is_held_to_the_sft_model(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trl import GRPOTrainer  # type: ignore[attr-defined]

    learn(world, tmp_path / "sft", "saferec.lora=4", "learning_rate=0.1", "max_steps=2")
    start, taught = weights(world / "start"), weights(tmp_path / "sft")
    moved = [name for name in start if not torch.equal(start[name], taught[name])]
    # an adapter on the linear layers, and the rows of item tokens; here the table of words is tied to the output
    assert moved and all("proj" in n or n in ("model.embed_tokens.weight", "lm_head.weight") for n in moved)
    words = ~torch.isin(torch.arange(len(start["lm_head.weight"])), torch.tensor(item_rows(world / "start")))
    assert torch.equal(start["lm_head.weight"][words], taught["lm_head.weight"][words])
    assert not (tmp_path / "sft" / "adapter_config.json").exists()

    held: dict[str, Any] = {}
    scored = GRPOTrainer._generate_and_score_completions

    def watch(self: Any, inputs: Any) -> Any:
        output = scored(self, inputs)
        ids = torch.cat([output["prompt_ids"], output["completion_ids"]], dim=1)
        mask = torch.cat([output["prompt_mask"], output["completion_mask"]], dim=1)
        policy = generate.load(str(tmp_path / "sft"))
        keep = output["completion_ids"].size(1)
        with torch.no_grad():
            found, _, _ = self._get_per_token_logps_and_entropies(policy.model, ids, mask, keep)
        held.setdefault("differences", []).append(float((found - output["ref_per_token_logps"]).abs().max()))
        return output

    monkeypatch.setattr(GRPOTrainer, "_generate_and_score_completions", watch)
    practise(world, tmp_path / "sft", tmp_path / "gdpo", "saferec.lora=4")
    # at the first step and after the policy has moved away
    assert len(held["differences"]) == 2 and max(held["differences"]) < 1e-4


def test_the_curves_of_a_run_are_drawn(world: Path, tmp_path: Path) -> None:
    done = practise(world, world / "start", tmp_path / "gdpo")
    panels = curves.series(done["log"], [{"step": 0, "svr@4": 0.5}, {"step": 2, "svr@4": 0.25}])
    assert panels["violations on validation"] == {"validation/svr": [(0, 0.5), (2, 0.25)]}
    assert set(panels) >= {"reward", "reward by part", "KL to the reference", "length of an answer, tokens"}
    assert [step for step, _ in panels["reward by part"]["rewards/safety/mean"]] == [1, 2]
    assert (tmp_path / "gdpo" / "curves.png").read_bytes()[:4] == b"\x89PNG"
    assert curves.draw(tmp_path, [], []) is None


# --- going on ---------------------------------------------------------------------------------------------------------


def test_a_checkpoint_counts_once_it_is_whole(tmp_path: Path) -> None:
    assert best.checkpoint(tmp_path) is None and best.step_of(None) == 0
    for step, state in ((9, "{}"), (10, "{}"), (11, ""), (12, None)):  # the last two were broken off
        (tmp_path / f"checkpoint-{step}").mkdir()
        if state is not None:
            (tmp_path / f"checkpoint-{step}" / "trainer_state.json").write_text(state)
    found = best.checkpoint(tmp_path)
    assert found is not None and found.name == "checkpoint-10" and best.step_of(found) == 10


def test_a_keeper_that_goes_on_has_the_earlier_checks_behind_it(tmp_path: Path) -> None:
    class Model:
        def parameters(self) -> list[Any]:
            return []

        def save_pretrained(self, folder: Path, state_dict: Any = None) -> None:
            (folder / "weights").write_text(self.name)

    def at(step: int, name: str, keeper: Any) -> None:
        model = Model()
        model.name = name  # type: ignore[attr-defined]
        keeper.check(step, model)

    scores = {"a": 0.5, "b": 0.9, "c": 0.7, "d": 0.95}
    score = lambda model: {"score": scores[model.name]}  # noqa: E731
    before = best.Keeper(tmp_path, score, 1, say=lambda _: None)
    at(1, "a", before)
    at(2, "b", before)
    at(3, "d", before)
    # goes on from step 2: the check of step 3 has not happened; c is worse than b
    after = best.Keeper(tmp_path, score, 1, say=lambda _: None, start=2)
    at(2, "c", after)
    at(3, "c", after)
    assert after.best == {"step": 2, "score": 0.9}
    assert [json.loads(line)["step"] for line in (tmp_path / "validation.jsonl").read_text().splitlines()] == [1, 2, 3]
    at(4, "d", after)
    assert after.best["step"] == 4 and (tmp_path / "weights").read_text() == "d"


def test_a_model_spread_over_two_processes_is_kept_whole(tmp_path: Path) -> None:
    """FSDP2: both ask it for answers, both give their half of the weights, the first writes what one alone would."""
    from transformers import AutoModelForCausalLM

    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    done = subprocess.run(
        [*launch, "-m", "tests.training.trainers.sharded", str(tmp_path)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0 and done.stdout.count("score 1.000") == 1, done.stderr
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


def test_rank_zero_is_no_adapter() -> None:
    assert fit.lora(0) is None and fit.lora(8).r == 8 and fit.lora(8).lora_alpha == 16
    assert set(rewards.RANKS) == set(rewards.OURS)


def test_a_model_is_judged_as_it_was_taught_whatever_the_settings_of_the_others(world: Path, tmp_path: Path) -> None:
    found = settings.read("sft")  # it teaches to say two traits; the model here says none
    run = Run(data.open_release(world / "release"), tmp_path, 0)
    judged = load_policy(run, str(world / "start"), found)
    assert judged.catalogue and judged.catalogue.opening == 0 and found["saferec"]["says"] == 2
    taught = pipeline._to_teach(judged, found["saferec"]["says"]).catalogue
    assert taught and taught.opening == 2
