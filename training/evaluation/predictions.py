"""Reads and writes predictions files: answers to the requests of a split, one JSON object a line, from any model."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from saferec_builder.core.errors import TrainingError, plain
from saferec_builder.core.json_value import JsonValue
from saferec_builder.core.titles import Near
from saferec_builder.scoring.answer_parser import MOST, from_items, parse
from saferec_builder.scoring.list_entry_parser import Entry
from saferec_builder.scoring.metrics import Listed, Ranked
from training.data import Item, Release, Row, jsonl
from training.evaluation.paper_metrics import Named
from training.run_folders import write_lines

_OTHER_ID = re.compile(
    r"(?:item|imdb|tmdb|movielens|redial|ddd|esrb|demo|csv):\S+$|tt\d{7,}$"
)  # as `screen` takes them
UNTITLED: dict[str, JsonValue] = {"item": None}  # an unknown title, which keeps its rank


@dataclass(frozen=True)
class Predictions:
    answers: dict[str, Ranked]
    written: dict[str, str | list[Named]]  # the same answers as written in the file
    problems: dict[str, int]  # reason why nothing could be parsed -> number of answers
    inexact: Counter[str]  # what keeps a title from naming its item exactly -> number of titles
    cut: set[str]  # ids of answers that a server cut at its limit (`finish` is `length`)
    lost: set[str]  # ids of cut answers without any title
    strange: set[str]  # ids of answers to none of the rows


def read(path: Path | str, table: Sequence[Row], release: Release) -> Predictions:
    """Reads JSONL of {"id": conversation, "text": ..., "finish"?} or {"id", "items": [{"title", "year"}]}; an item may
    also be its id in the release, alone or as "item": the id decides, even if other items have its title."""
    domains = {row["conversation"]: row["domain"] for row in table}
    answers: dict[str, Ranked] = {}
    written: dict[str, str | list[Named]] = {}
    problems, inexact = Counter[str](), Counter[str]()
    cut, lost, strange = set[str](), set[str](), set[str]()
    for place, row in jsonl(path):
        if "id" not in row:
            raise TrainingError(f'{place}: expected "id", the conversation of the release, found {list(row)}')
        name = str(row["id"])
        if name not in domains:
            strange.add(name)
            continue
        if name in answers:
            raise TrainingError(f"{place}: a second answer for {name}: expected one line per conversation")
        text, entries = row.get("text"), row.get("items")
        if isinstance(text, str):
            answer = parse(text, release.find, domains[name])
            answers[name], written[name] = Listed(answer.ranked, release.beside(text, answer, domains[name])), text
            inexact.update(_inexact(answer.entries, release))
            problem = answer.problem
        elif isinstance(entries, list):
            answers[name], written[name] = _listed(entries, release, domains[name], place, inexact)
            problem = None if answers[name] else "empty"
        else:
            raise TrainingError(f'{place}: expected "text" or a list of "items" beside "id", found {list(row)}')
        if row.get("finish") == "length":
            cut.add(name)
            lost |= {name} if problem else set()
        elif problem:
            problems[problem] += 1
    if strange and not answers:
        form = "expected as `id` what is `conversation` in the requests"
        raise TrainingError(
            f"{path}: none of its {len(strange)} answers is to one of the {len(table)} requests: {form}"
        )
    return Predictions(answers, written, problems, inexact, cut, lost, strange)


def _inexact(entries: Iterable[Entry], release: Release) -> Iterator[str]:
    for entry in entries:
        if isinstance(entry.item, Near):
            same_year = entry.year == release.items[entry.item].year
            yield "without a year" if entry.year is None else "in other words" if same_year else "with another year"


def _listed(
    values: Sequence[JsonValue], release: Release, domain: str | None, place: str, inexact: Counter[str]
) -> tuple[list[str | None], list[Named]]:
    """Returns the first MOST entries of a list as ranked ids, and their titles; counts those that are `inexact`."""
    ranked: list[str | None] = []
    titles: list[Named] = []
    for value in values[:MOST]:
        name = value.get("item") if isinstance(value, dict) else value
        item = name if isinstance(name, str) and name in release.items else None
        titled = value if isinstance(value, dict) and "title" in value else None
        if item is None and titled is None and isinstance(name, str) and _OTHER_ID.match(name):
            form = 'ids in data/items/catalog.parquet of the release, or {"title", "year"}'
            raise TrainingError(f"{place}: {plain(name)[:60]!r} is no id of the release's items: expected {form}")
        named = {"title": release.items[item].title, "year": release.items[item].year} if item else value
        entries = from_items([named], release.find, domain).entries
        ranked += [None] if value == UNTITLED else [item or entry.key for entry in entries]
        titles += [(entry.title, entry.year) for entry in entries]
        inexact.update(() if item else _inexact(entries, release))
    if missing := min(len(values), MOST) - len(ranked):
        form = '{"title", "year"} of each'
        raise TrainingError(f"{place}: {missing} of its items without a title: expected {form}")
    return ranked, titles


def write(path: Path, answers: Mapping[str, str | Ranked], items: Mapping[str, Item]) -> None:
    """Writes answers for `read`, so that `evaluate --predictions` can score them again."""
    lines: list[dict[str, object]] = []
    for name, answer in answers.items():
        content = {"text": answer} if isinstance(answer, str) else {"items": [_entry(item, items) for item in answer]}
        lines.append({"id": name, **content})
    write_lines(path, lines)


def _entry(item: str | None, items: Mapping[str, Item]) -> dict[str, JsonValue]:
    """Returns one entry of a list; an id that is no item keeps its rank: else the items after it would move up."""
    if item is None:
        return UNTITLED
    if item not in items:
        return {"title": item.removeprefix("title:")}
    return {"item": item, "title": items[item].title, "year": items[item].year}
