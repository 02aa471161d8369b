"""The units of text that are read in one request (a conversation, an item's plot), and the rows claimed about them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl

from saferec_builder.storage import evidence_check as evidence, tables
from saferec_builder.storage.schema import Span

Proposal = dict[str, Any]  # a row of tables.PROPOSALS
LONGEST = 40_000  # code points of one subject; a longer one is dropped and counted, never partly read


@dataclass(frozen=True)
class Subject:
    """What is read in one request: a conversation, or an item as one turn `plot`."""

    kind: str
    subject: str
    digest: str
    turns: tuple[tuple[str, str], ...]  # role, text


def proposal(
    unit: tuple[str, str, str, str],
    by: tuple[str, str],
    taxonomy: str,
    *wording: str,
    verdict: str,
    form: str,
    spans: list[Span],
    confidence: float,
) -> Proposal:
    """The row of a claim about (kind, subject, trait, digest) by (proposer, version). Its id depends on the trait's
    wording, which the rules do not read; only `present` has a form."""
    kind, subject, trait, digest = unit
    return {
        "proposal": tables.digest(*unit, *by, *wording),
        "kind": kind,
        "subject": subject,
        "trait": trait,
        "digest": digest,
        "verdict": verdict,
        "form": form if verdict == "present" else None,
        "spans": spans,
        "confidence": confidence,
        "proposer": by[0],
        "version": by[1],
        "taxonomy": taxonomy,
    }


def conversation_subjects(conversations: pl.DataFrame) -> Iterator[Subject]:
    """Yields one subject per row of tables.CONVERSATIONS."""
    for row in conversations.select("conversation", "digest", "turns").iter_rows():
        yield Subject("sensitivity", row[0], row[1], tuple((t["role"], t["text"] or "") for t in row[2] or []))


def item_subjects(items: pl.DataFrame) -> Iterator[Subject]:
    """Yields one subject per item; its digest is that of the plot, and an item without a plot has no turns."""
    for item, plot in items.select("item", "plot").iter_rows():
        yield Subject("item_flag", item, tables.digest(plot), (("plot", plot),) if plot else ())


def cannot_ask(subject: Subject, longest: int | None = LONGEST) -> str | None:
    """Why a subject cannot be read, or None."""
    if not any(role == evidence.SPEAKER[subject.kind] and text.strip() for role, text in subject.turns):
        return "nothing to read: no plot" if subject.kind == "item_flag" else "nothing to read: no words of the seeker"
    size = sum(len(text) for _, text in subject.turns)
    return f"too long: {size} characters, at most {longest} are read" if longest and size > longest else None


# ---- text that speaks to the model instead of the recommender

_ORDERS = re.compile(
    r"<\|?/?[a-z_]|\[/?inst\]|<<sys>>|</?data>|"
    r"^[^\w\n]{0,9}(?:system|assistant|developer|new (?:rule|instruction)s?)[^\w\n]{0,9}:|"
    r"\b(?:ignore|disregard|forget|override|skip)\b.{0,40}\b(?:instruction|above|previous|prompt|rule|schema|taxonomy)|"
    r"\b(?:system|developer) (?:prompt|message|override)|\byou are (?:now|no longer)\b|"
    r"\bas an? (?:ai|language model)\b|"
    r"\"?\b(?:claims|verdict|confidence|json_schema)\"?\s*[:=]|\b(?:label|mark|answer|output|return|respond)\b.{0,30}"
    r"\b(?:present|absent|none|empty|nothing|everything|all traits)\b",
    re.I | re.M | re.S,
)
_HIDDEN = re.compile("[\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e01ef]")
_LONG_TURN = 8_000


def orders(subject: Subject) -> list[int]:
    """Turns that seem to give orders to a model or hide characters: no claim of such a subject is `present`."""
    return [
        n
        for n, (_, text) in enumerate(subject.turns)
        if len(text) > _LONG_TURN or _ORDERS.search(text) or _HIDDEN.search(text)
    ]
