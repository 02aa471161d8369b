"""Plots: no label covers another, and an axis reaches its largest value."""

import pytest

from exports.report import plots
from tests.worlds.report_world import run


@pytest.mark.parametrize("recall", [0.4, 0.001])
def test_no_label_of_the_plane_covers_another_or_the_axis(recall: float) -> None:
    runs = [run(f"a run with a long name {n}", recall + n / 1000, 0.0, 0.01) | {"label": "a" * 20} for n in range(6)]
    runs.append(run("far", 0.5, 0.0, 0.2) | {"label": "far"})
    for width in (350, 720):
        drawing = plots.plane(runs, 10, width, 400)
        places = [(p["label_x"], p["label_y"]) for p in drawing["points"][:6]]
        assert max(y for _, y in places) <= 400 - 44 + 4  # the text below is the axis's own
        for n, (x, y) in enumerate(places):
            assert all(abs(y - other) >= plots.LINE or abs(x - left) >= 140 for left, other in places[n + 1 :])
            assert x >= 0 and x + 140 <= width
    frame_ = plots.Frame(720, 400, 0.2, 0.5)
    assert (frame_.x(0), frame_.x(0.2), frame_.y(0), frame_.y(0.5)) == (46, 696, 356, 34)


@pytest.mark.parametrize(("largest", "last"), [(0.0, 0.01), (0.012, 0.02), (0.34, 0.4), (0.5, 0.5), (1.0, 1.0)])
def test_an_axis_reaches_its_largest_value(largest: float, last: float) -> None:
    assert plots.ticks(largest)[-1] == last
