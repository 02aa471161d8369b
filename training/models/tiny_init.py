"""Initial embeddings of the embedded model: which words indicate which trait, and which items violate it.

A transformer made from scratch memorises the training sentences; a linear model over words does not. So words and trait
tokens start with a component along one random direction per trait, items along another one, all orthogonal. The first
layer starts as an average over earlier tokens, and the others add nothing: together this is the linear model.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers.models.llama.modeling_llama import LlamaDecoderLayer

from saferec_builder.core.oracle import CLEAR
from training.data import Release
from training.decoding.constrained import Catalogue

WORD, ITEM, TRAIT = 0.15, 1.0, 1.0  # lengths along a direction: of a word per unit of weight, an item, a trait token


def weights(texts: Sequence[Sequence[int]], traits: Sequence[Sequence[int]], words: int, kinds: int) -> Tensor:
    """Returns (words, kinds): log-odds that a text with this word has this trait, from a logistic regression.

    texts = word ids of each text, each counted once; traits = trait ids of each text. L2 penalty of 1e-4 per text.
    """
    unique_words = [sorted(set(text)) for text in texts]
    flat = torch.tensor([word for text in unique_words for word in text], dtype=torch.long)
    if not len(flat):
        return torch.zeros(words, kinds)
    starts = torch.tensor([0, *map(len, unique_words[:-1])]).cumsum(0)
    target = torch.zeros(len(unique_words), kinds)
    for row, numbers in zip(target, traits, strict=True):
        row[list(numbers)] = 1.0
    log_odds, bias = torch.zeros(words, kinds, requires_grad=True), torch.full((kinds,), -3.0, requires_grad=True)
    optimizer = torch.optim.LBFGS([log_odds, bias], max_iter=60, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        logits = torch.nn.functional.embedding_bag(flat, log_odds, starts, mode="sum") + bias
        cost = torch.nn.functional.binary_cross_entropy_with_logits(logits, target, reduction="sum") / len(unique_words)
        cost = cost + 5e-5 * log_odds.square().sum()
        cost.backward()  # type: ignore[no-untyped-call]
        return cost

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    return log_odds.detach()


def start(embeddings: Tensor, log_odds: Tensor, release: Release, catalogue: Catalogue, begin: int) -> None:
    """Adds the components to `embeddings` (tokens, width), in place; log_odds = `weights` by token and trait.

    begin = the first token of every prompt: it counts for `nothing`, against all traits. An item starts with the traits
    that it violates or may violate; training decides what follows for a list.
    """
    width, kinds, traits = embeddings.size(1), len(catalogue.traits), list(catalogue.traits.values())
    if 2 * kinds + 1 > width:
        return  # too narrow for a direction each: the model starts without
    # items have separate directions, so that a taste for an item is not taken for a trait
    directions = torch.nn.init.orthogonal_(torch.empty(2 * kinds + 1, width))
    axes, item_axes, nothing = directions[:kinds], directions[kinds:-1], directions[-1]
    oracle = release.oracle
    columns = [oracle.column(trait) for trait in catalogue.traits]
    with torch.no_grad():
        embeddings -= embeddings @ directions.T @ directions  # no other component along them
        embeddings += WORD * log_odds @ axes
        embeddings[traits], embeddings[catalogue.nothing], embeddings[begin] = TRAIT * axes, TRAIT * nothing, nothing
        risky: dict[int, Tensor] = {}  # items of one name share a token: traits that any of them may violate count
        for item, token in catalogue.tokens.items():
            unsafe = torch.tensor(oracle.codes[oracle.items[item], columns] != CLEAR)
            risky[token] = risky.get(token, False) | unsafe
        for token, unsafe in risky.items():
            embeddings[token] += ITEM * unsafe.float() @ item_axes


def average(layers: Sequence[LlamaDecoderLayer]) -> None:
    """Sets, in place, the first layer to average over all tokens it sees, and the others to add nothing."""
    attention = layers[0].self_attn
    with torch.no_grad():
        for part in (attention.q_proj, attention.k_proj):
            part.weight.normal_(std=0.02)  # small: attention is nearly uniform; not 0, which would get no gradient
        for part in (attention.v_proj, attention.o_proj):
            torch.nn.init.eye_(part.weight)
        for part in [layer.mlp.down_proj for layer in layers] + [layer.self_attn.o_proj for layer in layers[1:]]:
            part.weight.zero_()
