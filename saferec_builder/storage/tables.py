"""Every table of a workspace: its columns, its key, and what each column means. docs/data-format.md is made from here.

A table is append-only: a row is never edited, a changed mind is a later row. Those of many rows are here, as parquet
shards; the small and precious ones are in database_tables.py.
"""

import polars as pl

from saferec_builder.storage.database_tables import (
    ASKED,
    ASSIGNMENTS,
    BATCHES,
    DECOYS,
    DESIGN,
    FORGOTTEN,
    GOLD,
    HANDED_BACK,
    KEYED,
    LABELS,
    REJECTED,
    REPLIES,
    REQUESTS,
    REVIEWS,
    SENT,
    SPEND,
    TASK_PAGES,
    TOMBSTONES,
    WAYS,
)
from saferec_builder.storage.schema import SPAN, TURN, Table, check, digest, keyed_digest, last, texts

__all__ = [
    "ASKED",
    "ASSIGNMENTS",
    "BATCHES",
    "CATALOG_ROWS",
    "CLUSTERS",
    "CONVERSATIONS",
    "DECOYS",
    "DESIGN",
    "DROPS",
    "FORGOTTEN",
    "GOLD",
    "HANDED_BACK",
    "HONOURED",
    "KEYED",
    "LABELS",
    "MARKS",
    "ORIGINS",
    "PROPOSALS",
    "READINGS",
    "REJECTED",
    "REPLIES",
    "REQUESTS",
    "REVIEWS",
    "SENT",
    "SPAN",
    "SPEND",
    "STATED",
    "TABLES",
    "TASK_PAGES",
    "TOMBSTONES",
    "TURN",
    "WARNINGS",
    "WAYS",
    "Table",
    "check",
    "digest",
    "keyed_digest",
    "last",
    "texts",
]

CONVERSATIONS = Table(
    "conversations",
    "bulk",
    ("conversation", "digest"),
    {
        "conversation": (pl.String, "hash(source, source id): stays when the text changes"),
        "digest": (pl.String, "hash of the turns; a changed text is a new row, the last row counts"),
        "source": (pl.String, "redial, messages, ..."),
        "source_id": (pl.String, "the id in the source"),
        "source_file": (pl.String, "name of the file that it was read from"),
        "domain": (pl.String, "film | series | game, or null where the source does not say"),
        "seeker": (pl.String, "keyed pseudonym of the person who asks; null where the source has none"),
        "time": (pl.Datetime("us", "UTC"), "of the request; null where the source has no times"),
        "turns": (pl.List(TURN), "role (seeker | recommender), text, items mentioned (refs)"),
        "recommended": (pl.List(pl.String), "refs that recommenders named, first mention first"),
        "accepted": (pl.List(pl.String), "refs that the seeker took up"),
        "seen": (pl.List(pl.String), "refs that the seeker had seen or named first"),
    },
    "What was mined, one row per revision of a conversation. A ref is `source:id` or `title:Name (Year)`.",
)

ORIGINS = Table(
    "origins",
    "bulk",
    ("conversation", "digest", "turn"),
    {
        "conversation": (pl.String, "conversation id"),
        "digest": (pl.String, "of the revision"),
        "turn": (pl.Int32, "number of the turn in it"),
        "source_id": (pl.String, "the id of the post or comment in the source"),
        "author": (pl.String, "keyed pseudonym of who wrote it; null where the source does not say"),
    },
    "Which post of which author became which turn, so that a removal on request finds it. Never released.",
)

HONOURED = Table(
    "honoured",
    "bulk",
    ("source", "who"),
    {
        "source": (pl.String, "of the file in which mining met them"),
        "who": (pl.String, "keyed pseudonym of an id or an author that removals.csv names"),
    },
    "People whom mining left out on request: a row of removals.csv has matched them. Never released.",
)

MARKS = Table(
    "marks",
    "bulk",
    ("conversation", "digest", "crisis"),
    {
        "conversation": (pl.String, "conversation id"),
        "digest": (pl.String, "of the revision"),
        "language": (pl.String, "ISO 639 code of what the seeker writes; null where there is too little text to tell"),
        "language_score": (pl.Float64, "0..1, of the language model"),
        "crisis": (pl.Boolean, "the seeker speaks of harming or killing themselves now: read by nobody, in no release"),
        "replaced": (pl.Int32, "pieces of personal data that placeholders stand for"),
    },
    "What mining noticed about a conversation's text. A better rule makes another row, and the last one counts.",
)

CLUSTERS = Table(
    "clusters",
    "bulk",
    ("conversation", "revision"),
    {
        "conversation": (pl.String, "conversation id"),
        "revision": (pl.Int32, "0, 1, ...: the last one counts"),
        "cluster": (
            pl.String,
            "shared by conversations that are near-duplicates of one another; null: no longer in any",
        ),
    },
    "Near-duplicates among requests: a cluster must not be in two splits. One without near-duplicates has no row.",
)

