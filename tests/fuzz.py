"""`python -m tests.fuzz NAME --seconds N`: atheris searches for bytes that break a law of tests/worlds/fuzz_laws.py.

The search is guided by the branches that our code takes. `make soak` runs the two parsers that read most untrusted
input: `replies`, because a model's reply depends on text from outside, and `lines`, because all text from outside is
read there and none of it may be lost. `answers` can be run by hand.

The last line counts the inputs that were run and the different faults. Each fault is saved in build/fuzz/NAME/faults
and becomes an @example in tests/test_fuzz.py. Exit 0: no faults. 1: faults. 2: it could not run.
"""

import argparse
import re
import shutil
import subprocess
import sys
import traceback
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests import ROOT

OURS = ("saferec_builder", "annotation", "exports", "training")
NAMES = ("replies", "lines", "answers", "planted")
LONGEST = 4_096  # bytes of one input
SLOW = 20  # seconds for one input: more than even a busy machine needs
MEMORY = 3_072  # MiB


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description="coverage-guided search for bytes that break a parser's law")
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    return search(options.name) if options.inside else run(options.name, options.seconds)


def folder(name: str) -> Path:
    return ROOT / "build" / "fuzz" / name


def run(name: str, seconds: int) -> int:
    """Runs the search in a separate process, which libFuzzer may end; the corpus of earlier runs is its start."""
    if find_spec("atheris") is None:
        print(f"fuzz {name}: NOT RUN: atheris is not installed (Linux on x86-64 only: pip install atheris==3.0.0)")
        return 2
    faults = folder(name) / "faults"
    shutil.rmtree(faults, ignore_errors=True)
    for directory in (faults, folder(name) / "corpus"):
        directory.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "tests.fuzz", name, "--inside", "--seconds", str(seconds)]
    log = folder(name) / "log.txt"
    with open(log, "w", encoding="utf-8") as file:
        process = subprocess.run(
            command, cwd=ROOT, stdout=file, stderr=subprocess.STDOUT, timeout=seconds + 300, check=False
        )
    output = log.read_text(encoding="utf-8", errors="replace")
    counts = re.findall(r"(?:number_of_executed_units: |^#)(\d+)", output, re.M)
    inputs = sorted(path for path in faults.iterdir() if path.suffix != ".txt")
    if not counts or (process.returncode and not inputs):
        print(f"fuzz {name}: NOT RUN: exit code {process.returncode}: see {log}")
        return 2
    for path in inputs:
        print(f"{path.relative_to(ROOT)}: {path.read_bytes()[:120]!r}")
    executions = max(map(int, counts))
    print(f"fuzz {name}: {executions:,} executions in {seconds} s, {len(inputs)} faults found")
    return int(bool(inputs))


def search(name: str) -> int:
    """Searches until the time is over: a fault is saved and the search goes on; a hang or too much memory ends it."""
    import atheris

    with atheris.instrument_imports(include=list(OURS)):
        from tests.worlds import fuzz_laws
    seconds = int(sys.argv[sys.argv.index("--seconds") + 1])
    law, seeds = fuzz_laws.LAWS[name] if name != "planted" else (planted, [b"no"])
    faults, corpus = folder(name) / "faults", folder(name) / "corpus"
    for number, seed in enumerate(seeds):
        (corpus / f"seed-{number}").write_bytes(seed)
    seen: set[Any] = set()

    def once(data: bytes) -> None:
        try:
            law(data)
        except Exception as fault:
            frames = traceback.extract_tb(fault.__traceback__)
            place = (type(fault).__name__, frames[-1].filename, frames[-1].lineno)
            if place not in seen:
                seen.add(place)
                (faults / f"{len(seen)}-{place[0]}").write_bytes(data)
                (faults / f"{len(seen)}-{place[0]}.txt").write_text(traceback.format_exc(), encoding="utf-8")

    words = folder(name) / "words.txt"
    escaped = ("".join(f"\\x{byte:02X}" for byte in word.encode()) for word in fuzz_laws.WORDS)
    words.write_text("".join(f'"{word}"\n' for word in escaped), encoding="ascii")
    limits = [f"-max_total_time={seconds}", f"-max_len={LONGEST}", f"-timeout={SLOW}", f"-rss_limit_mb={MEMORY}"]
    limits.append(f"-dict={words}")
    atheris.Setup([sys.argv[0], *limits, "-print_final_stats=1", f"-artifact_prefix={faults}/", str(corpus)], once)
    atheris.Fuzz()
    return 0


def planted(data: bytes) -> None:
    """A law that is easily broken: it tests the search itself."""
    assert b"{" not in data


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
