"""The real conversations and posts as texts, in two halves by their ids: one to fit on, one to count on."""

import zlib
from collections.abc import Iterator
from pathlib import Path

from saferec_builder.sources import ccpe, inspired, redial
from saferec_builder.sources.conversation_rows import Source
from saferec_builder.sources.readers import READERS
from tests.bench.figures import json_lines

FILES = (
    *((redial.read, f"redial/{name}_data.jsonl") for name in ("ievalm_valid", "raw_subset_train", "raw_subset_valid")),
    (inspired.read, "inspired/dev.tsv"),
    (ccpe.read, "ccpe/ccpe_dialogues.csv"),
    (READERS[Source.opendialkg], "opendialkg/conversations.jsonl.gz"),
    (READERS[Source.opendialkg], "opendialkg/books.jsonl.gz"),
)


def conversations(folder: Path) -> Iterator[tuple[str, str, list[str]]]:
    """Yields (source, id, texts of its turns), each once."""
    seen = set[str]()
    for read, name in FILES:
        for row in read(folder / name).rows.select("source", "conversation", "turns").iter_rows(named=True):
            if row["conversation"] not in seen:
                seen.add(row["conversation"])
                yield row["source"], row["conversation"], [turn["text"] for turn in row["turns"]]


def posts(folder: Path) -> Iterator[tuple[str, str, list[str]]]:
    """Yields (reddit, id, title and text)."""
    for row in json_lines(folder / "reddit_requests" / "posts.jsonl.gz"):
        yield "reddit", row["id"], [text for text in (row["title"], row["text"]) if text]


def fitted_on(name: str) -> bool:
    """Whether this conversation or post is in the half that weights are fitted on."""
    return zlib.crc32(name.encode()) % 2 == 0
