"""One token per catalogue item for a model that was trained on language: ten items are ten tokens instead of a hundred.

The model keeps its words. Each new token starts as the average of the words that spell its name, so that what the model
knows of a title is where its token begins.
"""

from collections.abc import Mapping
from pathlib import Path

import torch
from tokenizers import AddedToken
from transformers import PreTrainedTokenizerBase

from training.data import Release
from training.decoding.constrained import Catalogue, save
from training.decoding.generate import CausalLM, PolicyModel, close_thoughts, embeddings

NOTHING = "<|nothing|>"


def mark(trait: str) -> str:
    """The token that names a trait in an answer; in the embedded model no turn can hold it (tiny.TEMPLATE)."""
    return f"<|{trait}|>"


def add(policy: PolicyModel, folder: Path, release: Release) -> None:
    """Writes to `folder` the model with a token for every item and trait of the release.

    Two items of one written name share a token. The tokens of traits let an answer begin with predicted traits
    (saferec.says).
    """
    model, tokenizer = policy.model, policy.tokenizer
    close_thoughts(tokenizer)
    spelt = {item.name: item.name for item in release.items.values()}
    spelt |= {mark(trait): trait.replace("_", " ") for trait in release.oracle.traits} | {NOTHING: "nothing"}
    spellings = {new: tokenizer.encode(text, add_special_tokens=False) for new, text in spelt.items()}
    tokenizer.add_tokens([AddedToken(new, normalized=False, single_word=True) for new in spellings])
    # some models have more rows than words: those are kept
    model.resize_token_embeddings(max(len(tokenizer), model.config.vocab_size), mean_resizing=False)
    token = tokenizer.get_vocab()
    _average(model, {token[new]: spelling for new, spelling in spellings.items()})
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    save(folder, catalogue(tokenizer, release))


def catalogue(tokenizer: PreTrainedTokenizerBase, release: Release) -> Catalogue:
    """The tokens of the release's items and traits, once the tokenizer has them."""
    token = tokenizer.get_vocab()
    items = {item.id: token[item.name] for item in release.items.values()}
    traits = {trait: token[mark(trait)] for trait in release.oracle.traits}
    return Catalogue(items, release.k, tokenizer.eos_token_id, traits, token[NOTHING])


def _average(model: CausalLM, spellings: Mapping[int, list[int]]) -> None:
    """Sets each token's row, coming in and going out, to the mean of the rows of its spelling."""
    with torch.no_grad():
        for table in embeddings(model):
            for token, spelling in spellings.items():
                if token not in spelling:  # a name that is one word of the model already keeps what it knows
                    table[token] = table[spelling].mean(dim=0)
