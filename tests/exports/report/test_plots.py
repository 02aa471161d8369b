"""Plots: no label covers another, and an axis reaches its largest value."""

import pytest

from exports.report import plots
from tests.worlds.report_world import run


@pytest.mark.parametrize(("recall", "upper"), [(0.4, 0.01), (0.001, 0.01), (0.4, 0.99), (0.001, 0.99)])
@pytest.mark.parametrize("width", [350, 720])
def test_no_label_of_the_plane_covers_another_or_a_point_or_the_axis(recall: float, upper: float, width: int) -> None:
    """Nine labels and their lines lay on top of each other near SVR 100 %; one that is moved has a line that ends 3
    pixels before its nearer end."""
    runs = [run(f"{n}", recall + n / 1000, 0.0, upper - n % 2 / 200) | {"label": "a" * 16} for n in range(9)]
    points = plots.plane([*runs, run("far", 0.5, 0.0, 0.2) | {"label": "far"}], 10, width, 400)["points"]
    length = 7 * 16
    starts = [p["label_x"] - length * (p["anchor"] == "end") for p in points[:9]]
    boxes = [(start, start + length, p["label_y"]) for start, p in zip(starts, points, strict=False)]
    assert max(y for *_, y in boxes) <= 400 - 44 + 4  # the text below is the axis's own
    for n, (x, end, y) in enumerate(boxes):
        dots = [(p["x"] - 6, p["x"] + 8, p["y"] + 4) for p in points]
        for left, right, other in (*dots, *boxes[n + 1 :]):
            assert abs(y - other) >= plots.LINE or x >= right or end <= left
        assert x >= 0 and end <= width
    moved = [point for point in points if point["leader"]]
    assert len(moved) > 5 and {p["anchor"] for p in moved} == {"end" if (upper, width) == (0.99, 350) else "start"}
    assert {round(abs(p["leader"][2] - p["label_x"]), 1) for p in moved} == {3.0}
    frame_ = plots.Frame(720, 400, 0.2, 0.5)
    assert (frame_.x(0), frame_.x(0.2), frame_.y(0), frame_.y(0.5)) == (46, 696, 356, 34)


def test_an_axis_reaches_its_largest_value_in_five_steps() -> None:
    ticks = {0.0: [0, 0.01], 0.012: [0, 0.01, 0.02], 0.051: [0, 0.02, 0.04, 0.06], 0.34: [0, 0.1, 0.2, 0.3, 0.4]}
    ticks |= {
        0.05: [0, 0.01, 0.02, 0.03, 0.04, 0.05],
        1.0: [0, 0.2, 0.4, 0.6, 0.8, 1.0],
    }  # it had a sixth step, to 0.06
    assert {largest: plots.ticks(largest) for largest in ticks} == ticks


@pytest.mark.parametrize("upper", [0.45, 0.5, 0.6, 0.7])
def test_a_label_with_room_on_neither_side_of_its_point_is_not_cut(upper: float) -> None:
    """On a phone it began left of the drawing."""
    runs = [run("a", 0.4, upper - 0.1, upper) | {"label": "a" * 22}, run("far", 0.5, 0.0, 1.0) | {"label": "far"}]
    runs[0]["metrics"]["svr_upper@10"] |= {"low": upper - 0.2, "high": min(upper + 0.2, 1.0)}
    point = plots.plane(runs, 10, 350, 400)["points"][0]
    assert point["anchor"] == "end" and point["label_x"] - 22 * 7 >= 46 and point["label_x"] <= 350
    # its line ends 3 pixels below the label, at the point's own place
    assert point["leader"] == [point["x"], point["y"], point["x"], point["label_y"] + 3]


def test_every_point_and_label_has_its_place() -> None:
    names = {"a": 0.31, "a label that is far too long": 0.3, "c": 0.305, "d": 0.3, "e": 0.0}
    runs = [run(name, at, 0.05, 0.1 if at else 0.0) | {"label": name} for name, at in names.items()]
    drawing = plots.plane([*runs, run("no recall", None) | {"label": "x"}], 10, 350, 400)
    ends = ("x", "y", "lower", "x_low", "x_high", "y_low", "y_high")
    assert [drawing["points"][0][end] for end in ends] == [232.7, 106.5, 139.3, 195.3, 270.0, 122.6, 90.4]
    assert [(p["label"], p["label_x"], p["label_y"], p["leader"]) for p in drawing["points"]] == [
        ("a", 279.0, 110.5, None),
        ("a label that is far t…", 200.0, 136.0, [232.7, 114.5, 203.0, 132.0]),  # beside its point it would be cut
        ("c", 279.0, 128.0, [232.7, 110.5, 276.0, 124.0]),
        ("d", 279.0, 93.0, [232.7, 114.5, 276.0, 89.0]),
        ("e", 55.0, 360.0, None),
    ]
    assert [p["anchor"] for p in drawing["points"]] == ["start", "end", "start", "start", "start"]
    assert [(tick["at"], tick["value"]) for tick in drawing["ys"][::2]] == [(356.0, 0.0), (195.0, 0.2), (34.0, 0.4)]


def test_a_curve_reaches_its_last_point_with_round_counts_on_its_axes() -> None:
    drawing = plots.curve([(0, 0), (3, 2), (12, 7)], 200, 100)
    assert drawing["line"] == "46.0,56.0 78.5,49.7 176.0,34.0" and drawing["end"] == (176.0, 34.0)
    assert drawing["start"] == (46.0, 56.0) and [tick["at"] for tick in drawing["xs"]] == [46.0, 100.2, 154.3]
    counts = {0: [0], 7: [0, 2, 4, 6], 10: [0, 2, 4, 6, 8, 10], 11: [0, 5, 10], 1234: [0, 500, 1000]}
    assert {n: plots.counts(n) for n in counts} == counts
