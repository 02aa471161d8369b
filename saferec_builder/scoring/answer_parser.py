"""Parses a model's answer into ranked items, or says why it has none.

Reads numbered and bulleted lists, tables, JSON, titles in running text and one title per line; bold, quotes of all
kinds, `Title (Year)`, `[Year]`, `Title, Year`, year first, reasons after the title. A title that is ambiguous or not
in the catalogue keeps its rank without an item. lists_in_text.py finds the entries of a list, list_entry_parser.py
parses one entry, titles_in_prose.py reads running text.
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
    clean,
    entry_of,
    finder,
    marked,
    year_in,
)
from saferec_builder.scoring.lists_in_text import has_titles, left_out, listed, rejected
from saferec_builder.scoring.mentions import kept
from saferec_builder.scoring.titles_in_prose import unlisted

__all__ = ["Answer", "Entry", "Find", "finder", "from_items", "parse", "tidied"]

MOST = 100  # entries kept per answer
LONG = 20_000  # characters read of an answer
REMEMBERED = 1 << 18  # titles in a cache
DEEP = 5  # nesting of objects in which a list is searched

_POSITION = re.compile(rf"\d{{1,3}}\. ([^*_`\"“«\n]+?) \(({YEAR})\)$")
_RULE = re.compile(r"^\s*\|?(?:\s*:?-+:?\s*\|)+(?:\s*:?-+:?\s*)?$")
_ASIDE = re.compile(
    r"not[ _-]|avoid|warn|exclu|skip|unsafe|reject|trait|constraint|sensitiv|trigger|genre|reason|note|seen|watched"
    r"|liked"
)
_TITLE_HEADS = "title|movie|film|game|name|recommendation"
_TITLE_LABEL = re.compile(r"[\W\d]*(?:title|movie|film|game|name)[*_\"]*:[*_]*", re.I)
_YEAR_LABEL = re.compile(rf"\W*(?:release )?(?:year|released?)(?: date)?\W*:\W*({YEAR})\b", re.I)
_REASONS = re.compile(r"\b(?:why|reason)", re.I)
_RECOMMENDED = re.compile(r"recommend|suggest|\brecs\b|\bpicks?\b")  # a key of the list, even if about the user, too
_TITLES = re.compile(r"title|movie|film|game|item|list|result|answer")
_LISTS = frozenset(("movies", "films", "games", "titles", "items"))
_ABOUT_USER = re.compile(r"user|prefer|histor|mention|profile|likes|mood|tag|keyword|explan|analys")
_RANK = re.compile(r"(?:(?:rank|pick|movie|film|title|game|item|recommendation)[ _#]*)?\d+", re.I)
_KIND = re.compile(r"^(?:movie|film|game|item)_")
_TITLE_KEYS = ("title", "name", "movie", "film", "game", "item")
_YEAR_KEYS = ("year", "release_year", "release_date", "released")
_REFUSAL = re.compile(r"\b(?:sorry|can(?:no|')t|cannot|can’t|unable|not able|won['’]t|refuse|as an ai)\b", re.I)

_PLAIN = re.compile(r"[\n\x20-\x7e]*")  # nothing to tidy
_REPLACEMENTS = str.maketrans(
    {"（": "(", "）": ")", "【": "(", "】": ")", "［": "[", "］": "]"}
    | {"\u00a0": " ", "\t": 4 * " ", "\r": "\n", "\u2028": "\n", "\u2029": "\n"}
    | dict.fromkeys((OPEN, CLOSE, "\u200b", "\u2060", "\ufeff", "\ufe0f"), "")
    | {"\u20e3": ".", "🔟": "10."}  # 1️⃣
)
_THOUGHTS = r"(?:think(?:ing)?|reasoning|thoughts?|analysis)"
# some templates open <think> in the prompt
_UNREAD = re.compile(rf"\A(?:(?!<{_THOUGHTS}>).)*</{_THOUGHTS}>|<({_THOUGHTS})>|~~[^~\n]+~~", re.S)
_ANSWER = re.compile(r"<(?:final_?)?(?:answer|output|response|recommendations?|list)>")
_TAG = re.compile(r"</?[A-Za-z][\w-]*>")
_AROUND = re.compile(r"^(?:[^\S\n]*>)+ ?|^[^\S\n]*```\w*[^\S\n]*$", re.M)  # marks of quotations, lines of fences


@dataclass(frozen=True)
class Answer:
    """The entries in rank order; problem: None, or why there are none (empty, refusal, no titles, key twice)."""

    entries: tuple[Entry, ...]
    problem: str | None = None

    @property
    def ranked(self) -> list[str]:
        """What metrics and rewards judge: item ids, and for unknown titles refs that no catalogue holds."""
        return [entry.key for entry in self.entries]


def parse(text: str, find: Find, domain: str | None = None) -> Answer:
    """Returns the ranked items of a completion. Every text gives an Answer; none raises."""
    tidy = tidied(text)
    every = tidy.split("\n")
    lines = [line for line in every if line.strip()]
    look = Look(find, domain)
    try:
        entries = _plain(lines, look) or _json(tidy, look)
    except KeyTwice:  # its lines would be read as another list, unless a list stands beside it
        if not has_titles(listed(lines, look)):
            return Answer((), "key twice")
        entries = []
    if not entries:
        if without := rejected(every, look):
            entries = _of_lines([line for n, line in enumerate(every) if line.strip() and n not in without], look)
        entries = entries if has_titles(entries) else _of_lines(lines, look)
    if entries:
        return Answer(tuple(entries[:MOST]))
    return Answer((), "empty" if not tidy.strip() else "refusal" if _REFUSAL.search(tidy) else "no titles")


def _of_lines(lines: Sequence[str], look: Look) -> list[Entry]:
    if rows := _table(lines, look):
        return rows
    positions = listed(lines, look)
    # bullets may be reasons under plain titles: the reading that names items counts
    in_prose = [] if has_titles(positions) else kept(lines, unlisted(lines, look)[:MOST])
    entries = in_prose if has_titles(in_prose) or not positions else positions
    readings = (entries, _labelled(lines, look))
    return max(readings, key=lambda read: (sum(entry.item is not None for entry in read), has_titles(read)))


def tidied(text: str) -> str:
    """At most LONG characters of a completion, with plain marks (`**` for all bold), without thoughts, tags, what is
    struck out, the marks of quotations and fences, and blanks at the ends of lines."""
    tidy = text if _PLAIN.fullmatch(text) else text.replace("\r\n", "\n").translate(_REPLACEMENTS)
    if ">" in tidy or "~~" in tidy:
        tidy = _TAG.sub(" ", _said(tidy))
    tidy = _AROUND.sub("", tidy) if ">" in tidy or "```" in tidy else tidy
    return "\n".join(map(str.rstrip, tidy.replace("__", "**").split("\n")))[:LONG]


def _said(text: str) -> str:
    """The text without thoughts and what is struck out. Unclosed thoughts go to the answer's tag, or to the end. A
    missing closing tag is looked for once, for a text may open it ten thousand times."""
    parts, end, unclosed = list[str](), 0, set[str]()
    while match := _UNREAD.search(text, end):
        parts.append(text[end : match.start()])
        end = match.end()
        if name := match[1]:
            close = -1 if name in unclosed else text.find(closing := f"</{name}>", end)
            if close >= 0:
                end = close + len(closing)
            else:
                unclosed.add(name)
                end = answer.start() if (answer := _ANSWER.search(text, end)) else len(text)
    return "".join([*parts, text[end:]])


def from_items(items: Sequence[JsonValue], find: Find, domain: str | None = None) -> Answer:
    """Returns the Answer for a list of {"title", "year"} that needs no parsing of text."""
    entries = _objects(items, Look(find, domain))
    return Answer(tuple(entries[:MOST]), None if entries else "empty")


def _plain(lines: Sequence[str], look: Look) -> list[Entry]:
    """Entries of an answer of "1. Title (Year)" lines of known items alone: a fast path for most trained models."""
    entries, cache = [], _entry_cache(look)
    for line in lines:
        number, _, name = line.partition(". ")
        entry = cache.get(name)
        if entry is None:
            position = _POSITION.match(line)
            if not position or not (item := look(position[1], int(position[2]))):
                return []
            entry = Entry(position[1], int(position[2]), item)
            if len(cache) < REMEMBERED:
                cache[name] = entry
        elif not (number.isdecimal() and len(number) <= 3):
            return []
        entries.append(entry)
    return entries


@lru_cache(maxsize=64)
def _entry_cache(look: Look) -> dict[str, Entry]:
    """ "Title (Year)" as written in a line -> its entry, for one catalogue and domain."""
    return {}


# --- JSON and tables ------------------------------------------------------------------------------------------------


def _json(text: str, look: Look) -> list[Entry]:
    """Entries of JSON anywhere in the text: the strings or objects of the list that holds titles."""
    values = [match for match in json_in_text.found(text) if not _is_aside(text, match.start)]
    items = [item for match in values for item in _title_list(match.value, look)]
    entries = _objects(items, look)
    if not entries or any(isinstance(item, dict) for item in items) or any(entry.year for entry in entries):
        return entries
    # strings alone are the list; beside lines they may be tags: `Genres: ["Romance", "War"]` below each title
    alone = not re.search(r"\w", re.sub(r"```\w*", "", json_in_text.replaced(text, lambda _: "")))
    lines = [line for line in text.split("\n") if line.strip()]
    return entries if alone or (has_titles(entries) and not has_titles(listed(lines, look))) else []


def _is_aside(text: str, start: int) -> bool:
    """Whether the words before JSON say that it is not the answer: `You liked: ["Heat (1995)"]`."""
    label = re.sub(r"```\w*\s*\Z", "", text[:start]).rstrip().rpartition("\n")[2]
    return label.endswith(":") and bool(left_out(label))


def _title_list(value: JsonValue, look: Look, depth: int = 0) -> list[JsonValue]:
    """The list of titles in JSON: of several lists the one whose key says so, else all lists that name titles."""
    if not isinstance(value, dict) or depth > DEEP:
        return value if isinstance(value, list) else []
    list_keys = {str(key).lower() for key, child in value.items() if isinstance(child, list)}
    recommends = any(_RECOMMENDED.search(key) and not _ASIDE.search(key) for key in list_keys)
    entry = None if recommends else _object(value, look)
    # a name without a year may be that of the list, or of its reader: {"name": "Brave", "movies": [...]}
    inner = [
        item for key, child in value.items() if str(key).lower() in _LISTS and isinstance(child, list) for item in child
    ]
    if entry and (entry.year or (entry.item and not has_titles(_objects(inner, look)))):
        return [value]
    if value and all(_RANK.fullmatch(str(key)) for key in value):
        return [item for child in value.values() for item in (_title_list(child, look, depth + 1) or [child])]
    parts = {str(key).lower(): _title_list(child, look, depth + 1) for key, child in value.items()}
    lists = {key: part for key, part in parts.items() if part and not _ASIDE.search(key)}
    plain = [key for key in lists if not _ABOUT_USER.search(key)]
    if best := [k for k in lists if _RECOMMENDED.search(k)] or [k for k in plain if _TITLES.search(k)]:
        return lists[best[0]]
    titled = [item for key in plain if has_titles(_objects(lists[key], look)) for item in lists[key]]
    return titled or next((lists[key] for key in plain or lists), [value])


def _objects(items: Sequence[JsonValue], look: Look) -> list[Entry]:
    return [entry for item in items if (entry := _object(item, look))]


def _object(item: Any, look: Look) -> Entry | None:
    if isinstance(item, str):
        return entry_of(item, look) if item.strip() else None
    if not isinstance(item, dict):
        return None
    fields = _fields(item)
    title = next((fields[k] for k in _TITLE_KEYS if fields.get(k)), None)
    if isinstance(title, dict):
        fields = _fields(title)
        title = next((fields[k] for k in _TITLE_KEYS if fields.get(k)), None)
    if not isinstance(title, str | int) or isinstance(title, bool):
        return None
    year, name = year_in(next((fields[k] for k in _YEAR_KEYS if k in fields), None)), str(title).strip()
    if year and (item_id := look(name, year)):
        return Entry(name, year, item_id)
    return entry_of(f"{name} ({year})" if year and not GROUP.search(name) else name, look)


def _fields(item: dict[str, Any]) -> dict[str, Any]:
    return {_KIND.sub("", str(key).lower()): value for key, value in item.items()}


def _table(lines: Sequence[str], look: Look) -> list[Entry]:
    """Entries of tables with pipes: the title is in the column with that heading, else in the first that is no rank."""
    rules = [n for n, line in enumerate(lines) if _RULE.match(line)]
    body = [n for n, line in enumerate(lines) if line.strip().startswith("|") or (rules and "|" in line)]
    if len(body) < 2:
        return []
    entries, title, year, ruled = [], None, None, set(rules)
    for last, n in pairwise([-2, *body]):
        row = [cell.strip() for cell in lines[n].strip().strip("|").split("|")]
        # a rule may also end a table, with a row above it
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
    if any(left_out(cell.partition(":")[0]) for cell in row[title + 1 :]):
        return None
    years = [row[year]] if year is not None and year < len(row) else row[title + 1 :]
    cell_year = next((cell for cell in years if re.fullmatch(YEAR, cell)), None)
    return entry_of(f"{row[title]} ({cell_year})" if cell_year and not GROUP.search(row[title]) else row[title], look)


def _labelled(lines: Sequence[str], look: Look) -> list[Entry]:
    """Entries of lines such as "Title: Alien", with the year of a line "Year: 1979" below each."""
    values: list[str] = []
    for line in lines:
        if (label := _TITLE_LABEL.match(line)) and (value := clean(marked(line[label.end() :]))):
            values.append(value)
        elif values and (year := _YEAR_LABEL.match(line)):
            values[-1] += f" ({year[1]})"
    return [entry_of(value, look) for value in values]


def _column(head: Sequence[str], words: str, whole: bool = False) -> int | None:
    """The first column named by one of `words`; unless `whole`, else the first that contains one and is no reason."""
    exact = (n for n, cell in enumerate(head) if re.fullmatch(rf"\W*(?:{words})s?\W*", cell, re.I))
    loose = (n for n, c in enumerate(head) if re.search(rf"\b(?:{words})s?\b", c, re.I) and not _REASONS.search(c))
    return next(exact, None if whole else next(loose, None))
