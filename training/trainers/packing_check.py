"""Checks that packing is safe: it is refused where the model would read across the documents of a row."""

import torch

from saferec_builder.core.errors import TrainingError
from training.decoding.generate import CausalLM


def refuse_leaks(model: CausalLM, strategy: str) -> None:
    """Asks the model itself: what it says of a document must not depend on the one that is packed before it."""
    if strategy == "wrapped":
        raise TrainingError("packing_strategy=wrapped cuts documents and joins them without a bound: expected bfd")
    if leak(model) > 0.02:
        kind = model.config._attn_implementation
        raise TrainingError(
            f"packing: with the attention {kind!r} this model reads across the documents of a row: set packing=false,"
            " or load it with attn_implementation=flash_attention_2"
        )


def leak(model: CausalLM) -> float:
    """How far logits of a packed document move with its neighbour, as a share of their spread."""
    size = model.config.get_text_config().vocab_size
    one, other, same = (torch.arange(n, n + 6) % size for n in (3, 11, 23))
    places = torch.arange(6).repeat(2).unsqueeze(0).to(model.device)
    training = model.training
    model.eval()
    with torch.no_grad():
        packed = [
            model(torch.cat([first, same]).unsqueeze(0).to(model.device), position_ids=places, use_cache=False).logits[
                0, 6:
            ]
            for first in (one, other)
        ]
    model.train(training)
    return float((packed[0] - packed[1]).abs().max() / packed[0].std())
