"""Supervised fine-tuning on a release's lists, with TRL's SFTTrainer: unsafe on `sft_raw`, safe on `sft`."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from training import settings as config
from training.best import Score, keeper
from training.data import Row
from training.decoding import save
from training.generate import Speaker


def train(
    speaker: Speaker, rows: Sequence[Row], settings: dict[str, Any], folder: Path, score: Score, seed: int = 0
) -> dict[str, Any]:
    """Trains on (prompt, completion) rows, loss on the completion only; the best checkpoint stays in `folder`.

    settings as settings.read gives them: arguments of trl.SFTConfig, and ours. `thin` of the prompts' words are hidden
    from a model with item tokens, drawn anew at each sight: it knows no language yet, and learns sentences by heart.
    """
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer  # type: ignore[attr-defined]

    ours = settings["saferec"]
    trainer = SFTTrainer(
        model=speaker.model,
        args=config.trl(SFTConfig, settings, folder / "trainer", seed),
        train_dataset=Dataset.from_list([{"prompt": r["prompt"], "completion": r["completion"]} for r in rows]),
        processing_class=speaker.tokenizer,
    )
    if ours["thin"] and speaker.catalogue:
        trainer.data_collator = thinned(trainer.data_collator, speaker, ours["thin"])
    return finish(trainer, keeper(folder, score, every(trainer, ours["checks"])), speaker, folder)


def every(trainer: Any, checks: int) -> int:
    """Steps between two looks at the validation split, for so many looks in a whole run."""
    import math

    args = trainer.args
    epoch = math.ceil(len(trainer.get_train_dataloader()) / args.gradient_accumulation_steps)
    steps: int = args.max_steps if args.max_steps > 0 else math.ceil(epoch * args.num_train_epochs)
    return max(1, math.ceil(steps / max(1, checks)))


def finish(trainer: Any, best: Any, speaker: Speaker, folder: Path) -> dict[str, Any]:
    """Runs a trainer with its keeper and puts tokenizer and item tokens beside the weights that were kept."""
    from transformers.trainer_callback import PrinterCallback

    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(best)
    trainer.train()
    speaker.tokenizer.save_pretrained(folder)
    if speaker.catalogue:
        save(folder, speaker.catalogue)
    return {"steps": trainer.state.global_step, "validation": best.best, "log": trainer.state.log_history}


def thinned(collate: Callable[..., Any], speaker: Speaker, share: float) -> Callable[..., Any]:
    """`collate` with a `share` of the prompts' words (never items, marks or answers) replaced by the unknown word."""
    import torch

    assert speaker.catalogue is not None
    words = torch.ones(speaker.model.config.vocab_size, dtype=torch.bool)
    words[[*speaker.tokenizer.all_special_ids, *set(speaker.catalogue.tokens.values())]] = False
    words[[*speaker.tokenizer.get_added_vocab().values()]] = False

    def hide(examples: Any) -> Any:
        batch = collate(examples)
        ids = batch["input_ids"]
        hidden = words[ids] & (batch["labels"] == -100) & (torch.rand(ids.shape) < share)
        batch["input_ids"] = ids.masked_fill(hidden, speaker.tokenizer.unk_token_id)
        return batch

    return hide
