"""Initial weights of the embedded model's embeddings: which words tell which trait, which items break it.

A transformer made from scratch knows no language and learns the training sentences by heart; a linear model over words
does not. So words and the tokens that name traits begin with a part along one random direction per trait, items along
another one, all at right angles. All of it comes from the labels of the release's train split and its verdicts, and
every model of a run starts from it alike. The first layer begins as an average over what came before and the rest adds
nothing yet: with the embeddings above, the linear model itself, from which training goes on.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers.models.llama.modeling_llama import LlamaDecoderLayer

from saferec_builder.core.oracle import CLEAR
from training.data import Release
from training.decoding.constrained import Catalogue

WORD, ITEM, TRAIT = 0.15, 1.0, 1.0  # lengths along a direction: a word's per unit of weight, an item's, a trait token's


def weights(texts: Sequence[Sequence[int]], traits: Sequence[Sequence[int]], words: int, kinds: int) -> Tensor:
    """(words, kinds): log-odds that a text with this word carries this trait, from a logistic regression.

    texts = word numbers of each text, each counted once; traits = trait numbers of each text. L2 penalty 1e-4 a text.
    """
    held = [sorted(set(text)) for text in texts]
    flat = torch.tensor([word for text in held for word in text], dtype=torch.long)
    if not len(flat):
        return torch.zeros(words, kinds)
    starts = torch.tensor([0, *map(len, held[:-1])]).cumsum(0)
    target = torch.zeros(len(held), kinds)
    for row, numbers in zip(target, traits, strict=True):
        row[list(numbers)] = 1.0
    found, base = torch.zeros(words, kinds, requires_grad=True), torch.full((kinds,), -3.0, requires_grad=True)
    fit = torch.optim.LBFGS([found, base], max_iter=60, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        fit.zero_grad()
        logits = torch.nn.functional.embedding_bag(flat, found, starts, mode="sum") + base
        cost = torch.nn.functional.binary_cross_entropy_with_logits(logits, target, reduction="sum") / len(held)
        cost = cost + 5e-5 * found.square().sum()
        cost.backward()  # type: ignore[no-untyped-call]
        return cost

    fit.step(loss)  # type: ignore[no-untyped-call]
    return found.detach()


def start(embeddings: Tensor, found: Tensor, release: Release, catalogue: Catalogue, begin: int) -> None:
    """Adds to `embeddings` (tokens, width), in place; found = `weights` by token and trait.

    begin = the token that every prompt begins with: it weighs for no trait, against all of them. An item begins
    with what it breaks or may break; what follows from that for a list is left to training.
    """
    width, kinds, traits = embeddings.size(1), len(catalogue.traits), list(catalogue.traits.values())
    if 2 * kinds + 1 > width:
        return  # no room for a direction each: such a model starts without
    # items have directions of their own, so that what a seeker likes is not taken for a trait
    directions = torch.nn.init.orthogonal_(torch.empty(2 * kinds + 1, width))
    trait, broken, silence = directions[:kinds], directions[kinds:-1], directions[-1]
    oracle = release.oracle
    columns = [oracle.column(trait) for trait in catalogue.traits]
    with torch.no_grad():
        embeddings -= embeddings @ directions.T @ directions  # nothing else lies along them
        embeddings += WORD * found @ trait
        embeddings[traits], embeddings[catalogue.nothing], embeddings[begin] = TRAIT * trait, TRAIT * silence, silence
        risky: dict[int, Tensor] = {}  # items of one name share a token: what any of them may break counts
        for item, token in catalogue.tokens.items():
            unsafe = torch.tensor(oracle.codes[oracle.items[item], columns] != CLEAR)
            risky[token] = risky.get(token, False) | unsafe
        for token, unsafe in risky.items():
            embeddings[token] += ITEM * unsafe.float() @ broken


def average(layers: Sequence[LlamaDecoderLayer]) -> None:
    """Makes the first layer hand on the plain average of what it sees, and all others nothing yet, in place."""
    attention = layers[0].self_attn
    with torch.no_grad():
        for part in (attention.q_proj, attention.k_proj):
            part.weight.normal_(std=0.02)  # small enough to look everywhere alike, and not 0: that would never change
        for part in (attention.v_proj, attention.o_proj):
            torch.nn.init.eye_(part.weight)
        for part in [layer.mlp.down_proj for layer in layers] + [layer.self_attn.o_proj for layer in layers[1:]]:
            part.weight.zero_()
