"""Inspect and lm-evaluation-harness, unchanged, in their own environment; harness_main.py runs them."""

import hashlib
from pathlib import Path

from annotation.tools import local_label_studio as managed

PINS = Path(__file__).with_name("harness.txt")
MAIN = Path(__file__).with_name("harness_main.py")


def home() -> Path:
    return managed.cache() / f"harnesses-{hashlib.sha256(PINS.read_bytes()).hexdigest()[:8]}"


def missing() -> str | None:
    """Returns what is missing to run them here, or None."""
    ready = (home() / "ready").exists()
    return None if ready else "Inspect and lm-eval (install: .venv/bin/python -m tests.servers.install)"
