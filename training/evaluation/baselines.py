"""Baselines that need no model: popularity, retrieval, the blind request, and an oracle filter.

popularity  the items that most training users took up
retrieval   the items that the users of the nearest training requests took up (BM25 over the words of the requests)
blind       the same requests without the evidence of a sensitivity: what an answer is worth to which nobody listened
All rank more items than k, so that a filter behind them (`oracle_filter`) has something to move up.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from saferec_builder.core import oracle as violations
from saferec_builder.core.oracle import CLEAR, Oracle
from saferec_builder.core.progress import Named, Progress, counted, silent
from saferec_builder.scoring.metrics import Ranked
from training.data import Item, Label, Message, Release, Row
from training.evaluation.ranking import Ranker

SPARE = 30  # times k: how many items a baseline ranks for the filter behind it


def popularity(train: Sequence[Row], items: Mapping[str, Item], table: Sequence[Row], k: int) -> dict[str, list[str]]:
    """The k items that most training users took up, of the row's domain and not seen; ties by id."""
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
    """The k items that weigh most among the users of the nearest requests, by likeness; then by popularity."""
    order, found = _popular(train, items), {}
    places = [ranker.items[item] for item in order]
    for row in counted(table, progress):
        best = np.argsort(-ranker.near(row)[places], kind="stable")  # which leaves ties in their order
        found[row["conversation"]] = _first((order[n] for n in best), items, row, k)
    return found


def _popular(train: Sequence[Row], items: Mapping[str, Item]) -> list[str]:
    taken = Counter(item for row in train for item in row["truth"])
    return sorted(items, key=lambda item: (-taken[item], item))


def blind(table: Sequence[Row], labels: Sequence[Label], split: Sequence[Row] = ()) -> list[Row]:
    """The rows without the words that the labels point at as evidence of a sensitivity, nor a sentence of ours.

    split: all its rows, where the table may lack the request that an injected row was made from.
    """
    quotes: dict[str, list[str]] = {}
    prompts = {row["conversation"]: row["prompt"] for row in (*split, *table)}
    for label in labels:
        if label["verdict"] == "present":
            quotes.setdefault(label["conversation"], []).extend(s["quote"] for s in label["spans"] if s["quote"])

    def cut(message: Message, gone: Sequence[str]) -> Message:
        text = message["content"]
        for quote in sorted(gone, key=len, reverse=True):
            text = re.sub(rf"(?<!\w){re.escape(quote)}(?!\w)", " ", text)  # "war" is no part of "award"
        return message | {"content": " ".join(text.split())}

    # an injected row has no label: the request that it was made from is the one without the sentence
    found: list[Row] = []
    for row in table:
        whole = row.get("request") or row.get("made_from") or ""
        prompt, gone = prompts.get(whole, row["prompt"]), quotes.get(row.get("made_from") or row["conversation"], ())
        found.append({**row, "prompt": [cut(message, gone) for message in prompt]})
    return found


def oracle_filter(lists: Sequence[Ranked], table: Sequence[Row], oracle: Oracle, k: int) -> dict[str, list[str | None]]:
    """The same answers as a filter behind the model would show them, by the release's own labels and verdicts.

    Violated and unknown items are taken out; what the answer ranked below k moves up, nothing else is added, so a
    list may become shorter. A user without traits keeps the list. (Scored on gold, the filter can be wrong.)
    """
    return {row["conversation"]: _filtered(a, row, oracle)[:k] for a, row in zip(lists, table, strict=True)}


def _filtered(answer: Ranked, row: Row, oracle: Oracle) -> list[str | None]:
    codes = violations.verdicts(oracle, answer, row["traits"])
    return [item for item, code in zip(answer, codes, strict=True) if code == CLEAR]


def _first(order: Iterable[str], items: Mapping[str, Item], row: Row, k: int) -> list[str]:
    seen, found = set(row["seen"]), []
    for item in order:
        if item not in seen and row["domain"] in (None, items[item].domain):
            found.append(item)
            if len(found) == k:
                break
    return found


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
    """NAMES -> answers: retrieval and popularity, each alone and behind the filter, and retrieval on blind requests.

    ranker: fitted on the same rows. split: as `blind` has it.
    """
    # an injected row is the same person, and what they took up, once more
    train = [row for row in train if row["condition"] != "injected"]
    items, k = release.items, release.k
    found: dict[str, Mapping[str, Ranked]] = {}
    spares = {"retrieval": retrieval(ranker, train, items, table, SPARE * k, named("retrieval", "request"))}
    spares["popularity"] = popularity(train, items, table, SPARE * k)
    for name, spare in spares.items():
        found[name] = {user: listed[:k] for user, listed in spare.items()}
        ranked = [spare[row["conversation"]] for row in table]
        found[f"{name}_filter"] = oracle_filter(ranked, table, release.oracle, k)
    deaf = blind(table, labels, split)
    found["retrieval_blind"] = retrieval(ranker, train, items, deaf, k, named("retrieval_blind", "request"))
    return {name: found[name] for name in NAMES}
