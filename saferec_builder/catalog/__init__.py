"""The catalog: rows of many sources become items, statements of many sources become risks and verdicts.

merging          rows -> items and links             linking   refs and "Title (Year)" -> items
mention_finder   titles in free text -> mentions     verdicts  statements -> the oracle
explain          one item, for a person who asks     gaps      what no source settles
adding           files and an API -> a workspace     lookup    what a workspace says of an item
"""

from saferec_builder.catalog.explain import explained, judged
from saferec_builder.catalog.linking import index, link, mentions
from saferec_builder.catalog.mention_finder import Finder, finder, in_text
from saferec_builder.catalog.merging import merge, merges, ruling
from saferec_builder.catalog.verdicts import risks, unasked

__all__ = [
    "Finder",
    "explained",
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
    "unasked",
]
