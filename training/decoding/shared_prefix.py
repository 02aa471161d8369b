"""The cache that answers start from: each distinct prompt is read once, however many answers it is to have.

GDPO draws eight answers to a prompt, and `generate` would read the prompt anew for each of them. A
`FixedCache` has one size and one place in memory from rollout to rollout, which is what transformers needs before it
compiles the step that draws a token (on a GPU; on a CPU it does not).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedConfig, StaticCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer, StaticLayer

if TYPE_CHECKING:
    from training.decoding.generate import CausalLM

# a cache that is given goes before one that the model's settings ask for
OWN: dict[str, None] = {"cache_implementation": None}


@dataclass
class FixedCache:
    """A cache of fixed size; `tokens` = the longest prompt and answer together. It grows where that was too little."""

    tokens: int
    cache: StaticCache | None = None
    size: tuple[int, int] = (0, 0)  # of the cache: rows and tokens


def arguments(
    model: "CausalLM",
    prompts: Sequence[Sequence[int]],
    padded: Tensor,
    attention: Tensor,
    new: int,
    fixed: FixedCache | None,
) -> dict[str, Any]:
    """What `generate` is given besides `padded` and `attention` (rows, width), the prompts padded on the left.

    new = the most tokens of an answer. Nothing where no prompt stands twice and no fixed cache is to be filled, or
    where the model keeps something else than the keys and values of each token: only `generate` can share that.
    """
    if fixed:
        fixed.tokens = max(fixed.tokens, padded.size(1) + new)
    number: dict[tuple[int, ...], int] = {}
    place = [number.setdefault(tuple(prompt), len(number)) for prompt in prompts]
    cache = DynamicCache(config=model.config.get_text_config(decoder=True))
    kinds = {DynamicLayer} if fixed else {DynamicLayer, DynamicSlidingWindowLayer}
    known = model._supports_default_dynamic_cache() and {type(layer) for layer in cache.layers} <= kinds
    # a prompt's last token is left for its answers to begin with
    if known and (fixed or len(number) < len(prompts)) and min(map(len, prompts)) > 1:
        return {"past_key_values": _read(model, cache, place, padded, attention, fixed)} | OWN
    return {"cache_implementation": "static", "max_cache_len": fixed.tokens} if fixed else {}


def _read(
    model: "CausalLM",
    cache: DynamicCache,
    place: Sequence[int],
    padded: Tensor,
    attention: Tensor,
    fixed: FixedCache | None,
) -> DynamicCache | StaticCache:
    """All but the last token of each row; place = which of the distinct prompts a row has."""
    rows = torch.tensor([place.index(n) for n in range(max(place) + 1)], device=padded.device)
    # one token is drawn and forgotten: `generate` knows what a model wants beside its tokens
    settings: dict[str, int | None] = dict.fromkeys(("temperature", "top_p", "top_k", "min_new_tokens"))
    settings |= {"do_sample": False, "num_beams": 1, "max_new_tokens": 1, "pad_token_id": 0, "disable_compile": True}
    model.generate(padded[rows, :-1], attention_mask=attention[rows, :-1], past_key_values=cache, **settings, **OWN)
    cache.batch_select_indices(torch.tensor(place, device=padded.device))
    return _moved(cache, fixed, model.config) if fixed else cache


def _moved(cache: DynamicCache, fixed: FixedCache, config: PreTrainedConfig) -> StaticCache:
    """The same in the cache of fixed size, which is made anew only for another number of rows or more tokens."""
    layers = [layer for layer in cache.layers if isinstance(layer, DynamicLayer)]
    filled = [(one.keys, one.values) for one in layers if one.keys is not None and one.values is not None]
    size = (len(filled[0][0]), fixed.tokens)
    if fixed.cache is None or fixed.size != size:
        fixed.cache, fixed.size = _static(len(filled), config, fixed.tokens), size
    fixed.cache.reset()  # type: ignore[no-untyped-call]
    for n, (keys, values) in enumerate(filled):
        fixed.cache.update(keys, values, n)
    return fixed.cache


def _static(layers: int, config: PreTrainedConfig, tokens: int) -> StaticCache:
    made = StaticCache(config=config, max_cache_len=tokens)
    made.layers = [_Layer(tokens) for _ in range(layers)]
    return made


class _Layer(StaticLayer):  # type: ignore[no-untyped-call]
    """Under autocast values have fewer bits than keys, which the layer as it is refuses."""

    def update(self, key_states: Tensor, value_states: Tensor, *rest: Any, **named: Any) -> tuple[Tensor, Tensor]:
        return super().update(key_states, value_states.to(key_states.dtype), *rest, **named)
