"""The catalog: rows of many sources become items, statements of many sources become risks and verdicts.

merging   rows -> items and links               linking   refs, "Title (Year)" and free text -> items
explain   one item, for a person who asks       verdicts  statements -> the oracle
adding    files and an API -> a workspace       gaps      what no source settles
lookup    what a workspace says of an item        arithmetic  of a verdict, line by line
"""

from saferec_builder.catalog.explain import explained, judged
from saferec_builder.catalog.linking import finder, finders, index, link, mentions, spans
from saferec_builder.catalog.merging import merge, merges
from saferec_builder.catalog.rulings import ruling
from saferec_builder.catalog.verdicts import risks, unasked
from saferec_builder.scoring.mention_finder import Finder, in_text

__all__ = ["Finder", "finder", "finders", "in_text", "index", "link", "mentions"]
__all__ += ["explained", "judged", "merge", "merges", "risks", "ruling", "spans", "unasked"]
