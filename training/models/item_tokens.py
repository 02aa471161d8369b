"""Adds one token per catalogue item to a pretrained model: ten items are ten tokens instead of a hundred.

Each starts as the average of the tokens that spell its name, from what the model knows of the title.
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
    """Returns the token for a trait in an answer; no turn can contain it in the embedded model (tiny.TEMPLATE)."""
    return f"<|{trait}|>"


def add(policy: PolicyModel, folder: Path, release: Release) -> None:
    """Writes to `folder` the model with a token for every item, or for several of one name, and every trait of the
    release: an answer may begin with predicted traits (saferec.says)."""
    model, tokenizer = policy.model, policy.tokenizer
    close_thoughts(tokenizer)
    texts = {item.name: item.name for item in release.items.values()}
    texts |= {mark(trait): trait.replace("_", " ") for trait in release.oracle.traits} | {NOTHING: "nothing"}
    spellings = {name: tokenizer.encode(text, add_special_tokens=False) for name, text in texts.items()}
    tokenizer.add_tokens([AddedToken(name, normalized=False, single_word=True) for name in spellings])
    # some models have more embedding rows than tokens: they are kept
    model.resize_token_embeddings(max(len(tokenizer), model.config.vocab_size), mean_resizing=False)
    ids = tokenizer.get_vocab()
    _average(model, {ids[name]: spelling for name, spelling in spellings.items()})
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    save(folder, catalogue(tokenizer, release))


def catalogue(tokenizer: PreTrainedTokenizerBase, release: Release) -> Catalogue:
    """Returns the tokens of the items and traits of a release; the tokenizer must have them."""
    ids = tokenizer.get_vocab()
    items = {item.id: ids[item.name] for item in release.items.values()}
    traits = {trait: ids[mark(trait)] for trait in release.oracle.traits}
    return Catalogue(items, release.k, tokenizer.eos_token_id, traits, ids[NOTHING])


def _average(model: CausalLM, spellings: Mapping[int, list[int]]) -> None:
    """Sets the row of each token in input and output embeddings to the mean of the rows of its spelling."""
    with torch.no_grad():
        for table in embeddings(model):
            for token, spelling in spellings.items():
                if token not in spelling:  # a name that was a token of the model before keeps its row
                    table[token] = table[spelling].mean(dim=0)
