"""The catalog: rows of many sources become items, statements of many sources become risks and verdicts.

merging   rows -> items and links          linking   refs and "Title (Year)" -> items
mentions  titles in free text -> items     risks     statements -> the oracle
"""

from saferec_builder.catalog.linking import index, link, mentions
from saferec_builder.catalog.merging import ITEMS, LINKS, merge
from saferec_builder.catalog.risks import judged, risks, statements, topic_key, unasked

__all__ = [
    "ITEMS",
    "LINKS",
    "index",
    "judged",
    "link",
    "mentions",
    "merge",
    "risks",
    "statements",
    "topic_key",
    "unasked",
]
