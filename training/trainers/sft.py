"""Supervised fine-tuning on a release's lists, with TRL's SFTTrainer: unsafe on `sft_raw`, safe on `sft`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

from datasets import Dataset
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers.modeling_outputs import CausalLMOutputWithPast
from trl import SFTConfig, SFTTrainer  # type: ignore[attr-defined]

from saferec_builder.core.errors import TrainingError
from training.data import Row
from training.decoding.generate import PolicyModel, answer_tokens, prompt_tokens
from training.decoding.validation_scores import Score
from training.models import word_dropout
from training.run_folders import Card, is_first_process
from training.settings import Settings, ours, trl_arguments
from training.trainers.fit import fit, item_rows, lora


class Example(TypedDict):
    """Tokens of a prompt as validation gives it, and behind them those of the list that is to be learnt."""

    input_ids: list[int]
    completion_mask: list[int]


def train(
    policy: PolicyModel, rows: Sequence[Row], settings: Settings, folder: Path, score: Score, *, seed: int = 0
) -> Card:
    """Trains on (prompt, completion) rows, loss on the completion only; the best checkpoint stays in `folder`.

    settings as settings.read gives them: arguments of trl.SFTConfig, and ours. A model with item tokens learns the
    rows' `items`, after their `traits` where it is to say them; `thin` of its prompts' words are hidden from it, drawn
    anew at each sight: it knows no language yet, and learns sentences by heart.
    """
    options, args = ours(settings), arguments(settings, folder, seed)
    taught = examples(policy, rows)
    long = too_long(taught, args.max_length, args.truncation_mode == "keep_start" and not args.packing)
    if options.hold:
        word_dropout.freeze_words(policy)
    trainer = (ListTrainer if policy.catalogue else SFTTrainer)(
        model=policy.model,
        args=args,
        train_dataset=Dataset.from_list(taught),
        processing_class=policy.tokenizer,
        peft_config=lora(options.lora, item_rows(policy)),
    )
    if options.thin and word_dropout.can_hide_words(policy):
        trainer.data_collator = word_dropout.hide_in_batches(trainer.data_collator, policy, options.thin)
    return fit(trainer, policy, folder, score, options.checks) | long


def arguments(settings: Settings, folder: Path, seed: int) -> SFTConfig:
    """The SFTConfig of a training in `folder`, or what TRL has against it, in one line."""
    return trl_arguments(SFTConfig, settings, folder / "trainer", seed)


def examples(policy: PolicyModel, rows: Sequence[Row]) -> list[Example]:
    """What TRL learns from; it makes tokens of nothing itself, so that prompts are the same as on validation."""
    if policy.catalogue is None:
        answers = answer_tokens(policy.tokenizer, [row["completion"][-1]["content"] for row in rows])
    else:
        answers = [policy.catalogue.answer(row["items"], row.get("traits", ())) for row in rows]
    both = zip(prompt_tokens(policy.tokenizer, rows), answers, strict=True)
    return [{"input_ids": p + a, "completion_mask": [0] * len(p) + [1] * len(a)} for p, a in both]


def too_long(taught: Sequence[Example], most: int | None, from_start: bool) -> Card:
    """{cut, left_out}: examples of more than `most` tokens, and those of them that lose their whole list by it.

    TRL does both without a word. from_start: what stands at their end goes.
    """
    sizes = [(len(one["input_ids"]), one["completion_mask"].index(1)) for one in taught]
    cut = [prompt for size, prompt in sizes if most is not None and size > most]
    gone = sum(from_start and prompt >= most for prompt in cut) if most is not None else 0
    if gone == len(taught):
        raise TrainingError(f"max_length = {most}: no request leaves room for its list: expected a larger max_length")
    if cut and is_first_process():
        print(f"  {len(cut)} of {len(taught)} rows are cut to max_length = {most}; {gone} of them teach nothing")
    return {"cut": len(cut), "left_out": gone}


class ListTrainer(SFTTrainer):
    """TRL's trainer, with the same loss made from the answers' places alone.

    On a CPU the output layer over every word of the prompts takes most of a small model's time.
    """

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Tensor],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Tensor | tuple[Tensor, CausalLMOutputWithPast]:
        labels = inputs["labels"][:, 1:]
        places = (labels != -100).any(dim=0).nonzero().squeeze(1)
        given = {name: value for name, value in inputs.items() if name != "labels"}  # packed rows have no mask
        outputs = model(**given, use_cache=False, logits_to_keep=places)
        loss = cross_entropy(outputs.logits.flatten(0, 1), labels[:, places].flatten(), reduction="sum")
        loss = loss / ((labels != -100).sum() if num_items_in_batch is None else num_items_in_batch)
        if self.args.average_tokens_across_devices and num_items_in_batch is not None:
            loss = loss * self.accelerator.num_processes
        return (loss, outputs) if return_outputs else loss
