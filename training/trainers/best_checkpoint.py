"""Keeps the checkpoint that is best on the validation split while a trainer runs; never uses the test split."""

from pathlib import Path
from typing import Any

from torch import Tensor
from transformers import PreTrainedModel, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from saferec_builder.core.errors import strict_json
from training.decoding.generate import CausalLM
from training.decoding.validation_scores import Score
from training.run_folders import Figures, is_first_process, say, write_lines

CHECKS = "validation.jsonl"
ADAPTER = "adapter"


class Keeper(TrainerCallback):
    """Calls `score` every `every` steps and at the end; keeps the best model so far in `folder`.

    validation.jsonl in the folder has one line per check; `best` is the line of the model that was kept. A trainer that
    resumes from step `start` reads the checks up to it. With LoRA only the adapter is kept, in folder/adapter.
    """

    def __init__(self, folder: Path, score: Score, every: int, start: int = 0) -> None:
        self.folder, self.score, self.every = folder, score, every
        self.lines = _earlier_checks(folder, start)
        self.best: Figures | None = max(self.lines, key=lambda line: line["score"], default=None)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **rest: Any) -> None:
        if state.global_step % self.every == 0:
            self.check(state.global_step, rest["model"])

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **rest: Any) -> None:
        self.check(state.global_step, rest["model"])

    def check(self, step: int, model: CausalLM) -> None:
        if any(line["step"] == step for line in self.lines):
            return
        line = {"step": step, **self.score(model)}
        better = self.best is None or line["score"] > self.best["score"]
        self.lines.append(line)
        if better:
            self.best, weights = line, gathered(model)
            if is_first_process():
                target = self.folder / ADAPTER if hasattr(model, "peft_config") else self.folder
                model.save_pretrained(target, state_dict=weights)
        if is_first_process():
            write_lines(self.folder / CHECKS, self.lines)
        figures = "  ".join(f"{name} {value:.3f}" for name, value in line.items() if name != "step")
        say(f"  step {step}: {figures}" + " *" * better)


def gathered(model: PreTrainedModel) -> dict[str, Tensor] | None:
    """Gathers weights sharded by FSDP2 on the first process; returns None if each process holds all weights.

    Every process must call it.
    """
    from torch.distributed.tensor import DTensor

    if not any(isinstance(weight, DTensor) for weight in model.parameters()):
        return None
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    return get_model_state_dict(model, options=options)  # type: ignore[return-value]


def _earlier_checks(folder: Path, start: int) -> list[Figures]:
    """Returns the checks of an interrupted run, up to the step that it resumes from."""
    try:
        lines = [strict_json(line) for line in (folder / CHECKS).read_text().splitlines()] if start else []
    except (OSError, ValueError):
        return []
    return [line for line in lines if line["step"] <= start]


def checkpoint(trainer: Path) -> Path | None:
    """Returns the last complete checkpoint in the folder of a trainer, which writes trainer_state.json last."""
    complete = [path.parent for path in trainer.glob("checkpoint-*/trainer_state.json") if _is_json(path)]
    return max(complete, key=step_of, default=None)


def _is_json(path: Path) -> bool:
    try:
        strict_json(path.read_text())
    except (OSError, ValueError):
        return False
    return True


def step_of(checkpoint: Path | None) -> int:
    return int(checkpoint.name.rpartition("-")[2]) if checkpoint else 0
