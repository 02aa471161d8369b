"""Finds the missing warnings that matter: items that conversations name and that are unknown for some trait.

reads  items, links, the oracle, conversations, their seekers' traits (labels and proposals)
"""

from collections.abc import Callable, Mapping, Sequence

import polars as pl

from saferec_builder.core import oracle as violations
from saferec_builder.core.oracle import Oracle

USES = pl.Schema({"conversation": pl.String, "item": pl.String})
_TEXT, _NUMBER, _TEXTS = pl.String(), pl.UInt32(), pl.List(pl.String)
_ITEM: dict[str, pl.DataType] = {"item": _TEXT, "title": _TEXT, "year": pl.Int32(), "domain": _TEXT, "refs": _TEXTS}
GAPS = pl.Schema({**_ITEM, "waiting": _NUMBER, "conversations": _NUMBER, "unknown": _TEXTS})


def uses(named: pl.DataFrame, linked: Mapping[str, str]) -> pl.DataFrame:
    """(conversation, item) of the refs that link to an item."""
    links = pl.DataFrame(list(linked.items()), {"ref": _TEXT, "item": _TEXT}, orient="row")
    return named.join(links, "ref", maintain_order="left").select(USES.names()).unique(maintain_order=True)


def mentioned(conversations: pl.DataFrame, mentions: Callable[[str], Sequence[tuple[int, int, str]]]) -> pl.DataFrame:
    """(conversation, item) of the items that `mentions` finds in the texts of turns: a release reads these, too."""
    turns = conversations.select("conversation", turn="turns").explode("turn", empty_as_null=False)
    turns = turns.select("conversation", pl.col("turn").struct.field("text"))
    pairs = [(name, item) for name, text in turns.iter_rows() for _, _, item in mentions(text)]
    return pl.DataFrame(pairs, schema=USES, orient="row").unique(maintain_order=True)


def gaps(items: pl.DataFrame, oracle: Oracle, used: pl.DataFrame, wanted: pl.DataFrame) -> pl.DataFrame:
    """GAPS of the items that conversations use and that are unknown for some trait.

    `wanted` (conversation, trait) has the traits of the seekers: `waiting` counts pairs of a conversation and such a
    trait that the item is unknown for. Most waiting first, then most conversations, then most unknown traits.
    """
    slugs: Sequence[str] = list(oracle.traits)
    judged = [item for item in dict.fromkeys(used["item"]) if item in oracle.items]
    codes = oracle.codes[[oracle.row(item) for item in judged]]
    unknown = [[slugs[n] for n in (row == violations.UNKNOWN).nonzero()[0]] for row in codes]
    open_ = pl.DataFrame({"item": judged, "unknown": unknown}, schema={"item": _TEXT, "unknown": _TEXTS})
    touched = used.group_by("item", maintain_order=True).agg(pl.len().alias("conversations"))
    pairs = used.join(wanted, "conversation").join(
        open_.explode("unknown"), left_on=["item", "trait"], right_on=["item", "unknown"]
    )
    waiting = pairs.group_by("item").agg(pl.len().alias("waiting"))
    return (
        open_.filter(pl.col("unknown").list.len() > 0)
        .join(touched, "item", maintain_order="left")
        .join(waiting, "item", how="left", maintain_order="left")
        .join(items.select("item", "title", "year", "domain", "refs"), "item", maintain_order="left")
        .with_columns(pl.col("waiting").fill_null(0))
        .sort("waiting", "conversations", pl.col("unknown").list.len(), descending=True, maintain_order=True)
        .select(GAPS.names())
        .cast(GAPS)
    )
