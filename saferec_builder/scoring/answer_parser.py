"""Parses a model's answer into ranked items, and tells what was wrong with it.

Reads numbered and bulleted lists, tables, JSON, titles in running text and one title a line; bold, quotes of all
kinds, `Title (Year)`, `[Year]`, `Title, Year`, year first, reasons after the title. A title that is ambiguous or not
in the catalogue keeps its rank without an item. lists_in_text.py finds the positions of a list, list_entry_parser.py
reads one, titles_in_prose.py running text.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

from saferec_builder.core.errors import KeyTwice
from saferec_builder.core.json_value import JsonValue
from saferec_builder.scoring import json_in_text
from saferec_builder.scoring.list_entry_parser import (
    CLOSE,
    GROUP,
    OPEN,
    YEAR,
    Entry,
    Find,
    Look,
    entry_of,
    finder,
    year_in,
)
from saferec_builder.scoring.lists_in_text import left_out, listed, names
from saferec_builder.scoring.titles_in_prose import unlisted

__all__ = ["Answer", "Entry", "Find", "finder", "from_items", "parse", "tidied"]

MOST = 100  # entries that are kept of one answer
LONG = 20_000  # characters of an answer that are read
REMEMBERED = 1 << 18  # titles
DEEP = 5  # objects within objects in which a list is looked for

_POSITION = re.compile(rf"\d{{1,3}}\. ([^*_`\"“«\n]+?) \(({YEAR})\)$")
_RULE = re.compile(r"^\s*\|?(?:\s*:?-{2,}:?\s*\|)+(?:\s*:?-{2,}:?\s*)?$")
_ASIDE = re.compile(
    r"not[ _-]|avoid|warn|exclu|skip|unsafe|reject|trait|constraint|sensitiv|trigger|genre|reason|note|seen|watched"
    r"|liked"
)
_TITLE_HEADS = "title|movie|film|game|name|recommendation"
_WHY = re.compile(r"\b(?:why|reason)", re.I)
_OFFERED = re.compile(r"recommend|suggest|\brecs\b|\bpicks?\b")  # a key of the list, whatever else it says
_TITLES = re.compile(r"title|movie|film|game|item|list|result|answer")
_LISTS = frozenset(("movies", "films", "games", "titles", "items"))
_USER = re.compile(r"user|prefer|histor|mention|profile|likes|mood|tag|keyword|explan|analys")
_TITLE_KEYS = ("title", "name", "movie_title", "movie", "film", "game", "item")
_YEAR_KEYS = ("year", "release_year", "release_date", "released")
_REFUSAL = re.compile(r"\b(?:sorry|can(?:no|')t|cannot|can’t|unable|not able|won['’]t|refuse|as an ai)\b", re.I)

_PLAIN = re.compile(r"[\n\x20-\x7e]*")  # nothing to tidy
_TIDY = str.maketrans(
    {"（": "(", "）": ")", "［": "[", "］": "]", "\u00a0": " ", "\r": "\n", "\u2028": "\n", "\u2029": "\n"}
    | dict.fromkeys((OPEN, CLOSE, "\u200b", "\u2060", "\ufeff", "\ufe0f"), "")
    | {"\u20e3": ".", "🔟": "10."}  # 1️⃣
)


@dataclass(frozen=True)
class Answer:
    """The entries in rank order; problem is None, or why there are none: empty, refusal, no titles, key twice."""

    entries: tuple[Entry, ...]
    problem: str | None = None

    @property
    def ranked(self) -> list[str]:
        """What metrics and rewards judge: an item's id, or a ref that no catalogue holds for an unknown title."""
        return [entry.key for entry in self.entries]

    @property
    def unknown(self) -> list[int]:
        """Positions (from 0) whose title is ambiguous or not in the catalogue."""
        return [n for n, entry in enumerate(self.entries) if entry.item is None]


