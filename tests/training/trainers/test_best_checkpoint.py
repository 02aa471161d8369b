"""Which checkpoint training goes on from, and which model is kept as the best."""

import json
from pathlib import Path
from typing import Any

import pytest

from training.trainers import best_checkpoint as best

pytestmark = pytest.mark.training


def test_a_checkpoint_counts_once_it_is_whole(tmp_path: Path) -> None:
    assert best.checkpoint(tmp_path) is None and best.step_of(None) == 0
    for step, state in ((9, "{}"), (10, "{}"), (11, ""), (12, None)):  # writing the last two was interrupted
        (tmp_path / f"checkpoint-{step}").mkdir()
        if state is not None:
            (tmp_path / f"checkpoint-{step}" / "trainer_state.json").write_text(state)
    checkpoint = best.checkpoint(tmp_path)
    assert checkpoint is not None and checkpoint.name == "checkpoint-10" and best.step_of(checkpoint) == 10


def test_a_keeper_that_goes_on_has_the_earlier_checks_behind_it(tmp_path: Path) -> None:
    class Model:
        def parameters(self) -> list[Any]:
            return []

        def save_pretrained(self, folder: Path, state_dict: Any = None) -> None:
            (folder / "weights").write_text(self.name)

    def check(step: int, name: str, keeper: Any) -> None:
        model = Model()
        model.name = name  # type: ignore[attr-defined]
        keeper.check(step, model)

    scores = {"a": 0.5, "b": 0.9, "c": 0.7, "d": 0.95}
    score = lambda model: {"score": scores[model.name]}  # noqa: E731
    first = best.Keeper(tmp_path, score, 1)
    check(1, "a", first)
    check(2, "b", first)
    check(3, "d", first)
    # goes on from step 2, as if the check of step 3 had not happened; c is worse than b
    resumed = best.Keeper(tmp_path, score, 1, start=2)
    check(2, "c", resumed)
    check(3, "c", resumed)
    assert resumed.best == {"step": 2, "score": 0.9}
    assert [json.loads(line)["step"] for line in (tmp_path / "validation.jsonl").read_text().splitlines()] == [1, 2, 3]
    check(4, "d", resumed)
    assert resumed.best["step"] == 4 and (tmp_path / "weights").read_text() == "d"
