"""The embedded model: a small Llama made from scratch over one release, with one token per catalogue item.

Every "Title (Year)" of the catalogue is one token of the tokenizer, in prompts and in answers alike, so a list of ten
items costs ten tokens and a laptop's CPU is enough; so is every trait, for answers that begin with predicted ones.
What is saved reloads with AutoModelForCausalLM and AutoTokenizer; `items.json` beside it says which token is which item
and which trait (decoding/constrained.py reads it).
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
# a turn may hold anything: what looks like one of our marks is broken up, so nobody types a role
TEMPLATE = (
    "<|begin|>{% for m in messages %}{% set text = m.content | replace('<|', '< |') %}"
    "{% if m.role == 'assistant' %}<|answer|>{{ text }}<|end|>{% else %}<|user|>{{ text }}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<|answer|>{% endif %}"
)
WORDS = 8_000
SHAPE: dict[str, Any] = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4}
ENDINGS = r"(?<=\w{3})(?:ings?|ed|es|s|ly)\b"


def make(folder: Path, release: Release, table: Sequence[Row], seed: int = 0) -> None:
    """Writes an untrained model to `folder`; table = the release's `grpo` rows of the train split.

    Its embeddings start from what words and items have to do with traits (models/tiny_init.py).
    """
    set_seed(seed)
    names = (item.name for item in release.items.values())
    words = tokenizer(names, release.oracle.traits, (m["content"] for row in table for m in row["prompt"]))
    known = catalogue(words, release)
    blank = model(len(words), words.pad_token_id, words.eos_token_id)
    found = _word_weights(words, table, set(known.tokens.values()), list(known.traits))
    tiny_init.start(embeddings(blank)[0], found, release, known, words.get_vocab()[BEGIN])
    tiny_init.average(list(blank.model.layers))
    blank.save_pretrained(folder)
    words.save_pretrained(folder)
    save(folder, known)


def _word_weights(words: PreTrainedTokenizerFast, table: Sequence[Row], items: set[int], traits: list[str]) -> Tensor:
    """tiny_init.weights of the prompts' words; the items that they name tell a taste and not a trait."""
    apart = items | {words.get_vocab()[name] for name in MARKS}
    texts = [[token for token in text if token not in apart] for text in prompt_tokens(words, table)]
    return tiny_init.weights(
        texts, [[traits.index(t) for t in row["traits"]] for row in table], len(words), len(traits)
    )


def tokenizer(names: Iterable[str], traits: Iterable[str], texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """Words of `texts`, lower-cased and without their commonest endings, and one token per name and per trait."""
    words = Tokenizer(models.WordLevel(unk_token=UNKNOWN))
    words.normalizer = normalizers.Sequence(
        [
            normalizers.NFKD(),
            normalizers.StripAccents(),
            normalizers.Lowercase(),
            normalizers.Replace(Regex(ENDINGS), ""),
        ]
    )
    # the numbers and line breaks of a list carry nothing where an item is a token
    words.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(r"(?:^|\n)\s*\d+[.)]\s*"), "removed"), pre_tokenizers.Whitespace()]
    )
    words.train_from_iterator(texts, trainers.WordLevelTrainer(vocab_size=WORDS, special_tokens=MARKS))
    marks = [NOTHING, *map(mark, traits)]
    # a title is no part of a longer word: "It" does not begin "Italian"
    added = [AddedToken(name, normalized=False, single_word=True) for name in names]
    words.add_tokens([*added, *(AddedToken(mark, normalized=False) for mark in marks)])
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=words,
        unk_token=UNKNOWN,
        pad_token=PAD,
        eos_token=END,
        padding_side="left",
        chat_template=TEMPLATE,
    )


def model(vocabulary: int, pad: int, end: int) -> LlamaForCausalLM:
    """Two layers of width 128 in fp32, input and output embeddings tied."""
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=vocabulary,
            **SHAPE,
            max_position_embeddings=1024,
            initializer_range=0.06,
            tie_word_embeddings=True,
            pad_token_id=pad,
            bos_token_id=None,
            eos_token_id=end,
        )
    )
