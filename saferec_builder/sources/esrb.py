"""Reads ESRB ratings of games: a table of descriptors (title, console, one 0/1 column per descriptor, esrb_rating), or
one of certificates (certificate, game, esrb_rating, platform_name). Neither has years.

Each row is a game on its platforms and keeps its descriptors; the catalog joins the rows of a title to one game. A
rating alone says nothing about a trait and is kept as a statement that no verdict uses.
"""

from pathlib import Path

from saferec_builder import sources
from saferec_builder.core import titles
from saferec_builder.core.errors import SourceError
from saferec_builder.core.taxonomy import descriptor
from saferec_builder.sources import Left, Rows, item_rows as items
from saferec_builder.sources.item_rows import Both

SOURCE = "esrb"
NOTHING = "no_descriptors"
SPELT = {"strong_janguage": "strong_language"}  # an error of the published table
ASKED = (  # columns of the published table: a game lacks a descriptor only where its column says so
    *("alcohol_reference", "animated_blood", "blood", "blood_and_gore", "cartoon_violence", "crude_humor"),
    *("drug_reference", "fantasy_violence", "intense_violence", "language", "lyrics", "mature_humor", "mild_blood"),
    *("mild_cartoon_violence", "mild_fantasy_violence", "mild_language", "mild_lyrics", "mild_suggestive_themes"),
    *("mild_violence", NOTHING, "nudity", "partial_nudity", "sexual_content", "sexual_themes", "simulated_gambling"),
    *("strong_language", "strong_sexual_content", "suggestive_themes", "use_of_alcohol", "use_of_drugs_and_alcohol"),
    "violence",
)
OLDER = {"intense_violence", "strong_language", "strong_sexual_content"}  # by the ESRB's guide for 17 and older only
OLDEST = {"E": OLDER | {"blood_and_gore", "nudity", "sexual_content"}, "T": OLDER}
RATINGS = ("EC", "E", "ET", "E10plus", "E10+", "T", "M", "AO", "RP")


def read(path: Path) -> Both:
    """Games as CATALOG_ROWS, and statements about them as WARNINGS: kind `esrb` (descriptor) and `rating`."""
    header = sources.header(path)
    names = {_spelling(name) for name in header}
    expected: tuple[str, ...]
    if "certificate" in header:
        parse_row, expected = _certificate, ("certificate", "game", "esrb_rating", "platform_name")
    elif NOTHING in names:
        parse_row, expected = _described, ("title", "console", "esrb_rating")
        if missing := [name for name in ASKED if name not in names]:
            raise SourceError(
                f"{path}: column {missing[0]!r} is missing: a table that does not ask cannot say that a game has none,"
                f" expected all {len(ASKED)} descriptors of the published one"
            )
    else:
        columns = sources.readable(",".join(header)) or "nothing"
        raise SourceError(f"{path}: no column certificate or {NOTHING}: expected an ESRB table, found {columns}")
    return items.both_read(*sources.csv_rows(path, items.STAGE, SOURCE, parse_row, expected=expected))


def _certificate(place: str, row: dict[str, str]) -> Rows:
    if not row["certificate"]:
        raise Left("no id", "a certificate has a number")
    return _game(place, row["game"], row["certificate"], row["esrb_rating"], [])


def _described(place: str, row: dict[str, str]) -> Rows:
    flags = {name: cell for name, cell in row.items() if name not in ("title", "console", "esrb_rating")}
    odd = next((f"{name} = {cell!r}" for name, cell in flags.items() if cell not in ("0", "1")), None)
    if odd:
        raise Left("no 0 or 1", f"found {odd}")
    descriptors = [_spelling(name) for name, cell in flags.items() if cell == "1"]
    if len(descriptors) > 1 and NOTHING in descriptors:
        descriptors.remove(NOTHING)  # the published table sometimes has both: the others count
    rating = "T" if row["esrb_rating"] == "T" else row["esrb_rating"][:1]
    if wrong := sorted(OLDEST.get(rating, set()) & set(descriptors)):  # its descriptors are in wrong columns
        raise Left("rating and descriptors disagree", f"found {wrong[0]} in a game rated {row['esrb_rating']}")
    source_id = f"{titles.normal(row['title'])} on {row['console'] or '?'}"
    return _game(place, row["title"], source_id, row["esrb_rating"], descriptors)


def _spelling(name: str) -> str:
    return SPELT.get(descriptor(name), descriptor(name))


def _game(place: str, title: str, source_id: str, rating: str, descriptors: list[str]) -> Rows:
    game = items.item(SOURCE, source_id, place, domain="game", title=title, year=None)
    if rating and rating not in RATINGS:
        raise Left("unknown rating", f"found {rating!r}, expected one of {', '.join(RATINGS)}")
    pairs = [*(("esrb", name) for name in descriptors), *([("rating", rating)] if rating else [])]
    warnings = [items.warning(SOURCE, place, f"esrb:{source_id}", kind=k, topic=t, domain="game") for k, t in pairs]
    return [game, *warnings]