def parse(text: str, find: Find, domain: str | None = None) -> Answer:
    """The ranked items of a completion; every text gives an Answer, none an error."""
    tidy = tidied(text)
    lines = [line for line in tidy.split("\n") if line.strip()]
    look = Look(find, domain)
    try:
        entries = _plain(lines, look) or _json(tidy, look) or _table(lines, look)
    except KeyTwice:  # as lines of text it would be another list, but for one that stands beside it
        if not names(listed(lines, look)):
            return Answer((), "key twice")
        entries = []
    if not entries:
        positions = listed(lines, look)
        # reasons may be bulleted under titles that are not: the reading that names items is meant
        loose = [] if names(positions) else unlisted(lines, look)
        entries = loose if names(loose) or not positions else positions
    return Answer(tuple(entries[:MOST]), None if entries else _problem(tidy))


def tidied(text: str) -> str:
    """What is read of a completion: without its thoughts, with marks of one kind, at most LONG characters."""
    tidy = text if _PLAIN.fullmatch(text) else text.translate(_TIDY)
    if "think>" in tidy:
        tidy = re.sub(r"<think>.*?(?:</think>|\Z)", "", tidy, flags=re.S)
        tidy = tidy.rpartition("</think>")[2]  # some templates open it in the prompt
    return tidy[:LONG]


def from_items(items: Sequence[JsonValue], find: Find, domain: str | None = None) -> Answer:
    """An answer that comes as [{"title", "year"}] already."""
    entries = _objects(items, Look(find, domain))
    return Answer(tuple(entries[:MOST]), None if entries else "empty")


def _plain(lines: Sequence[str], look: Look) -> list[Entry]:
    """Entries of "1. Title (Year)" lines of known items and nothing else: most answers of a trained model, at once."""
    entries, memory = [], _remembered(look)
    for line in lines:
        number, _, name = line.partition(". ")
        entry = memory.get(name)
        if entry is None:
            position = _POSITION.match(line)
            if not position or not (item := look(position[1], int(position[2]))):
                return []
            entry = Entry(position[1], int(position[2]), item)
            if len(memory) < REMEMBERED:
                memory[name] = entry
        elif not (number.isdecimal() and len(number) <= 3):
            return []
        entries.append(entry)
    return entries


@lru_cache(maxsize=64)
def _remembered(look: Look) -> dict[str, Entry]:
    """ "Title (Year)" as a line wrote it -> the entry that it was read as, for one catalogue and domain."""
    return {}


def _problem(text: str) -> str:
    return "empty" if not text.strip() else "refusal" if _REFUSAL.search(text) else "no titles"


# --- JSON and tables ------------------------------------------------------------------------------------------------


def _json(text: str, look: Look) -> list[Entry]:
    """Entries of JSON, wherever it stands in the text: of strings or objects, in the list that holds titles."""
    values = [one for one in json_in_text.found(text) if not _is_aside(text, one.start)]
    items = [item for one in values for item in _list_in(one.value, look)]
    entries = _objects(items, look)
    # strings beside other text may be tags; where JSON is all that there is they are the list
    alone = entries and not re.search(r"\w", re.sub(r"```\w*", "", json_in_text.replaced(text, lambda _: "")))
    tags = not any(isinstance(item, dict) for item in items) and not any(entry.year for entry in entries)
    if entries and not alone and tags:
        positions = listed([line for line in text.split("\n") if line.strip()], look)
        if names(positions) and any(entry.year for entry in positions):
            return []  # `Genres: ["Romance", "War"]` below each title: the lines are the list
    return entries if alone or names(entries) or any(isinstance(item, dict) for item in items) else []


def _is_aside(text: str, start: int) -> bool:
    """Whether the words before JSON say that it is not the list: `You liked: ["Heat (1995)"]`."""
    label = re.sub(r"```\w*\s*\Z", "", text[:start]).rstrip().rpartition("\n")[2]
    return label.endswith(":") and left_out(label)


