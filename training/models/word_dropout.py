"""Word dropout for models with item tokens: hides words, or freezes them, so that sentences are not memorised.

Items, marks and traits are never hidden or frozen.
"""

import zlib
from collections.abc import Callable

import torch
from torch import Tensor

from training.decoding.generate import PolicyModel, embeddings

Collate = Callable[[list[dict[str, list[int]]]], dict[str, Tensor]]


def words_of(policy: PolicyModel) -> Tensor:
    """(vocabulary,) bool: tokens that are words, not items, marks or traits."""
    words = torch.ones(policy.model.config.vocab_size, dtype=torch.bool)
    words[[*policy.tokenizer.all_special_ids, *policy.tokenizer.get_added_vocab().values()]] = False
    return words


def freeze_words(policy: PolicyModel) -> None:
    """Stops the gradient of word embeddings while the rest learns (weight decay would still move them)."""
    if policy.catalogue is None:
        return
    table = embeddings(policy.model)[0]
    trainable = (~words_of(policy)).unsqueeze(1)
    # a trainer may move the model to another device later
    table.register_hook(lambda gradient: gradient * trainable.to(gradient.device))  # type: ignore[no-untyped-call]


def hide_in_batches(collate: Collate, policy: PolicyModel, share: float) -> Collate:
    """Returns `collate` with a random `share` of the words of prompts replaced by the unknown word in each batch."""
    words = words_of(policy)

    def hide(examples: list[dict[str, list[int]]]) -> dict[str, Tensor]:
        batch = collate(examples)
        ids = batch["input_ids"]
        # seeded by the batch: a resumed run hides the same words
        random = torch.rand(ids.shape, generator=torch.Generator().manual_seed(zlib.crc32(ids.numpy().tobytes())))
        hidden = words[ids] & (batch["labels"] == -100) & (random < share)
        batch["input_ids"] = ids.masked_fill(hidden, policy.tokenizer.unk_token_id)
        return batch

    return hide
