"""A real model server for tests: a llama of random weights, made on the spot, behind llama.cpp's own HTTP server.

It enforces the schema and writes nonsense inside it, so it shows what the line does with a real server's answers
and never what a model knows. `serving` is the proposer's own way to serve a file.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

from saferec_builder.llm.local import CONTEXT, serving

__all__ = ["serving", "write_model"]

WIDTH, LAYERS, HEADS, INNER = 64, 2, 4, 128
MERGES = 640
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
)


def write_model(path: Path, sample: str, seed: int = 4) -> None:
    """An untrained llama in GGUF; its tokenizer merges what is frequent in `sample`, so prompts stay short."""
    import gguf

    tokens, merges = _tokenizer(sample)
    special = ["<|im_start|>", "<|im_end|>"]
    kinds = [gguf.TokenType.NORMAL] * len(tokens) + [gguf.TokenType.CONTROL] * len(special)
    out = gguf.GGUFWriter(path, "llama")
    out.add_context_length(CONTEXT)
    out.add_embedding_length(WIDTH)
    out.add_block_count(LAYERS)
    out.add_feed_forward_length(INNER)
    out.add_head_count(HEADS)
    out.add_head_count_kv(HEADS)
    out.add_rope_dimension_count(WIDTH // HEADS)
    out.add_layer_norm_rms_eps(1e-5)
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("gpt-2")
    out.add_token_list([*tokens, *special])
    out.add_token_types(kinds)
    out.add_token_merges(merges)
    out.add_bos_token_id(len(tokens))
    out.add_eos_token_id(len(tokens) + 1)
    out.add_add_bos_token(False)
    out.add_chat_template(TEMPLATE)
    for name, weights in _weights([*tokens, *special], np.random.default_rng(seed)):
        out.add_tensor(name, weights)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def _weights(vocabulary: list[str], random: np.random.Generator) -> Iterator[tuple[str, np.ndarray]]:
    def normal(*shape: int) -> np.ndarray:
        return random.normal(0, 1 / np.sqrt(shape[-1]), shape).astype(np.float32)

    tokens, output = normal(len(vocabulary), WIDTH) * 8, normal(len(vocabulary), WIDTH) * 3
    # dimension 0 is the same for every token: its output weight is a bias, for claims with strings that end
    tokens[:, 0], output[:, 0] = 8, [_bias(token) for token in vocabulary]
    yield "token_embd.weight", tokens
    yield "output.weight", output
    yield "output_norm.weight", np.ones(WIDTH, np.float32)
    for n in range(LAYERS):
        yield f"blk.{n}.attn_norm.weight", np.ones(WIDTH, np.float32)
        yield f"blk.{n}.ffn_norm.weight", np.ones(WIDTH, np.float32)
        # sharp attention: each word looks at few others, so that the answer depends on the text
        for part, scale in (("attn_q", 3), ("attn_k", 3), ("attn_v", 2), ("attn_output", 2)):
            yield f"blk.{n}.{part}.weight", normal(WIDTH, WIDTH) * scale
        yield f"blk.{n}.ffn_gate.weight", normal(INNER, WIDTH)
        yield f"blk.{n}.ffn_up.weight", normal(INNER, WIDTH)
        yield f"blk.{n}.ffn_down.weight", normal(WIDTH, INNER)


def _bias(token: str) -> float:
    if not token.strip("ĠĊĉ"):  # space, newline and tab in the byte letters
        return -2.0
    return {'"': 1.2, "{": 0.6, '{"': 0.6}.get(token, 0.0)


def _tokenizer(sample: str) -> tuple[list[str], list[str]]:
    """Byte-level pieces and merges, the most frequent pair first."""
    letters = _byte_letters()
    words = Counter(tuple(letters[b] for b in word.encode()) for word in sample.replace(" ", "\0 ").split("\0"))
    tokens, merges = list(letters), []
    for _ in range(MERGES):
        pairs: Counter[tuple[str, str]] = Counter()
        for word, n in words.items():
            for pair in pairwise(word):
                pairs[pair] += n
        if not pairs:
            break
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        merges.append(" ".join(best))
        tokens.append("".join(best))
        words = Counter({_merged(word, best): n for word, n in words.items()})
    return list(dict.fromkeys(tokens)), merges


def _merged(word: tuple[str, ...], pair: tuple[str, str]) -> tuple[str, ...]:
    out: list[str] = []
    for piece in word:
        if out and (out[-1], piece) == pair:
            out[-1] += piece
        else:
            out.append(piece)
    return tuple(out)


def _byte_letters() -> list[str]:
    """The printable letter that stands for each byte in a byte-level vocabulary."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [b for b in range(256) if b not in shown]
    return [chr(b) if b in shown else chr(256 + hidden.index(b)) for b in range(256)]
