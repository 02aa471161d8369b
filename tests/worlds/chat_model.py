"""A small chat model with its own vocabulary and no knowledge of any catalog, as transformers loads one by name."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

# a word includes the blank before it, and a sign the line break after it: ")\n" may be one token
PIECES = r" ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+"
TEMPLATE = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
# as in Qwen3's template: the last answer follows thoughts; where these are off, the prompt has empty ones
_THOUGHTS = r"{{ '<think>\n\n</think>\n\n' }}"
THINKING = (
    r"{% for m in messages %}<|{{ m.role }}|>{{ '\n' }}"
    f"{{% if m.role == 'assistant' and loop.last %}}{_THOUGHTS}{{% endif %}}"
    r"{{ m.content }}<|end|>{{ '\n' }}{% endfor %}{% if add_generation_prompt %}<|assistant|>{{ '\n' }}"
    f"{{% if enable_thinking is defined and enable_thinking is false %}}{_THOUGHTS}{{% endif %}}{{% endif %}}"
)
MARKS = ["<|pad|>", "<|end|>", "<|user|>", "<|assistant|>"]


def write(folder: Path, texts: Iterable[str], *, tied: bool = True, template: str | None = None) -> Path:
    """An untrained Llama of one layer over a byte-level BPE trained on `texts`."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    tokenizer = _tokenizer(texts)
    tokenizer.chat_template = template or TEMPLATE
    config = LlamaConfig(
        vocab_size=len(tokenizer) + 7,  # more rows than tokens, as in many models
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        tie_word_embeddings=tied,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _tokenizer(texts: Iterable[str]) -> Any:
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(PIECES), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=MARKS, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer, pad_token=MARKS[0], eos_token=MARKS[1], padding_side="left", chat_template=TEMPLATE
    )
