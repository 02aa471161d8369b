"""The guard: filters by the traits that a request discloses, as a deployed recommender could. The bar for every model.

reads  a release; of each request the text, and what rules or a model claim of it (`claims`, which a release carries)
gives  lists of k items, and other recommenders' lists with the unsafe items replaced

Hearing   a linear model over the words of the training requests, joined with the claims, which know words that no
          training request has
Ranking   by what others took up (evaluation/ranking.py)
Filter    where a trait was heard, only items that are clear for all that were heard: unknown is not safe
Caution   where nothing was heard, relevance - caution * sum over traits of P(trait) * (the item is not clear), with
          the trait's share of the training users: what nobody could hear still costs an item
Fitted on the train split, its caution chosen on validation: the test split is never read.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from saferec_builder.core import oracle as violations
from saferec_builder.core.errors import TrainingError
from saferec_builder.core.oracle import CLEAR, Oracle
from saferec_builder.core.progress import Named, Progress, counted, silent
from saferec_builder.scoring import linear_text
from saferec_builder.scoring.linear_text import LinearText
from saferec_builder.scoring.metrics import Bools, Floats, Ranked, columns, judge, per_user
from training.data import Release, Row, listing, open_release, rows
from training.evaluation import ranking
from training.evaluation.ranking import Ranker, request
from training.evaluation.selection import lost
from training.harness.scoring import users_mean
from training.release_from_hub import folder

# probability from which the linear model has heard a trait, if it is also twice what any request has (.5 at most)
HEARD = 0.1
CAUTIONS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
LOOKED_AT = 1000  # validation rows, evenly spaced, that caution is chosen on


@dataclass(frozen=True)
class Guard:
    release: Release
    ranker: Ranker
    hearing: LinearText | None  # None: no training request has a trait
    shares: Floats  # [trait of the oracle] share of the training users who have it
    caution: float = 0.0

    def __repr__(self) -> str:
        of, traits = self.release.manifest, ", ".join(self.release.oracle.traits)
        size = f"{len(self.release.items):,} items, caution {self.caution}"
        return f"Guard({of['name']} {of['version']}, {size}, traits: {traits})"

    def heard(self, table: Sequence[Row]) -> list[list[str]]:
        """Per row the traits that its request discloses, by its claims or by the linear model; sorted."""
        _check_requests(table)
        found = [set(row.get("claims") or ()) for row in table]
        for traits in found:
            self.release.oracle.mask(traits)  # an unknown trait is a fault, not a safe user
        if self.hearing is not None and table:
            usual = self.shares[[self.release.oracle.column(slug) for slug in self.hearing.labels]]
            enough = np.clip(2 * usual, HEARD, 0.5)
            likely = self.hearing.score([request(row) for row in table]) >= enough
            for traits, said in zip(found, likely, strict=True):
                traits |= {slug for slug, yes in zip(self.hearing.labels, said, strict=True) if yes}
        return [sorted(traits) for traits in found]

    def answers(self, table: Sequence[Row], progress: Progress | None = None) -> dict[str, list[str]]:
        """Conversation -> k items of the row's domain, none of them seen; fewer only where too few are clear."""
        every = counted([*zip(table, self.heard(table), strict=True)], progress)
        return {row["conversation"]: self._lists(row, heard, [self.caution])[0] for row, heard in every}

    def taught(self, table: Sequence[Row], progress: Progress | None = None) -> list[Row]:
        """The rows as a student learns them: each with the k most relevant items that are clear for the traits that it
        is labelled with, heard or not. Without those for which nothing is clear.
        """
        found = []
        for row in counted(table, progress):
            (items,) = self._lists(row, row["traits"], [0.0])
            found += [listing(row, items, self.release.items)] if items else []
        return found

    def protect(self, lists: Sequence[Ranked], table: Sequence[Row]) -> list[list[str | None]]:
        """Another recommender's lists, one per request, made safe for what the requests disclose.

        Where a trait was heard, violated and unknown items and titles that are not of the catalogue go, the rest moves
        up, and the guard's own ranking fills the list to its old length: with items of the request's domain, else of
        that which most of the list is of. Where nothing was heard a list stays as it is. TrainingError where no entry
        of any list is the id of an item.
        """
        _check_requests(table)
        _check_lists(lists)
        if len(lists) != len(table):
            raise TrainingError(
                f"{len(lists)} lists and {len(table)} requests: expected one request (`asked`) per list"
            )
        named = [item for ranked in lists for item in ranked if item is not None]
        if named and not any(item in self.release.items for item in named):
            raise TrainingError(
                f"none of {len(named)} entries is an item of the release, the first is {named[0]!r}: expected ids"
                " (the keys of release.items; release.find(title, year, domain) gives that of a title)"
            )
        found: list[list[str | None]] = []
        for ranked, row, heard in zip(lists, table, self.heard(table), strict=True):
            found.append(self._protected(ranked, row, heard) if heard else list(ranked))
        return found

    def _protected(self, ranked: Ranked, row: Row, heard: Sequence[str]) -> list[str | None]:
        codes = violations.verdicts(self.release.oracle, ranked, heard)
        kept = [item for item, code in zip(ranked, codes, strict=True) if code == CLEAR]
        known = [self.release.items[item].domain for item in ranked if item is not None and item in self.release.items]
        if row["domain"] is None and known:
            row = {**row, "domain": Counter(known).most_common(1)[0][0]}
        own = self._lists(row, heard, [self.caution], len(ranked) + len(kept))[0]
        return [*dict.fromkeys([*kept, *own])][: len(ranked)]

    def frontier(self, table: Sequence[Row], progress: Progress | None = None) -> list[dict[str, float]]:
        """Per caution of CAUTIONS its mean metrics over these rows, and `caution`; nan where it applies to nobody."""
        every = counted([*zip(table, self.heard(table), strict=True)], progress)
        listed = [self._lists(row, heard, CAUTIONS) for row, heard in every]
        found, users, k = [], columns(table), self.release.k
        for caution, lists in zip(CAUTIONS, zip(*listed, strict=True), strict=True):
            values = per_user(judge(lists, users, self.release.oracle, k))
            found.append({"caution": caution} | {name: users_mean(value) for name, value in values.items()})
        return found

    def _lists(
        self, row: Row, heard: Sequence[str], cautions: Sequence[float], most: int | None = None
    ) -> list[list[str]]:
        """A list for each caution; where a trait was heard all are the same."""
        relevance, allowed, names = self.ranker.relevance(row), self._allowed(row, heard), list(self.ranker.items)
        found = []
        for caution in cautions:
            score = np.where(allowed, relevance if heard else relevance - caution * self._risk, -np.inf)
            order = np.argsort(-score, kind="stable")[: most or self.release.k]
            found.append([names[n] for n in order if allowed[n]])
        return found

    @cached_property
    def _risk(self) -> Floats:
        """[item] sum over traits of the trait's share, where the item is not clear for it."""
        unsafe: Floats = (self.release.oracle.codes[:-1] != CLEAR) @ self.shares
        return unsafe

    def _allowed(self, row: Row, heard: Sequence[str]) -> Bools:
        """[item] of the row's domain, not seen, clear for what was heard."""
        oracle, domain = self.release.oracle, row["domain"]
        fits = (oracle.codes[:-1, [oracle.column(slug) for slug in heard]] == CLEAR).all(axis=1)
        if domain is not None:
            fits &= self._domains == domain
        fits[[self.ranker.items[item] for item in row["seen"] if item in self.ranker.items]] = False
        return np.asarray(fits)

    @cached_property
    def _domains(self) -> NDArray[np.object_]:
        return np.array([item.domain for item in self.release.items.values()], object)


