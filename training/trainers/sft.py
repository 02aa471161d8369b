"""Supervised fine-tuning on the lists of a release, with TRL's SFTTrainer: unsafe on `sft_raw`, safe on `sft`."""

from collections.abc import Sequence
from pathlib import Path

from datasets import Dataset
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers.modeling_outputs import CausalLMOutputWithPast
from trl.trainer.sft_config import SFTConfig
from trl.trainer.sft_trainer import SFTTrainer

from saferec_builder.core.errors import TrainingError
from training.data import Row
from training.decoding.generate import PolicyModel, answer_tokens, prompt_tokens
from training.decoding.validation_scores import Score
from training.models import word_dropout
from training.run_folders import Card, say
from training.settings import Settings, ours, trl_arguments
from training.trainers.fit import fit, item_rows, lora

Example = dict[str, list[int]]  # input_ids: a prompt, the same as on validation, and the list to learn; completion_mask


def train(
    policy: PolicyModel, rows: Sequence[Row], settings: Settings, folder: Path, score: Score, *, seed: int = 0
) -> Card:
    """Trains on (prompt, completion) rows, with loss on the completion only; keeps the best checkpoint in `folder`.

    A model with item tokens learns the `items` of the rows, after their `traits` if `says` is set. A share `thin` of
    the words of its prompts is hidden, sampled again in each batch: it would memorise sentences.
    """
    options, args = ours(settings), trl_arguments(SFTConfig, settings, folder / "trainer", seed)
    dataset = examples(policy, rows)
    cut_rows = too_long(dataset, args.max_length, args.truncation_mode == "keep_start" and not args.packing)
    if options.hold:
        word_dropout.freeze_words(policy)
    trainer = (ListTrainer if policy.catalogue else SFTTrainer)(
        model=policy.model,
        args=args,
        train_dataset=Dataset.from_list(dataset),
        processing_class=policy.tokenizer,
        peft_config=lora(options.lora, item_rows(policy)),
    )
    if options.thin and policy.catalogue and policy.tokenizer.unk_token_id is not None:
        trainer.data_collator = word_dropout.hide_in_batches(trainer.data_collator, policy, options.thin)
    return fit(trainer, policy, folder, score, options.checks) | cut_rows


def examples(policy: PolicyModel, rows: Sequence[Row]) -> list[Example]:
    """Returns the examples as tokens: TRL does not tokenize them, so that prompts are the same as on validation."""
    if policy.catalogue is None:
        answers = answer_tokens(policy.tokenizer, [row["completion"][-1]["content"] for row in rows])
    else:
        answers = [policy.catalogue.answer(row["items"], row.get("traits", ())) for row in rows]
    pairs = zip(prompt_tokens(policy.tokenizer, rows), answers, strict=True)
    return [{"input_ids": p + a, "completion_mask": [0] * len(p) + [1] * len(a)} for p, a in pairs]


def too_long(dataset: Sequence[Example], most: int | None, from_start: bool) -> Card:
    """Returns {cut, left_out}: number of examples longer than `most` tokens, and of those that lose their whole list:
    TRL does both silently. from_start: whether TRL keeps the start of a row, and cuts its end."""
    sizes = [(len(example["input_ids"]), example["completion_mask"].index(1)) for example in dataset]
    cut = [prompt for size, prompt in sizes if most is not None and size > most]
    lost = sum(from_start and prompt >= most for prompt in cut) if most is not None else 0
    if lost == len(dataset):
        raise TrainingError(f"max_length = {most}: no request leaves room for its list: expected a larger max_length")
    if cut:
        say(f"  {len(cut)} of {len(dataset)} rows are cut to max_length = {most}; {lost} of them teach nothing")
    return {"cut": len(cut), "left_out": lost}


class ListTrainer(SFTTrainer):
    """TRL's trainer with the same loss, computed from logits at positions of answers only: on a CPU those of all prompt
    tokens would take most of the time of a small model."""

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Tensor],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Tensor | tuple[Tensor, CausalLMOutputWithPast]:
        labels = inputs["labels"][:, 1:]
        positions = (labels != -100).any(dim=0).nonzero().squeeze(1)
        model_inputs = {name: value for name, value in inputs.items() if name != "labels"}  # packed rows have no mask
        outputs = model(**model_inputs, use_cache=False, logits_to_keep=positions)
        loss = cross_entropy(outputs.logits.flatten(0, 1), labels[:, positions].flatten(), reduction="sum")
        loss = loss / ((labels != -100).sum() if num_items_in_batch is None else num_items_in_batch)
        if self.args.average_tokens_across_devices and num_items_in_batch is not None:
            loss = loss * self.accelerator.num_processes
        return (loss, outputs) if return_outputs else loss
