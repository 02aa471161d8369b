"""Runs a TRL trainer: the best checkpoint on validation stays, a run that was broken off goes on, LoRA ends merged."""

import math
from pathlib import Path
from typing import Any

from saferec_builder.core.errors import TrainingError
from training.decoding.constrained import save
from training.decoding.generate import Speaker
from training.stages import alone, first
from training.trainers import curves
from training.trainers.best_checkpoint import ADAPTER, Score, checkpoint, keeper, step_of


def fit(
    trainer: Any, speaker: Speaker, folder: Path, score: Score, checks: int, *, start_counts: bool = False
) -> dict[str, Any]:
    """Trains, and leaves in `folder` the weights that validation preferred, the tokenizer and the learning curves.

    start_counts: the weights as they are before the first step are a candidate too.
    """
    from transformers.trainer_callback import PrinterCallback

    refuse_spread(trainer)
    at = checkpoint(folder / "trainer")
    if at and first():
        print(f"  goes on from step {step_of(at)}")
    best = keeper(folder, score, every(trainer, checks), start=step_of(at))
    if start_counts:
        best.check(0, trainer.model)
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(best)
    trainer.train(resume_from_checkpoint=str(at) if at else None)
    log = trainer.state.log_history

    def write() -> None:
        if hasattr(trainer.model, "peft_config"):
            merge(trainer.accelerator.unwrap_model(trainer.model), folder)
        speaker.tokenizer.save_pretrained(folder)
        if speaker.catalogue:
            save(folder, speaker.catalogue)
        curves.draw(folder, log, best.lines)

    alone(write)
    return {"steps": trainer.state.global_step, "validation": best.best, "log": log}


def refuse_spread(trainer: Any) -> None:
    """Weights spread over processes in a way that nobody here could gather: better told now than after the training."""
    if trainer.is_deepspeed_enabled and trainer.accelerator.state.deepspeed_plugin.zero_stage == 3:
        raise TrainingError("DeepSpeed ZeRO-3: the best model on validation could not be kept: wanted stage 1 or 2")
    if trainer.is_fsdp_enabled and hasattr(trainer.model, "peft_config"):
        raise TrainingError("FSDP: an adapter could not be merged at the end: wanted saferec.lora=0, or no FSDP")


def every(trainer: Any, checks: int) -> int:
    """Steps between two looks at the validation split, for so many looks in a whole run."""
    args = trainer.args
    epoch = math.ceil(len(trainer.get_train_dataloader()) / args.gradient_accumulation_steps)
    steps: int = args.max_steps if args.max_steps > 0 else math.ceil(epoch * args.num_train_epochs)
    return max(1, math.ceil(steps / max(1, checks)))


def lora(rank: int, rows: dict[str, list[int]] | None = None) -> Any:
    """The adapter that a trainer puts on every linear layer, and on these rows of tables; None for rank 0."""
    if not rank:
        return None
    from peft import LoraConfig

    return LoraConfig(
        r=rank,
        lora_alpha=2 * rank,
        target_modules="all-linear",
        trainable_token_indices=rows,
        task_type="CAUSAL_LM",
    )


def item_rows(speaker: Speaker) -> dict[str, list[int]] | None:
    """{embedding table: the rows of items and traits}, which no linear layer can learn; None without item tokens."""
    model, catalogue = speaker.model, speaker.catalogue
    if catalogue is None:
        return None
    rows = sorted({*catalogue.tokens.values(), *catalogue.traits.values(), catalogue.nothing} - {-1})
    tables = [model.get_input_embeddings()]
    if not model.config.tie_word_embeddings:
        tables.append(model.get_output_embeddings())
    return {name.rpartition(".")[2]: rows for name, part in model.named_modules() if any(part is t for t in tables)}


def merge(model: Any, folder: Path) -> None:
    """Whole weights in `folder`, made of the adapter that was kept: the next stage starts from them like from any."""
    from peft import load_peft_weights, set_peft_model_state_dict

    set_peft_model_state_dict(model, load_peft_weights(str(folder / ADAPTER), device="cpu"))
    model.merge_and_unload().save_pretrained(folder)
