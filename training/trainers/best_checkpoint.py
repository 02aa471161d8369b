"""Keeps the checkpoint that is best on the validation split while a trainer runs; never uses the test split."""

import math
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from torch import Tensor
from transformers import PreTrainedModel, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from saferec_builder.core.errors import strict_json, whole_object
from saferec_builder.core.progress import Lines
from training.decoding.generate import CausalLM
from training.decoding.validation_scores import Score
from training.run_folders import Figures, is_first_process, say, tell, write_lines

CHECKS = "validation.jsonl"
ADAPTER = "adapter"


class Keeper(TrainerCallback):
    """Calls `score` `checks` times in a training and at its end; keeps the best model so far in `folder`, or with LoRA
    its adapter in folder/adapter. validation.jsonl has one line per check; `best` is that of the model that was kept. A
    trainer that resumes reads all of them, also of steps that it repeats: on a GPU these may end otherwise, and the
    best of these models is what lies in the folder."""

    def __init__(self, folder: Path, score: Score, checks: int, resumes: bool = False) -> None:
        self.folder, self.score, self.checks, path = folder, score, checks, folder / CHECKS
        lines = path.read_text().splitlines() if resumes and path.is_file() else []
        self.lines: list[Figures] = [strict_json(line) for line in lines]
        self.shown = ExitStack()  # the bar of a training, until it ends or fails
        self.best: Figures | None = max(self.lines, key=lambda line: line["score"], default=None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *fault: object) -> None:
        self.shown.close()

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **rest: Any
    ) -> None:
        self.every = max(1, math.ceil(state.max_steps / max(1, self.checks)))
        bar = Lines(tell, f"  {self.folder.name}", "step", state.max_steps, state.global_step)
        self.bar = self.shown.enter_context(bar)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **rest: Any) -> None:
        if state.global_step % self.every == 0:
            self.check(state.global_step, rest["model"])
        self.bar.update()

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **rest: Any) -> None:
        self.check(state.global_step, rest["model"])
        self.shown.close()
        if self.best:
            say(f"  kept: the model of step {self.best['step']}, the highest score")

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
    """Gathers weights sharded by FSDP2 on the first process; None if each process holds all. Every process calls it."""
    from torch.distributed.tensor import DTensor

    if not any(isinstance(weight, DTensor) for weight in model.parameters()):
        return None
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    return get_model_state_dict(model, options=options)  # type: ignore[return-value]


def checkpoint(trainer: Path) -> Path | None:
    """Returns the last complete checkpoint in the folder of a trainer, which writes trainer_state.json last."""
    states = trainer.glob("checkpoint-*/trainer_state.json")
    complete = [path.parent for path in states if whole_object(path.read_bytes()) is not None]
    return max(complete, key=step_of, default=None)


def step_of(checkpoint: Path | None) -> int:
    return int(checkpoint.name.rpartition("-")[2]) if checkpoint else 0
