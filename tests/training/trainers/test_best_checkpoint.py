"""Which checkpoint training goes on from, and which model is kept as the best."""

import json
from pathlib import Path
from types import SimpleNamespace
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
    class Model(SimpleNamespace):
        def parameters(self) -> list[Any]:
            return []

        def save_pretrained(self, folder: Path, state_dict: Any = None) -> None:
            (folder / "weights").write_text(str(self.score))

    def keeper(resumes: bool = False) -> best.Keeper:
        return best.Keeper(tmp_path, lambda model: {"score": model.score}, 1, resumes)

    first = keeper()
    for step, score in ((1, 0.5), (2, 0.9), (3, 0.95)):
        first.check(step, Model(score=score))
    # goes on from step 2: the model of step 3, the best so far, is in the folder, also if step 3 now ends otherwise
    resumed = keeper(resumes=True)
    for step in (2, 3, 4):
        resumed.check(step, Model(score=0.7))
    assert resumed.best == {"step": 3, "score": 0.95} and (tmp_path / "weights").read_text() == "0.95"
    lines = map(json.loads, (tmp_path / "validation.jsonl").read_text().splitlines())
    assert [line["step"] for line in lines] == [1, 2, 3, 4]
    resumed.check(5, Model(score=0.96))
    assert resumed.best["step"] == 5 and (tmp_path / "weights").read_text() == "0.96"
