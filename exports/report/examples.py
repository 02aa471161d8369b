"""Draws a few example conversations, always the same, with marked evidence and without severe traits.

reads  conversations (current revision), labels (as build_rows.current gives them), what was ever seen in a text
gives  plain rows {conversation, traits: [{name, form}], turns: [{role, parts: [{text, traits}]}]}
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import polars as pl

from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.storage.tables import digest

Row = dict[str, Any]
EXAMPLES = 10
LONGEST = 900  # characters: longer conversations come last
FORMS = ("implicit", "implicit", "explicit")  # two of three examples have implied evidence, the main subject


def examples(conversations: pl.DataFrame, labels: pl.DataFrame, seen: pl.DataFrame, taxonomy: Taxonomy) -> list[Row]:
    """Returns at most EXAMPLES conversations with evidence, frequent traits first, each once before any is repeated.

    A conversation with a severe trait that is labelled, still open, or `seen` (review_state.found_units: by a proposal,
    a reader or gold) is left out.
    """
    severe = pl.col("trait").is_in([t.slug for t in taxonomy.traits if t.severe])
    doubt = pl.col("verdict").is_null() | (pl.col("verdict") != "absent")
    excluded = pl.concat(frame.select("subject") for frame in (labels.filter(severe & doubt), seen.filter(severe)))
    cited = labels.filter(pl.col("spans").list.len() > 0, verdict="present")
    cited = cited.join(excluded, on="subject", how="anti", maintain_order="left")
    texts = conversations.join(cited, left_on="conversation", right_on="subject", how="semi")
    turns = dict(texts.select("conversation", "turns").iter_rows())
    names = {t.slug: t.name for t in taxonomy.traits}
    rows = cited.filter(pl.col("subject").is_in(list(turns))).to_dicts()
    chosen = _draw(rows, {c: sum(len(t["text"]) for t in lines) for c, lines in turns.items()}, list(names))
    return [_example(c, turns[c], [row for row in rows if row["subject"] == c], names) for c in chosen]


def _draw(labels: Sequence[Row], lengths: Mapping[str, int], slugs: Sequence[str]) -> list[str]:
    """Returns conversations, trait by trait: not too long, of the next form, then by the hash of the id."""
    pools = {slug: [row for row in labels if row["trait"] == slug] for slug in slugs}
    pools = dict(sorted(pools.items(), key=lambda pair: -len(pair[1])))
    chosen: dict[str, None] = {}
    while any(pools.values()) and len(chosen) < EXAMPLES:
        for pool in filter(None, pools.values()):
            form = FORMS[len(chosen) % len(FORMS)]
            best = min(pool, key=lambda r: (lengths[r["subject"]] > LONGEST, r["form"] != form, digest(r["subject"])))
            pool.remove(best)
            chosen[best["subject"]] = None
    return list(chosen)[:EXAMPLES]


def _example(conversation: str, turns: Iterable[Row], labels: Sequence[Row], names: Mapping[str, str]) -> Row:
    spans = [(s["turn"], s["start"], s["end"], s["quote"], names[row["trait"]]) for row in labels for s in row["spans"]]
    traits = [{"name": names[r["trait"]], "form": r["form"]} for r in labels]
    return {
        "conversation": conversation,
        "traits": sorted(traits, key=lambda t: t["name"]),
        "turns": [
            {"role": turn["role"], "parts": parts(turn["text"], [s[1:] for s in spans if s[0] == n])}
            for n, turn in enumerate(turns)
        ],
    }


def parts(text: str, spans: Iterable[tuple[int, int, str, str]]) -> list[Row]:
    """Divides the text at the ends of evidence: {text, traits}. Spans of one trait that overlap or touch become one.
    A span whose quote is not in the text is ignored."""
    joined: list[tuple[int, int, str]] = []
    for start, end, quote, name in sorted(spans, key=lambda span: (span[3], span[:2])):
        if end <= start or text[start:end] != quote:
            continue
        if joined and joined[-1][2] == name and start <= joined[-1][1]:
            before = joined.pop()
            start, end = before[0], max(end, before[1])
        joined.append((start, end, name))
    edges = sorted({0, len(text), *(edge for start, end, _ in joined for edge in (start, end))})
    return [
        {"text": text[a:b], "traits": sorted({name for start, end, name in joined if start <= a and b <= end})}
        for a, b in pairwise(edges)
    ]
