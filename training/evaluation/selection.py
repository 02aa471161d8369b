"""Which trained model is kept: the safest of those that do not find less, by figures of the validation split."""

from collections.abc import Mapping
from dataclasses import dataclass

MARGIN = 0.02  # what a safe model may lose of the unsafe model's recall and recall_without
HAIR = 1e-9  # floats: .50 less .48 is above .02 for them
HELD = ("recall", "recall_without")


@dataclass(frozen=True)
class Choice:
    name: str
    bound: Mapping[str, tuple[str, ...]]  # of each model that lost more than MARGIN: of which figures

    def __str__(self) -> str:
        lost = [f"{name} loses more than {MARGIN} of {' and '.join(of)}" for name, of in self.bound.items()]
        return self.name + (f" ({'; '.join(lost)} against sft)" if lost else "")


def choose(unsafe: Mapping[str, float], stages: Mapping[str, Mapping[str, float]], k: int) -> Choice:
    """The lowest svr_upper@k among the stages that hold recall@k and recall_without@k; else the first stage.

    unsafe, stages: validation figures of the unsafe model, and of the stages that may be chosen, earliest first. Of
    two that are equally safe the earlier one is kept.
    """
    bound = {name: of for name, found in stages.items() if (of := lost(unsafe, found, k))}
    held = [name for name in stages if name not in bound]
    return Choice(min(held, key=lambda name: stages[name][f"svr_upper@{k}"], default=next(iter(stages))), bound)


def lost(unsafe: Mapping[str, float], found: Mapping[str, float], k: int) -> tuple[str, ...]:
    """Of which figures in HELD `found` has more than MARGIN less."""
    return tuple(name for name in HELD if unsafe[f"{name}@{k}"] - found[f"{name}@{k}"] > MARGIN + HAIR)
