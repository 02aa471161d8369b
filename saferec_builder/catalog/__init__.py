"""The catalog: rows of many sources become items, statements of many sources become risks and verdicts.

merging   rows -> items and links            linking   refs and "Title (Year)" -> items
text      titles in free text -> mentions    judging   statements -> the oracle
telling   one item, for a person who asks    gaps      what no source settles
"""

from saferec_builder.catalog.explain import explained, judged, name, resolved
from saferec_builder.catalog.gaps import gaps, refs, said, uses
from saferec_builder.catalog.linking import index, link, mentions
from saferec_builder.catalog.mention_finder import Finder, Mention, finder, in_text
from saferec_builder.catalog.merging import ID_CONFLICT, ITEMS, LINKS, MERGES, is_apart, merge, merges, ruling
from saferec_builder.catalog.verdicts import meant, risks, statements, topic_key, unasked

__all__ = [
    "ID_CONFLICT",
    "ITEMS",
    "LINKS",
    "MERGES",
    "Finder",
    "Mention",
    "explained",
    "finder",
    "gaps",
    "in_text",
    "index",
    "is_apart",
    "judged",
    "link",
    "meant",
    "mentions",
    "merge",
    "merges",
    "name",
    "refs",
    "resolved",
    "risks",
    "ruling",
    "said",
    "statements",
    "topic_key",
    "unasked",
    "uses",
]
