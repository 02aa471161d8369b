"""Settings of a training: types and values, and errors that come before anything is done."""

import sys
from pathlib import Path

import pytest

from saferec_builder.core.errors import TrainingError
from training import settings


def test_what_only_the_extra_for_training_brings_is_named(monkeypatch) -> None:
    """A plain install has no pyyaml: `saferec-train run` and `memory` ended in a traceback."""
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(TrainingError, match=r"needs pyyaml: pip install 'saferec-builder\[train\]'"):
        settings.read("sft")


KINDS = "batch=null lam= lora=x hold=1 mode=true thin=[1] batch=1.5"  # not a number, not a word, not a switch
# a batch of -4 prompts answered none, so that every answer was empty; says=-1 left out the last title
VALUES = "batch=0 batch=-4 validate=0 says=-1 lora=-1 thin=1.5 lam=.nan lam=.inf rho=-1 clip=.nan rows=grpo"
VALUES += " prefer=saef items=list mode=gdop credit=token rewards=x"
NO_NUMBERS = "learning_rate=fast packing=ture max_steps=2.5 per_device_train_batch_size=0"


@pytest.mark.parametrize("said", [*KINDS.split(), *VALUES.split()])
def test_a_setting_that_means_nothing_is_said_before_anything_is_done(said: str) -> None:
    message = f"saferec.{said.split('=')[0]} = .*: expected" if said in VALUES.split() else "expected"
    with pytest.raises(TrainingError, match=message):
        settings.read("sft", [f"saferec.{said}"])


def test_a_setting_of_ours_that_is_misspelt_is_found_where_it_was_written(tmp_path: Path) -> None:
    """A --set was said to be a fault of our sft.yaml, and neither had a suggestion."""
    with pytest.raises(TrainingError, match=r"--set saferec.lra=3: saferec.lra is not known: did you mean lora\?"):
        settings.read("sft", ["saferec.lra=3"])
    mine = tmp_path / "mine.yaml"
    mine.write_text("extends: sft\nsaferec: {chekcs: 3}\n")
    with pytest.raises(TrainingError, match=r"mine.yaml: saferec.chekcs is not known: did you mean checks\?"):
        settings.read(str(mine))


def test_a_config_of_ones_own_may_extend_one_of_ours_and_has_no_aliases(tmp_path: Path) -> None:
    """A config of 500 bytes held nine to the power of ten values: the error that quotes it was never complete."""
    own = tmp_path / "own.yaml"
    own.write_text("extends: sft\nnum_train_epochs: 9\nsaferec: {lora: 4}\n")
    ours = settings.read("sft")
    assert settings.read(str(own)) == ours | {"num_train_epochs": 9, "saferec": ours["saferec"] | {"lora": 4}}
    for text, message in (
        ("seed: &all [*all]", "aliases .*: write their values out"),
        ("extends: stf", "stf.yaml: no "),
    ):
        own.write_text(text)
        with pytest.raises(TrainingError, match=message):
            settings.read(str(own))


def test_a_change_is_a_key_and_a_value(tmp_path: Path) -> None:
    for block in ("saferec=4", "saferec={lora: 4}", "=4", "lora"):
        with pytest.raises(TrainingError, match="expected key=value"):
            settings.read("sft", [block])
    for value in ("2024-13-45", "[" * 1_000, "{[a]: 1}", "[1"):  # an odd date ended in a traceback
        with pytest.raises(TrainingError, match="the value is not YAML: expected a number"):
            settings.read("sft", [f"seed={value}"])
    changed = settings.read("gdpo", ["saferec.clip=0.5", "saferec.mode=grpo", "saferec.lam=2"])["saferec"]
    assert (changed["clip"], changed["mode"], changed["lam"]) == (0.5, "grpo", 2)
    (tmp_path / "own.yaml").write_text("saferec: {clip: 1e1, says: 2}\n")  # a number in a file is read as after --set
    assert settings.read(str(tmp_path / "own.yaml"))["saferec"]["clip"] == 10.0


@pytest.mark.training  # TRL takes seconds to load
@pytest.mark.parametrize(
    ("change", "message"),
    [
        *((change, f"{change.split('=')[0]} = .*: expected a value like") for change in NO_NUMBERS.split()),
        ("gdpo.use_cpu=1", "say use_cpu"),
        ("learnin_rate=1", "mean learning_rate"),
        ("lora=1", "say saferec.lora"),
    ],
)
def test_what_trl_does_not_take_is_told_what_is_meant(change: str, message: str, tmp_path: Path) -> None:
    trl = pytest.importorskip("trl")
    with pytest.raises(TrainingError, match=message):
        settings.trl_arguments(trl.SFTConfig, settings.read("sft", [change]), tmp_path, 0)