class OnDisk(Protocol):
    """What knows its folder, such as the Release of `import saferec_builder`."""

    @property
    def folder(self) -> Path: ...


def fit(release: Release | OnDisk | Path | str, named: Named = silent) -> Guard:
    """The guard of a release: fitted on its train split, caution chosen on its validation split, where it has one.

    A release that is not open is opened; the name of one on the Hub will do. TrainingError where it was withdrawn.
    Caution is the largest of CAUTIONS that loses at most selection.MARGIN of recall and of recall_without against none.
    named: shows each part that takes long.
    """
    release = release if isinstance(release, Release) else _opened(release)
    train = [row for row in rows(release.folder, "grpo", "train") if row["prompt"]]
    ranker = ranking.fit(train, {item: n for n, item in enumerate(release.items)}, named("guard, ranking", "block"))
    made = Guard(release, ranker, *_hearing(train, release.oracle, named("guard, hearing", "trait")))
    if not (release.folder / "data" / "grpo" / "validation.parquet").is_file():
        return made
    every = rows(release.folder, "grpo", "validation")
    table = [row for row in every if row["prompt"] and row["condition"] != "injected"]
    points = made.frontier(table[:: -(-len(table) // LOOKED_AT)], named("guard, caution", "request")) if table else []
    if not points or np.isnan(points[0][f"recall@{release.k}"]):  # nothing measured: nothing chosen
        return made
    held = [point["caution"] for point in points if not lost(points[0], point, release.k)]
    return replace(made, caution=max(held, default=0.0))


def asked(
    text: str | Sequence[str], claims: Collection[str] = (), seen: Collection[str] = (), domain: str | None = None
) -> Row:
    """A request of somebody who is not in the release, as `Guard.protect` and `heard` take it.

    text: what they said, or their messages in order. claims: traits that rules (saferec_builder.proposing.rules.matcher
    .claimed) or a model find in it. seen: ids. A bare claim or id is the only one.
    """
    said, claims, seen = ([one] if isinstance(one, str) else [*one] for one in (text, claims, seen))
    if isinstance(text, Mapping) or not all(isinstance(message, str) for message in said):
        raise TrainingError(
            "asked: found a message that is no text: expected its content, what the person said, as str"
        )
    prompt = [{"role": "user", "content": message} for message in said]
    return {"conversation": "", "prompt": prompt, "claims": claims, "seen": seen, "domain": domain}


def _check_requests(table: object) -> None:
    """Texts, or a request alone, are no list of requests; what is found is not shown, for somebody may have said it."""
    each = [*table] if isinstance(table, Iterable) and not isinstance(table, str | Mapping) else None
    if each is None or not all(isinstance(row, Mapping) for row in each):
        found = f"a {type(table).__name__}" + (f" of {type(each[0]).__name__}" if each else "")
        raise TrainingError(f"found {found}: expected a list of requests, each as `asked(text, claims)` gives it")


def _check_lists(lists: Sequence[Ranked]) -> None:
    for ranked in lists:
        if isinstance(ranked, str) or not all(item is None or isinstance(item, str) for item in ranked):
            found = f"{str(ranked)[:80]!r} ({type(ranked).__name__})"
            raise TrainingError(f"found {found} as a list: expected a list of lists, each of ids of items")


def _opened(release: OnDisk | Path | str) -> Release:
    found = getattr(release, "folder", release)
    if not isinstance(found, Path | str):
        raise TrainingError(f"{release!r} is no release: expected its folder, or what `open_release` gives")
    return open_release(folder(str(found)))


def _hearing(
    train: Sequence[Row], oracle: Oracle, progress: Progress | None = None
) -> tuple[LinearText | None, Floats]:
    """The linear model of the traits that a training request has, and each trait's share of the training users: who is
    there once more with an injected wish teaches words, and is no second user."""
    truth = np.array([[slug in row["traits"] for slug in oracle.traits] for row in train], float)
    truth = truth.reshape(len(train), len(oracle.traits))
    users = np.array([row["condition"] != "injected" for row in train], bool)
    shares: Floats = truth[users].sum(axis=0) / (users.sum() or 1)
    met = [slug for slug, known in zip(oracle.traits, truth.T, strict=True) if known.any()]
    if not met:
        return None, shares
    texts, known = [request(row) for row in train], truth[:, [oracle.column(slug) for slug in met]]
    return linear_text.fit(texts, known, met, characters=False, progress=progress), shares
