"""Words hidden from a model that knows no language, and words held where they are: it learns sentences by heart.

Both concern models with item tokens, and never items, marks or traits.
"""

import random
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from training.data import Row
from training.decoding.generate import Speaker

HIDDEN = "_"  # joins what the tokenizer left of the word, an ending: together they read as the unknown word


def possible(speaker: Speaker) -> bool:
    """Whether the model has item tokens, and a word that stands for those it does not know."""
    return speaker.catalogue is not None and speaker.tokenizer.unk_token_id is not None


def words_of(speaker: Speaker) -> Any:
    """(vocabulary,) bool: the tokens that are words, neither items nor marks nor traits."""
    import torch

    words = torch.ones(speaker.model.config.vocab_size, dtype=torch.bool)
    words[[*speaker.tokenizer.all_special_ids, *speaker.tokenizer.get_added_vocab().values()]] = False
    return words


def hold(speaker: Speaker) -> None:
    """Keeps the embeddings of words as they are while the rest learns (an optimiser's weight decay would move them)."""
    if speaker.catalogue is None:
        return
    table = speaker.model.get_input_embeddings().weight
    moves = (~words_of(speaker)).unsqueeze(1)
    table.register_hook(lambda slope: slope * moves.to(slope.device))  # a trainer may move the model after this


def batches(collate: Callable[..., Any], speaker: Speaker, share: float) -> Callable[..., Any]:
    """`collate` with a `share` of the prompts' words replaced by the unknown word, drawn anew at each sight."""
    import torch

    words = words_of(speaker)

    def hide(examples: Any) -> Any:
        batch = collate(examples)
        ids = batch["input_ids"]
        hidden = words[ids] & (batch["labels"] == -100) & (torch.rand(ids.shape, generator=seeded(ids)) < share)
        batch["input_ids"] = ids.masked_fill(hidden, speaker.tokenizer.unk_token_id)
        return batch

    return hide


def seeded(ids: Any) -> Any:
    """A generator that the batch itself decides, so that a run that was broken off goes on as it would have."""
    import torch

    return torch.Generator().manual_seed(zlib.crc32(ids.numpy().tobytes()))


def prompts(speaker: Speaker, rows: Sequence[Row], share: float, seed: int) -> list[list[dict[str, str]]]:
    """The rows' prompts with a `share` of their words hidden, once and for all."""
    words, chance = words_of(speaker).tolist(), random.Random(seed)

    def hide(text: str) -> str:
        found = speaker.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        for token, (start, end) in reversed(list(zip(found["input_ids"], found["offset_mapping"], strict=True))):
            if words[token] and chance.random() < share:
                text = text[:start] + HIDDEN + text[end:]
        return text

    return [[{**turn, "content": hide(turn["content"])} for turn in row["prompt"]] for row in rows]
