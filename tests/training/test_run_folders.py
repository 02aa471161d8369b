"""The folder of a training stage: what a new stage clears away, and what it leaves alone."""

import json
import os
import platform
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from saferec_builder.core import progress
from saferec_builder.core.errors import TrainingError
from tests.conftest import Printed
from training import run_folders as stages


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_folder_with_other_files_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    (tmp_path / "run.json").write_text('{"safe_sft": {"key": "of a stage in it"}}')  # as `run` writes it for all stages
    with pytest.raises(TrainingError, match="left as it is"):
        stages.begin(tmp_path, "new")
    with pytest.raises(TrainingError, match="left as it is"):
        stages.begin(tmp_path / "thesis.tex", "new")
    assert names(tmp_path) == {"thesis.tex", "run.json"}


def test_an_empty_folder_becomes_a_stage_and_one_of_the_same_key_goes_on(tmp_path: Path) -> None:
    (tmp_path / "..begun.json.half").write_text('{"ke')  # a card half written is no obstacle
    stages.begin(tmp_path, "new")
    assert names(tmp_path) == {".begun.json"}
    (tmp_path / "checkpoint").write_text("half way")
    stages.begin(tmp_path, "new")
    assert names(tmp_path) == {".begun.json", "checkpoint"}


@pytest.mark.parametrize("card", [{"run.json": "old"}, {".begun.json": "old"}, {".begun.json": ""}])
def test_another_stage_is_cleared_away_also_where_the_clearing_was_broken_off(tmp_path: Path, card) -> None:
    for name, key in card.items():
        (tmp_path / name).write_text(json.dumps({"key": key}))
    (tmp_path / "trainer").mkdir()
    (tmp_path / "trainer" / "weights").write_text("old")
    stages.begin(tmp_path, "new")
    assert names(tmp_path) == {".begun.json"} and stages.read_card(tmp_path, ".begun.json") == {"key": "new"}


RELEASE: Any = SimpleNamespace(digest="d", manifest={"name": "n", "version": "1.0.0"})


@pytest.mark.slow
@pytest.mark.parametrize("ours", [True, False])
def test_a_stage_is_done_again_when_the_model_that_it_starts_from_was_made_anew(tmp_path: Path, ours: bool) -> None:
    trained: list[str] = []
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    for weights in ("first", "first", "other"):  # all of the same size
        if ours:
            (model / "run.json").write_text(json.dumps({"key": weights}))
        elif weights not in trained:
            (model / "model.safetensors").write_text(weights)
            os.utime(model / "model.safetensors", ns=(0, len(trained)))
        run = stages.Run(RELEASE, tmp_path / "runs")

        def train(_: Path, weights: str = weights) -> dict[str, Any]:
            trained.append(weights)
            return {}

        run.stage("gdpo", {}, train, str(model))
    assert trained == ["first", "other"]


@pytest.mark.slow
def test_a_stage_does_not_clear_away_the_model_that_it_starts_from(tmp_path: Path) -> None:
    model = tmp_path / "runs" / "sft" / "best"
    model.mkdir(parents=True)
    (model / "weights").write_text("of days")
    (tmp_path / "runs" / "sft" / "run.json").write_text('{"key": "of another run"}')
    run = stages.Run(RELEASE, tmp_path / "runs")
    for start in (model, model.parent):
        with pytest.raises(TrainingError, match="holds the model to start from"):
            run.stage("sft", {}, lambda _: {}, str(start))
    run.stage("start", {}, lambda _: {}, "tiny")
    with pytest.raises(TrainingError, match="holds the model to start from"):
        run.stage("start", {"other": 1}, lambda _: {}, str(tmp_path / "runs" / "start"))
    assert (model / "weights").exists()


@pytest.mark.slow
def test_what_cannot_be_loaded_costs_no_earlier_model(tmp_path: Path) -> None:
    """A typing error in --model cleared the folder of --output, with the model that had been trained there."""
    run = stages.Run(RELEASE, tmp_path)

    def fill(folder: Path, *loaded: str) -> dict[str, Any]:
        (folder / "weights").write_text(*loaded)
        return {}

    def missing() -> str:
        raise TrainingError("model typo: cannot be loaded")

    run.stage("sft", {}, fill, "a", load=lambda: "of days")
    with pytest.raises(TrainingError, match="model typo"):
        run.stage("sft", {}, fill, "typo", load=missing)
    assert (tmp_path / "sft" / "weights").read_text() == "of days"
    assert stages.read_card(tmp_path / "sft")["from"] == ["a"]


@pytest.mark.slow
def test_a_stage_that_replaces_another_one_says_why(tmp_path: Path, capsys: Printed) -> None:
    """A second seed under the same output cleared the models of the first without a word."""
    for seed, settings in ((0, {"lr": 1.0}), (0, {"lr": 1.0}), (1, {"lr": 2.0})):
        stages.Run(RELEASE, tmp_path, seed).stage("sft", settings, lambda _: {"steps": 7}, f"{tmp_path}/start", "a")
    lines = [line.removesuffix(f" ({tmp_path / 'sft'})") for line in capsys.readouterr().out.splitlines()]
    assert lines == ["sft:", "sft: finished before", "sft: replaces a stage with other settings and seed"]
    card = stages.read_card(tmp_path / "sft")
    expected = {"stage": "sft", "settings": {"lr": 2.0}, "seed": 1, "from": ["start", "a"], "steps": 7}
    expected["release"] = {"name": "n", "version": "1.0.0", "digest": "d"}
    assert {name: card[name] for name in expected} == expected and not (tmp_path / "sft" / ".begun.json").exists()
    assert card["versions"]["python"] == platform.python_version() and card["versions"]["numpy"]


@pytest.mark.slow
def test_a_stage_that_takes_long_says_that_it_is_at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that counts no steps was silent for minutes."""
    monkeypatch.setattr(progress, "PATIENCE", 0.01)
    lines, said = list[str](), Event()
    monkeypatch.setattr(stages, "tell", lambda line: (lines.append(line), said.set()))
    stages.Run(RELEASE, tmp_path).stage("start", {}, lambda folder: {"spoke": said.wait(60)})
    assert lines[0] == "start: at work for 1 s"
