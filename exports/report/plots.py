"""Computes the coordinates of the report page's plots, which its template draws as SVG."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import ceil, hypot
from typing import Any

Row = dict[str, Any]
Run = Mapping[str, Any]  # of a report.json: name, label, metrics, slices
Interval = Mapping[str, Any]  # mean, low, high, and n of users: numbers, or all null
Box = tuple[float, float, float]  # of a label: its start, its end, its baseline
STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5, 1.0)
LETTER = 7.0  # width of an average letter of a label, in pixels
LONGEST = 22  # letters of a label
GAP = 9.0  # between a point and its label
ROUND = 14.0  # from the centre of a point to a label above it
LINE = 17.0  # height of a label's line
AWAY = 40.0  # between points and the column of the labels that are not beside one


@dataclass(frozen=True)
class Frame:
    """A drawing of width x height with margins for its axes, and the largest value of each axis."""

    width: float
    height: float
    x_max: float
    y_max: float
    left: float = 46
    right: float = 24  # half a tick label of six letters extends beyond the last line, and drawings are clipped
    top: float = 34
    bottom: float = 44

    def x(self, value: float) -> float:
        return round(self.left + value / self.x_max * (self.width - self.left - self.right), 1)

    def y(self, value: float) -> float:
        return round(self.height - self.bottom - value / self.y_max * (self.height - self.top - self.bottom), 1)


def ticks(largest: float) -> list[float]:
    """Returns round values from 0 to at least `largest`, in at most five steps."""
    step = next((s for s in STEPS if largest <= s * 5), 1.0)
    return [round(n * step, 4) for n in range(ceil(round(max(largest, step) / step, 6)) + 1)]


def plane(runs: Sequence[Run], k: int, width: float, height: float) -> Row:
    """Returns the Recall-SVR plane {frame, xs, ys: ticks with places, points}, without runs that lack a number.

    A point is at (svr_upper, recall) with its two intervals; `lower` is its svr. Labels do not overlap.
    """
    drawn = [run for run in runs if all(metric(run, name, k)["mean"] is not None for name in ("svr_upper", "recall"))]
    highs = {name: max((_high(metric(r, name, k)) for r in drawn), default=0.0) for name in ("svr_upper", "recall")}
    xs, ys = ticks(highs["svr_upper"] or 0.1), ticks(highs["recall"] or 0.1)
    frame = Frame(width, height, xs[-1], ys[-1])
    points = [_point(run, k, frame) for run in drawn]
    _spread(points, frame)
    return _axes(frame, xs, ys) | {"points": points}


def curve(points: Sequence[tuple[int, int]], width: float, height: float) -> Row:
    """Returns a line of counts {frame, xs, ys: ticks with places, line: SVG points, end}; axes reach its last point."""
    x_max, y_max = (max(1, *(point[axis] for point in points)) for axis in (0, 1))
    frame = Frame(width, height, x_max, y_max)
    return _axes(frame, counts(x_max), counts(y_max)) | {
        "line": " ".join(f"{frame.x(x)},{frame.y(y)}" for x, y in points),
        "end": (frame.x(points[-1][0]), frame.y(points[-1][1])),
        "start": (frame.x(0), frame.y(0)),
    }


def _axes(frame: Frame, xs: Sequence[float], ys: Sequence[float]) -> Row:
    places = {"xs": (frame.x, xs), "ys": (frame.y, ys)}
    return {"frame": frame} | {n: [{"at": at(v), "value": v} for v in values] for n, (at, values) in places.items()}


def counts(largest: int, most: int = 5) -> list[int]:
    """Returns round integers from 0 up to `largest`, in at most `most` steps."""
    size = 10 ** max(0, len(str(largest)) - 2)
    step = next(size * n for n in (1, 2, 5, 10, 20, 50, 100) if size * n * most >= largest)
    return list(range(0, largest + 1, step))


def metric(run: Run, name: str, k: int) -> Interval:
    """Returns the interval {mean, low, high, n} of `name@k`, else of `name`; of nulls if the run has neither."""
    metrics: Mapping[str, Interval] = run["metrics"]
    return metrics.get(f"{name}@{k}") or metrics.get(name) or {"mean": None, "low": None, "high": None, "n": None}


def _high(values: Interval) -> float:
    return float((values["mean"] if values["high"] is None else values["high"]) or 0.0)


def _point(run: Run, k: int, frame: Frame) -> Row:
    svr, upper, recall = (metric(run, name, k) for name in ("svr", "svr_upper", "recall"))
    label = run["label"] if len(run["label"]) <= LONGEST else run["label"][: LONGEST - 1] + "…"
    point = {"x": frame.x(upper["mean"]), "y": frame.y(recall["mean"]), "name": run["name"], "label": label}
    point["lower"] = point["x"] if svr["mean"] is None else frame.x(svr["mean"])
    for axis, values, scale in (("x", upper, frame.x), ("y", recall, frame.y)):
        for end in ("low", "high"):
            point[f"{axis}_{end}"] = point[axis] if values[end] is None else scale(values[end])
    return point


def _spread(points: list[Row], frame: Frame) -> None:
    """Places the label of every point beside, above or below it, without overlap with another label or point.

    The labels of a crowd for which none of these places is free stand in one column; `leader` is a line from a point to
    its label there. `anchor` says whether `label_x` is the start of a label, or its end: that of a label left of its
    point, or in the right half, where a wide font would be cut at the edge.
    """
    dots: list[Box] = [(point["lower"] - 6, point["x"] + 8, point["y"] + 4) for point in points]
    low = frame.height - frame.bottom + 4  # the line of a label beside a point on the axis; ticks are below
    labels: list[Box] = []
    aside: list[Row] = []
    for number, point in enumerate(points):
        others = [*dots[:number], *dots[number + 1 :], *labels]
        places = _places(point, LETTER * len(point["label"]), frame)
        fits = [box for box in places if box[0] >= frame.left and box[1] <= frame.width and box[2] <= low]
        if free := [box for box in fits if not _overlaps(box, others)]:
            labels.append(free[0])
            _put(point, free[0], frame)
        else:
            aside.append(point)
    for crowd in _crowds(aside):
        for point, box in _column(crowd, dots, labels, low, frame):
            labels.append(box)
            _put(point, box, frame)
            edge = min(max(point["x"], box[0] - 3), box[1] + 3)  # the end of the label that faces the point
            point["leader"] = [point["x"], point["y"], round(edge, 1), box[2] - 4]
            if edge < box[0]:  # anchored by its end, a label shorter than its box would begin beyond its leader
                point |= {"label_x": round(box[0], 1), "anchor": "start"}


def _crowds(points: Sequence[Row]) -> list[list[Row]]:
    """Returns the points in groups that stand near each other."""
    crowds: list[list[Row]] = []
    for point in sorted(points, key=lambda point: point["x"]):
        if crowds and point["x"] - crowds[-1][-1]["x"] < 2 * AWAY:
            crowds[-1].append(point)
        else:
            crowds.append([point])
    return crowds


def _put(point: Row, box: Box, frame: Frame) -> None:
    by_end = box[1] < point["x"] or box[0] + box[1] > frame.width
    point |= {"label_x": round(box[by_end], 1), "label_y": round(box[2], 1), "leader": None}
    point["anchor"] = "end" if by_end else "start"


def _places(point: Row, length: float, frame: Frame) -> list[Box]:
    """Returns places right and left of a point and its intervals, then above and below the point itself."""
    right, left = point["x_high"] + GAP, min(point["lower"], point["x_low"]) - GAP - length
    middle = min(max(frame.left + 4, point["x"] - length / 2), frame.width - length - 4)
    above, below = point["y"] - ROUND, point["y"] + LINE + 5
    beside = [(start, start + length, point["y"] + 4) for start in (right, left)]
    return beside + [(middle, middle + length, y) for y in (above, below)]


def _overlaps(box: Box, others: Sequence[Box]) -> bool:
    return any(abs(box[2] - y) < LINE and box[0] < end and start < box[1] for start, end, y in others)


def _column(
    points: Sequence[Row], dots: Sequence[Box], labels: Sequence[Box], low: float, frame: Frame
) -> list[tuple[Row, Box]]:
    """Returns a box for the label of each of these points, in a column left of them, or right of them if it is wider
    than the room there; on free lines near them, else on any line without a label."""
    length = max(LETTER * len(point["label"]) for point in points)
    end, right = min(p["x_low"] for p in points) - AWAY, max(p["x_high"] for p in points) + AWAY
    on_left = end - length >= frame.left
    start = end - length if on_left else min(right, frame.width - length)
    middle, many = sum(point["y"] for point in points) / len(points), 2 * LINE * (len(points) + len(labels))
    lines: list[Box] = []
    for taken, top in (([*dots, *labels], frame.top), (labels, frame.top - many)):
        for y in sorted(range(int(low), int(top), -1), key=lambda y: (y < frame.top, abs(y - middle))):
            line = (start - GAP, start + length + GAP, float(y))
            if len(lines) < len(points) and not _overlaps(line, [*taken, *lines]):
                lines.append(line)
    boxes: list[tuple[Row, Box]] = []
    for point, line in zip(_uncrossed(points, lines, end + 3 if on_left else start - 3), lines, strict=True):
        own = LETTER * len(point["label"])
        boxes.append((point, (end - own, end, line[2]) if on_left else (start, start + own, line[2])))
    return boxes


def _uncrossed(points: Sequence[Row], boxes: Sequence[Box], edge: float) -> list[Row]:
    """Returns the points in the order of the boxes to which their leaders, which end at `edge`, do not cross."""
    order, pairs = list(points), list(combinations(range(len(points)), 2))

    def away(n: int, box: int) -> float:
        return hypot(order[n]["x"] - edge, order[n]["y"] - boxes[box][2] + 4)

    def cross(i: int, j: int) -> bool:  # then they are shorter after a swap
        return away(i, j) + away(j, i) < away(i, i) + away(j, j) - 1e-6

    while pair := next((pair for pair in pairs if cross(*pair)), None):
        i, j = pair
        order[i], order[j] = order[j], order[i]
    return order
