"""Rating reasons of films ("Rated R for strong bloody violence"): CSV with rating, reason, and imdb or title,year.

A reason becomes one statement per rule of class_rules.toml that it meets, under the rule's name; its words are not
kept. A reason that meets none says nothing, for silence is no answer.
"""

from pathlib import Path

from saferec_builder import sources
from saferec_builder.sources import Left, Read, Rows, class_rules, item_rows as items, refs

SOURCE = "rating_reasons"


def read(path: Path) -> Read:
    """Rows of WARNINGS, kind `reason`."""
    rows, drops = sources.csv_rows(path, items.STAGE, SOURCE, _one, expected=("rating", "reason"))
    return items.warnings_read(rows, drops)


def _one(place: str, row: dict[str, str]) -> Rows:
    met = [rule.name for rule in class_rules.reasons() if rule.matches(row["rating"].upper(), row["reason"])]
    if not met:
        raise Left("no rule", "the reason names nothing that a trait asks about")
    ref, said = refs.of_row(row), items.noted(row)
    said["domain"] = said["domain"] or "film"
    return [items.warning(SOURCE, place, ref, kind="reason", topic=name, **said) for name in met]
