"""Replies of a language model to the shipped prompt, recorded once, and a loopback server that replays them.

tests/data/recorded_model.jsonl has positions, not words: the source of a text has its words (tests/data/README.md says
who answered what). A quote that was not in the text is kept as the model wrote it.
"""

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import polars as pl

from saferec_builder import catalog
from saferec_builder.core import taxonomy
from saferec_builder.proposing import prompting
from saferec_builder.proposing.run import propose
from saferec_builder.proposing.text_units import Subject
from saferec_builder.storage import tables, workspace as store
from tests import DATA
from tests.servers import llm_stub
from tests.servers.llm_stub import Handler, completion
from tests.worlds.model_replies import options


def asked(data: str) -> str:
    """The key of a request: a digest of its last message. A changed text or turn has no recorded reply."""
    return blake2b(data.encode(), digest_size=8).hexdigest()


def known(turns: list[dict[str, str]], kind: str = "sensitivity") -> bool:
    """Whether the model was asked about this conversation, or about this plot (item_flag)."""
    subject = Subject(kind, "", "", tuple((turn["role"], turn["text"]) for turn in turns))
    return asked(prompting.build_request(subject, taxonomy.load())["messages"][1]["content"]) in replies()


@lru_cache(maxsize=1)
def replies() -> dict[str, dict[str, Any]]:
    """Request -> its row: `set`, `request`, `claims`."""
    lines = (DATA / "recorded_model.jsonl").read_text(encoding="utf-8").splitlines()
    rows = {row["request"]: row for row in map(json.loads, lines)}
    assert len(rows) == len(lines), "one answer to a request"
    return rows


def answer(data: str, claims: list[dict[str, Any]]) -> str:
    """The reply as the model gave it: JSON that fits the schema of proposing.prompting, unless the model broke it."""
    lines = data.split("\n</data>", 1)[0].splitlines()[1:]
    texts = {row["turn"]: row["text"] for row in map(json.loads, lines)}
    full_claims = []
    for claim in claims:
        quotes = [{"turn": turn, "quote": texts[turn][start:end]} for turn, start, end in claim["at"]]
        quotes += [{"turn": turn, "quote": quote} for turn, quote in claim.get("words", [])]
        full_claims.append({k: claim[k] for k in ("trait", "verdict", "form", "confidence")} | {"evidence": quotes})
    return json.dumps({"claims": full_claims}, ensure_ascii=False)


def speaks(missing: Callable[[str], None]) -> Callable[[Handler], None]:
    """A handler for llm_stub; `missing` is called with each text that was never asked, which gets an error."""

    def reply(h: Handler) -> None:
        if row := replies().get(asked(h.text)):
            return h.reply(200, completion(answer(h.text, row["claims"])))
        missing(h.text)
        h.reply(400, '{"error": {"message": "not recorded"}}')

    return reply


def read_again(ws: store.Workspace, talks: pl.DataFrame) -> pl.DataFrame:
    """tables.PROPOSALS rows of the model, as `propose` stores them.

    talks: `conversation, digest, turns` of recorded texts. Raises AssertionError where a text was never asked.
    """
    rows = talks.with_columns(source=pl.lit("messages")).to_dicts()
    store.append(ws, tables.CONVERSATIONS, tables.CONVERSATIONS.frame(rows))
    return _proposed(ws, items=False)


def flags_again(ws: store.Workspace, plots: Mapping[str, str]) -> pl.DataFrame:
    """tables.PROPOSALS rows of the model on these plots, by IMDb id, as `propose --items` stores them; `subject` is the
    ref of the film."""
    fixed = {"source": "csv", "domain": "film", "year": None, "aliases": [], "genres": []}
    rows = [fixed | {"source_id": i, "title": i, "refs": [f"imdb:{i}"], "plot": plot} for i, plot in plots.items()]
    store.append(ws, tables.CATALOG_ROWS, tables.CATALOG_ROWS.frame(rows))
    items, _ = catalog.merge(store.read(ws, tables.CATALOG_ROWS))
    refs = dict(items.select("item", "imdb:" + pl.col("title")).iter_rows())
    return _proposed(ws, items=True).with_columns(pl.col("subject").replace_strict(refs))


def _proposed(ws: store.Workspace, *, items: bool) -> pl.DataFrame:
    missing: list[str] = []
    with llm_stub.running() as stub:
        stub.usual = speaks(missing.append)
        options(ws, f'base_url = "{stub.url}"')
        propose(store.Workspace.open(ws.root), "openai:recorded", items=items)
    assert not missing, f"{len(missing)} texts were never asked, the first: {missing[0][:200]}"
    return store.read(ws, tables.PROPOSALS)
