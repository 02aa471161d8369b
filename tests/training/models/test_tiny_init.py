"""Initial weights of the embedded model: words weighted by the traits they indicate, items by those they violate."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from training.decoding import generate
from training.decoding.constrained import Catalogue
from training.models import tiny, tiny_init

pytestmark = pytest.mark.training


def test_a_word_that_tells_a_trait_weighs_and_one_that_stands_everywhere_does_not() -> None:
    # word 0 stands in every text, 1 in those of trait 0 alone, 2 in those without it
    once, often = (
        tiny_init.weights([[0, 1] * n, [0, 1], [2, 0] * n, [0, 2]] * 50, [[0], [0], [], []] * 50, words=4, kinds=1)
        for n in (1, 3)
    )
    assert torch.equal(once, often)  # a word counts once a text
    weights = once[:, 0].tolist()
    assert weights[1] > 2 and weights[2] < -2 and abs(weights[0]) < 0.5
    assert weights[3] == 0  # never seen


def test_an_item_begins_with_what_it_breaks_or_may_break(release) -> None:
    items = {item: n for n, item in enumerate("abdj")}
    catalogue = Catalogue(items, 4, 9, {"gore": 4, "animal_harm": 5}, nothing=7)
    table = torch.zeros(9, 64)
    words = torch.zeros(9, 2)
    words[6, 0] = 2.0
    torch.manual_seed(1)
    tiny_init.start(table, words, release, catalogue, begin=8)
    # a and b break gore alone, d breaks animal_harm alone; j is unknown for both
    assert torch.equal(table[0], table[1]) and table[0].norm().item() == pytest.approx(tiny_init.ITEM)
    assert torch.allclose(table[3], table[0] + table[2])
    # a word of weight 2 for gore points in the direction of gore's token, and not in that of gore's items
    assert torch.allclose(table[6], 2.0 * tiny_init.WORD / tiny_init.TRAIT * table[4])
    assert abs(torch.cosine_similarity(table[6], table[0], dim=0).item()) < 1e-5
    # the token that begins a prompt has the direction of "nothing", and of no trait
    assert torch.cosine_similarity(table[8], table[7], dim=0).item() == pytest.approx(1.0)
    assert (table[4:6] @ table[8]).abs().max() < 1e-5


def test_an_untrained_model_predicts_what_a_linear_model_does(release, train, tmp_path: Path) -> None:
    # one word in five indicates a trait: the traits are not learnt, the initial weights know them
    table = train * 10
    tiny.make(tmp_path, release, table)
    policy = generate.load(str(tmp_path))
    assert policy.catalogue
    policy = replace(policy, catalogue=replace(policy.catalogue, opening=1))
    answers = generate.tokens(policy, table[:4], [[]] * 4)
    traits = {token: [trait] for trait, token in policy.catalogue.traits.items()} | {policy.catalogue.nothing: []}
    assert [traits[answer[0]] for answer in answers] == [row["traits"] for row in table[:4]]


def test_the_first_layer_begins_as_an_average_of_what_came_before() -> None:
    from transformers import LlamaConfig, LlamaModel

    torch.manual_seed(2)
    llama = LlamaModel(LlamaConfig(vocab_size=9, hidden_size=64, intermediate_size=64, num_hidden_layers=1))
    caught: list = []
    attention = llama.layers[0].self_attn
    tiny_init.average(llama.layers)
    keep = lambda _, __, given, out: caught.append((given["hidden_states"], out[0]))  # noqa: E731
    attention.register_forward_hook(keep, with_kwargs=True)
    llama(input_ids=torch.tensor([[1, 2, 3, 4, 5]]))
    inputs, outputs = caught[0]
    # the last of five places: nearly a fifth of each, because training must be able to change the attention
    assert torch.cosine_similarity(outputs[0, -1], inputs[0].mean(0), dim=0) > 0.98
