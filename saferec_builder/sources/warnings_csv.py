"""Reads content warnings as CSV (votes per question): header title,year,imdb,domain,topic,yes,no,url,retrieved.

A row names its item by imdb id or by title and year, and says how many people answered the question (`topic`,
spelt as the taxonomy spells it) with yes and with no.
"""

from pathlib import Path

from saferec_builder import sources
from saferec_builder.sources import Left, Read, Rows, item_rows as items, refs

SOURCE = "csv"
NEEDED = ("topic", "yes", "no")
OTHERS = ("title", "year", "imdb", "domain", "url", "retrieved")


def read(path: Path) -> Read:
    """Rows of WARNINGS, kind `topic`."""
    rows, drops = sources.csv_rows(path, items.STAGE, SOURCE, _parse_row, expected=NEEDED, others=OTHERS)
    return items.warnings_read(rows, drops)


def _parse_row(place: str, row: dict[str, str]) -> Rows:
    yes, no = (sources.whole_number(row[answer] or "0", answer) for answer in ("yes", "no"))
    if not row["topic"]:
        raise Left("no topic", "a row says which question was answered")
    if yes + no == 0:
        raise Left("no votes", "nobody answered the question")
    ref = refs.of_row(row)
    return [items.warning(SOURCE, place, ref, kind="topic", topic=row["topic"], yes=yes, no=no, cells=row)]
