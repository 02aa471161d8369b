"""The catalog: rows of many sources become items, statements of many sources become risks and verdicts.

merging   rows -> items and links          linking   refs and "Title (Year)" -> items
text      titles in free text -> items     risks     statements -> the oracle
"""

from saferec_builder.catalog.linking import index, link, mentions
from saferec_builder.catalog.merging import ITEMS, LINKS, merge, merges, ruling
from saferec_builder.catalog.risks import judged, risks, statements, topic_key, unasked
from saferec_builder.catalog.text import Finder, Mention, finder, in_text

__all__ = [
    "ITEMS",
    "LINKS",
    "Finder",
    "Mention",
    "finder",
    "in_text",
    "index",
    "judged",
    "link",
    "mentions",
    "merge",
    "merges",
    "risks",
    "ruling",
    "statements",
    "topic_key",
    "unasked",
]
