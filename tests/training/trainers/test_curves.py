"""Learning curves of a run."""

from pathlib import Path

import pytest

from tests.worlds.fits import practise
from training.trainers import curves

pytestmark = pytest.mark.training


def test_the_curves_of_a_run_are_drawn(world: Path, tmp_path: Path) -> None:
    done = practise(world, world / "start", tmp_path / "gdpo")
    panels = curves.series(done["log"], [{"step": 0, "svr@4": 0.5}, {"step": 2, "svr@4": 0.25}])
    assert panels["violations on validation"] == {"validation/svr": [(0, 0.5), (2, 0.25)]}
    assert set(panels) >= {"reward", "reward by part", "KL to the reference", "length of an answer, tokens"}
    assert [step for step, _ in panels["reward by part"]["rewards/safety/mean"]] == [1, 2]
    assert (tmp_path / "gdpo" / "curves.png").read_bytes()[:4] == b"\x89PNG"
    assert curves.draw(tmp_path, [], []) is None
