"""Shares the cache of a prompt between answers: each distinct prompt is computed once, however many answers it has.

GDPO samples eight answers to a prompt, and `generate` would compute the prompt again for each of them.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

# an explicit cache takes precedence over one that the settings of the model name
OWN: dict[str, None] = {"cache_implementation": None}


def arguments(model: Any, prompts: Sequence[Sequence[int]], padded: Tensor, attention: Tensor) -> dict[str, Any]:
    """Returns arguments of `generate` besides `padded` and `attention` (rows, width), the prompts padded on the left:
    none if all prompts differ, or if the model caches anything but keys and values of each token."""
    numbers: dict[tuple[int, ...], int] = {}
    number_of_row = [numbers.setdefault(tuple(prompt), len(numbers)) for prompt in prompts]
    cache = DynamicCache(config=model.config.get_text_config(decoder=True))
    kinds = {type(layer) for layer in cache.layers}
    supported = model._supports_default_dynamic_cache() and kinds <= {DynamicLayer, DynamicSlidingWindowLayer}
    # the last token of a prompt is left out: answers begin from it
    if not supported or len(numbers) == len(prompts) or min(map(len, prompts)) == 1:
        return {}
    rows = torch.tensor([number_of_row.index(number) for number in range(len(numbers))], device=padded.device)
    # one token is generated and dropped: `generate` prepares all other inputs of the model
    settings: dict[str, int | None] = dict.fromkeys(("temperature", "top_p", "top_k", "min_new_tokens"))
    settings |= {"do_sample": False, "num_beams": 1, "max_new_tokens": 1, "pad_token_id": 0, "disable_compile": True}
    model.generate(padded[rows, :-1], attention_mask=attention[rows, :-1], past_key_values=cache, **settings, **OWN)
    cache.batch_select_indices(torch.tensor(number_of_row, device=padded.device))
    return {"past_key_values": cache} | OWN
