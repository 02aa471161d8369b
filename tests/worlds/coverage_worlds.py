"""Simulated review campaigns with known truth, day by day, through the product's own design, routing and bounds.

Each condition is something that happens in real campaigns and broke, or could break, a bound: see CONDITIONS. A bound
is relative to the label that these readers and their adjudicator would give (`World.label`): it is wrong where more is
missed than it says, at any look. Shares, sizes and days were fixed before the first run.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import compress

import numpy as np
import polars as pl
from numpy.typing import NDArray

from annotation import aggregation, recall_bounds as bounds, routing, sampling_design as design
from annotation.confidence_bounds import ALPHA
from annotation.task_assignment import Plan
from saferec_builder.storage import tables
from tests.worlds import pushed_worlds
from tests.worlds.routing import NO_DISPUTES, SECRET

PREVALENCE = {"gore": 0.2, "needles": 0.12, "accidents_disasters": 0.08, "animal_harm": 0.05, "torture": 0.1}
NEW = "horror_scares"  # joins the taxonomy midway, prevalence 10 %
SEVERE = frozenset({"torture"})
PEOPLE = ("ann", "bo", "di", "el", "fe")
TASK = ("subject", "reviewer", "why")
UNITS, DAYS, READ = 900, 8, 0.85  # READ: share of the open tasks that a person reads until the next look


@dataclass(frozen=True)
class Condition:
    """Changes to the first of CONDITIONS: two people who make no errors, and an audit that grows every day."""

    days: int = DAYS
    recall: float = 0.93  # of the proposer: it misses a little more than ALPHA
    growth: float = 0.14  # of the audit's share, each day
    budget: int = 0
    caps: bool = False
    hand_back: bool = False  # bo would rather not see torture: he hands back audits with it, and nobody takes them over
    leave: float = 0.0  # share of all people who ask to be removed, each day
    withdraw: float = 0.0  # share of the newly found people who ask for it
    arrive: int = 0  # conversations mined every other day, with twice the prevalence and a worse proposer
    second: bool = False  # another proposer and a band, midway
    first: int = 0  # days on which they read by score, more each day, before anything is drawn
    readers: int = 2
    taxonomy: bool = False  # a trait joins midway: nobody's `*` counts until they have read again
    alone: bool = False  # one reader for the first half: two thirds as fast, and nothing becomes a label
    errors: float = 0.0  # share of the present traits that each reader overlooks, independently
    together: float = 0.0  # share of conversations that are hard: in these everybody overlooks half
    kind: str = "sensitivity"  # or `item_flag`: unsafe-item flags, by readers of plots
    pretty: bool = False  # the campaign stops as soon as the pooled bound is good


CONDITIONS = {
    "growing audit": Condition(),
    "budget": Condition(budget=220),
    "caps": Condition(caps=True),
    "opt-outs": Condition(hand_back=True),
    "removals": Condition(leave=0.04),
    "found people withdraw": Condition(withdraw=0.8),
    "added and drift": Condition(arrive=120),
    "second proposer": Condition(second=True, recall=0.8),
    "scores and band": Condition(first=3, recall=0.8, days=DAYS + 2),
    "scores, band and arrivals": Condition(first=3, recall=0.85, arrive=120, second=True, days=DAYS + 2),
    "taxonomy changed": Condition(taxonomy=True, days=DAYS + 2),
    "one reader, then two": Condition(alone=True, errors=0.1),
    "three readers": Condition(readers=3, errors=0.1),
    "five readers": Condition(readers=5, errors=0.2),
    "correlated errors": Condition(together=0.3, errors=0.05),
    "interleaved queue": Condition(budget=130, growth=0.5, days=14),
    "item flags": Condition(kind="item_flag", errors=0.1),
    "stopping when pretty": Condition(pretty=True, growth=0.07, days=12),
}


@dataclass(frozen=True)
class Look(pushed_worlds.Look):
    """`together`: the traits that are certified together."""

    together: list[str]

    def joint_wrong(self) -> bool:
        return any(self.missed[slug] > ALPHA + 1e-9 for slug in self.together)


@dataclass
class World:
    """The truth, the claims of proposers, and what each reader would say."""

    condition: Condition
    seed: int
    truth: dict[str, frozenset[str]] = field(default_factory=dict)
    said: dict[str, dict[str, frozenset[str]]] = field(default_factory=dict)  # reader -> conversation -> traits
    label: dict[str, frozenset[str]] = field(default_factory=dict)  # what the readers and the adjudicator would say
    claims: list[tuple[str, str]] = field(default_factory=list)
    later: list[tuple[str, str]] = field(default_factory=list)  # claims of the second proposer
    score: dict[str, float] = field(default_factory=dict)

    @cached_property
    def rng(self) -> np.random.Generator:
        return np.random.default_rng([self.seed, 22])

    def grow(self, units: int, more: float = 1.0) -> None:
        """Adds so many conversations; `more` multiplies prevalence and the share that the proposer overlooks."""
        condition, rng, start = self.condition, self.rng, len(self.truth)
        slugs, chance = [*PREVALENCE, NEW], np.array([*PREVALENCE.values(), 0.1])
        truth = rng.random((units, len(slugs))) < chance * more
        miss_chance = np.where(rng.random((units, 1)) < condition.together, 0.5, condition.errors)
        seen_by_reader = [truth & (rng.random(truth.shape) >= miss_chance) for _ in range(condition.readers)]
        votes = 2 * np.sum(seen_by_reader, axis=0)
        label = (votes > condition.readers) | ((votes == condition.readers) & truth)  # adjudicators overlook nothing
        proposed = truth & (rng.random(truth.shape) >= (1 - condition.recall) * more)
        proposed[:, :-1] |= rng.random((units, len(PREVALENCE))) < 0.005
        later = truth & (rng.random(truth.shape) < 0.7)
        score = rng.normal(size=units) + 1.5 * (truth & ~proposed).any(axis=1)
        names = [f"w{self.seed}-{n}" for n in range(start, start + units)]

        def sets(of: NDArray[np.bool_]) -> dict[str, frozenset[str]]:
            return {name: frozenset(compress(slugs, row)) for name, row in zip(names, of.tolist(), strict=True)}

        self.truth |= sets(truth)
        self.label |= sets(label)
        for person, traits in zip(PEOPLE, seen_by_reader, strict=False):
            self.said.setdefault(person, {}).update(sets(traits))
        for claims, matrix in ((self.claims, proposed), (self.later, later)):
            claims += [(names[n], slugs[trait]) for n, trait in np.argwhere(matrix).tolist()]
        self.score |= dict(zip(names, score.tolist(), strict=True))


class Campaign:
    def __init__(self, world: World) -> None:
        self.world, self.rng = world, np.random.default_rng([world.seed, 23])
        self.kind = world.condition.kind
        self.design, self.given = tables.DESIGN.empty, tables.ASSIGNMENTS.empty
        self.slugs = list(PREVALENCE)
        self.gone = set[str]()
        self.waits: list[tuple[str, str, str]] = []  # (conversation, reader, why) of unread tasks
        self.done: dict[str, set[str]] = {}  # conversation -> its readers under the present taxonomy
        self.ruled = set[str]()
        self.back = set[tuple[str, str]]()  # (conversation, reader) handed back
        self.known: dict[str, dict[str, bool]] = {}  # present labels
        self.ever: dict[str, dict[str, bool]] = {}  # labels at any time so far
        self.asked = set[str]()  # people who were found and have decided whether to stay
        self.band = 0

    def days(self) -> Iterator[Look]:
        condition = self.world.condition
        self.world.grow(UNITS)
        for day in range(condition.days):
            self._happens(day)
            self._push(day)
            self._read()
            label_bounds = self._bounds()
            yield self._look(label_bounds)
            if condition.pretty and label_bounds.pooled.certified:
                return

    def _happens(self, day: int) -> None:
        condition, names = self.world.condition, self.here
        midway = day == condition.days // 2
        if condition.arrive and day and day % 2 == 0:
            self.world.grow(condition.arrive, 2.0)
        if condition.leave and day:
            self.gone |= {name for name in names if self.rng.random() < condition.leave}
        if condition.withdraw:
            newly_found = {name for name in names if any(self.known.get(name, {}).values())} - self.asked
            self.asked |= newly_found
            self.gone |= {name for name in sorted(newly_found) if self.rng.random() < condition.withdraw}
        if condition.second and midway:
            self.world.claims += self.world.later
            self.band = max(self.band, 60)
        if 0 < day < condition.first:
            self.band += 60
        if condition.taxonomy and midway:
            self.slugs.append(NEW)
            self.world.claims += [(name, s) for name, s in self.world.later if s == NEW]
            self.done, self.ruled, self.waits = {}, set(), self.given.select(*TASK).rows()
            self.known = {name: {s: True for s, v in verdicts.items() if v} for name, verdicts in self.known.items()}

    @property
    def here(self) -> list[str]:
        return [name for name in self.world.truth if name not in self.gone]

    def _push(self, day: int) -> None:
        condition = self.world.condition
        people = PEOPLE[: 1 if condition.alone and day < condition.days // 2 else condition.readers]
        text = pl.DataFrame({"subject": self.here, "digest": self.here})
        text = text.with_columns(kind=pl.lit(self.kind), current=pl.lit(True))
        text = text.match_to_schema(pl.Schema(routing.TEXTS), missing_columns="insert")
        props = self._proposals()
        caps = {"severe": SEVERE, "severe_a_day": 12, "severe_in_a_row": 3} if condition.caps else {}
        audit = min(1.0, condition.growth * max(0, day + 1 - condition.first))
        plan = Plan(people, audit=audit, batch=f"{day}", budget=condition.budget, **caps)
        plan = replace(plan, band=self.band, readers=condition.readers)
        claimed = routing.called_for(props, plan).union(self.given.select("kind", "subject").iter_rows())
        new = design.arrivals(text, self.design, plan, claimed=claimed, sure=(), secret=SECRET)
        self.design = pl.concat([self.design, new])
        plan = replace(plan, zone=design.zone(self.design), census=design.census(self.design))
        schema = dict.fromkeys(("kind", "subject", "reviewer"), pl.String)
        handed_back = pl.DataFrame([(self.kind, *pair) for pair in sorted(self.back)], schema, orient="row")
        new = routing.route(text, props, self.given, NO_DISPUTES, plan, handed_back)
        self.given, self.waits = pl.concat([self.given, new]), self.waits + new.select(*TASK).rows()

    def _proposals(self) -> pl.DataFrame:
        claims = [claim for claim in self.world.claims if claim[1] in self.slugs]
        frame = pl.DataFrame(claims, ["subject", "trait"], orient="row").with_columns(verdict=pl.lit("present"))
        if self.band:
            columns = {"subject": list(self.world.score), "doubt": list(self.world.score.values())}
            absent = pl.DataFrame(columns).with_columns(trait=pl.lit("gore"), verdict=pl.lit("absent"))
            absent = absent.with_columns(confidence=1 / (1 + (pl.col("doubt") - 2).exp())).drop("doubt")
            frame = pl.concat([frame, absent], how="diagonal")
        frame = frame.with_columns(kind=pl.lit(self.kind))
        return frame.match_to_schema(tables.PROPOSALS.schema, missing_columns="insert")

    def _read(self) -> None:
        """People read until the next look; the adjudicator rules on most disputes."""
        condition, world = self.world.condition, self.world
        unread = []
        for name, person, reason in self.waits:
            if name in self.gone:
                continue
            if condition.hand_back and person == "bo" and reason == "audit" and "torture" in world.truth[name]:
                self.back.add((name, person))
            elif self.rng.random() < READ:
                self.done.setdefault(name, set()).add(person)
            else:
                unread.append((name, person, reason))
        self.waits = unread
        for name, people in self.done.items():
            if 2 * len(people) > condition.readers and name not in self.ruled:
                if len(people) == condition.readers and self.rng.random() < READ:
                    self.ruled.add(name)
                settled = [s for s in self.slugs if name in self.ruled or self._agree(name, s)]
                verdicts = {s: s in world.label[name] for s in settled}
                self.known.setdefault(name, {}).update(verdicts)
                self.ever.setdefault(name, {}).update(verdicts)

    def _agree(self, name: str, slug: str) -> bool:
        """Whether more than half of all its readers agree, whatever the missing ones will say."""
        votes = [slug in self.world.said[person][name] for person in self.done[name]]
        return 2 * max(sum(votes), len(votes) - sum(votes)) > self.world.condition.readers

    def _bounds(self) -> bounds.LabelBounds:
        names = self.here
        if self.kind == "item_flag":
            return self._flag_bounds()
        read = pl.DataFrame({"subject": list(self.done)}, {"subject": pl.String}).with_columns(
            kind=pl.lit("sensitivity")
        )
        labels = _labels(self.known)
        ever = _labels(self.ever) if self.world.condition.taxonomy else labels  # else no label is ever dropped
        judged = design.ever_judged(labels, ever, read, names)
        return bounds.bounds(self.design, names, self.given, judged, tables.GOLD.empty, tuple(self.slugs))

    def _flag_bounds(self) -> bounds.LabelBounds:
        """As in a workspace: labels of what somebody marked or a proposer claimed, and the readers of whole plots."""
        claimed = set(self.world.claims)
        marked = {n: {s: v for s, v in marks.items() if v or (n, s) in claimed} for n, marks in self.known.items()}
        rows = [(self.kind, n, "*", reader, "reviewer", None) for n, people in self.done.items() for reader in people]
        names = ("kind", "subject", "trait", "reviewer", "role", "out")
        standing = pl.DataFrame(rows, dict.fromkeys(names, pl.String), orient="row")
        labels = _labels(marked, self.kind)
        disputed = [(name, s, None) for name in self.done for s in self._disputed(name)]
        waiting = pl.DataFrame(disputed, dict.fromkeys(("subject", "trait", "verdict"), pl.String), orient="row")
        waiting = waiting.with_columns(kind=pl.lit(self.kind), method=pl.lit("unresolved")).select(labels.columns)
        flags = aggregation.plots(pl.concat([labels, waiting]), standing, self.slugs)
        verdicts = design.ever_judged(flags, labels, standing, self.here)
        drawn = (self.design, self.here, self.given, verdicts, tables.GOLD.empty)
        return bounds.bounds(*drawn, tuple(self.slugs), kind="item_flag")

    def _disputed(self, name: str) -> list[str]:
        """The traits that a reader marked, on which nobody ruled and which have no label."""
        marked = [self.world.said[reader][name] for reader in self.done[name]]
        return [s for s in self.slugs if any(s in slugs for slugs in marked) and s not in self.known.get(name, {})]

    def _look(self, told: bounds.LabelBounds) -> Look:
        truth: dict[str, set[str]] = {slug: set() for slug in self.slugs}
        labels: dict[str, set[str]] = {slug: set() for slug in self.slugs}
        for name in self.here:
            for slug in self.world.label[name].intersection(self.slugs):
                truth[slug].add(name)
                if self.known.get(name, {}).get(slug):
                    labels[slug].add(name)
        truth[bounds.POOLED], labels[bounds.POOLED] = set().union(*truth.values()), set().union(*labels.values())
        missed = {name: len(truth[name] - labels[name]) / max(len(truth[name]), 1) for name in truth}
        shares = {slug: bound.share for slug, bound in told.traits.items()} | {bounds.POOLED: told.pooled.share}
        return Look(shares, missed, told.together)


def _labels(known: dict[str, dict[str, bool]], kind: str = "sensitivity") -> pl.DataFrame:
    columns = {
        "subject": [name for name, verdicts in known.items() for _ in verdicts],
        "trait": [slug for verdicts in known.values() for slug in verdicts],
        "verdict": ["present" if yes else "absent" for verdicts in known.values() for yes in verdicts.values()],
    }
    frame = pl.DataFrame(columns, dict.fromkeys(columns, pl.String))
    return frame.with_columns(kind=pl.lit(kind), method=pl.lit("agreed"))


def campaign(condition: str, seed: int) -> list[Look]:
    return list(Campaign(World(CONDITIONS[condition], seed)).days())


def wrong(condition: str, seeds: range) -> tuple[Counter[str], int]:
    """(bound -> number of worlds in which it was below the truth at any look, number of worlds in which a trait was
    wrongly certified together with others at any look)."""
    single, joint = Counter[str](), 0
    for seed in seeds:
        looks = campaign(condition, seed)
        single.update(set().union(*(look.wrong() for look in looks)))
        joint += any(look.joint_wrong() for look in looks)
    return single, joint
