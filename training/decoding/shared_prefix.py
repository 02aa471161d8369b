"""Shares the prompt's cache between answers: each distinct prompt is read once, however many answers it has.

GDPO draws eight answers to a prompt, and `generate` would read the prompt anew for each of them.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

if TYPE_CHECKING:
    from training.decoding.generate import CausalLM

# a cache that is given goes before one that the model's settings ask for
OWN: dict[str, None] = {"cache_implementation": None}


def arguments(model: "CausalLM", prompts: Sequence[Sequence[int]], padded: Tensor, attention: Tensor) -> dict[str, Any]:
    """What `generate` is given besides `padded` and `attention` (rows, width), the prompts padded on the left.

    Nothing where no prompt stands twice, or where the model keeps something else than the keys and values of each
    token: only `generate` can share that.
    """
    number: dict[tuple[int, ...], int] = {}
    place = [number.setdefault(tuple(prompt), len(number)) for prompt in prompts]
    cache = DynamicCache(config=model.config.get_text_config(decoder=True))
    kinds = {type(layer) for layer in cache.layers}
    known = model._supports_default_dynamic_cache() and kinds <= {DynamicLayer, DynamicSlidingWindowLayer}
    # a prompt's last token is left for its answers to begin with
    if not known or len(number) == len(prompts) or min(map(len, prompts)) == 1:
        return {}
    rows = torch.tensor([place.index(n) for n in range(len(number))], device=padded.device)
    # one token is drawn and forgotten: `generate` knows what a model wants beside its tokens
    settings: dict[str, int | None] = dict.fromkeys(("temperature", "top_p", "top_k", "min_new_tokens"))
    settings |= {"do_sample": False, "num_beams": 1, "max_new_tokens": 1, "pad_token_id": 0, "disable_compile": True}
    model.generate(padded[rows, :-1], attention_mask=attention[rows, :-1], past_key_values=cache, **settings, **OWN)
    cache.batch_select_indices(torch.tensor(place, device=padded.device))
    return {"past_key_values": cache} | OWN
