"""Plots: no label covers another, and an axis reaches its largest value."""

from itertools import combinations, product

import pytest

from exports.report import plots
from tests.worlds.report_world import run


@pytest.mark.parametrize("recall", [0.4, 0.001])
def test_no_label_of_the_plane_covers_another_or_the_axis(recall: float) -> None:
    runs = [run(f"a run with a long name {n}", recall + n / 1000, 0.0, 0.01) | {"label": "a" * 20} for n in range(6)]
    runs.append(run("far", 0.5, 0.0, 0.2) | {"label": "far"})
    for width in (350, 720):
        drawing = plots.plane(runs, 10, width, 400)
        places = [(p["label_x"] - 140 * (p["anchor"] == "end"), p["label_y"]) for p in drawing["points"][:6]]
        assert max(y for _, y in places) <= 400 - 44 + 4  # the text below is the axis's own
        for n, (x, y) in enumerate(places):
            assert all(abs(y - other) >= plots.LINE or abs(x - left) >= 140 for left, other in places[n + 1 :])
            assert x >= 0 and x + 140 <= width
    frame_ = plots.Frame(720, 400, 0.2, 0.5)
    assert (frame_.x(0), frame_.x(0.2), frame_.y(0), frame_.y(0.5)) == (46, 696, 356, 34)


def test_an_axis_reaches_its_largest_value_in_five_steps() -> None:
    ticks = {0.0: [0, 0.01], 0.012: [0, 0.01, 0.02], 0.051: [0, 0.02, 0.04, 0.06], 0.34: [0, 0.1, 0.2, 0.3, 0.4]}
    ticks |= {
        0.05: [0, 0.01, 0.02, 0.03, 0.04, 0.05],
        1.0: [0, 0.2, 0.4, 0.6, 0.8, 1.0],
    }  # it had a sixth step, to 0.06
    assert {largest: plots.ticks(largest) for largest in ticks} == ticks


def test_every_point_and_label_has_its_place() -> None:
    names = {"a": 0.31, "a label that is far too long": 0.3, "c": 0.305, "d": 0.3, "e": 0.0}
    runs = [run(name, at, 0.05, 0.1 if at else 0.0) | {"label": name} for name, at in names.items()]
    drawing = plots.plane([*runs, run("no recall", None) | {"label": "x"}], 10, 350, 400)
    ends = ("x", "y", "lower", "x_low", "x_high", "y_low", "y_high")
    assert [drawing["points"][0][end] for end in ends] == [232.7, 106.5, 139.3, 195.3, 270.0, 122.6, 90.4]
    assert [(p["label"], p["label_x"], p["label_y"], p["leader"]) for p in drawing["points"]] == [
        ("a", 286.0, 110.5, None),
        ("a label that is far t…", 309.7, 136.5, None),
        ("c", 130.3, 114.5, None),
        ("d", 155.3, 93.0, [232.7, 114.5, 158.3, 89.0]),  # all four places beside its point are taken
        ("e", 55.0, 360.0, None),
    ]
    assert [p["anchor"] for p in drawing["points"]] == ["end"] * 4 + ["start"]
    assert [(tick["at"], tick["value"]) for tick in drawing["ys"][::2]] == [(356.0, 0.0), (195.0, 0.2), (34.0, 0.4)]


@pytest.mark.parametrize(("upper", "width", "number"), [*product((0.99, 0.05), (350, 720), (9, 24))])
def test_labels_of_a_crowd_stand_in_one_column_and_their_lines_do_not_cross(upper, width, number) -> None:
    """Nine labels and their lines lay on top of each other near SVR 100 %."""
    runs = [run(str(n), 0.03 + n % 5 / 200, 0.01, upper - n % 2 / 200) | {"label": f"run {n}"} for n in range(number)]
    points = plots.plane([*runs, run("far", 0.2, 0.0, 1.0) | {"label": "far"}], 10, width, 400)["points"]
    aside = [p for p in points if p["leader"]]
    assert len(aside) >= 5 and len({p["label_x"] for p in aside}) == 1 and len({p["label_y"] for p in points}) > 5
    assert all(46 <= x <= width and abs(x - p["x"]) >= 40 for p in aside for x in [p["label_x"]])
    for (a, b, c, d), (e, f, g, h) in combinations([p["leader"] for p in aside], 2):
        assert abs(d - h) >= plots.LINE
        one, other = ((c - a, d - b), (g - e, h - f))
        sides = [(x - a) * one[1] - (y - b) * one[0] for x, y in ((e, f), (g, h))]
        sides += [(x - e) * other[1] - (y - f) * other[0] for x, y in ((a, b), (c, d))]
        # the ends of one are on one side of the other
        assert sides[0] * sides[1] >= -1e-6 or sides[2] * sides[3] >= -1e-6


def test_two_crowds_have_a_column_each() -> None:
    """On the demo's chart the labels of the safe systems stood beside the unsafe ones, at the other end."""
    runs = [run(str(n), 0.5 + n / 500, svr, svr) | {"label": f"run {n}"} for n, svr in enumerate([0.0] * 7 + [0.9] * 7)]
    aside = [point for point in plots.plane(runs, 10, 720, 400)["points"] if point["leader"]]
    assert {point["x"] < 360 for point in aside} == {True, False}
    assert all((point["label_x"] < 360) == (point["x"] < 360) for point in aside)


def test_a_line_ends_at_its_label() -> None:
    """On a phone it ended 20 pixels before a label that was anchored by its far end."""
    runs = [run(str(n), 0.5 + n / 500, 0.3, 0.3) | {"label": f"a long label {n}"} for n in range(7)]
    runs.append(run("far", 0.2, 0.9, 0.9) | {"label": "far"})
    aside = [point for point in plots.plane(runs, 10, 350, 360)["points"] if point["leader"]]
    gaps = [round(point["label_x"] - point["leader"][2], 1) for point in aside]
    assert len(aside) > 2 and set(gaps) == {3.0}
    assert {point["anchor"] for point in aside} == {"start"}


def test_a_curve_reaches_its_last_point_with_round_counts_on_its_axes() -> None:
    drawing = plots.curve([(0, 0), (3, 2), (12, 7)], 200, 100)
    assert drawing["line"] == "46.0,56.0 78.5,49.7 176.0,34.0" and drawing["end"] == (176.0, 34.0)
    assert drawing["start"] == (46.0, 56.0) and [tick["at"] for tick in drawing["xs"]] == [46.0, 100.2, 154.3]
    counts = {0: [0], 7: [0, 2, 4, 6], 10: [0, 2, 4, 6, 8, 10], 11: [0, 5, 10], 1234: [0, 500, 1000]}
    assert {n: plots.counts(n) for n in counts} == counts
