"""The checkpoint that is best on the validation split, kept while a trainer runs. The test split is never asked."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Score = Callable[[Any], Mapping[str, float]]  # a model -> its validation figures; `score` is what is compared


def keeper(folder: Path, score: Score, every: int, say: Callable[[str], None] = print) -> Any:
    """A trainer callback: asks `score` each `every` steps and at the end; the best model so far lies in `folder`.

    validation.jsonl in the folder has one line per check; `best` on the callback is the line that was kept.
    """
    from transformers import TrainerCallback

    class Keeper(TrainerCallback):
        best: dict[str, float] | None = None
        checked = -1

        def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
            if state.global_step % every == 0:
                self.check(state.global_step, model)

        def on_train_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
            if state.global_step != self.checked:
                self.check(state.global_step, model)

        def check(self, step: int, model: Any) -> None:
            self.checked = step
            line = {"step": step, **score(model)}
            better = self.best is None or line["score"] > self.best["score"]
            folder.mkdir(parents=True, exist_ok=True)
            with open(folder / "validation.jsonl", "a" if self.best else "w") as file:
                file.write(json.dumps(line) + "\n")
            if better:
                self.best = line
                model.save_pretrained(folder)
            say(f"  step {step}: " + "  ".join(f"{k} {v:.3f}" for k, v in line.items() if k != "step") + " *" * better)

    return Keeper()
