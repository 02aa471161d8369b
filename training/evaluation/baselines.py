"""Baselines that need no model: popularity, retrieval, the blind request, and an oracle filter.

popularity  the items that most training users took up
retrieval   the items that the users of the nearest training requests took up (BM25 over the words of the requests)
blind       the same requests without the evidence of a sensitivity: what an answer is worth to which nobody listened
All rank more items than k, so that a filter behind them (`oracle_filter`) has something to move up.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from saferec_builder.core import oracle as violations
from saferec_builder.core.oracle import CLEAR, Oracle
from saferec_builder.core.progress import Named, Progress, counted, silent
from saferec_builder.scoring.metrics import Floats, Ranked
from training.data import Item, Label, Message, Row

SPARE = 30  # times k: how many items a baseline ranks for the filter behind it
NEAREST = 100  # training requests that retrieval listens to
K1, B = 1.2, 0.75  # BM25's usual constants


def popularity(train: Sequence[Row], items: Mapping[str, Item], table: Sequence[Row], k: int) -> dict[str, list[str]]:
    """The k items that most training users took up, of the row's domain and not seen; ties by id."""
    taken = Counter(item for row in train for item in row["truth"])
    order = sorted(items, key=lambda item: (-taken[item], item))
    return {row["conversation"]: _first(order, items, row, k) for row in table}


def retrieval(
    train: Sequence[Row],
    items: Mapping[str, Item],
    table: Sequence[Row],
    k: int,
    progress: Progress | None = None,
) -> dict[str, list[str]]:
    """The k items that weigh most among the users of the nearest requests, by likeness; then by popularity."""
    taken = Counter(item for row in train for item in row["truth"])
    order = sorted(items, key=lambda item: (-taken[item], item))
    place = {item: n for n, item in enumerate(order)}
    index = Index([request(row) for row in train])
    found = {}
    for row in counted(table, progress):
        likeness = index.scores(request(row))
        weights: Counter[str] = Counter()
        for n in nearest(likeness, NEAREST):
            for item in train[n]["truth"]:
                weights[item] += likeness[n]
        ranked = sorted((i for i in weights if i in place), key=lambda item: (-weights[item], place[item]))
        found[row["conversation"]] = _first(list(dict.fromkeys([*ranked, *order])), items, row, k)
    return found


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


def _first(order: Sequence[str], items: Mapping[str, Item], row: Row, k: int) -> list[str]:
    seen, found = set(row["seen"]), []
    for item in order:
        if item not in seen and row["domain"] in (None, items[item].domain):
            found.append(item)
            if len(found) == k:
                break
    return found


# --- likeness of requests -------------------------------------------------------------------------------------------


def request(row: Row) -> str:
    """What the person said, without the answers between."""
    return "\n".join(message["content"] for message in row["prompt"] if message["role"] == "user")


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def nearest(likeness: Floats, most: int) -> list[int]:
    """The rows of most likeness, none without any; ties by their order."""
    order = np.argsort(-likeness, kind="stable")[:most]
    return [int(n) for n in order if likeness[n] > 0]


class Index:
    """BM25 over texts: `scores` gives each text's likeness to a query."""

    def __init__(self, texts: Sequence[str]) -> None:
        counts = [Counter(words(text)) for text in texts]
        lengths = np.array([sum(count.values()) for count in counts], float)
        long = lengths / (lengths.mean() or 1.0) if len(lengths) else lengths
        holders: dict[str, list[tuple[int, int]]] = {}
        for n, count in enumerate(counts):
            for word, often in count.items():
                holders.setdefault(word, []).append((n, often))
        self.size = len(texts)
        self.postings: dict[str, tuple[NDArray[np.int64], Floats]] = {
            word: self._weighed(np.array(held), long) for word, held in holders.items()
        }

    def _weighed(self, held: NDArray[np.int64], long: Floats) -> tuple[NDArray[np.int64], Floats]:
        rows, often = held[:, 0], held[:, 1]
        rare = np.log1p((self.size - len(rows) + 0.5) / (len(rows) + 0.5))
        return rows, rare * often * (K1 + 1) / (often + K1 * (1 - B + B * long[rows]))

    def scores(self, query: str) -> Floats:
        found = np.zeros(self.size)
        for word in dict.fromkeys(words(query)):
            if word in self.postings:
                rows, weights = self.postings[word]
                found[rows] += weights
        return found


NAMES = ("retrieval", "retrieval_filter", "retrieval_blind", "popularity", "popularity_filter")


def answers(
    train: Sequence[Row],
    items: Mapping[str, Item],
    table: Sequence[Row],
    labels: Sequence[Label],
    oracle: Oracle,
    k: int,
    *,
    split: Sequence[Row] = (),
    named: Named = silent,
) -> dict[str, Mapping[str, Ranked]]:
    """NAMES -> answers: retrieval and popularity, each alone and behind the filter, and retrieval on blind requests.

    split: as `blind` has it.
    """
    # an injected row is the same person, and what they took up, once more
    train = [row for row in train if row["condition"] != "injected"]
    found: dict[str, Mapping[str, Ranked]] = {}
    spares = {"retrieval": retrieval(train, items, table, SPARE * k, named("retrieval", "request"))}
    spares["popularity"] = popularity(train, items, table, SPARE * k)
    for name, spare in spares.items():
        found[name] = {user: listed[:k] for user, listed in spare.items()}
        found[f"{name}_filter"] = oracle_filter([spare[row["conversation"]] for row in table], table, oracle, k)
    deaf = blind(table, labels, split)
    found["retrieval_blind"] = retrieval(train, items, deaf, k, named("retrieval_blind", "request"))
    return {name: found[name] for name in NAMES}
