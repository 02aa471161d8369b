"""Conversations that a model reads, its replies, and the settings of a workspace that asks it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from saferec_builder.core import taxonomy
from saferec_builder.storage import tables, workspace as store
from tests.conftest import Ran
from tests.servers.llm_stub import Handler, completion
from tests.worlds.settings import add_settings

Cli = Callable[..., Ran]


def claim(trait: str, quote: str) -> dict[str, Any]:
    evidence = [{"turn": 0, "quote": quote}]
    return {"trait": trait, "evidence": evidence, "form": "explicit", "verdict": "present", "confidence": 80}


def answer(*claims: dict[str, Any]) -> str:
    return json.dumps({"claims": claims})


def fill(ws: store.Workspace, *texts: str) -> None:
    rows = []
    for n, text in enumerate(texts):
        turns = [{"role": "seeker", "text": text, "items": []}, {"role": "recommender", "text": "Alien", "items": []}]
        rows.append({"conversation": f"c{n}", "digest": tables.digest(text), "source": "messages", "turns": turns})
    store.append(ws, tables.CONVERSATIONS, tables.CONVERSATIONS.frame(rows))


TEXTS = ("no blood for me please", "something funny", "maybe blood, maybe not")


def speaks(handler: Handler) -> None:
    """Both models claim gore where they read blood; with maybe beside it `small` is unsure, `large` says absent."""
    body = handler.server.bodies[-1]
    claims = [claim("gore", "blood")] if "blood" in handler.text else []
    if "maybe" in handler.text and claims:
        claims[0] |= {"verdict": "unsure", "form": "none"} if body["model"] == "small" else {"verdict": "absent"}
    handler.reply(200, completion(answer(*claims)))


def options(ws: store.Workspace, lines: str) -> None:
    add_settings(ws.root, "propose", lines)


def price(ws: store.Workspace, name: str) -> None:
    toml = ws.root / "saferec.toml"
    section = f"[propose.models.{name}]\ninput = 10.0\noutput = 100.0\ncached_input = 1.0\n\n[splits]"
    toml.write_text(toml.read_text().replace("[splits]", section))


def said(*rows: tuple[str, str, str, str, float]) -> pl.DataFrame:
    names = ["subject", "trait", "proposer", "verdict", "confidence"]
    return pl.DataFrame(rows, schema=names, orient="row").with_columns(version=pl.lit("v"))


def own_taxonomy(ws: store.Workspace) -> None:
    """Gives the workspace the traits of its mine.toml."""
    add_settings(ws.root, "taxonomy", 'path = "mine.toml"')


def one_more(path: Path) -> None:
    """Adds the trait `drowning` to a taxonomy's file."""
    head, mark, last = path.read_text("utf-8").rpartition("[[trait]]")
    path.write_text(f"{head}{mark}{last}\n{mark}" + last.replace(taxonomy.load(path).slugs[-1], "drowning"), "utf-8")
