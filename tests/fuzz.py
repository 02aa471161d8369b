"""`python -m tests.fuzz NAME --seconds N`: atheris looks for bytes that break a law of tests/worlds/fuzz_laws.py.

Its search follows the branches that our own code takes. In `make soak` run the two parsers that face strangers most:
`replies`, for a server's answers are what a stranger's words made of a model, and `lines`, for every text of a stranger
comes in there and nothing of it may be lost. `answers` can be run by hand.

The last line says how many inputs were run and how many different faults were found. Each of them lies in
build/fuzz/NAME/faults and becomes one of FOUND in tests/test_fuzz.py. Exit 0: none. 1: faults. 2: it could not run.
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
LONGEST = 4_096  # bytes of an input
SLOW = 20  # seconds for one input: no machine is that busy
MEMORY = 3_072  # MiB


def main(words: list[str]) -> int:
    asked = argparse.ArgumentParser(description="coverage-guided search for bytes that break a parser's law")
    asked.add_argument("name", choices=NAMES)
    asked.add_argument("--seconds", type=int, default=300)
    asked.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = asked.parse_args(words)
    return search(given.name) if given.inside else run(given.name, given.seconds)


def folder(name: str) -> Path:
    return ROOT / "build" / "fuzz" / name


def run(name: str, seconds: int) -> int:
    """The search in a process of its own, which libFuzzer ends as it likes; what it found before stays a beginning."""
    if find_spec("atheris") is None:
        print(f"fuzz {name}: NOT RUN: atheris is not installed (Linux on x86-64 only: pip install atheris==3.0.0)")
        return 2
    faults = folder(name) / "faults"
    shutil.rmtree(faults, ignore_errors=True)
    for made in (faults, folder(name) / "corpus"):
        made.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "tests.fuzz", name, "--inside", "--seconds", str(seconds)]
    log = folder(name) / "log.txt"
    with open(log, "w", encoding="utf-8") as file:
        ran = subprocess.run(
            command, cwd=ROOT, stdout=file, stderr=subprocess.STDOUT, timeout=seconds + 300, check=False
        )
    said = log.read_text(encoding="utf-8", errors="replace")
    counts = re.findall(r"(?:number_of_executed_units: |^#)(\d+)", said, re.M)
    found = sorted(path for path in faults.iterdir() if path.suffix != ".txt")
    if not counts or (ran.returncode and not found):
        print(f"fuzz {name}: NOT RUN: exit code {ran.returncode}: see {log}")
        return 2
    for path in found:
        print(f"{path.relative_to(ROOT)}: {path.read_bytes()[:120]!r}")
    executions = max(map(int, counts))
    print(f"fuzz {name}: {executions:,} executions in {seconds} s, {len(found)} faults found")
    return int(bool(found))


def search(name: str) -> int:
    """Runs until the time is over; a fault is kept and the search goes on, a hang or a flood of memory ends it."""
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
    words.write_text("".join(f'"{escaped(word)}"\n' for word in fuzz_laws.WORDS), encoding="ascii")
    limits = [f"-max_total_time={seconds}", f"-max_len={LONGEST}", f"-timeout={SLOW}", f"-rss_limit_mb={MEMORY}"]
    limits.append(f"-dict={words}")
    atheris.Setup([sys.argv[0], *limits, "-print_final_stats=1", f"-artifact_prefix={faults}/", str(corpus)], once)
    atheris.Fuzz()
    return 0


def escaped(word: str) -> str:
    """As libFuzzer's dictionaries spell bytes."""
    return "".join(f"\\x{byte:02X}" for byte in word.encode())


def planted(data: bytes) -> None:
    """A law that is easily broken, by which the search itself is tried."""
    assert b"{" not in data


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
