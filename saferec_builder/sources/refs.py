"""References to items, as sources name them: `imdb:tt0114709`, `redial:1234`, or `title:Name (Year)`."""

import re

from saferec_builder.core.shapes import seen
from saferec_builder.sources import Left

NAMESPACES = ("imdb", "tmdb", "movielens", "redial", "ddd", "esrb", "demo", "csv", "title")
_IMDB = re.compile(r"^(?:\D*/)?(?:tt)?0*(\d{1,9})/?(?:\?\S*)?$")  # a browser's address goes on with ?ref_=...
_BLANK = re.compile(r"\w+:(?:nan|none|null|<na>)|tmdb:(?:0+|-\d+)(?:\.0)?", re.I)  # how tables write that there is none
_REF = re.compile(rf"^({'|'.join(NAMESPACES)}):(\S.*)$", re.S)


def imdb(value: str) -> str:
    """`imdb:tt` and at least seven digits, from an id with or without its letters, or the address of its page."""
    found = _IMDB.match(value.strip())
    if not found or not int(found[1]):
        raise Left("bad imdb id", f"{seen(value)}, expected tt and digits")
    return f"imdb:tt{int(found[1]):07d}"


def ref(value: str) -> str:
    """A ref as it is, or the ref of a title; white space is folded."""
    text = " ".join(value.split())
    found = _REF.match(text)
    if text.startswith("title: "):
        return f"title:{text[7:]}"
    if found and found[1] == "imdb":
        return imdb(found[2])
    if found and found[1] == "tmdb":
        return text.removesuffix(".0")  # as pandas writes it where one is missing
    return text if found else f"title:{text}"


def external(value: str) -> str:
    """The ref of an id in another collection; a bare tt1234567 is an IMDb id."""
    found = ref(f"imdb:{value}" if value.startswith("tt") else value)
    if found.startswith("title:") or _BLANK.fullmatch(found):
        raise Left("bad id", f"found {value!r}, expected such as imdb:tt0078748")
    return found


def read(text: str) -> str | None:
    """The ref that a text is (see `external`), None where it is none."""
    try:
        return external(text)
    except Left:
        return None


def of_row(row: dict[str, str]) -> str:
    """The ref that a row's imdb id, or else its title and year, give."""
    if row.get("imdb"):
        return imdb(row["imdb"])
    if not row.get("title"):
        raise Left("no title", "a row names its item by imdb id or by title")
    named = year(row.get("year", ""))
    return f"title:{' '.join(row['title'].split())}" + (f" ({named})" if named else "")


def year(value: str) -> int | None:
    """A year of release; blank is none, anything else that is no such year leaves the row out."""
    if not value.strip():
        return None
    if not re.fullmatch(r"(18|19|20)\d\d", value.strip()):
        raise Left("wrong year", f"{seen(value)}, expected four digits or nothing")
    return int(value)
