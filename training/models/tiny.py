"""The embedded model: a small Llama made from scratch for one release.

Every "Title (Year)" is one token, in prompts and in answers, so a laptop's CPU is enough; so is every trait, for
answers that begin with predicted traits. The saved model loads with AutoModelForCausalLM and AutoTokenizer.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, set_seed

from training.data import Release, Row
from training.decoding.constrained import save
from training.decoding.generate import embeddings, prompt_tokens
from training.models import tiny_init
from training.models.item_tokens import NOTHING, catalogue, mark

UNKNOWN, PAD, END, USER, ANSWER = "<|unknown|>", "<|pad|>", "<|end|>", "<|user|>", "<|answer|>"
BEGIN = "<|begin|>"
MARKS = [UNKNOWN, PAD, END, USER, ANSWER, BEGIN]
# a turn may hold any text: text like our marks is broken up, so that no user can write a role
TEMPLATE = (
    "<|begin|>{% for m in messages %}{% set text = m.content | replace('<|', '< |') %}"
    "{% if m.role == 'assistant' %}<|answer|>{{ text }}<|end|>{% else %}<|user|>{{ text }}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<|answer|>{% endif %}"
)
WORDS = 8_000
SHAPE: dict[str, Any] = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4}
LIMITS: dict[str, Any] = {"max_position_embeddings": 1024, "initializer_range": 0.06, "tie_word_embeddings": True}
ENDINGS = r"(?<=\w{3})(?:ings?|ed|es|s|ly)\b"


def make(folder: Path, release: Release, table: Sequence[Row], seed: int = 0) -> None:
    """Writes an untrained model to `folder`; table = the release's `grpo` rows of the train split."""
    set_seed(seed)
    names = (item.name for item in release.items.values())
    words = tokenizer(names, release.oracle.traits, (m["content"] for row in table for m in row["prompt"]))
    items = catalogue(words, release)
    untrained = model(len(words), words.pad_token_id, words.eos_token_id)
    word_weights = _word_weights(words, table, set(items.tokens.values()), list(items.traits))
    tiny_init.start(embeddings(untrained)[0], word_weights, release, items, words.get_vocab()[BEGIN])
    tiny_init.average(list(untrained.model.layers))
    untrained.save_pretrained(folder)
    words.save_pretrained(folder)
    save(folder, items)


def _word_weights(words: PreTrainedTokenizerFast, table: Sequence[Row], items: set[int], traits: list[str]) -> Tensor:
    """Returns tiny_init.weights of the words of the prompts, without items, which tell a taste and not a trait."""
    excluded = items | {words.get_vocab()[name] for name in MARKS}
    texts = [[token for token in text if token not in excluded] for text in prompt_tokens(words, table)]
    numbers = [[traits.index(trait) for trait in row["traits"]] for row in table]
    return tiny_init.weights(texts, numbers, len(words), len(traits))


def tokenizer(names: Iterable[str], traits: Iterable[str], texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """Returns a tokenizer: words of `texts`, lower case, without common endings, and a token per name and per trait."""
    word_level = Tokenizer(models.WordLevel(unk_token=UNKNOWN))
    plain = [normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()]
    word_level.normalizer = normalizers.Sequence([*plain, normalizers.Replace(Regex(ENDINGS), "")])
    # numbers and line breaks of a list carry no information if an item is a token
    word_level.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(r"(?:^|\n)\s*\d+[.)]\s*"), "removed"), pre_tokenizers.Whitespace()]
    )
    word_level.train_from_iterator(texts, trainers.WordLevelTrainer(vocab_size=WORDS, special_tokens=MARKS))
    marks = [NOTHING, *map(mark, traits)]
    # a title must not match inside a longer word: "It" in "Italian"
    added = [AddedToken(name, normalized=False, single_word=True) for name in names]
    word_level.add_tokens([*added, *(AddedToken(mark, normalized=False) for mark in marks)])
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=word_level,
        unk_token=UNKNOWN,
        pad_token=PAD,
        eos_token=END,
        padding_side="left",
        chat_template=TEMPLATE,
    )


def model(vocabulary: int, pad: int, end: int) -> LlamaForCausalLM:
    """Returns a model of two layers of width 128 in fp32, with tied input and output embeddings."""
    config = LlamaConfig(
        vocab_size=vocabulary, pad_token_id=pad, bos_token_id=None, eos_token_id=end, **SHAPE, **LIMITS
    )
    return LlamaForCausalLM(config)
