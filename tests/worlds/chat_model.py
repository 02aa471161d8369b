"""A small chat model with words of its own and no idea of any catalogue, as transformers would load one by name."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

# words take the blank before them, and a line break joins the sign that it follows: ")\n" may be one token
PIECES = r" ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+"
TEMPLATE = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
# as Qwen3's: the last answer stands behind thoughts, which the prompt begins where they are switched off
_THOUGHTS = r"{{ '<think>\n\n</think>\n\n' }}"
THINKING = (
    r"{% for m in messages %}<|{{ m.role }}|>{{ '\n' }}"
    f"{{% if m.role == 'assistant' and loop.last %}}{_THOUGHTS}{{% endif %}}"
    r"{{ m.content }}<|end|>{{ '\n' }}{% endfor %}{% if add_generation_prompt %}<|assistant|>{{ '\n' }}"
    f"{{% if enable_thinking is defined and enable_thinking is false %}}{_THOUGHTS}{{% endif %}}{{% endif %}}"
)
MARKS = ["<|pad|>", "<|end|>", "<|user|>", "<|assistant|>"]


def write(folder: Path, texts: Iterable[str], *, tied: bool = True, template: str | None = None) -> Path:
    """An untrained Llama of one layer over a byte-level BPE learnt from `texts`."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    words = _tokenizer(texts)
    words.chat_template = template or TEMPLATE
    config = LlamaConfig(
        vocab_size=len(words) + 7,  # more rows than words, as many models have
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        tie_word_embeddings=tied,
        pad_token_id=words.pad_token_id,
        bos_token_id=None,
        eos_token_id=words.eos_token_id,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


def _tokenizer(texts: Iterable[str]) -> Any:
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(PIECES), "isolated")
    words.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(False, use_regex=False)])
    words.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=MARKS, initial_alphabet=alphabet, show_progress=False)
    words.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=words, pad_token=MARKS[0], eos_token=MARKS[1], padding_side="left", chat_template=TEMPLATE
    )
