"""The folder of a training stage: what it may clear away, and what it leaves alone."""

import errno
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from saferec_builder.core.errors import TrainingError
from tests.worlds import small_release
from training import commands, safecrs, settings, stages


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_folder_with_other_files_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    (tmp_path / "run.json").write_text('{"safe_sft": {"key": "of a stage in it"}}')  # what `run` writes for all stages
    with pytest.raises(TrainingError, match="left as it is"):
        stages.begin(tmp_path, "new")
    with pytest.raises(TrainingError, match="left as it is"):
        stages.begin(tmp_path / "thesis.tex", "new")
    assert names(tmp_path) == {"thesis.tex", "run.json"}


def test_an_empty_folder_becomes_a_stage_and_one_of_the_same_key_goes_on(tmp_path: Path) -> None:
    stages.begin(tmp_path, "new")
    (tmp_path / "checkpoint").write_text("half way")
    stages.begin(tmp_path, "new")
    assert names(tmp_path) == {".begun.json", "checkpoint"}


@pytest.mark.parametrize(
    "card", [{"run.json": {"key": "old"}}, {".begun.json": {"key": "old"}}, {".begun.json": {"key": ""}}]
)
def test_another_stage_is_cleared_away_also_where_the_clearing_was_broken_off(tmp_path: Path, card) -> None:
    for name, found in card.items():
        (tmp_path / name).write_text(json.dumps(found))
    (tmp_path / "trainer").mkdir()
    (tmp_path / "trainer" / "weights").write_text("old")
    stages.begin(tmp_path, "new")
    assert names(tmp_path) == {".begun.json"} and stages.read_card(tmp_path, ".begun.json") == {"key": "new"}


def test_a_stage_is_done_again_when_the_model_in_the_folder_it_starts_from_was_trained_anew(tmp_path: Path) -> None:
    release: Any = SimpleNamespace(digest="d", manifest={"name": "n", "version": "1.0.0"})
    model = tmp_path / "sft"
    model.mkdir()
    done: list[str] = []
    for key in ("first", "first", "second"):
        (model / "run.json").write_text(json.dumps({"key": key}))
        run = stages.Run(release, tmp_path, say=lambda _: None)

        def train(_: Path, key: str = key) -> dict[str, Any]:
            done.append(key)
            return {}

        run.stage("gdpo", {}, train, str(model))
    assert done == ["first", "second"]


def test_a_stage_is_done_again_when_somebody_elses_model_was_filled_anew(tmp_path: Path) -> None:
    release: Any = SimpleNamespace(digest="d", manifest={"name": "n", "version": "1.0.0"})
    model = tmp_path / "mine"
    model.mkdir()
    (model / "config.json").write_text("{}")
    done: list[str] = []
    for weights in ("first", "first", "other"):  # as long as the first
        if not done or weights != done[-1]:
            (model / "model.safetensors").write_text(weights)
            os.utime(model / "model.safetensors", ns=(0, len(done)))
        run = stages.Run(release, tmp_path, say=lambda _: None)

        def train(_: Path, weights: str = weights) -> dict[str, Any]:
            done.append(weights)
            return {}

        run.stage("sft", {}, train, str(model))
    assert done == ["first", "other"]


def test_a_stage_does_not_clear_away_the_model_that_it_starts_from(tmp_path: Path) -> None:
    release: Any = SimpleNamespace(digest="d", manifest={"name": "n", "version": "1.0.0"})
    model = tmp_path / "runs" / "sft" / "best"
    model.mkdir(parents=True)
    (model / "weights").write_text("of days")
    (tmp_path / "runs" / "sft" / "run.json").write_text('{"key": "of another run"}')
    run = stages.Run(release, tmp_path / "runs", say=lambda _: None)
    for start in (model, model.parent):
        with pytest.raises(TrainingError, match="holds the model to start from"):
            run.stage("sft", {}, lambda _: {}, str(start))
    run.stage("start", {}, lambda _: {}, "tiny")
    with pytest.raises(TrainingError, match="holds the model to start from"):
        run.stage("start", {"other": 1}, lambda _: {}, "start")
    assert (model / "weights").exists()


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


def test_a_seed_that_no_generator_takes_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    for word in ("-1", "4294967296", "x"):
        with pytest.raises(SystemExit):
            safecrs.parser().parse_args(["sft", "--release", "r", "--output", "o", "--seed", word])
        assert "argument --seed" in capsys.readouterr().err
    assert safecrs.parser().parse_args(["sft", "--release", "r", "--output", "o", "--seed", "7"]).seed == 7


def test_a_machine_that_refuses_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def ends(fault: BaseException) -> int:
        def verb(_: Any) -> None:
            raise fault

        monkeypatch.setitem(commands.VERBS, "sft", verb)
        return safecrs.main(["sft", "--release", str(tmp_path), "--output", "o", "--model", "tiny"])

    monkeypatch.setattr(safecrs, "quiet", lambda *_: None)
    assert ends(PermissionError(errno.EACCES, "Permission denied", "/root/runs")) == 1
    assert ends(OSError(errno.ENOSPC, "No space left on device", "runs/sft/run.json")) == 1
    told = capsys.readouterr().err.splitlines()
    assert told[0] == "error: /root/runs: Permission denied: name another folder" and "make room" in told[1]
    assert ends(KeyboardInterrupt()) == 130 and capsys.readouterr().err == ""
    with pytest.raises(FileNotFoundError):  # a bug keeps its traceback
        ends(FileNotFoundError(errno.ENOENT, "No such file", "x"))


def test_an_output_that_is_a_file_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    release = small_release.write(tmp_path / "release")
    given = tmp_path / "given.jsonl"
    given.write_text('{"id": "u7", "text": ""}\n{"id": "u8", "text": ""}\n')
    words = ["evaluate", "--release", str(release), "--predictions", str(given), "--output"]
    for output in (given, given / "below"):
        assert safecrs.main([*words, str(output)]) == 1
        assert capsys.readouterr().err.endswith("name another folder\n")


def test_a_card_half_written_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "..begun.json.half").write_text('{"ke')
    stages.begin(tmp_path, "new")
    assert names(tmp_path) == {".begun.json"}
