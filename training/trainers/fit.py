"""Runs a TRL trainer: the best checkpoint on validation stays, a run that was broken off goes on, LoRA ends merged."""

import math
from pathlib import Path

from peft import LoraConfig, PeftModel, load_peft_weights, set_peft_model_state_dict
from transformers import Trainer, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import PrinterCallback, TrainerCallback

from saferec_builder.core.errors import TrainingError
from saferec_builder.core.progress import Lines
from training.decoding.constrained import save
from training.decoding.generate import PolicyModel, embeddings
from training.decoding.validation_scores import Score
from training.run_folders import Card, is_first_process, on_first_process, tell
from training.trainers.best_checkpoint import ADAPTER, Keeper, checkpoint, step_of


class Tells(TrainerCallback):
    """Says where a training stands."""

    def __init__(self, name: str) -> None:
        self._name = name

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        self._bar = Lines(tell, f"  {self._name}", "step", state.max_steps, state.global_step)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object) -> None:
        self._bar.update()


def fit(
    trainer: Trainer, policy: PolicyModel, folder: Path, score: Score, checks: int, *, start_counts: bool = False
) -> Card:
    """Trains, and leaves in `folder` the weights that validation preferred and the tokenizer.

    start_counts: the weights as they are before the first step are a candidate too.
    """
    refuse_spread(trainer)
    at = checkpoint(folder / "trainer")
    if at and is_first_process():
        print(f"  goes on from step {step_of(at)}")
    best = Keeper(folder, score, steps_between_checks(trainer, checks), start=step_of(at))
    if start_counts:
        best.check(0, trainer.model)  # type: ignore[arg-type]
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(best)
    trainer.add_callback(Tells(folder.name))
    trainer.train(resume_from_checkpoint=str(at) if at else None)
    log = trainer.state.log_history

    def write() -> None:
        if hasattr(trainer.model, "peft_config"):
            merge(trainer.accelerator.unwrap_model(trainer.model), folder)
        policy.tokenizer.save_pretrained(folder)
        if policy.catalogue:
            save(folder, policy.catalogue)

    on_first_process(write)
    return {"steps": trainer.state.global_step, "validation": best.best, "log": log}


def refuse_spread(trainer: Trainer) -> None:
    """Weights spread over processes in a way that nobody here could gather: better before the training than after."""
    if trainer.is_deepspeed_enabled and trainer.accelerator.state.deepspeed_plugin.zero_stage == 3:
        raise TrainingError("DeepSpeed ZeRO-3: the best model on validation could not be kept: expected stage 1 or 2")
    if trainer.is_fsdp_enabled and hasattr(trainer.model, "peft_config"):
        raise TrainingError("FSDP: an adapter could not be merged at the end: expected saferec.lora=0, or no FSDP")


def steps_between_checks(trainer: Trainer, checks: int) -> int:
    """Steps between two looks at the validation split, for so many looks in a whole run."""
    args = trainer.args
    epoch = math.ceil(len(trainer.get_train_dataloader()) / args.gradient_accumulation_steps)
    steps: int = args.max_steps if args.max_steps > 0 else math.ceil(epoch * args.num_train_epochs)
    return max(1, math.ceil(steps / max(1, checks)))


def lora(rank: int, rows: dict[str, list[int]] | None = None) -> LoraConfig | None:
    """The adapter that a trainer puts on every linear layer, and on these rows of tables; None for rank 0."""
    if not rank:
        return None
    return LoraConfig(
        r=rank, lora_alpha=2 * rank, target_modules="all-linear", trainable_token_indices=rows, task_type="CAUSAL_LM"
    )


def item_rows(policy: PolicyModel) -> dict[str, list[int]] | None:
    """{embedding table: the rows of items and traits}, which no linear layer can learn; None without item tokens."""
    model, catalogue = policy.model, policy.catalogue
    if catalogue is None:
        return None
    rows = sorted({*catalogue.tokens.values(), *catalogue.traits.values(), catalogue.nothing} - {-1})
    tables = embeddings(model)
    named = (name for name, weight in model.named_parameters() if any(weight is table for table in tables))
    return {name.split(".")[-2]: rows for name in named}


def merge(model: PeftModel, folder: Path) -> None:
    """Whole weights in `folder`, made of the adapter that was kept: the next stage starts from them like from any."""
    set_peft_model_state_dict(model, load_peft_weights(str(folder / ADAPTER), device="cpu"))
    model.merge_and_unload().save_pretrained(folder)
