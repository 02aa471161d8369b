"""References to items, as sources name them: `imdb:tt0114709`, `redial:1234`, or `title:Name (Year)`."""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

from saferec_builder.core.value_shapes import seen
from saferec_builder.sources import Left, digits

NAMESPACES = ("imdb", "tmdb", "movielens", "redial", "ddd", "esrb", "demo", "csv", "title")
_IMDB = re.compile(r"^(?:\D*/)?(?:tt)?0*(\d{1,9})/?(?:\?\S*)?$")  # a browser's address continues with ?ref_=...
_BLANK = re.compile(r"\w+:(?:nan|none|null|<na>)|tmdb:(?:0+|-\d+)(?:\.0)?", re.I)  # how tables write a missing id
_REF = re.compile(rf"^({'|'.join(NAMESPACES)}):(\S.*)$", re.S)


def imdb(value: str) -> str:
    """`imdb:tt` and at least seven digits, from an id with or without its letters, or the address of its page."""
    match = _IMDB.match(value.strip().removesuffix(".0"))  # as pandas writes a column with a missing number
    if not match or not int(match[1]):
        raise Left("bad imdb id", f"{seen(value)}, expected tt and digits")
    return f"imdb:tt{int(match[1]):07d}"


def ref(value: str) -> str:
    """Returns a ref as it is, and a title as its ref; folds white space."""
    text = " ".join(value.split())
    match = _REF.match(text)
    if text.startswith("title: "):
        return f"title:{text[7:]}"
    if match and match[1] == "imdb":
        return imdb(match[2])
    if match and match[1] == "tmdb":
        return text.removesuffix(".0")  # as pandas writes a column with a missing number
    return text if match else f"title:{text}"


def external(value: str) -> str:
    """The ref of an id in another collection; a bare tt1234567 is an IMDb id."""
    result = ref(f"imdb:{value}" if value.startswith("tt") else value)
    if result.startswith("title:") or _BLANK.fullmatch(result):
        raise Left("bad id", f"found {value!r}, expected such as imdb:tt0078748")
    return result


def read(text: str, parse: Callable[[str], str] = external) -> str | None:
    """The ref that a text holds (see `external`, or `ref`); None where it holds none."""
    try:
        return parse(text)
    except Left:
        return None


def of_row(row: dict[str, str], ids: Mapping[str, str] = MappingProxyType({})) -> str:
    """The ref of a row, from its imdb id, or else a number in a column of `ids` (column -> collection), or else from
    its title and year."""
    if row.get("imdb"):
        return imdb(row["imdb"])
    for column, collection in ids.items():
        if number := digits(row.get(column, "")):
            return f"{collection}:{int(number)}"
    if not row.get("title"):
        columns = ", ".join(["imdb", *ids, "title"])
        raise Left("no title", f"a row names its item in one of the columns {columns}")
    released = year(row.get("year", ""))
    return f"title:{' '.join(row['title'].split())}" + (f" ({released})" if released else "")


def year(value: str) -> int | None:
    """A year of release, None for a blank; raises `Left` for anything else."""
    number = digits(value)
    if re.fullmatch(r"(18|19|20)\d\d", number):
        return int(number)
    if not value.strip():
        return None
    found = f"found {number}" if 0 < len(number) <= 4 else seen(value)  # nobody's words
    raise Left("wrong year", f"{found}, expected four digits, 1800 to 2099, or nothing")