def _list_in(value: JsonValue, look: Look, depth: int = 0) -> list[JsonValue]:
    """The list that JSON holds: of several lists the one whose key says so, or else all of those that name titles."""
    if not isinstance(value, dict) or depth > DEEP:
        return value if isinstance(value, list) else []
    lists_here = {str(key).lower() for key, one in value.items() if isinstance(one, list)}
    offers = any(_OFFERED.search(key) and not _ASIDE.search(key) for key in lists_here)
    own = None if offers else _object(value, look)
    # without a year it may be the name of the list, or of its reader: {"name": "Brave", "movies": [...]}
    inner = [item for key, one in value.items() if str(key).lower() in _LISTS and isinstance(one, list) for item in one]
    if own and (own.year or (own.item and not names(_objects(inner, look)))):
        return [value]
    if value and all(str(key).isdecimal() for key in value):
        return [item for one in value.values() for item in (_list_in(one, look, depth + 1) or [one])]
    parts = {str(key).lower(): _list_in(one, look, depth + 1) for key, one in value.items()}
    lists = {key: part for key, part in parts.items() if part and not _ASIDE.search(key)}
    plain = [key for key in lists if not _USER.search(key)]
    if said := [k for k in lists if _OFFERED.search(k)] or [k for k in plain if _TITLES.search(k)]:
        return lists[said[0]]
    named = [item for key in plain if names(_objects(lists[key], look)) for item in lists[key]]
    return named or next((lists[key] for key in plain or lists), [value])


def _objects(items: Sequence[JsonValue], look: Look) -> list[Entry]:
    return [entry for item in items if (entry := _object(item, look))]


def _object(item: Any, look: Look) -> Entry | None:
    if isinstance(item, str):
        return entry_of(item, look) if item.strip() else None
    if not isinstance(item, dict):
        return None
    fields = {str(key).lower(): value for key, value in item.items()}
    if isinstance(within := next((fields[k] for k in _TITLE_KEYS if fields.get(k)), None), dict):
        fields = {str(key).lower(): value for key, value in within.items()}
    title = next((fields[k] for k in _TITLE_KEYS if fields.get(k)), None)
    if not isinstance(title, str | int) or isinstance(title, bool):
        return None
    year, plain = year_in(next((fields[k] for k in _YEAR_KEYS if k in fields), None)), str(title).strip()
    if year and (item_id := look(plain, year)):
        return Entry(plain, year, item_id)
    return entry_of(f"{plain} ({year})" if year and not GROUP.search(plain) else plain, look)


def _table(lines: Sequence[str], look: Look) -> list[Entry]:
    """Entries of tables with pipes: the title's column by its heading, else the first that is no rank."""
    rules = [n for n, line in enumerate(lines) if _RULE.match(line)]
    body = [n for n, line in enumerate(lines) if line.strip().startswith("|") or (rules and "|" in line)]
    if len(body) < 2:
        return []
    entries, title, year, ruled = [], None, None, set(rules)
    for last, n in pairwise([-2, *body]):
        row = _cells(lines[n])
        # a rule may also end a table: then a row stands above it
        if n + 1 in ruled and (last < n - 1 or _column(row, _TITLE_HEADS, whole=True) is not None):
            title, year = _column(row, _TITLE_HEADS), _column(row, "year|released?")
        elif n not in ruled and (not rules or n > rules[0]) and (entry := _cell_entry(row, title, year, look)):
            entries.append(entry)
    return entries


def _cell_entry(row: list[str], title: int | None, year: int | None, look: Look) -> Entry | None:
    if title is None or title >= len(row):
        title = next((n for n, cell in enumerate(row) if cell and not re.fullmatch(r"#?\d{1,3}[.)]?", cell)), None)
    if title is None or not row[title]:
        return None
    years = [row[year]] if year is not None and year < len(row) else row[title + 1 :]
    found = next((cell for cell in years if re.fullmatch(YEAR, cell)), None)
    return entry_of(f"{row[title]} ({found})" if found and not GROUP.search(row[title]) else row[title], look)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _column(head: Sequence[str], words: str, whole: bool = False) -> int | None:
    """The column that is called so; unless `whole`, or else one that has the word in its name and says no reason."""
    exact = (n for n, cell in enumerate(head) if re.fullmatch(rf"\W*(?:{words})s?\W*", cell, re.I))
    loose = (n for n, c in enumerate(head) if re.search(rf"\b(?:{words})s?\b", c, re.I) and not _WHY.search(c))
    return next(exact, None if whole else next(loose, None))
