"""The guard: filters by the traits that a request discloses, as a deployed recommender could; a bar for every model.

Hearing   a linear model over the words of the training requests, joined with the traits that rules or a model find
          (`claims` in a release), which cover words that no training request has
Ranking   by what others took up (evaluation/ranking.py)
Filter    if a trait was heard, only items that are clear for all heard traits: unknown is not safe
Caution   if no trait was heard, relevance - caution * sum over traits of P(trait) * (the item is not clear), where
          P(trait) is the trait's share of the training users: a trait that no model can hear still costs an item
Fitted on the train split; caution is chosen on validation: the test split is never read.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from saferec_builder.core.errors import TrainingError, near
from saferec_builder.core.oracle import CLEAR, Oracle
from saferec_builder.core.progress import Named, Progress, counted, silent
from saferec_builder.scoring import linear_text
from saferec_builder.scoring.linear_text import LinearText
from saferec_builder.scoring.mention_finder import in_text
from saferec_builder.scoring.metrics import Bools, Floats, Ranked
from training.data import Release, Row, clear, listing, open_release, rows
from training.evaluation import ranking, user_weights
from training.evaluation.ranking import Ranker, request
from training.evaluation.selection import lost
from training.harness.scoring import values

# the linear model hears a trait from this probability, or from twice the trait's base rate (at most .5) if that is more
HEARD = 0.1
CAUTIONS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
LOOKED_AT = 1000  # number of validation rows, evenly spaced, to choose caution on
_NUMBERS = count(1)  # of new requests


@dataclass(frozen=True)
class Guard:
    release: Release
    ranker: Ranker
    hearing: LinearText | None  # None: no training request has a trait
    shares: Floats  # [trait of the oracle] share of the training users with the trait
    caution: float = 0.0

    def __repr__(self) -> str:
        manifest, traits = self.release.manifest, ", ".join(self.release.oracle.traits)
        size = f"{len(self.release.items):,} items, caution {self.caution}"
        return f"Guard({manifest['name']} {manifest['version']}, {size}, traits: {traits})"

    def heard(self, table: Sequence[Row]) -> list[list[str]]:
        """Returns for each row the traits that its request discloses, by its claims or by the linear model; sorted."""
        _check_requests(table)
        heard = [set(row.get("claims") or ()) for row in table]
        for traits in heard:
            self.release.oracle.mask(traits)  # raises for an unknown trait: it must not make a user safe
        if self.hearing is not None and table:
            base_rates = self.shares[[self.release.oracle.column(slug) for slug in self.hearing.labels]]
            thresholds = np.clip(2 * base_rates, HEARD, 0.5)
            decisions = self.hearing.score([request(row) for row in table]) >= thresholds
            for traits, flags in zip(heard, decisions, strict=True):
                traits |= {slug for slug, is_heard in zip(self.hearing.labels, flags, strict=True) if is_heard}
        return [sorted(traits) for traits in heard]

    def answers(self, table: Sequence[Row], progress: Progress | None = None) -> dict[str, list[str]]:
        """Returns conversation -> k unseen items of the row's domain; fewer only if too few are clear, and none if no
        item is. A request of `new_request` has its name under "conversation", too."""
        heard = self.heard(table)
        names = Counter(row["conversation"] for row in table)
        if twice := [name for name, times in names.items() if times > 1]:
            raise TrainingError(f"two requests are called {twice[0]!r}: expected each once, under its `conversation`")
        self._refuse_other_names(table)
        pairs = counted([*zip(self._with_seen(table), heard, strict=True)], progress)
        return {row["conversation"]: self._lists(row, heard, [self.caution])[0] for row, heard in pairs}

    def student_rows(self, table: Sequence[Row], progress: Progress | None = None) -> list[Row]:
        """Returns the rows with lists for a student to learn: the k most relevant items that are clear for the labelled
        traits, heard or not. Rows without a clear item are left out."""
        lists = ((row, self._lists(row, row["traits"], [0.0])[0]) for row in counted(table, progress))
        return [listing(row, items, self.release.items) for row, items in lists if items]

    def protect(self, lists: Sequence[Ranked], table: Sequence[Row]) -> list[list[str | None]]:
        """Returns another recommender's lists of ids, one per request, made safe for the traits that these disclose.

        If a trait was heard, entries that are not clear are removed, the rest moves up, and the guard's ranking fills
        the list to its old length, with items of the request's domain, or else of the most frequent domain of the list.
        An empty list says that no item of the release is known to be clear. If no trait was heard, the list stays as it
        is. Raises TrainingError if no entry of any list, or of any `seen`, is an item's id, and for an unknown domain.
        """
        _check_requests(table)
        for ranked in lists:
            if isinstance(ranked, str) or not all(item is None or isinstance(item, str) for item in ranked):
                shown = f"{str(ranked)[:80]!r} ({type(ranked).__name__})"
                raise TrainingError(f"found {shown} as a list: expected a list of lists, each of ids of items")
        if len(lists) != len(table):
            raise TrainingError(
                f"{len(lists)} lists and {len(table)} requests: expected one request (`new_request`) per list"
            )
        self._refuse_no_ids([item for ranked in lists for item in ranked if item is not None], "entries")
        self._refuse_other_names(table)
        triples = zip(lists, self._with_seen(table), self.heard(table), strict=True)
        return [self._protected(ranked, row, heard) if heard else [*ranked] for ranked, row, heard in triples]

    def _refuse_other_names(self, table: Sequence[Row]) -> None:
        """Raises TrainingError for new requests of a domain that no item has, or whose `seen` holds no id of an item.
        Rows of a release, which have a condition, may be of a domain that none of its items has."""
        new = [row for row in table if "condition" not in row]
        domains = sorted({item.domain for item in self.release.items.values() if item.domain})
        if other := [row["domain"] for row in new if row["domain"] not in (None, *domains)]:
            raise TrainingError(f"domain {other[0]!r}: {near(str(other[0]), domains)}, or None")
        seen = [item for row in new for item in row.get("seen", ()) if item is not None]  # None: `find` found no item
        self._refuse_no_ids(seen, "entries of seen")

    def _refuse_no_ids(self, entries: Sequence[str], name: str) -> None:
        if entries and not any(item in self.release.items for item in entries):
            raise TrainingError(
                f"none of {len(entries)} {name} is an item of the release, the first is {entries[0]!r}: expected ids"
                " (the keys of release.items; release.find(title, year, domain) gives that of a title)"
            )

    def _with_seen(self, table: Sequence[Row]) -> list[Row]:
        """Returns the rows, those without `seen` with the items that the person names: no list gives them back."""
        names = ((row, in_text(self.release.mentions, request(row)) if "seen" not in row else ()) for row in table)
        return [{"seen": [*dict.fromkeys(name.item for name in found if name.item)], **row} for row, found in names]

    def _protected(self, items: Ranked, row: Row, heard: Sequence[str]) -> list[str | None]:
        kept = clear(self.release.oracle, items, heard)
        domains = [self.release.items[item].domain for item in items if item is not None and item in self.release.items]
        if row["domain"] is None and domains:
            row = {**row, "domain": Counter(domains).most_common(1)[0][0]}
        fillers = self._lists(row, heard, [self.caution], len(items) + len(kept))[0]
        return [*dict.fromkeys([*kept, *fillers])][: len(items)]

    def frontier(self, table: Sequence[Row], progress: Progress | None = None) -> list[dict[str, float]]:
        """Returns for each of CAUTIONS the mean metrics over the users, and `caution`; nan if it applies to no user."""
        pairs = counted([*zip(table, self.heard(table), strict=True)], progress)
        lists_by_row = [self._lists(row, heard, CAUTIONS) for row, heard in pairs]
        points, oracle, k = [], self.release.oracle, self.release.k
        for caution, lists in zip(CAUTIONS, zip(*lists_by_row, strict=True), strict=True):
            means = user_weights.means(values(lists, table, oracle, k), table)
            points.append({"caution": caution} | means)
        return points

    def _lists(
        self, row: Row, heard: Sequence[str], cautions: Sequence[float], most: int | None = None
    ) -> list[list[str]]:
        """Returns a list for each caution; all are the same if a trait was heard."""
        relevance, allowed, names = self.ranker.relevance(row), self._allowed(row, heard), list(self.ranker.items)
        lists = []
        for caution in cautions:
            score = np.where(allowed, relevance if heard else relevance - caution * self._risk, -np.inf)
            order = np.argsort(-score, kind="stable")[: most or self.release.k]
            lists.append([names[n] for n in order if allowed[n]])
        return lists

    @cached_property
    def _risk(self) -> Floats:
        """[item] sum of the shares of the traits that the item is not clear for."""
        return np.asarray((self.release.oracle.codes[:-1] != CLEAR) @ self.shares)

    def _allowed(self, row: Row, heard: Sequence[str]) -> Bools:
        """[item] whether it is of the row's domain, not seen, and clear for all heard traits."""
        oracle, domain = self.release.oracle, row["domain"]
        allowed = (oracle.codes[:-1, [oracle.column(slug) for slug in heard]] == CLEAR).all(axis=1)
        if domain is not None:
            allowed &= self._domains == domain
        allowed[[self.ranker.items[item] for item in row["seen"] if item in self.ranker.items]] = False
        return np.asarray(allowed)

    @cached_property
    def _domains(self) -> NDArray[np.object_]:
        return np.array([item.domain for item in self.release.items.values()], object)


