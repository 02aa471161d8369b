"""Baselines that need no model: popularity, retrieval, the blind request, and an oracle filter.

All rank more items than k, so that a filter behind them (`oracle_filter`) has something to move up.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

import numpy as np

from saferec_builder.core.oracle import Oracle
from saferec_builder.core.progress import Named, Progress, counted, silent
from saferec_builder.scoring.metrics import Ranked
from training.data import Item, Label, Message, Release, Row, clear
from training.evaluation.ranking import Ranker

SPARE = 30  # a baseline ranks SPARE * k items for the filter behind it


def popularity(train: Sequence[Row], items: Mapping[str, Item], table: Sequence[Row], k: int) -> dict[str, list[str]]:
    """Returns the k items that most training users took up, of the row's domain and not seen; ties by id."""
    order = _popular(train, items)
    return {row["conversation"]: _first(order, items, row, k) for row in table}


def retrieval(
    ranker: Ranker,
    train: Sequence[Row],
    items: Mapping[str, Item],
    table: Sequence[Row],
    k: int,
    progress: Progress | None = None,
) -> dict[str, list[str]]:
    """Returns the k items with the largest weight among users of the nearest requests; ties by popularity."""
    popular, by_conversation = _popular(train, items), {}
    places = [ranker.items[item] for item in popular]
    for row in counted(table, progress):
        order = np.argsort(-ranker.near(row)[places], kind="stable")  # stable: ties keep their order
        by_conversation[row["conversation"]] = _first((popular[n] for n in order), items, row, k)
    return by_conversation


def _popular(train: Sequence[Row], items: Mapping[str, Item]) -> list[str]:
    taken = Counter(item for row in train for item in row["truth"])
    return sorted(items, key=lambda item: (-taken[item], item))


def blind(table: Sequence[Row], labels: Sequence[Label], split: Sequence[Row] = ()) -> list[Row]:
    """Returns the rows without the words that labels cite as evidence of a sensitivity, and without injected sentences.

    split: all rows of the split, in case the table lacks the request that an injected row was made from.
    """
    quotes: dict[str, list[str]] = {}
    prompts = {row["conversation"]: row["prompt"] for row in (*split, *table)}
    for label in labels:
        if label["verdict"] == "present":
            quotes.setdefault(label["conversation"], []).extend(s["quote"] for s in label["spans"] if s["quote"])

    # an injected row has no label; the request that it was made from lacks the injected sentence
    blind_rows: list[Row] = []
    for row in table:
        source = row.get("request") or row.get("made_from") or ""
        prompt, cited = prompts.get(source, row["prompt"]), quotes.get(row.get("made_from") or row["conversation"], ())
        blind_rows.append({**row, "prompt": _without(prompt, cited)})
    return blind_rows


def _without(prompt: Sequence[Message], quotes: Sequence[str]) -> list[Message]:
    """Returns the messages without everything that a quote covers. Quotes of two reviewers may overlap, so all of them
    are found before anything is cut. One is cut inside words only if it has several and stands nowhere as whole words:
    "war" must not match in "award", not even if it is of a later turn, but one may have marked "ospital scenes"."""
    patterns = []
    for quote in quotes:
        as_words = re.compile(rf"(?<!\w){re.escape(quote)}(?!\w)")
        whole = len(quote.split()) < 2 or any(as_words.search(message["content"]) for message in prompt)
        patterns.append(as_words if whole else re.compile(re.escape(quote)))
    messages: list[Message] = []
    for message in prompt:
        text = [*message["content"]]
        for match in (match for pattern in patterns for match in pattern.finditer(message["content"])):
            text[match.start() : match.end()] = " " * len(match[0])
        messages.append(message | {"content": " ".join("".join(text).split())})
    return messages


def oracle_filter(lists: Sequence[Ranked], table: Sequence[Row], oracle: Oracle, k: int) -> dict[str, list[str | None]]:
    """Returns the first k items that are clear by the labels and verdicts of the release; a user without traits keeps
    the list. (Scored on gold, the filter can be wrong.)"""
    pairs = zip(lists, table, strict=True)
    return {row["conversation"]: clear(oracle, answer, row["traits"])[:k] for answer, row in pairs}


def _first(order: Iterable[str], items: Mapping[str, Item], row: Row, k: int) -> list[str]:
    seen = set(row["seen"])
    return [*islice((i for i in order if i not in seen and row["domain"] in (None, items[i].domain)), k)]


NAMES = ("retrieval", "retrieval_filter", "retrieval_blind", "popularity", "popularity_filter")


def answers(
    ranker: Ranker,
    release: Release,
    train: Sequence[Row],
    table: Sequence[Row],
    labels: Sequence[Label],
    *,
    split: Sequence[Row] = (),
    named: Named = silent,
) -> dict[str, Mapping[str, Ranked]]:
    """Returns NAMES -> answers; ranker: fitted on the same rows; split: as in `blind`."""
    # an injected row repeats a person, and the items that they took up
    train = [row for row in train if row["condition"] != "injected"]
    items, k = release.items, release.k
    by_name: dict[str, Mapping[str, Ranked]] = {}
    long_lists = {"retrieval": retrieval(ranker, train, items, table, SPARE * k, named("retrieval", "request"))}
    long_lists["popularity"] = popularity(train, items, table, SPARE * k)
    for name, lists in long_lists.items():
        by_name[name] = {user: ranking[:k] for user, ranking in lists.items()}
        ranked = [lists[row["conversation"]] for row in table]
        by_name[f"{name}_filter"] = oracle_filter(ranked, table, release.oracle, k)
    blind_rows = blind(table, labels, split)
    by_name["retrieval_blind"] = retrieval(ranker, train, items, blind_rows, k, named("retrieval_blind", "request"))
    return {name: by_name[name] for name in NAMES}
