"""Demo items whose content warnings are held back, so that people must flag them from their plots.

In `saferec-build demo`: propose --items, two reviewers and an adjudicator, adjudicate; then the catalog has the labels.
"""

from functools import lru_cache

import polars as pl

from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.demo import world
from saferec_builder.demo.people import Gold
from saferec_builder.storage.tables import digest

HIDDEN_ITEMS = 60


@lru_cache(maxsize=1)
def hidden() -> frozenset[tuple[str, int]]:
    """(title, year) of the items whose warnings are held back, drawn by hash."""
    drawn = sorted(world.items(), key=lambda item: digest("hidden item", item.title, item.year))
    return frozenset((item.title, item.year) for item in drawn[:HIDDEN_ITEMS])


def shown_warnings(warnings: list[world.Votes]) -> list[world.Votes]:
    """The rows of the warnings CSV that are not held back."""
    return [row for row in warnings if (row["title"], row["year"]) not in hidden()]


def truth(items: pl.DataFrame, taxonomy: Taxonomy) -> dict[str, Gold]:
    """Item id -> the marks that a reviewer of its plot should set, for the items of catalog.merge."""
    by_title = {(item.title, item.year): item for item in world.items()}
    return {
        row["item"]: [
            {"trait": slug, "form": "explicit", "turn": 0, "quote": row["plot"]}
            for slug in by_title[row["title"], row["year"]].breaks(taxonomy)
        ]
        for row in items.select("item", "title", "year", "plot").to_dicts()
    }
