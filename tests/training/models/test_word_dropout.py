"""Words that are hidden from the embedded model: words of prompts alone, the same for the same seed."""

import pytest

from training.decoding import generate
from training.models import tiny, word_dropout

pytestmark = pytest.mark.training


def said(policy: generate.PolicyModel, prompt: list[dict[str, str]]) -> list[str]:
    return policy.tokenizer.convert_ids_to_tokens(generate.prompt_tokens(policy.tokenizer, [{"prompt": prompt}])[0])


def test_all_words_can_be_hidden_and_items_and_marks_never(policy: generate.PolicyModel) -> None:
    prompt = [{"role": "user", "content": "After the accidents, Item B (2002) please"}]
    shown = said(policy, word_dropout.hide_in_prompts(policy, [{"prompt": prompt}], 1.0, 0)[0])
    # After, the, accidents with its comma, the item, please
    assert shown == [tiny.BEGIN, tiny.USER, *[tiny.UNKNOWN] * 3, "Item B (2002)", tiny.UNKNOWN, tiny.ANSWER]


def test_a_share_is_hidden_and_the_seed_decides_which(policy: generate.PolicyModel) -> None:
    row = {"prompt": [{"role": "user", "content": "something like the dog " * 200}]}
    hidden, again, other = (word_dropout.hide_in_prompts(policy, [row], 0.4, seed)[0] for seed in (1, 1, 2))
    assert hidden == again != other
    # 800 words: four standard deviations are 4 * sqrt(.4 * .6 / 800) = .07
    assert abs(hidden[0]["content"].count(word_dropout.HIDDEN) / 800 - 0.4) < 0.07
