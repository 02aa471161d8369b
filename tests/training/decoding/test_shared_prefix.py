"""A prompt is read once for its group, and the answers are the same as for prompts that are read one by one."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from training.decoding import generate

pytestmark = pytest.mark.training

SHAPE = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
MARKS = {"vocab_size": 120, "num_key_value_heads": 2, "pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 2}
MIXED = {"sliding_window": 4, "head_dim": 16, "layer_types": ["sliding_attention", "full_attention"]}


# model config, by how it stores its past -> (what is added to SHAPE, is a prompt read once)
KINDS: dict[str, tuple[dict[str, Any], bool]] = {
    "LlamaConfig": ({}, True),
    "GPT2Config": ({"n_layer": 2, "n_head": 2, "n_embd": 32}, True),  # learnt positions
    "BloomConfig": ({"n_layer": 2, "n_head": 2}, True),  # no positions as input
    "MistralConfig": ({"sliding_window": 4}, True),
    "Gemma3TextConfig": (MIXED, True),
    "Lfm2Config": ({"layer_types": ["conv", "full_attention"]}, False),  # a state without a dimension for tokens
    "RwkvConfig": ({"attention_hidden_size": 32}, False),  # a state that its configuration does not mention
}

PROMPTS = [[5, 6, 7, 8, 9, 10, 11], [12, 13, 14]]
WHICH = [0, 1, 0, 1, 1, 0]


def model_of(kind: str) -> Any:
    import transformers

    torch.manual_seed(0)
    config = getattr(transformers, kind)(**SHAPE | MARKS | KINDS[kind][0])
    return transformers.AutoModelForCausalLM.from_config(config).eval()  # type: ignore[no-untyped-call]


@contextmanager
def read_by(model: Any) -> Iterator[list[tuple[int, ...]]]:
    """Yields a list that gets the (rows, tokens) of each forward pass."""
    shapes: list[tuple[int, ...]] = []
    hook = model.register_forward_pre_hook(lambda _, __, by: shapes.append((*by["input_ids"].shape,)), with_kwargs=True)
    yield shapes
    hook.remove()


@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_those_of_prompts_read_one_by_one(kind: str) -> None:
    model, (_, once) = model_of(kind), KINDS[kind]
    ids, tokenizer = [PROMPTS[n] for n in WHICH], SimpleNamespace(pad_token_id=0, eos_token_id=1)
    policy = generate.PolicyModel(model, tokenizer, None)
    options = {"do_sample": True, "temperature": 1.0, "top_k": 0, "max_new_tokens": 9, "min_new_tokens": 9}
    padded = torch.tensor([[0] * (7 - len(prompt)) + prompt for prompt in ids])
    attention = (padded > 0).long()
    torch.manual_seed(1)
    expected = model.generate(padded, attention_mask=attention, pad_token_id=0, **options)[:, 7:].tolist()
    assert len(set(map(tuple, expected))) == 6  # answers to one prompt differ: a mix-up would be seen
    torch.manual_seed(1)
    with read_by(model) as shapes:
        assert generate.draw_padded(policy, ids, None, **options) == expected
    # once two prompts without their last tokens, then nine times six rows of one token
    assert shapes == ([(2, 6), *[(6, 1)] * 9] if once else [(6, 7), *[(6, 1)] * 8])


def test_a_cache_that_a_models_settings_ask_for_gives_way() -> None:
    tokenizer = SimpleNamespace(pad_token_id=0, eos_token_id=1)
    policy = generate.PolicyModel(model_of("LlamaConfig"), tokenizer, None, new_tokens=3)
    # a prompt of one token is read as ever: no token would remain to begin the answer with
    assert [len(answer) for answer in generate.draw_padded(policy, [[5], [5]], None)] == [3, 3]
    policy.model.generation_config.cache_implementation = "static"  # generate refuses two caches
    twice, once = (generate.draw_padded(policy, [PROMPTS[0]] * often, None) for often in (2, 1))
    assert twice[0] == once[0]
