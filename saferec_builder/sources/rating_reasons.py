"""Reads rating reasons of films ("Rated R for strong violence"): CSV with rating, reason, and imdb or title,year.

A reason gives one statement per rule of class_rules.toml that it matches, under the rule's name, with its words, so
that people can see the basis of a verdict. A reason without a match says nothing, as silence is no answer. Two reasons
of one item that match different rules both count, with a remark: a table that joined titles to ids may have made one
film of two.
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
SEVERAL = "two reasons of one item"  # a remark: no row is left out for it


def read(path: Path) -> Read:
    """Rows of WARNINGS, kind `reason`; the drops have a remark `SEVERAL` on each further, other reason of an item."""
    first_reasons: dict[str, tuple[str, list[str]]] = {}  # ref -> place of its first reason, and its rules
    remarks: Rows = []

    def parse_row(place: str, row: dict[str, str]) -> Rows:
        rules = [rule.name for rule in class_rules.reasons() if rule.matches(row["rating"].upper(), row["reason"])]
        with suppress(Left):  # a row that names no item is left out below
            ref = refs.of_row(row)
            first, first_rules = first_reasons.setdefault(ref, (place, rules))
            if rules != first_rules:
                detail = f"{ref} {_joined(rules)}, and in {first} {_joined(first_rules)}; both count: is it one work?"
                remarks.append(sources.drop(items.STAGE, SOURCE, place, SEVERAL, detail))
        return _statements(place, row, rules)

    rows, drops = sources.csv_rows(path, items.STAGE, SOURCE, parse_row, expected=NEEDED)
    result = items.warnings_read(rows, drops)
    return replace(result, drops=pl.concat([result.drops, tables.DROPS.frame(remarks)]))


def _joined(rules: list[str]) -> str:
    return ", ".join(rules) or "names nothing that a trait asks about"


def _statements(place: str, row: dict[str, str], rules: list[str]) -> Rows:
    if not rules:
        raise Left("no rule", "the reason names nothing that a trait asks about")
    ref, words = refs.of_row(row), sources.readable(row["reason"], LONGEST)
    return [
        items.warning(SOURCE, place, ref, kind="reason", topic=name, words=words, domain="film", cells=row)
        for name in rules
    ]
