"""The catalog: rows of many sources become items, statements of many sources become risks and verdicts.

merging   rows -> items and links            linking   refs and "Title (Year)" -> items
text      titles in free text -> mentions    judging   statements -> the oracle
telling   one item, for a person who asks
"""

from saferec_builder.catalog.judging import risks, statements, topic_key, unasked
from saferec_builder.catalog.linking import index, link, mentions
from saferec_builder.catalog.merging import ITEMS, LINKS, MERGES, merge, merges, ruling
from saferec_builder.catalog.telling import explained, judged, name, resolved
from saferec_builder.catalog.text import Finder, Mention, finder, in_text

__all__ = [
    "ITEMS",
    "LINKS",
    "MERGES",
    "Finder",
    "Mention",
    "explained",
    "finder",
    "in_text",
    "index",
    "judged",
    "link",
    "mentions",
    "merge",
    "merges",
    "name",
    "resolved",
    "risks",
    "ruling",
    "statements",
    "topic_key",
    "unasked",
]
