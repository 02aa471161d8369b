"""Chooses the trained model to keep: the safest that finds no less, by figures of the validation split."""

from collections.abc import Mapping
from dataclasses import dataclass

MARGIN = 0.02  # how much recall and recall_without a safe model may lose against the unsafe one
EPSILON = 1e-9  # rounding: in floats .50 - .48 is above .02
FIGURES = ("recall", "recall_without")


@dataclass(frozen=True)
class Choice:
    name: str
    bound: Mapping[str, tuple[str, ...]]  # model -> figures of which it lost more than MARGIN

    def __str__(self) -> str:
        lost = [f"{name} loses more than {MARGIN} of {' and '.join(figures)}" for name, figures in self.bound.items()]
        return self.name + (f" ({'; '.join(lost)} against sft)" if lost else "")


def choose(unsafe: Mapping[str, float], stages: Mapping[str, Mapping[str, float]], k: int) -> Choice:
    """Returns the stage of lowest svr_upper@k among those that keep recall@k and recall_without@k; else the first.

    unsafe, stages: validation figures of the unsafe model, and of the stages to choose from, earliest first. Of two
    equally safe stages the earlier one is kept.
    """
    bound = {name: figures for name, values in stages.items() if (figures := lost(unsafe, values, k))}
    candidates = [name for name in stages if name not in bound]
    return Choice(min(candidates, key=lambda name: stages[name][f"svr_upper@{k}"], default=next(iter(stages))), bound)


def lost(unsafe: Mapping[str, float], stage: Mapping[str, float], k: int) -> tuple[str, ...]:
    """Returns the figures in FIGURES of which `stage` has more than MARGIN less than `unsafe`."""
    return tuple(name for name in FIGURES if unsafe[f"{name}@{k}"] - stage[f"{name}@{k}"] > MARGIN + EPSILON)
