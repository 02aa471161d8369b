"""Settings of a training: kinds and values, wrong ones said before anything is done."""

from pathlib import Path

import pytest

from saferec_builder.core.errors import TrainingError
from training import settings


def test_a_number_in_a_file_is_read_as_after_set(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text("saferec: {caution: 1e1, says: 2}\n")
    assert settings.read(str(tmp_path / "own.yaml"))["saferec"]["caution"] == 10.0


@pytest.mark.parametrize(
    "said",
    [f"saferec.{one}" for one in ("batch=null", "lam=", "lora=x", "hold=1", "mode=true", "thin=[1]", "batch=1.5")],
)
def test_a_setting_of_another_kind_is_said(said: str) -> None:
    for block in ("saferec=4", "saferec={lora: 4}", "=4", "lora"):
        with pytest.raises(TrainingError, match="expected key=value"):
            settings.read("sft", [block])
    with pytest.raises(TrainingError, match="expected"):
        settings.read("sft", [said])
    assert settings.read("sft", ["saferec.lam=2"])["saferec"]["lam"] == 2


@pytest.mark.parametrize(
    "said",
    [f"saferec.{one}" for one in ("batch=0", "batch=-4", "validate=0", "says=-1", "lora=-1", "thin=1.5", "lam=-1")]
    + [
        f"saferec.{one}"
        for one in ("floor=.nan", "rows=grpo", "prefer=saef", "items=list", "mode=gdop", "credit=token", "rewards=x")
    ],
)
def test_a_setting_that_means_nothing_is_said_before_anything_is_done(said: str) -> None:
    # -4 prompts at once answered none, so that every answer was empty; -1 traits said left out the last title
    with pytest.raises(TrainingError, match=f"{said.split('=')[0]} = .*: expected"):
        settings.read("sft", [said])
    assert settings.read("gdpo", ["saferec.floor=-0.5", "saferec.mode=conditioned"])["saferec"]["floor"] == -0.5


@pytest.mark.parametrize("said", ["learning_rate=fast", "packing=ture"])
def test_a_word_for_one_of_trls_numbers_is_said(tmp_path: Path, said: str) -> None:
    trl = pytest.importorskip("trl")
    with pytest.raises(TrainingError, match=f"{said.split('=')[0]} = .*: expected a value like"):
        settings.trl_arguments(trl.SFTConfig, settings.read("sft", [said]), tmp_path, 0)
