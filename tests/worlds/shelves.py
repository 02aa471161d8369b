"""Catalog rows and warnings in a line each, for tests that merge, link and judge a few items."""

from saferec_builder import catalog
from saferec_builder.sources import item_rows as made


def shelf(*rows):
    """CATALOG_ROWS from (source:id, title, year, refs, more)."""
    built = []
    for name, title, year, *rest in rows:
        source, key = name.split(":")
        more = {"domain": "film"} | (rest[1] if len(rest) > 1 else {})
        built.append(made.item(source, key, "f:1", title=title, year=year, refs=rest[0] if rest else (), **more))
    return made.items_read(built, []).rows


def merged(*rows):
    return catalog.merge(shelf(*rows))


def statement(ref, topic="Is there blood/gore", kind="topic", source="csv", url=None, retrieved=None, **said):
    cells = {"url": url, "retrieved": retrieved}
    return made.warning(source, "f:1", ref, kind=kind, topic=topic, cells=cells, **said)


def said(*rows):
    return made.warnings_read(list(rows), []).rows


ALIEN, HEAT = "imdb:tt0078748", "imdb:tt0113277"
