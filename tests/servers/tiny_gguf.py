"""A real model server for tests: a llama of random weights, made on the spot, behind llama.cpp's own HTTP server.

It enforces the schema and writes nonsense inside it, so it shows how our code treats a real server's answers, and
never what a model knows. Run as a program it serves a file until its standard input closes.
"""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import numpy as np

AT_ONCE = 2  # requests that the server handles in parallel
CONTEXT = 16_384  # tokens of each
WIDTH, LAYERS, HEADS, INNER = 64, 2, 4, 128
MERGES = 640
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
)


@contextmanager
def serving(path: Path) -> Iterator[str]:
    """Yields the base URL of the model's server."""
    command, pipe = [sys.executable, "-m", "tests.servers.tiny_gguf", str(path)], subprocess.PIPE
    with subprocess.Popen(command, text=True, stdout=pipe, stderr=subprocess.DEVNULL, stdin=pipe) as process:
        try:
            assert process.stdout is not None
            yield next(line.split()[1] for line in process.stdout if line.startswith("serves "))
        finally:
            process.terminate()


def serve(path: str) -> None:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = path
    params.n_ctx, params.n_parallel = CONTEXT * AT_ONCE, AT_ONCE
    params.cpuparams.n_threads = max(1, (os.cpu_count() or 2) - 1)  # one core is for us: its threads spin as they wait
    params.warmup, params.ui, params.verbosity, params.port = False, False, -1, 0
    params.hostnames = ["127.0.0.1"]
    server = xllamacpp.Server(params)
    print(f"serves {server.listening_address}/v1", flush=True)
    sys.stdin.read()


def write_model(path: Path, sample: str, seed: int = 4) -> None:
    """Writes an untrained llama as GGUF; its tokenizer merges frequent pairs of `sample`, so prompts stay short."""
    import gguf

    tokens, merges = _tokenizer(sample)
    special = ["<|im_start|>", "<|im_end|>"]
    types = [gguf.TokenType.NORMAL] * len(tokens) + [gguf.TokenType.CONTROL] * len(special)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([*tokens, *special])
    writer.add_token_types(types)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(len(tokens))
    writer.add_eos_token_id(len(tokens) + 1)
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)
    for name, weights in _weights([*tokens, *special], np.random.default_rng(seed)):
        writer.add_tensor(name, weights)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


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
    """Returns byte-level pieces and merges, the most frequent pair first."""
    letters = _byte_letters()
    words = Counter(tuple(letters[b] for b in word.encode()) for word in sample.replace(" ", "\0 ").split("\0"))
    tokens, merges = list(letters), []
    for _ in range(MERGES):
        pairs: Counter[tuple[str, str]] = Counter()
        for word, count in words.items():
            for pair in pairwise(word):
                pairs[pair] += count
        if not pairs:
            break
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        merges.append(" ".join(best))
        tokens.append("".join(best))
        words = Counter({_merged(word, best): count for word, count in words.items()})
    return list(dict.fromkeys(tokens)), merges


def _merged(word: tuple[str, ...], pair: tuple[str, str]) -> tuple[str, ...]:
    pieces: list[str] = []
    for piece in word:
        if pieces and (pieces[-1], piece) == pair:
            pieces[-1] += piece
        else:
            pieces.append(piece)
    return tuple(pieces)


def _byte_letters() -> list[str]:
    """Returns the printable letter that stands for each byte in a byte-level vocabulary."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    return [chr(b) if b in printable else chr(256 + others.index(b)) for b in range(256)]


if __name__ == "__main__":
    serve(sys.argv[1])
