"""Five invented practice tasks: they are sent with their solutions, and no answer to them is stored."""

import tomllib
from pathlib import Path
from typing import Any

from saferec_builder.core.json_value import JsonValue
from saferec_builder.core.taxonomy import Taxonomy

FILE = Path(__file__).with_name("practice.toml")
ROLES = ("seeker", "recommender")


def _load() -> list[dict[str, Any]]:
    return list(tomllib.loads(FILE.read_text(encoding="utf-8"))["task"])


def tasks(taxonomy: Taxonomy) -> list[JsonValue]:
    """The tasks as the page shows them, each with `right` (trait -> verdict) and `why`; without tasks about traits that
    are not in the taxonomy."""
    usable = [task for task in _load() if {*task["proposed"], *task["right"]} <= {*taxonomy.slugs}]
    return [_rendered(task, n, len(usable), taxonomy) for n, task in enumerate(usable, 1)]


def _rendered(task: dict[str, Any], n: int, last: int, taxonomy: Taxonomy) -> dict[str, JsonValue]:
    turns: list[JsonValue] = [{"role": ROLES[k % 2], "text": text} for k, text in enumerate(task["turns"])]
    row: dict[str, JsonValue] = {"key": f"practice-{n}", "n": 0, "kind": "sensitivity", "rules": False}
    row |= {"head": f"Practice {n} of {last}: nothing of it is kept", "known": [], "rejected": [], "speaker": ROLES[0]}
    row |= {"severe": [taxonomy[trait].name for trait in task["proposed"] if taxonomy[trait].severe]}
    cards: list[JsonValue] = [_card(trait, words, task["turns"]) for trait, words in task["proposed"].items()]
    return row | {"turns": turns, "cards": cards, "right": task["right"], "why": task["why"]}


def _card(trait: str, words: str, turns: list[str]) -> dict[str, JsonValue]:
    turn = next(n for n, text in enumerate(turns) if words in text)
    start = turns[turn].index(words)
    span: dict[str, JsonValue] = {"turn": turn, "start": start, "end": start + len(words)}
    return {"trait": trait, "form": None, "spans": [span], "own": None, "said": []}
