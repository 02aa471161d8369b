"""One shape for every source of conversations: the table's columns and the place in the file that a row came from."""

from datetime import datetime
from typing import Any, TypedDict

import polars as pl

from saferec_builder import tables

_COLUMNS: dict[str, Any] = {**tables.CONVERSATIONS.schema, "place": pl.String}
SCHEMA = pl.Schema(_COLUMNS)


class Turn(TypedDict):
    role: str  # seeker | recommender
    text: str
    items: list[str]  # refs


def row(
    source: str,
    source_id: str,
    place: str,
    turns: list[Turn],
    *,
    domain: str | None = None,
    seeker: str | None = None,
    time: datetime | None = None,
    recommended: list[str],
    accepted: list[str],
    seen: list[str],
) -> dict[str, Any]:
    """A conversation as read; `seeker` is still the source's own id, which `mine` turns into a pseudonym."""
    return {
        "conversation": tables.digest(source, source_id),
        "digest": tables.digest(turns),
        "source": source,
        "source_id": source_id,
        "source_file": place.rsplit(":", 1)[0],
        "domain": domain,
        "seeker": seeker,
        "time": time,
        "turns": turns,
        "recommended": recommended,
        "accepted": accepted,
        "seen": seen,
        "place": place,
    }


def frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")
