"""Rating reasons of films ("Rated R for strong bloody violence"): CSV with rating, reason, and imdb or title,year.

A reason becomes one statement per rule of class_rules.toml that it meets, under the rule's name, with its words, so
that a person can see what a verdict rests on. A reason that meets none says nothing, for silence is no answer. Two
reasons of one item that name different things both count, and are told: a table that joined titles to ids may have made
one film of two.
"""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import polars as pl

from saferec_builder import sources
from saferec_builder.sources import Left, Read, Rows, class_rules, item_rows as items, refs
from saferec_builder.storage import tables

SOURCE = "rating_reasons"
NEEDED = ("rating", "reason")
LONGEST = 300  # characters of a reason that are kept; a published one has 20 to 150
SEVERAL = "two reasons of one item"  # a remark: no row is left out by it


def read(path: Path) -> Read:
    """Rows of WARNINGS, kind `reason`; the drops have a remark `SEVERAL` on each further reason of an item."""
    named: dict[str, tuple[str, list[str]]] = {}  # ref -> place of its first reason, and what that names
    others: Rows = []

    def one(place: str, row: dict[str, str]) -> Rows:
        met = [rule.name for rule in class_rules.reasons() if rule.matches(row["rating"].upper(), row["reason"])]
        with suppress(Left):  # a row that names no item is left out below
            ref = refs.of_row(row)
            first, before = named.setdefault(ref, (place, met))
            if met != before:
                told = f"{ref} {_says(met)}, and in {first} {_says(before)}; both count: is it one work?"
                others.append(sources.drop(items.STAGE, SOURCE, place, SEVERAL, told))
        return _one(place, row, met)

    rows, drops = sources.csv_rows(path, items.STAGE, SOURCE, one, expected=NEEDED)
    read = items.warnings_read(rows, drops)
    return replace(read, drops=pl.concat([read.drops, tables.DROPS.frame(others)]))


def _says(met: list[str]) -> str:
    return ", ".join(met) or "names nothing that a trait asks about"


def _one(place: str, row: dict[str, str], met: list[str]) -> Rows:
    if not met:
        raise Left("no rule", "the reason names nothing that a trait asks about")
    ref, said = refs.of_row(row), items.noted(row)
    said["domain"] = said["domain"] or "film"
    words = sources.readable(row["reason"], LONGEST)
    return [items.warning(SOURCE, place, ref, kind="reason", topic=name, words=words, **said) for name in met]
