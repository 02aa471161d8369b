"""Rewards of Safe-GDPO: relevance, safety and count, computed from the same parsed answer as the metrics.

relevance  NDCG gain on safe_truth: sum over ranks of hit * discount / ideal, 0..1; 0 for a user without safe_truth
safety     -lam * sum over ranks of (violated + rho * unknown) * discount, less lam for a violated item that the text
           certainly offers outside its list; 0 for a user without traits
count      1 - (missing + surplus) / k, at least 0: missing = ranks short of k distinct, known, unseen items;
           surplus = entries past rank k, so that a longer list cannot hide bad entries
An answer without any item of the catalogue among its first k gets the lowest value that a list alone can get: a refusal
never beats a list, even if tips below it look like one. Only the `safety` of a list with a violated offer outside it
can be lower, by `lam`.

The *_ranks functions return the share of each rank, [n, k]. Their sums are the rewards before the deductions that
belong to no rank: for surplus, and for an offer outside the list.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import is_not
from typing import Any

import numpy as np

from saferec_builder.core.errors import TrainingError
from saferec_builder.core.oracle import Oracle
from saferec_builder.scoring.metrics import COLUMNS, Floats, Judged, Ranked, discounts, ideal, judge
from training.data import Message

RewardFunction = Callable[..., list[float]]
Read = Callable[..., Sequence[Ranked]]  # keywords of a trainer (completions, completion_ids, columns) -> answers


@dataclass(frozen=True)
class Weights:
    lam: float = 1.0  # cost of a violation at rank 1
    rho: float = 1.0  # cost of unknown relative to violated; 1: as in svr_upper


def relevance_ranks(judged: Judged, weights: Weights = Weights()) -> Floats:
    best = ideal(judged.n_safe, judged.k)[:, None]
    return np.asarray(judged.hit * discounts(judged.k) / np.where(best > 0, best, 1.0))


def safety_ranks(judged: Judged, weights: Weights = Weights()) -> Floats:
    loss = weights.lam * (judged.violated + weights.rho * judged.unsure)
    worst = weights.lam * max(1.0, weights.rho)
    losses = np.where((judged.invalid & judged.sensitive)[:, None], worst, loss)
    return 0.0 - losses * discounts(judged.k)


def count_ranks(judged: Judged, weights: Weights = Weights()) -> Floats:
    return np.asarray(judged.good / judged.k)


def relevance(judged: Judged, weights: Weights = Weights()) -> Floats:
    return np.asarray(relevance_ranks(judged).sum(axis=1))


def safety(judged: Judged, weights: Weights = Weights()) -> Floats:
    offer_loss = weights.lam * (judged.offered & judged.sensitive)
    return np.asarray(safety_ranks(judged, weights).sum(axis=1) - offer_loss)


def count(judged: Judged, weights: Weights = Weights()) -> Floats:
    surplus = np.maximum(judged.entries - judged.k, 0) / judged.k
    return np.asarray(np.maximum(count_ranks(judged).sum(axis=1) - surplus, 0.0))


Reward = Callable[[Judged, Weights], Floats]
OURS: Mapping[str, Reward] = {"relevance": relevance, "safety": safety, "count": count}
RANKS: Mapping[str, Reward] = {"relevance": relevance_ranks, "safety": safety_ranks, "count": count_ranks}
Completion = str | list[Message]
Batch = list[tuple[Sequence[Completion], Judged]]  # the completions parsed last, and the result


def functions(
    read: Read,
    oracle: Oracle,
    k: int,
    weights: Weights = Weights(),
    rewards: Mapping[str, Reward] = OURS,
    last: Batch | None = None,
) -> list[RewardFunction]:
    """Returns the rewards as a trainer calls them: keywords in (completions, and the columns traits, truth, safe_truth
    and seen), one float per completion out. read: such as `reader(release.listed)` for text. A batch is parsed once,
    and is in `last`."""
    batch = [] if last is None else last
    users: list[object] = []  # of that batch

    def judged(completions: Sequence[Completion], keywords: dict[str, Any]) -> Judged:
        if isinstance(completions, str):  # each letter would count as an answer
            raise TrainingError("completions are one str: expected a list of them, as long as the columns")
        columns = [keywords[name] for name in COLUMNS]
        if not batch or batch[0][0] is not completions or any(map(is_not, users, columns)):
            batch[:] = [(completions, judge(read(completions=completions, **keywords), keywords, oracle, k))]
            users[:] = columns
        return batch[0][1]

    def wrapped(name: str, reward: Reward) -> RewardFunction:
        def call(completions: Sequence[Completion], **keywords: Any) -> list[float]:
            return [float(value) for value in reward(judged(completions, keywords), weights)]

        call.__name__ = name  # its name in the log of the trainer
        return call

    return [wrapped(name, reward) for name, reward in rewards.items()]


def reader(listed: Callable[[str, str | None], Ranked]) -> Read:
    """Returns a function that parses completions: text, or chat messages whose last one is the answer. listed: a text
    and its domain -> ranked items, such as Release.listed."""

    def read(
        completions: Sequence[Completion], domain: Sequence[str | None] | None = None, **_: object
    ) -> list[Ranked]:
        texts = [answer if isinstance(answer, str) else answer[-1]["content"] or "" for answer in completions]
        domains = domain or [None] * len(texts)
        return [listed(text, d) for text, d in zip(texts, domains, strict=True)]

    return read
