"""Supervised fine-tuning on a release's lists, with TRL's SFTTrainer: unsafe on `sft_raw`, safe on `sft`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from saferec_builder.core.errors import TrainingError
from training import settings as config
from training.data import Row
from training.decoding.generate import Speaker, chat_tokens, prompt_tokens
from training.models import word_dropout as thinning
from training.stages import first
from training.trainers.best_checkpoint import Score
from training.trainers.fit import fit, item_rows, lora
from training.trainers.packing import refuse_leaks


def train(
    speaker: Speaker, rows: Sequence[Row], settings: dict[str, Any], folder: Path, score: Score, *, seed: int = 0
) -> dict[str, Any]:
    """Trains on (prompt, completion) rows, loss on the completion only; the best checkpoint stays in `folder`.

    settings as settings.read gives them: arguments of trl.SFTConfig, and ours. A model with item tokens learns the
    rows' `items`, after their `traits` where it is to say them; `thin` of its prompts' words are hidden from it, drawn
    anew at each sight: it knows no language yet, and learns sentences by heart.
    """
    from datasets import Dataset
    from trl import SFTTrainer  # type: ignore[attr-defined]

    ours, args = settings["saferec"], arguments(settings, folder, seed)
    if args.packing:
        refuse_leaks(speaker.model, args.packing_strategy)
    taught = examples(speaker, rows)
    long = too_long(speaker, taught, args.max_length, args.truncation_mode == "keep_start" and not args.packing)
    if ours["hold"]:
        thinning.hold(speaker)
    trainer = (_listing() if speaker.catalogue else SFTTrainer)(
        model=speaker.model,
        args=args,
        train_dataset=Dataset.from_list(taught),
        processing_class=speaker.tokenizer,
        peft_config=lora(ours["lora"], item_rows(speaker)),
    )
    if ours["thin"] and thinning.possible(speaker):
        trainer.data_collator = thinning.batches(trainer.data_collator, speaker, ours["thin"])
    return fit(trainer, speaker, folder, score, ours["checks"]) | long


def arguments(settings: dict[str, Any], folder: Path, seed: int) -> Any:
    """The SFTConfig of a training in `folder`, or what TRL has against it, in one line."""
    from trl import SFTConfig  # type: ignore[attr-defined]

    return config.trl(SFTConfig, settings, folder / "trainer", seed)


def examples(speaker: Speaker, rows: Sequence[Row]) -> list[Row]:
    """What TRL learns from: texts, or tokens where items are tokens."""
    if speaker.catalogue is None:
        return [{"prompt": row["prompt"], "completion": row["completion"]} for row in rows]
    found = []
    for row, prompt in zip(rows, prompt_tokens(speaker.tokenizer, rows), strict=True):
        answer = speaker.catalogue.answer(row["items"], row.get("traits", ()))
        mask = [0] * len(prompt) + [1] * len(answer)
        found.append({"input_ids": prompt + answer, "completion_mask": mask})
    return found


def too_long(speaker: Speaker, taught: Sequence[Row], most: int | None, from_start: bool) -> dict[str, int]:
    """{cut, left_out}: examples of more than `most` tokens, and those of them that lose their whole list by it.

    TRL does both without a word. from_start: what stands at their end goes.
    """
    if speaker.catalogue:
        sizes = [(len(one["input_ids"]), one["completion_mask"].index(1)) for one in taught]
    else:
        words = speaker.tokenizer
        whole = chat_tokens(words, [[*one["prompt"], *one["completion"]] for one in taught], begun=False)
        sizes = [(len(ids), len(prompt)) for ids, prompt in zip(whole, prompt_tokens(words, taught), strict=True)]
    cut = [prompt for size, prompt in sizes if most is not None and size > most]
    gone = sum(from_start and prompt >= most for prompt in cut) if most is not None else 0
    if gone == len(taught):
        raise TrainingError(f"max_length = {most}: no request leaves room for its list: wanted a larger max_length")
    if cut and first():
        print(f"  {len(cut)} of {len(taught)} rows are cut to max_length = {most}; {gone} of them teach nothing")
    return {"cut": len(cut), "left_out": gone}


def _listing() -> type:
    """TRL's trainer, with the same loss made from the answers' places alone.

    On a CPU the output layer over every word of the prompts takes most of a small model's time.
    """
    from torch.nn.functional import cross_entropy
    from trl import SFTTrainer  # type: ignore[attr-defined]

    class Listing(SFTTrainer):
        def compute_loss(
            self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
        ) -> Any:
            wanted = inputs["labels"][:, 1:]
            places = (wanted != -100).any(dim=0).nonzero().squeeze(1)
            given = {name: value for name, value in inputs.items() if name != "labels"}  # packed rows have no mask
            outputs = model(**given, use_cache=False, logits_to_keep=places)
            loss = cross_entropy(outputs.logits.flatten(0, 1), wanted[:, places].flatten(), reduction="sum")
            loss = loss / ((wanted != -100).sum() if num_items_in_batch is None else num_items_in_batch)
            if self.args.average_tokens_across_devices and num_items_in_batch is not None:
                loss = loss * self.accelerator.num_processes
            return (loss, outputs) if return_outputs else loss

    return Listing
