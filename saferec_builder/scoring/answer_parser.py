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
from typing import Any

from saferec_builder.core.errors import KeyTwice, strict_json
from saferec_builder.core.json_value import JsonValue
from saferec_builder.scoring.list_entry_parser import CLOSE, GROUP, OPEN, YEAR, Entry, Find, Look, entry_of, finder
from saferec_builder.scoring.lists_in_text import listed, names
from saferec_builder.scoring.titles_in_prose import unlisted

__all__ = ["Answer", "Entry", "Find", "finder", "from_items", "parse", "tidied"]

MOST = 100  # entries that are kept of one answer
LONG = 20_000  # characters of an answer that are read
REMEMBERED = 1 << 18  # titles

_POSITION = re.compile(rf"\d{{1,3}}\. ([^*_`\"“«\n]+?) \(({YEAR})\)$")
_RULE = re.compile(r"^\s*\|?(?:\s*:?-{2,}:?\s*\|)+(?:\s*:?-{2,}:?\s*)?$")
_ASIDE = re.compile(
    r"avoid|warn|exclu|skip|unsafe|reject|trait|constraint|sensitiv|trigger|genre|reason|note|seen|watched|liked"
)
_REFUSAL = re.compile(r"\b(?:sorry|can(?:no|')t|cannot|can’t|unable|not able|won['’]t|refuse|as an ai)\b", re.I)

_PLAIN = re.compile(r"[\n\x20-\x7e]*")  # nothing to tidy
_TIDY = str.maketrans(
    {"（": "(", "）": ")", "［": "[", "］": "]", "\u00a0": " ", "\r": "\n", "\u2028": "\n", "\u2029": "\n"}
    | dict.fromkeys((OPEN, CLOSE, "\u200b", "\u2060", "\ufeff"), "")
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
    except KeyTwice:  # as lines of text it would be another list
        return Answer((), "key twice")
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
    entries = [e for item in items if (e := _object(item, Look(find, domain)))]
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
    """Entries of a JSON array of strings or objects: alone, fenced, or the first of an object that can be the list."""
    fenced = re.search(r"```(?:json)?\s*(.*?)```", text, re.S)
    body = (fenced[1] if fenced else text).strip()
    if not body.startswith(("[", "{")):
        return []
    try:
        found = strict_json(body)
    except KeyTwice:
        raise
    except (ValueError, RecursionError):
        return []
    if isinstance(found, dict):
        lists = {str(key).lower(): value for key, value in found.items() if isinstance(value, list)}
        found = next((value for key, value in lists.items() if not _ASIDE.search(key)), [found])
    return [e for item in found if (e := _object(item, look))] if isinstance(found, list) else []


def _object(item: Any, look: Look) -> Entry | None:
    if isinstance(item, str):
        return entry_of(item, look) if item.strip() else None
    if not isinstance(item, dict):
        return None
    fields = {str(key).lower(): value for key, value in item.items()}
    title = next((fields[k] for k in ("title", "name", "movie", "film", "game", "item") if fields.get(k)), None)
    if not isinstance(title, str | int) or isinstance(title, bool):
        return None
    year = re.match(rf"\s*({YEAR})\b", str(next((fields[k] for k in ("year", "release_year") if k in fields), "")))
    plain = str(title).strip()
    if year and (item_id := look(plain, int(year[1]))):
        return Entry(plain, int(year[1]), item_id)
    return entry_of(f"{plain} ({year[1]})" if year and not GROUP.search(plain) else plain, look)


def _table(lines: Sequence[str], look: Look) -> list[Entry]:
    """Entries of a table with pipes: the title's column by its heading, else the first that is no rank."""
    rule = next((n for n, line in enumerate(lines) if _RULE.match(line)), None)
    body = [n for n, line in enumerate(lines) if line.strip().startswith("|") or (rule is not None and "|" in line)]
    if len(body) < 2:
        return []
    head = _cells(lines[rule - 1]) if rule else []
    title = _column(head, r"\b(?:title|movie|film|game|name|recommendation)s?\b")
    year = _column(head, r"\b(?:year|released?)\b")
    rows = [_cells(lines[n]) for n in body if rule is None or n > rule]
    return [e for row in rows if (e := _cell_entry(row, title, year, look))]


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


def _column(head: Sequence[str], pattern: str) -> int | None:
    return next((n for n, cell in enumerate(head) if re.search(pattern, cell, re.I)), None)
