"""Computes the coordinates of the report page's plots, which its template draws as SVG."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

Row = dict[str, Any]
Run = Mapping[str, Any]  # of a report.json: name, label, metrics, slices
Interval = Mapping[str, Any]  # mean, low, high, and n of users: numbers, or all null
Box = tuple[float, float, float]  # of a label: its start, its end, its baseline
STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5, 1.0)
LETTER = 7.0  # width of an average letter of a label, in pixels
LONGEST = 22  # letters of a label
GAP = 9.0  # between a point and its label
LINE = 17.0  # height of a label's line


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


def _spread(points: Sequence[Row], frame: Frame) -> None:
    """Places the label of every point right of it and its interval, or left of them where it would be cut; where both
    are too narrow, as far left as it can be.

    A label that would cover another one or a point goes to the nearest free line, and `leader` is a line to it from its
    point. `anchor` says whether `label_x` is the start of a label, or its end.
    """
    dots: list[Box] = [(point["lower"] - 6, point["x"] + 8, point["y"] + 4) for point in points]
    lowest = int(frame.height - frame.bottom + 4)  # beside a point on the axis; ticks are below
    labels: list[Box] = []
    for point in sorted(points, key=lambda point: point["y"]):
        length = LETTER * len(point["label"])
        right, left = point["x_high"] + GAP, max(point["x_low"] - GAP, frame.left + length)
        on_right = right + 1.2 * length <= frame.width  # a wide font would be cut at the edge
        start = right if on_right else left - length
        beside = min(point["y"] + 4, lowest)
        lines = sorted((abs(y - beside), float(y)) for y in range(int(frame.top), lowest + 1))
        boxes = [(start, start + length, y) for y in (beside, *(y for _, y in lines))]
        box = next((box for box in boxes if not _overlaps(box, [*labels, *dots])), boxes[0])
        labels.append(box)
        x, anchor = (right, "start") if on_right else (left, "end")
        point |= {"label_x": round(x, 1), "label_y": round(box[2], 1), "anchor": anchor}
        end, height = round(x - 3 if on_right else x + 3, 1), box[2] - 4
        if start < point["x"] < end:  # the label is above or below its point
            end, height = point["x"], box[2] + (3 if box[2] < beside else -LINE + 3)
        point["leader"] = [point["x"], point["y"], end, height] if box[2] != beside else None


def _overlaps(box: Box, others: Sequence[Box]) -> bool:
    return any(abs(box[2] - y) < LINE and box[0] < end and start < box[1] for start, end, y in others)
