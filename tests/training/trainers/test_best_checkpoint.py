"""Which checkpoint is kept."""

import json
from pathlib import Path
from typing import Any

import pytest

from training.trainers import best_checkpoint as best

pytestmark = pytest.mark.training


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
