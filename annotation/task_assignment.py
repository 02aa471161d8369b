"""Assigns the tasks of one push to reviewers: turns, daily limits, opt-outs, and the order of tasks.

reads  a plan, the claims, the assignments so far, and the tasks that are due, each kind in its order
gives  assignments, in the order in which their readers see them
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import polars as pl

from saferec_builder.storage.tables import SUBJECT, TASK, UNIT, digest

BETWEEN = 3  # other tasks between two audits of one reviewer, while there are any
AUDIT = "audit"
CONTROL, HELD_BACK = "control", "held_back"  # controls.py
BLIND = (AUDIT, CONTROL, HELD_BACK, "gold")  # shown without a suggestion
Key = tuple[str, str]  # kind, subject
Due = tuple[str, str, str, str]  # kind, subject, digest, why


def by_turn(subject: str) -> str:
    """The sort key of tasks that are assigned for a reason other than the draw.

    In the order of the draw, a push with a budget would assign first the subjects that are drawn first, selected or
    not: the drawn part would say nothing about the rest.
    """
    return digest("order", subject)


@dataclass(frozen=True)
class Plan:
    """What a push may assign, to whom, and what is known of the texts."""

    reviewers: tuple[str, ...] = ()
    adjudicator: str | None = None
    readers: int = 2  # independent readers per task
    audit: float = 0.1  # share of the conversations and items without a proposal that are read anyway
    everything: bool = False  # every conversation goes out: an audit share of 1
    batch: str = "push-1"
    band: int = 0  # conversations without a proposal that are read by their score, highest first
    zone: Mapping[Key, str] = field(default_factory=dict)  # (kind, subject) -> place in the draw of the audits
    census: frozenset[tuple[str, str]] = frozenset()  # (kind, subject) that no audit represents: all of them are read
    gold: frozenset[tuple[str, str]] = frozenset()  # (kind, subject) with known verdicts: everybody reads them
    orders: frozenset[tuple[str, str]] = frozenset()  # (kind, subject) whose text contains instructions to a model
    avoid: frozenset[tuple[str, str]] = frozenset()  # (reviewer, trait): never to be shown to them
    known: frozenset[tuple[str, str, str]] = frozenset()  # in the texts, besides claims (routing.found_units)
    severe: frozenset[str] = frozenset()  # traits with a warning and a cap
    severe_a_day: int = 0  # tasks with such a trait per person and batch; 0: no cap
    severe_in_a_row: int = 0
    budget: int = 0  # units to assign now; 0: all
    auto: frozenset[tuple[str, str]] = frozenset()  # (conversation, trait) of claims that need no reader
    held_back: float = 0.0  # share of the proposed conversations that one reader reads without suggestions
    recheck: frozenset[tuple[str, str]] = frozenset()  # (kind, subject) drawn for the adjudicator though undisputed

    def drawn(self, kind: str) -> float:
        """The share of the zone that audits have reached after this push; 0: there is no draw yet."""
        return 1.0 if self.everything and kind == "sensitivity" else self.audit


def deal(dealer: "Dealer", due: list[Due]) -> list[tuple[str, ...]]:
    """ASSIGNMENTS rows: conversations, then items; in each the audits in the order of the draw, so that it has no gaps,
    between the other tasks in their order.

    A task that waits for a reviewer's pause comes as soon as the pause is over. If only such tasks and audits remain,
    pauses are waived, rather than letting audits come closer together: then only the daily cap holds.
    """
    waiting: deque[Due] = deque()
    zone, lacking = dealer.plan.zone, (task for task in due if dealer.missing(task[:2], task[3]) > 0)
    due = sorted(lacking, key=lambda task: zone[task[:2]] if task[3] == AUDIT else by_turn(task[1]))
    for kind in ("sensitivity", "item_flag"):
        audits = deque(task for task in due if task[0] == kind and task[3] == AUDIT)
        others = deque(task for task in due if task[0] == kind and task[3] != AUDIT)
        dealer.line_up([*waiting, *others])
        while (others or audits) and not dealer.spent_all:
            if dealer.next(waiting):
                continue
            if audits and dealer.give(audits[0]):
                audits.popleft()
            elif others:
                if not dealer.next(others):
                    waiting.append(others.popleft())
            elif not dealer.next(waiting, pauses=False):
                audits.popleft()
    while not dealer.spent_all and dealer.next(waiting, pauses=False):
        pass
    return dealer.rows


class Dealer:
    """Assigns one task after the other and keeps the counts of one push."""

    def __init__(
        self, plan: Plan, proposals: pl.DataFrame, assignments: pl.DataFrame, revoked: pl.DataFrame | None
    ) -> None:
        self.plan, self.traits, self.rows, self.spent = plan, _shown_traits(proposals), list[tuple[str, ...]](), 0
        self.over = False  # a task exceeded the budget
        self.left: Counter[str] = Counter()  # tasks still to come, without audits, that a reviewer may get
        self.found = {key: set(shown) for key, shown in self.traits.items()}  # all that it is known to hold
        for kind, subject, trait in plan.known:
            self.found.setdefault((kind, subject), set()).add(trait)
        self.hidden = {name: {trait for reviewer, trait in plan.avoid if reviewer == name} for name in plan.reviewers}
        self.load = dict.fromkeys(plan.reviewers, 0)
        self.today = dict.fromkeys(plan.reviewers, 0)  # severe tasks in this batch
        self.run = dict.fromkeys(plan.reviewers, 0)  # severe tasks since the last other one, or since the last batch
        self.since = dict.fromkeys(plan.reviewers, 0)  # other tasks since the last audit
        self.had = dict[Key, set[str]]()  # everybody who ever had it, to read or to rule on, cannot get it again
        self.have = dict[Key, set[str]]()  # its readers whose votes make a label
        taken_back = set() if revoked is None else set(revoked.select(TASK).iter_rows())
        for kind, subject, name, role, why, batch in assignments.select(*TASK, "role", "why", "batch").iter_rows():
            key = (kind, subject)
            self.had.setdefault(key, set()).add(name)
            if role != "reviewer":
                continue
            self.load[name] = self.load.get(name, 0) + 1
            if why != CONTROL and (kind, subject, name) not in taken_back:
                self.have.setdefault(key, set()).add(name)
            if name in self.run:
                current = batch == plan.batch
                self._count(name, why, current and self._severe(key), now=current)

    @property
    def spent_all(self) -> bool:
        return 0 < self.plan.budget <= self.spent

    def line_up(self, others: Iterable[Due]) -> None:
        """Counts the tasks that come between the audits, including those that wait."""
        self.left = Counter(name for task in others for name in self._takers(task))

    def next(self, tasks: deque[Due], *, pauses: bool = True) -> bool:
        """Assigns the first of them and removes it; False if there is none, or if a reviewer must pause before it."""
        if not tasks:
            return False
        self.left.subtract(self._takers(tasks[0]))
        assigned = self.give(tasks[0], pauses=pauses)
        if assigned:
            tasks.popleft()
        else:
            self.left.update(self._takers(tasks[0]))
        return assigned

    def give(self, due: Due, *, pauses: bool = True) -> bool:
        """Assigns the readers that the task lacks, as far as the daily cap and the budget go. Returns whether this was
        all: False if a reviewer must read something else first (`pauses`: after so many severe ones), and could then
        read it.

        After a task that exceeds the budget no audit follows: with gaps the draw would count the skipped units as
        missed, and cheap audits would use up what the expensive ones left.
        """
        kind, subject, text, why = due
        key, plan = (kind, subject), self.plan
        severe = self._severe(key)
        missing, free = self.missing(key, why), [name for name in self._free(key) if not (severe and self._full(name))]
        pausing = {name for name in free if severe and pauses and 0 < plan.severe_in_a_row <= self.run[name]}
        ready = [name for name in free if name not in pausing and (why != AUDIT or self._due(name))]
        if why == AUDIT and self.over:
            return True
        for name in sorted(ready, key=lambda name: (self.load[name], digest(subject, name)))[: max(0, missing)]:
            cost = max(1, len(self.traits.get(key, set())))
            if plan.budget and self.spent + cost > plan.budget:
                self.over = True
                return True
            self.spent += cost
            self.load[name] += 1
            self._count(name, why, severe)
            reason = HELD_BACK if why == "proposed" and self._held_back(key) else why
            self.rows.append((kind, subject, name, "reviewer", text, reason, plan.batch))
            self.had.setdefault(key, set()).add(name)
            self.have.setdefault(key, set()).add(name)
            missing -= 1
        return missing <= 0 or len(ready) == len(free)

    def short(self, due: Due) -> str | None:
        """Why a task lacks readers: no more `readers` may see it, their `day` is full, or the `budget` is spent."""
        missing, free, severe = self.missing(due[:2], due[3]), self._free(due[:2]), self._severe(due[:2])
        ready = [name for name in free if not (severe and self._full(name))]
        reason = "readers" if len(free) < missing else "day" if len(ready) < missing else "budget"
        return reason if missing > 0 else None

    def _held_back(self, key: tuple[str, str]) -> bool:
        """Whether the suggestion is hidden from the conversation's next reader: from one reader, by hash. Never for a
        severe trait: its warning would be hidden, too."""
        kind, subject = key
        if not self.plan.severe.isdisjoint(self.found.get(key, ())):
            return False
        drawn = kind == "sensitivity" and int(digest("held back", subject), 16) < self.plan.held_back * 2**64
        earlier = len(self.have.get(key, ()))
        return drawn and int(digest("held back from", subject), 16) % self.plan.readers == earlier

    def _takers(self, due: Due) -> list[str]:
        """The reviewers who may get a task that lacks readers."""
        return self._free(due[:2]) if self.missing(due[:2], due[3]) > 0 else []

    def missing(self, key: Key, why: str) -> int:
        """Readers that a task still lacks: gold goes to everybody who may see it, and to as many as any other task."""
        lacks = self.plan.readers - len(self.have.get(key, ()))
        return max(lacks, len(self._free(key))) if why == "gold" else lacks

    def _free(self, key: Key) -> list[str]:
        """The reviewers who never had it and may see it."""
        had, present = self.had.get(key, set()), self.found.get(key, ())
        return [name for name, hidden in self.hidden.items() if name not in had and hidden.isdisjoint(present)]

    def _severe(self, key: Key) -> bool:
        """Whether it carries a warning: for a trait that it shows, or that its gold contains."""
        traits = self.found if key in self.plan.gold else self.traits
        return not self.plan.severe.isdisjoint(traits.get(key, ()))

    def _full(self, name: str) -> bool:
        return bool(self.plan.severe_a_day) and self.today[name] >= self.plan.severe_a_day

    def _due(self, name: str) -> bool:
        """Whether an audit may come now: three other tasks came since the last one, or none is left."""
        return self.since[name] >= BETWEEN or self.left[name] <= 0

    def _count(self, name: str, why: str, severe: bool, *, now: bool = True) -> None:
        self.since[name] = 0 if why == AUDIT else self.since[name] + 1
        if now:  # a night is a pause, too
            self.run[name] = self.run[name] + 1 if severe else 0
            self.today[name] += severe


def _shown_traits(proposals: pl.DataFrame) -> dict[Key, set[str]]:
    """The traits that a task on it would show."""
    by_task = claims(proposals.select(*UNIT, "verdict")).group_by(SUBJECT).agg("trait")
    return {(kind, subject): set(traits) for kind, subject, traits in by_task.iter_rows()}


def costs(proposals: pl.DataFrame) -> pl.DataFrame:
    """kind, subject, cost: the number of claims of a task; a task without claims has no row and costs one."""
    return claims(proposals).group_by(SUBJECT).agg(cost=pl.col("trait").n_unique())


def claims(proposals: pl.DataFrame) -> pl.DataFrame:
    return proposals.filter(pl.col("verdict").is_in(["present", "unsure"]))
