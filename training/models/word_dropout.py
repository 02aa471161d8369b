"""Word dropout for models with item tokens: hides words, or freezes them, so that sentences are not memorised.

Both concern models with item tokens, and never items, marks or traits.
"""

import zlib
from collections.abc import Callable

import torch
from torch import Tensor

from training.decoding.generate import PolicyModel, embeddings

Collate = Callable[[list[dict[str, list[int]]]], dict[str, Tensor]]


def can_hide_words(policy: PolicyModel) -> bool:
    """Whether the model has item tokens, and a word that stands for those it does not know."""
    return policy.catalogue is not None and policy.tokenizer.unk_token_id is not None


def words_of(policy: PolicyModel) -> Tensor:
    """(vocabulary,) bool: the tokens that are words, neither items nor marks nor traits."""
    words = torch.ones(policy.model.config.vocab_size, dtype=torch.bool)
    words[[*policy.tokenizer.all_special_ids, *policy.tokenizer.get_added_vocab().values()]] = False
    return words


def freeze_words(policy: PolicyModel) -> None:
    """Keeps the embeddings of words as they are while the rest learns (an optimiser's weight decay would move them)."""
    if policy.catalogue is None:
        return
    table = embeddings(policy.model)[0]
    moves = (~words_of(policy)).unsqueeze(1)
    # a trainer may move the model after this
    table.register_hook(lambda slope: slope * moves.to(slope.device))  # type: ignore[no-untyped-call]


def hide_in_batches(collate: Collate, policy: PolicyModel, share: float) -> Collate:
    """`collate` with a `share` of the prompts' words replaced by the unknown word, drawn anew at each sight."""
    words = words_of(policy)

    def hide(examples: list[dict[str, list[int]]]) -> dict[str, Tensor]:
        batch = collate(examples)
        ids = batch["input_ids"]
        hidden = words[ids] & (batch["labels"] == -100) & (torch.rand(ids.shape, generator=seeded(ids)) < share)
        batch["input_ids"] = ids.masked_fill(hidden, policy.tokenizer.unk_token_id)
        return batch

    return hide


def seeded(ids: Tensor) -> torch.Generator:
    """A generator that the batch itself decides, so that a run that was broken off goes on as it would have."""
    return torch.Generator().manual_seed(zlib.crc32(ids.numpy().tobytes()))
