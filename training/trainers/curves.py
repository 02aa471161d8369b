"""Learning curves of one stage as curves.png: what the trainer logged and what validation said, step by step."""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from training.run_folders import Figures

# panel -> what it shows of the log, by the trainer's names; "validation/" before what the keeper asked
PANELS: Mapping[str, Sequence[str]] = {
    "loss": ("loss",),
    "reward": ("reward",),
    "reward by part": ("rewards/relevance/mean", "rewards/safety/mean", "rewards/count/mean"),
    "KL to the reference": ("kl",),
    "length of an answer, tokens": ("completions/mean_length",),
    "entropy": ("entropy",),
    "violations on validation": ("validation/svr", "validation/svr_upper"),
    "recall on validation": ("validation/recall", "validation/recall_raw"),
}
Points = list[tuple[float, float]]


def series(log: Sequence[Figures], checks: Sequence[Figures]) -> dict[str, dict[str, Points]]:
    """panel -> name -> (step, value) points; what has none is left out. A metric's "@k" is cut off."""
    found: dict[str, Points] = {}
    for line in log:
        for name, value in line.items():
            if "step" in line and isinstance(value, int | float):
                found.setdefault(name, []).append((line["step"], value))
    for line in checks:
        for name, value in line.items():
            found.setdefault(f"validation/{name.split('@')[0]}", []).append((line["step"], value))
    panels = {panel: {name: found[name] for name in names if name in found} for panel, names in PANELS.items()}
    return {panel: lines for panel, lines in panels.items() if lines}


def draw(folder: Path, log: Sequence[Figures], checks: Sequence[Figures]) -> Path | None:
    """Writes folder/curves.png; None where nothing was logged or matplotlib is missing."""
    panels = series(log, checks)
    if not panels or find_spec("matplotlib") is None:
        return None
    from matplotlib.figure import Figure

    across = min(2, len(panels))
    down = -(-len(panels) // across)
    figure = Figure(figsize=(5 * across, 3 * down), layout="constrained")
    for n, (panel, lines) in enumerate(panels.items(), 1):
        axes = figure.add_subplot(down, across, n)
        for name, points in lines.items():
            axes.plot(*zip(*points, strict=True), marker=".", label=name.removeprefix("validation/"))
        axes.set_title(panel, fontsize=10)
        axes.set_xlabel("step", fontsize=8)
        if len(lines) > 1:
            axes.legend(fontsize=8)
    path = folder / "curves.png"
    figure.savefig(path, dpi=100)
    return path
