"""Runs a TRL trainer: keeps the best checkpoint on validation, resumes interrupted runs, and merges LoRA adapters."""

from pathlib import Path

from peft import LoraConfig, PeftModel, load_peft_weights, set_peft_model_state_dict
from transformers import Trainer
from transformers.trainer_callback import PrinterCallback

from saferec_builder.core.errors import TrainingError
from training.decoding.constrained import save
from training.decoding.generate import PolicyModel, embeddings
from training.decoding.validation_scores import Score
from training.run_folders import Card, on_first_process, say
from training.trainers.best_checkpoint import ADAPTER, Keeper, checkpoint, step_of


def fit(
    trainer: Trainer, policy: PolicyModel, folder: Path, score: Score, checks: int, *, start_counts: bool = False
) -> Card:
    """Trains, and leaves in `folder` the weights that are best on validation, and the tokenizer. start_counts: whether
    the weights before the first step are a candidate, too."""
    refuse_spread(trainer)
    resumed = checkpoint(folder / "trainer")
    if resumed:
        say(f"  goes on from step {step_of(resumed)}")
    keeper = Keeper(folder, score, checks, resumes=resumed is not None)
    if start_counts:
        keeper.check(0, trainer.model)
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(keeper)
    with keeper:
        trainer.train(resume_from_checkpoint=str(resumed) if resumed else None)
    log = trainer.state.log_history

    def write() -> None:
        if hasattr(trainer.model, "peft_config"):  # merged, so that the next stage starts from an ordinary model
            model: PeftModel = trainer.accelerator.unwrap_model(trainer.model)
            set_peft_model_state_dict(model, load_peft_weights(str(folder / ADAPTER), device="cpu"))
            model.merge_and_unload().save_pretrained(folder)
        policy.tokenizer.save_pretrained(folder)
        if policy.catalogue:
            save(folder, policy.catalogue)

    on_first_process(write)
    return {"steps": trainer.state.global_step, "validation": keeper.best, "log": log}


def refuse_spread(trainer: Trainer) -> None:
    """Raises TrainingError before the training if weights are sharded in a way that cannot be saved after it."""
    if trainer.is_deepspeed_enabled and trainer.accelerator.state.deepspeed_plugin.zero_stage == 3:
        raise TrainingError("DeepSpeed ZeRO-3: the best model on validation could not be kept: expected stage 1 or 2")
    if trainer.is_fsdp_enabled and hasattr(trainer.model, "peft_config"):
        raise TrainingError("FSDP: an adapter could not be merged at the end: expected saferec.lora=0, or no FSDP")


def lora(rank: int, rows: dict[str, list[int]] | None = None) -> LoraConfig | None:
    """Returns an adapter for every linear layer and for these rows of embedding tables; None for rank 0."""
    if not rank:
        return None
    return LoraConfig(
        r=rank, lora_alpha=2 * rank, target_modules="all-linear", trainable_token_indices=rows, task_type="CAUSAL_LM"
    )


def item_rows(policy: PolicyModel) -> dict[str, list[int]] | None:
    """Returns {embedding table: rows of items and traits}, which linear layers cannot learn; None without any."""
    model, catalogue = policy.model, policy.catalogue
    if catalogue is None:
        return None
    rows = sorted({*catalogue.tokens.values(), *catalogue.traits.values(), catalogue.nothing} - {-1})
    tables = embeddings(model)
    names = (name for name, weight in model.named_parameters() if any(weight is table for table in tables))
    return {name.split(".")[-2]: rows for name in names}
