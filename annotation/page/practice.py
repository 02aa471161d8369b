"""Five invented tasks to practise on: they are sent with their answers, and nothing that is said of them is stored."""

import tomllib
from pathlib import Path
from typing import Any

from saferec_builder.core.json_value import JsonValue
from saferec_builder.core.taxonomy import Taxonomy

FILE = Path(__file__).with_name("practice.toml")
ROLES = ("seeker", "recommender")


def _written() -> list[dict[str, Any]]:
    return list(tomllib.loads(FILE.read_text(encoding="utf-8"))["task"])


def tasks(taxonomy: Taxonomy) -> list[JsonValue]:
    """As the page draws them, each with `right` (trait -> verdict) and `why`; without those about traits that a
    taxonomy does not have."""
    known = [task for task in _written() if {*task["proposed"], *task["right"]} <= {*taxonomy.slugs}]
    return [_shown(task, n, len(known), taxonomy) for n, task in enumerate(known, 1)]


def _shown(task: dict[str, Any], n: int, of: int, taxonomy: Taxonomy) -> dict[str, JsonValue]:
    turns: list[JsonValue] = [{"role": ROLES[k % 2], "text": text} for k, text in enumerate(task["turns"])]
    found: dict[str, JsonValue] = {"key": f"practice-{n}", "n": 0, "kind": "sensitivity", "rules": False}
    found |= {"head": f"Practice {n} of {of}: nothing of it is kept", "known": [], "rejected": [], "speaker": ROLES[0]}
    found |= {"severe": [taxonomy[trait].name for trait in task["proposed"] if taxonomy[trait].severe]}
    cards: list[JsonValue] = [_card(trait, words, task["turns"]) for trait, words in task["proposed"].items()]
    return found | {"turns": turns, "cards": cards, "right": task["right"], "why": task["why"]}


def _card(trait: str, words: str, turns: list[str]) -> dict[str, JsonValue]:
    turn = next(n for n, text in enumerate(turns) if words in text)
    start = turns[turn].index(words)
    place: dict[str, JsonValue] = {"turn": turn, "start": start, "end": start + len(words)}
    return {"trait": trait, "form": None, "spans": [place], "own": None, "said": []}
