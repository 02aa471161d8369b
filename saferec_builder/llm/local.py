"""A model file of the user's (GGUF) behind llama.cpp's own HTTP server, on loopback, in a process that ends with ours.

Run as a program it serves until its standard input closes: `python -m saferec_builder.llm.local MODEL`.
"""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from saferec_builder.core.errors import ProposerError, strict_json

AT_ONCE = 2  # requests that the server reads side by side
CONTEXT = 16_384  # tokens of each: the longest conversation that is read, the taxonomy, the answer
_PART = 1 << 20


def name(path: Path) -> str:
    """The file's name and a hash of its size and both ends: other weights are another proposer."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        head = file.read(_PART)
        file.seek(max(0, size - _PART))
        mark = hashlib.blake2b(b"%d" % size + head + file.read(_PART), digest_size=4).hexdigest()
    return f"{path.stem}@{mark}"


@contextmanager
def serving(path: Path) -> Iterator[str]:
    """The base URL of the model's server; a crash of native code is only a lost reply."""
    if find_spec("xllamacpp") is None:
        raise ProposerError("a local model needs xllamacpp: pip install 'saferec-builder[local]'")
    command = [sys.executable, "-m", "saferec_builder.llm.local", str(path)]
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(command, text=True, stdout=pipe, stderr=nothing, stdin=pipe) as run:
        try:
            assert run.stdout is not None
            for line in run.stdout:
                if line.startswith('{"url"'):
                    yield strict_json(line)["url"]
                    break
            else:
                raise ProposerError(f"{path}: llama.cpp cannot serve this file (exit code {run.wait()}): is it a GGUF?")
        finally:
            run.terminate()


def serve(path: str) -> None:
    """Serves until whoever started it is gone."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = path
    params.n_ctx, params.n_parallel = CONTEXT * AT_ONCE, AT_ONCE
    params.cpuparams.n_threads = max(1, (os.cpu_count() or 2) - 1)  # one core is ours: its threads spin where they wait
    params.warmup, params.ui, params.verbosity, params.port = False, False, -1, 0
    params.hostnames = ["127.0.0.1"]
    server = xllamacpp.Server(params)
    sys.stdout.write(json.dumps({"url": f"{server.listening_address}/v1"}) + "\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    serve(sys.argv[1])
