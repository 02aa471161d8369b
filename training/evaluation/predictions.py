"""Predictions files: answers to the requests of a split, one JSON object a line, from a model here or anywhere."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from saferec_builder.core.errors import TrainingError
from saferec_builder.core.json_value import JsonValue
from saferec_builder.scoring.answer_parser import MOST, from_items, parse
from saferec_builder.scoring.metrics import Listed, Ranked
from training.data import Item, Release, Row, jsonl
from training.evaluation.paper_metrics import Named

UNTITLED: dict[str, JsonValue] = {"item": None}  # a title of which nothing is known: it has its rank, and nothing else


@dataclass(frozen=True)
class Predictions:
    answers: dict[str, Ranked]
    written: dict[str, str | list[Named]]  # the same, as they stand in the file
    problems: dict[str, int]  # why nothing could be read -> answers
    cut: frozenset[str]  # those that a server cut at its limit (`finish` is `length`)
    lost: frozenset[str]  # of these the ones in which no title could be read
    strange: int  # answers to conversations that are not in the split


def read(path: Path | str, table: Sequence[Row], release: Release) -> Predictions:
    """A JSONL file of {"id": conversation, "text": ..., "finish"?} or {"id", "items": [{"title", "year"}]}; an item may
    also be its id in the release, alone or as "item": it is that item then, whatever else is called so. UNTITLED holds
    the rank of what has no title."""
    domains = {row["conversation"]: row["domain"] for row in table}
    answers: dict[str, Ranked] = {}
    written: dict[str, str | list[Named]] = {}
    problems: Counter[str] = Counter()
    cut: set[str] = set()
    lost: set[str] = set()
    strange = 0
    for where, row in jsonl(path):
        if "id" not in row:
            raise TrainingError(f'{where}: expected "id", the conversation of the release, found {list(row)}')
        name = str(row["id"])
        if name not in domains:
            strange += 1
            continue
        if name in answers:
            raise TrainingError(f"{where}: a second answer for {name}: expected one line per conversation")
        text, listed = row.get("text"), row.get("items")
        if isinstance(text, str):
            answer = parse(text, release.find, domains[name])
            answers[name], written[name] = Listed(answer.ranked, release.beside(text, answer)), text
            problem = answer.problem
        elif isinstance(listed, list):
            answers[name], written[name] = _listed(listed, release, domains[name], where)
            problem = None if answers[name] else "empty"
        else:
            raise TrainingError(f'{where}: expected "text" or a list of "items" beside "id", found {list(row)}')
        if row.get("finish") == "length":
            cut.add(name)
            lost |= {name} if problem else set()
        elif problem:
            problems[problem] += 1
    return Predictions(answers, written, dict(problems), frozenset(cut), frozenset(lost), strange)


def _listed(
    listed: Sequence[JsonValue], release: Release, domain: str | None, where: str
) -> tuple[list[str | None], list[Named]]:
    """The first MOST places of a list, each with the rank that it has there; and their titles."""
    ranked: list[str | None] = []
    named: list[Named] = []
    for one in listed[:MOST]:
        item = _id(one, release.items)
        entries = from_items([_titled(release.items[item]) if item else one], release.find, domain).entries
        ranked += [None] if one == UNTITLED else [item or entry.key for entry in entries]
        named += [(entry.title, entry.year) for entry in entries]
    if bare := min(len(listed), MOST) - len(ranked):
        form = '{"title", "year"} of each'
        raise TrainingError(f"{where}: {bare} of its items without a title: expected {form}")
    return ranked, named


def _id(one: JsonValue, items: Mapping[str, Item]) -> str | None:
    """The item of the release that an entry names by its id; None where it names it otherwise."""
    name = one.get("item") if isinstance(one, dict) else one
    return name if isinstance(name, str) and name in items else None


def _titled(item: Item) -> dict[str, JsonValue]:
    return {"title": item.title, "year": item.year}


def write(path: Path, answers: Mapping[str, str | Ranked], items: Mapping[str, Item]) -> None:
    """Answers as `read` takes them: scored again at any time by `evaluate --predictions`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        for name, answer in answers.items():
            if isinstance(answer, str):
                row: dict[str, object] = {"id": name, "text": answer}
            else:
                row = {"id": name, "items": [_written(item, items) for item in answer]}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def _written(item: str | None, items: Mapping[str, Item]) -> dict[str, JsonValue]:
    """One place of a list; what is no item keeps it, or those behind it would move up."""
    if item is None:
        return UNTITLED
    return {"item": item, **_titled(items[item])} if item in items else {"title": item.removeprefix("title:")}
