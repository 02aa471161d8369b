"""Words that are hidden from the embedded model: words of prompts alone, the same for the same seed."""

import pytest

pytest.importorskip("transformers")

from tests.worlds import small_release
from training.data import open_release, rows
from training.decoding import generate
from training.models import tiny, word_dropout as thinning

pytestmark = pytest.mark.training


@pytest.fixture(scope="module")
def speaker(tmp_path_factory: pytest.TempPathFactory) -> generate.Speaker:
    root = tmp_path_factory.mktemp("thin")
    release = open_release(small_release.write(root / "release"))
    tiny.make(root / "model", release, rows(release.folder, "grpo", "train"))
    return generate.load(str(root / "model"))


def said(speaker: generate.Speaker, prompt: list[dict[str, str]]) -> list[str]:
    return speaker.tokenizer.convert_ids_to_tokens(generate.prompt_tokens(speaker.tokenizer, [{"prompt": prompt}])[0])


def test_all_words_can_be_hidden_and_items_and_marks_never(speaker: generate.Speaker) -> None:
    prompt = [{"role": "user", "content": "After the accidents, Item B (2002) please"}]
    shown = said(speaker, thinning.prompts(speaker, [{"prompt": prompt}], 1.0, 0)[0])
    # After, the, accidents with its comma, the item, please
    assert shown == [tiny.BEGIN, tiny.USER, *[tiny.UNKNOWN] * 3, "Item B (2002)", tiny.UNKNOWN, tiny.ANSWER]


def test_a_share_is_hidden_and_the_seed_decides_which(speaker: generate.Speaker) -> None:
    row = {"prompt": [{"role": "user", "content": "something like the dog " * 200}]}
    hidden = thinning.prompts(speaker, [row], 0.4, 1)[0]
    assert hidden == thinning.prompts(speaker, [row], 0.4, 1)[0] != thinning.prompts(speaker, [row], 0.4, 2)[0]
    # 800 words: four standard deviations are 4 * sqrt(.4 * .6 / 800) = .07
    assert abs(hidden[0]["content"].count(thinning.HIDDEN) / 800 - 0.4) < 0.07