STATED = Table(
    "stated",
    "bulk",
    ("conversation", "trait", "source"),
    {
        "conversation": (pl.String, "conversation id"),
        "trait": (pl.String, "slug"),
        "source": (pl.String, "who states it: saferec (the official `constraints` column)"),
    },
    "Traits that a source itself claims of a seeker, without evidence. Never a label; good for scoring against.",
)

CATALOG_ROWS = Table(
    "catalog_rows",
    "bulk",
    ("source", "source_id"),
    {
        "source": (pl.String, "movielens, redial, csv, ..., or apart: a person's ruling on a merge"),
        "source_id": (pl.String, "the id in the source"),
        "domain": (pl.String, "film | series | game"),
        "title": (pl.String, "as the source spells it, without the year"),
        "year": (pl.Int32, "of release; null where the source has none"),
        "refs": (pl.List(pl.String), "ids that name the same item elsewhere: `imdb:tt0114709`"),
        "aliases": (pl.List(pl.String), "other titles"),
        "genres": (pl.List(pl.String), "as the source names them"),
        "plot": (pl.String, "description, or null"),
    },
    "Items as each source states them. Merging them is a view (catalog.merge), so every merge can be undone.",
)

WARNINGS = Table(
    "warnings",
    "bulk",
    ("warning",),
    {
        "warning": (pl.String, "hash of the statement"),
        "ref": (pl.String, "the item meant: `imdb:tt...` or `title:Name (Year)`"),
        "domain": (pl.String, "film | series | game, or null"),
        "kind": (
            pl.String,
            "topic (votes or an answer) | guide | esrb (descriptor) | rating | reason | keyword | tag | review",
        ),
        "topic": (
            pl.String,
            "question, guide category, descriptor, the rule that a reason meets, keyword, tag, or a trait (`review`)",
        ),
        "yes": (pl.Int32, "votes for yes"),
        "no": (pl.Int32, "votes for no"),
        "answer": (pl.String, "yes | no where the source states a clear answer itself, else null"),
        "severity": (pl.Int32, "0 none .. 3 severe, guide only"),
        "source": (pl.String, "csv, parent_guide, review, demo, ..."),
        "url": (pl.String, "where it stands, or null"),
        "retrieved": (pl.String, "date on which it was read, or null"),
    },
    "One sourced statement on one item.",
)

PROPOSALS = Table(
    "proposals",
    "bulk",
    ("proposal",),
    {
        "proposal": (pl.String, "hash(kind, subject, trait, digest, proposer, version; a model's: the wording too)"),
        "kind": (pl.String, "sensitivity (of a conversation's seeker) | item_flag"),
        "subject": (pl.String, "conversation or item id"),
        "trait": (pl.String, "slug"),
        "digest": (pl.String, "digest of the text that was read"),
        "verdict": (pl.String, "present | absent | unsure"),
        "form": (pl.String, "explicit | implicit, null unless present"),
        "spans": (
            pl.List(SPAN),
            "evidence, offsets in code points; the plot of an item_flag is turn 0",
        ),
        "confidence": (pl.Float64, "0..1"),
        "proposer": (pl.String, "rules, or the model's name"),
        "version": (pl.String, "of the prompt file or of the rules"),
        "taxonomy": (pl.String, "digest of the taxonomy file"),
    },
    "What a model or the rules claim. Never a label.",
)

READINGS = Table(
    "readings",
    "bulk",
    ("kind", "subject", "digest", "proposer", "version", "taxonomy"),
    {
        "kind": (pl.String, "sensitivity | item_flag"),
        "subject": (pl.String, "conversation or item id"),
        "digest": (pl.String, "digest of the text that was read"),
        "proposer": (pl.String, "rules, or the model's name"),
        "version": (pl.String, "of the prompt file or of the rules"),
        "taxonomy": (pl.String, "digest of the taxonomy file"),
        "orders": (pl.List(pl.Int32), "turns that seem to speak to a model: a person should read them"),
    },
    "What a proposer has read, with a usable answer: a subject with no proposal was found to have none.",
)

DROPS = Table(
    "drops",
    "bulk",
    ("stage", "source", "place", "reason"),
    {
        "stage": (pl.String, "mine, catalog, propose, review, release"),
        "source": (pl.String, "source, file or tool"),
        "place": (pl.String, "file:line, or the id of what was left out"),
        "reason": (pl.String, "short and countable"),
        "detail": (pl.String, "found and expected; never a secret"),
    },
    "Everything left out, with its reason.",
)

TABLES: dict[str, Table] = {
    t.name: t
    for t in (
        *(CONVERSATIONS, ORIGINS, HONOURED, FORGOTTEN, MARKS, CLUSTERS, STATED),
        *(CATALOG_ROWS, WARNINGS, PROPOSALS, READINGS, ASKED, DROPS),
        *(ASSIGNMENTS, DESIGN, TOMBSTONES, GOLD, DECOYS, SENT, KEYED, TASK_PAGES, REJECTED, REVIEWS, LABELS),
        *(REPLIES, REQUESTS, SPEND, BATCHES, WAYS),
    )
}