class OnDisk(Protocol):
    """An object with a folder, such as the Release of `import saferec_builder`."""

    @property
    def folder(self) -> Path: ...


def fit(release: Release | OnDisk | Path | str, named: Named = silent) -> Guard:
    """Returns the guard of a release: fitted on its train split, with caution chosen on its validation split, if any:
    the largest of CAUTIONS that loses at most selection.MARGIN of recall and of recall_without against caution 0.

    Opens a release given by folder or by name on the Hub. named: shows the progress of each long part.
    """
    if not isinstance(release, Release):
        path = getattr(release, "folder", release)
        if not isinstance(path, Path | str):
            raise TrainingError(f"{release!r:.80} is no release: expected its folder, or what `open_release` gives")
        release = open_release(path)
    train = [row for row in rows(release.folder, "grpo", "train") if row["prompt"]]
    ranker = ranking.fit(train, {item: n for n, item in enumerate(release.items)}, named("guard, ranking", "block"))
    fitted = Guard(release, ranker, *_hearing(train, release.oracle, named("guard, hearing", "trait")))
    if not (release.folder / "data" / "grpo" / "validation.parquet").is_file():
        return fitted
    validation = rows(release.folder, "grpo", "validation")
    table = [row for row in validation if row["prompt"] and row["condition"] != "injected"]
    points = fitted.frontier(table[:: -(-len(table) // LOOKED_AT)], named("guard, caution", "request")) if table else []
    if not points or np.isnan(points[0][f"recall@{release.k}"]):  # without a measurement caution stays 0
        return fitted
    cautions = [point["caution"] for point in points if not lost(points[0], point, release.k)]
    return replace(fitted, caution=max(cautions, default=0.0))


def learned_from(train: Sequence[Row]) -> int:
    """Returns the number of traits of the training requests that the hearing of a guard is fitted on."""
    return sum(len(row["traits"]) for row in train if row["prompt"])


def new_request(
    text: str | Sequence[str],
    claims: Collection[str] = (),
    seen: Collection[str] | None = None,
    domain: str | None = None,
) -> Row:
    """Returns a row for `Guard.protect`, `answers` and `heard`, with a name of its own (`conversation`).

    text: one message, or the person's messages in order. claims: traits that rules
    (saferec_builder.proposing.rules.matcher.claimed) or a model find in it. seen: ids of what the person has seen, by
    default the items that the text names. domain: of the items to recommend, if it is known."""
    messages, claims, ids = ([value] if isinstance(value, str) else [*value] for value in (text, claims, seen or ()))
    if isinstance(text, Mapping) or not all(isinstance(message, str) for message in messages):
        raise TrainingError(
            "new_request: found a message that is no text: expected its content, what the person said, as str"
        )
    prompt = [{"role": "user", "content": message} for message in messages]
    row: Row = {"conversation": f"request-{next(_NUMBERS)}", "prompt": prompt, "claims": claims, "domain": domain}
    return row if seen is None else {**row, "seen": ids}


def _check_requests(table: object) -> None:
    """Raises TrainingError if this is no list of requests; the error does not quote it, as it may be personal text."""
    requests = [*table] if isinstance(table, Iterable) and not isinstance(table, str | Mapping) else None
    if requests is None or not all(isinstance(row, Mapping) for row in requests):
        kind = f"a {type(table).__name__}" + (f" of {type(requests[0]).__name__}" if requests else "")
        raise TrainingError(f"found {kind}: expected a list of requests, each as `new_request(text, claims)` gives it")


def _hearing(
    train: Sequence[Row], oracle: Oracle, progress: Progress | None = None
) -> tuple[LinearText | None, Floats]:
    """Returns Guard.hearing and Guard.shares: an injected row or a further request teaches words, but is no second
    user."""
    truth = np.array([[slug in row["traits"] for slug in oracle.traits] for row in train], float)
    truth = truth.reshape(len(train), len(oracle.traits))
    traits_by_user: dict[str, set[str]] = {}
    for row in train:
        if row["condition"] != "injected":
            traits_by_user.setdefault(user_weights.user(row), set()).update(row["traits"])
    users = [[slug in traits for slug in oracle.traits] for traits in traits_by_user.values()]
    shares: Floats = np.array(users, float).reshape(-1, len(oracle.traits)).sum(axis=0) / (len(users) or 1)
    slugs = [slug for slug, column in zip(oracle.traits, truth.T, strict=True) if column.any()]
    if not slugs:
        return None, shares
    texts, targets = [request(row) for row in train], truth[:, [oracle.column(slug) for slug in slugs]]
    return linear_text.fit(texts, targets, slugs, characters=False, progress=progress), shares
