"""The embedded model: a small Llama made from scratch over one release, with one token per catalogue item.

Every "Title (Year)" of the catalogue is one token of the tokenizer, in prompts and in answers alike, so a list of ten
items costs ten tokens and a laptop's CPU is enough. What is saved reloads with AutoModelForCausalLM and AutoTokenizer;
`items.json` beside it says which token is which item (training/decoding.py reads it).
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from training.decoding import Catalogue, save

UNKNOWN, PAD, END, USER, ANSWER = "<|unknown|>", "<|pad|>", "<|end|>", "<|user|>", "<|answer|>"
# a turn may hold anything: what looks like one of our marks is broken up, so nobody types a role
TEMPLATE = (
    "{% for m in messages %}{% set text = m.content | replace('<|', '< |') %}"
    "{% if m.role == 'assistant' %}<|answer|>{{ text }}<|end|>{% else %}<|user|>{{ text }}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<|answer|>{% endif %}"
)
WORDS = 8_000
SHAPE: dict[str, Any] = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4}
ENDINGS = r"(?<=\w{3})(?:ings?|ed|es|s|ly)\b"


def make(folder: Path, names: Mapping[str, str], texts: Iterable[str], k: int, seed: int = 0) -> None:
    """Writes an untrained model to `folder`; names = {item id: "Title (Year)"}, texts = what the words come from."""
    words = tokenizer(names.values(), texts)
    tokens = {item: words.convert_tokens_to_ids(name) for item, name in names.items()}
    model(len(words), words.pad_token_id, words.eos_token_id, seed).save_pretrained(folder)
    words.save_pretrained(folder)
    save(folder, Catalogue(tokens, k, words.eos_token_id))


def tokenizer(names: Iterable[str], texts: Iterable[str]) -> Any:
    """Words of `texts`, lower-cased and without their commonest endings, and one token per name as it is written."""
    from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

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
    special = [UNKNOWN, PAD, END, USER, ANSWER]
    words.train_from_iterator(texts, trainers.WordLevelTrainer(vocab_size=WORDS, special_tokens=special))
    words.add_tokens([AddedToken(name, normalized=False) for name in dict.fromkeys(names)])
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=words,
        unk_token=UNKNOWN,
        pad_token=PAD,
        eos_token=END,
        padding_side="left",
        chat_template=TEMPLATE,
    )


def model(vocabulary: int, pad: int, end: int, seed: int) -> Any:
    """Two layers of width 128 in fp32, input and output embeddings tied, weights drawn with `seed`."""
    from transformers import LlamaConfig, LlamaForCausalLM, set_seed

    set_seed(seed)
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
