"""Words that are hidden from the embedded model: only words of prompts, drawn again for each batch."""

from typing import Any

import pytest
import torch

from training.decoding import generate
from training.models import tiny, word_dropout

pytestmark = pytest.mark.training


def hidden(policy: generate.PolicyModel, text: str, share: float, answer: int = 0) -> list[str]:
    """Returns a batch's tokens of a prompt whose last `answer` tokens are to be learnt."""
    (ids,) = generate.prompt_tokens(policy.tokenizer, [{"prompt": [{"role": "user", "content": text}]}])
    labels = [-100] * (len(ids) - answer) + ids[len(ids) - answer :]
    collate: Any = lambda _: {"input_ids": torch.tensor([ids]), "labels": torch.tensor([labels])}  # noqa: E731
    tokens = word_dropout.hide_in_batches(collate, policy, share)([{}])["input_ids"][0].tolist()
    return policy.tokenizer.convert_ids_to_tokens(tokens)


def test_all_words_can_be_hidden_and_items_and_marks_never(policy: generate.PolicyModel) -> None:
    # after, the, accident, the comma, the item, please
    words = [*[tiny.UNKNOWN] * 4, "Item B (2002)"]
    text = "After the accidents, Item B (2002) please"
    assert hidden(policy, text, 1.0) == [tiny.BEGIN, tiny.USER, *words, tiny.UNKNOWN, tiny.ANSWER]
    tokens = hidden(policy, "the accident the", 1.0, answer=2)  # "the" and the mark after it are to be learnt
    assert tokens == [tiny.BEGIN, tiny.USER, tiny.UNKNOWN, tiny.UNKNOWN, "the", tiny.ANSWER]


def test_a_share_is_hidden_and_the_batch_decides_which(policy: generate.PolicyModel) -> None:
    text = "the accident one the " * 200
    first, same, other = (hidden(policy, words, 0.4) for words in (text, text, text + "the"))
    assert first == same and first[:500] != other[:500]
    # 800 words: four standard deviations are 4 * sqrt(.4 * .6 / 800) = .07
    assert abs(first.count(tiny.UNKNOWN) / 800 - 0.4) < 0.07
