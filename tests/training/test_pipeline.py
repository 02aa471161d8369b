"""How a run loads, teaches and judges each of its models."""

from pathlib import Path

import pytest
import torch

from saferec_builder.core.errors import TrainingError
from tests.worlds import bars, chat_model
from training import comparison, data, pipeline, settings
from training.comparison import load_policy
from training.run_folders import Run

pytestmark = pytest.mark.training


@pytest.fixture
def run(world: Path, tmp_path: Path) -> Run:
    return Run(data.open_release(world / "release"), tmp_path, 0)


def test_a_model_is_judged_as_it_was_taught_whatever_the_settings_of_the_others(world: Path, run: Run) -> None:
    config = settings.read("sft")  # SFT teaches to say two traits; this model says none
    judged = load_policy(run, str(world / "start"), config)
    assert judged.catalogue and judged.catalogue.opening == 0 and config["saferec"]["says"] == 2
    assert judged.catalogue.domains["k"] == "game"  # from the release: models trained before have no domains


def test_a_model_is_loaded_as_was_asked(world: Path, run: Run) -> None:
    option = "model_init_kwargs={attn_implementation: eager, dtype: bfloat16}"
    model = load_policy(run, str(world / "start"), settings.read("sft", [option]), to_train=True).model
    assert (model.config._attn_implementation, model.dtype) == ("eager", torch.bfloat16)
    for wrong in ("{attn_implementation: flash_attention_9}", "{no_such_argument: 1}"):
        with pytest.raises(TrainingError, match="cannot be loaded"):
            load_policy(run, str(world / "start"), settings.read("sft", [f"model_init_kwargs={wrong}"]))


def test_answers_that_take_long_say_whose_they_are(world: Path, run: Run, monkeypatch, capsys) -> None:
    bars.steps_take(30.0, monkeypatch)
    config = settings.read("sft", ["saferec.batch=1"])
    pipeline._score(run, "safe_sft", policy := load_policy(run, str(world / "start"), config), config)(policy.model)
    comparison.systems(run, {"sft": str(world / "start")}, config)
    lines = [line.rpartition(",")[0] for line in capsys.readouterr().err.splitlines() if "answers" in line]
    names = ("  safe_sft on validation", "sft on test", "blind on test", "oracle_filter on test")
    assert lines[:4] == [f"{name}: 1 of 2 answers" for name in names]


def test_item_tokens_are_added_again_where_the_model_is_loaded_in_another_way(run: Run, tmp_path: Path) -> None:
    """`run` with another revision or dtype said "replaces a stage", and trained on the weights of before."""
    model = str(chat_model.write(tmp_path / "chat", ["a film"], template=chat_model.THINKING))
    for dtype, thinking in (("bfloat16", "true"), ("float32", "true"), ("float32", "false")):
        thoughts = f"saferec.chat_template_kwargs={{enable_thinking: {thinking}}}"
        config = settings.read("sft", ["saferec.items=tokens", f"model_init_kwargs={{dtype: {dtype}}}", thoughts])
        policy = load_policy(run, pipeline.start(run, model, config), settings.read("sft"))
        assert str(policy.model.dtype) == f"torch.{dtype}"
        assert f"set enable_thinking = {thinking} %" in str(policy.tokenizer.chat_template)[:99]
