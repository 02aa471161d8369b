"""Review campaigns with known truth, day by day, through the product's own design, routing and bounds.

Each condition is something that happens to real campaigns and broke, or could break, a bound: see CONDITIONS. What is
bounded is relative to the label that these readers and their adjudicator would give (`World.label`): a bound is wrong
where more is missed, at any look. Shares, sizes and days were fixed before the first run.
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
from tests.worlds.routing import NO_DISPUTES, SECRET

PREVALENCE = {"gore": 0.2, "needles": 0.12, "accidents_disasters": 0.08, "animal_harm": 0.05, "torture": 0.1}
NEW = "horror_scares"  # joins the taxonomy midway, prevalence 10 %
SEVERE = frozenset({"torture"})
PEOPLE = ("ann", "bo", "di", "el", "fe")
UNITS, DAYS, READ = 900, 8, 0.85  # READ: share of what lies there that a person reads until the next look
Key = tuple[str, str]


@dataclass(frozen=True)
class Condition:
    """What is other than in the first of CONDITIONS: two people who err in nothing, an audit that grows every day."""

    days: int = DAYS
    recall: float = 0.93  # of the proposer: a little more than ALPHA is missed by it
    growth: float = 0.14  # of the audit's share, each day
    budget: int = 0
    caps: bool = False
    hand_back: bool = False  # bo would rather not see torture: he hands back an audit with it, and nobody takes it over
    leave: float = 0.0  # share of all who ask to be removed, each day
    withdraw: float = 0.0  # share of those newly found who do
    arrive: int = 0  # conversations mined every other day, with twice the prevalence and a worse proposer
    second: bool = False  # another proposer and a band, midway
    first: int = 0  # days on which they read by score, more each day, before anything is drawn
    readers: int = 2
    taxonomy: bool = False  # a trait joins midway: nobody's `*` counts until they have read again
    alone: bool = False  # one reader for the first half: two thirds as fast, and nothing is a label
    errors: float = 0.0  # share of what is there that a reader overlooks, apart from the other
    together: float = 0.0  # share of conversations that are hard: in these both overlook half
    kind: str = "sensitivity"  # or `item_flag`: unsafe-item flags, by readers of plots
    pretty: bool = False  # they stop as soon as the bound of all is good


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
class Look:
    """bound -> what is missed at most, and what is; the traits that are certified together."""

    at_most: dict[str, float | None]
    missed: dict[str, float]
    together: list[str]

    def wrong(self) -> set[str]:
        return {name for name, share in self.at_most.items() if share is not None and share < self.missed[name] - 1e-9}

    def joint_wrong(self) -> bool:
        return any(self.missed[slug] > ALPHA + 1e-9 for slug in self.together)


@dataclass
class World:
    """What is there, who claims it, and what each reader would say of it."""

    condition: Condition
    seed: int
    truth: dict[str, frozenset[str]] = field(default_factory=dict)
    said: dict[str, dict[str, frozenset[str]]] = field(default_factory=dict)  # reader -> conversation -> traits
    label: dict[str, frozenset[str]] = field(default_factory=dict)  # what both and the adjudicator would say
    claims: list[tuple[str, str]] = field(default_factory=list)
    later: list[tuple[str, str]] = field(default_factory=list)  # of the second proposer
    score: dict[str, float] = field(default_factory=dict)

    @cached_property
    def rng(self) -> np.random.Generator:
        return np.random.default_rng([self.seed, 22])

    def grow(self, units: int, more: float = 1.0) -> None:
        """Mines so many; `more` multiplies prevalence, and what the proposer overlooks."""
        what, rng, had = self.condition, self.rng, len(self.truth)
        slugs, chance = [*PREVALENCE, NEW], np.array([*PREVALENCE.values(), 0.1])
        held = rng.random((units, len(slugs))) < chance * more
        blind = np.where(rng.random((units, 1)) < what.together, 0.5, what.errors)
        seen = [held & (rng.random(held.shape) >= blind) for _ in range(what.readers)]
        votes = 2 * np.sum(seen, axis=0)
        label = (votes > what.readers) | ((votes == what.readers) & held)  # who rules overlooks nothing
        found = held & (rng.random(held.shape) >= (1 - what.recall) * more)
        found[:, :-1] |= rng.random((units, len(PREVALENCE))) < 0.005
        later = held & (rng.random(held.shape) < 0.7)
        score = rng.normal(size=units) + 1.5 * (held & ~found).any(axis=1)
        names = [f"w{self.seed}-{n}" for n in range(had, had + units)]

        def sets(of: NDArray[np.bool_]) -> dict[str, frozenset[str]]:
            return {name: frozenset(compress(slugs, row)) for name, row in zip(names, of.tolist(), strict=True)}

        self.truth |= sets(held)
        self.label |= sets(label)
        for person, theirs in zip(PEOPLE, seen, strict=False):
            self.said.setdefault(person, {}).update(sets(theirs))
        for claims, of in ((self.claims, found), (self.later, later)):
            claims += [(names[n], slugs[trait]) for n, trait in np.argwhere(of).tolist()]
        self.score |= dict(zip(names, score.tolist(), strict=True))


class Campaign:
    def __init__(self, world: World) -> None:
        self.world, self.rng = world, np.random.default_rng([world.seed, 23])
        self.kind = world.condition.kind
        self.design, self.given = tables.DESIGN.empty, tables.ASSIGNMENTS.empty
        self.slugs = list(PREVALENCE)
        self.gone = set[str]()
        self.waits: list[tuple[str, str, str]] = []  # (conversation, reader, why) of what nobody has read yet
        self.done: dict[str, set[str]] = {}  # conversation -> who has read it in the words of this taxonomy
        self.ruled = set[str]()
        self.back = set[tuple[str, str]]()  # (conversation, reader) handed back
        self.known: dict[str, dict[str, bool]] = {}  # labels as they stand
        self.ever: dict[str, dict[str, bool]] = {}  # as they stood at some time
        self.asked = set[str]()  # who was found, and has decided whether to stay
        self.band = 0

    def days(self) -> Iterator[Look]:
        what = self.world.condition
        self.world.grow(UNITS)
        for day in range(what.days):
            self._happens(day)
            self._push(day)
            self._read()
            told = self._bounds()
            yield self._look(told)
            if what.pretty and told.pooled.certified:
                return

    def _happens(self, day: int) -> None:
        what, here = self.world.condition, self.here
        midway = day == what.days // 2
        if what.arrive and day and day % 2 == 0:
            self.world.grow(what.arrive, 2.0)
        if what.leave and day:
            self.gone |= {name for name in here if self.rng.random() < what.leave}
        if what.withdraw:
            found = {name for name in here if any(self.known.get(name, {}).values())} - self.asked
            self.asked |= found
            self.gone |= {name for name in sorted(found) if self.rng.random() < what.withdraw}
        if what.second and midway:
            self.world.claims += self.world.later
            self.band = max(self.band, 60)
        if 0 < day < what.first:
            self.band += 60
        if what.taxonomy and midway:
            self.slugs.append(NEW)
            self.world.claims += [(name, s) for name, s in self.world.later if s == NEW]
            self.done, self.ruled, self.waits = {}, set(), self._tasks(self.given)
            self.known = {name: {s: True for s, v in of.items() if v} for name, of in self.known.items()}

    @property
    def here(self) -> list[str]:
        return [name for name in self.world.truth if name not in self.gone]

    def _push(self, day: int) -> None:
        what = self.world.condition
        people = PEOPLE[: 1 if what.alone and day < what.days // 2 else what.readers]
        text = pl.DataFrame({"subject": self.here, "digest": self.here})
        text = text.with_columns(kind=pl.lit(self.kind), current=pl.lit(True))
        text = text.match_to_schema(pl.Schema(routing.TEXTS), missing_columns="insert")
        props = self._proposals()
        caps = {"severe": SEVERE, "severe_a_day": 12, "severe_in_a_row": 3} if what.caps else {}
        audit = min(1.0, what.growth * max(0, day + 1 - what.first))
        plan = Plan(people, audit=audit, batch=f"{day}", budget=what.budget, **caps)
        plan = replace(plan, band=self.band, readers=what.readers)
        claimed = routing.called_for(props, plan).union(self.given.select("kind", "subject").iter_rows())
        new = design.arrivals(text, self.design, plan, claimed=claimed, sure=(), secret=SECRET)
        self.design = pl.concat([self.design, new])
        plan = replace(plan, zone=design.zone(self.design), census=design.census(self.design))
        who = dict.fromkeys(("kind", "subject", "reviewer"), pl.String)
        back = pl.DataFrame([(self.kind, *pair) for pair in sorted(self.back)], who, orient="row")
        new = routing.route(text, props, self.given, NO_DISPUTES, plan, back)
        self.given, self.waits = pl.concat([self.given, new]), self.waits + self._tasks(new)

    def _tasks(self, given: pl.DataFrame) -> list[tuple[str, str, str]]:
        return list(given.select("subject", "reviewer", "why").iter_rows())

    def _proposals(self) -> pl.DataFrame:
        claims = [claim for claim in self.world.claims if claim[1] in self.slugs]
        frame = pl.DataFrame(claims, ["subject", "trait"], orient="row").with_columns(verdict=pl.lit("present"))
        if self.band:
            columns = {"subject": list(self.world.score), "doubt": list(self.world.score.values())}
            quiet = pl.DataFrame(columns).with_columns(trait=pl.lit("gore"), verdict=pl.lit("absent"))
            quiet = quiet.with_columns(confidence=1 / (1 + (pl.col("doubt") - 2).exp())).drop("doubt")
            frame = pl.concat([frame, quiet], how="diagonal")
        frame = frame.with_columns(kind=pl.lit(self.kind))
        return frame.match_to_schema(tables.PROPOSALS.schema, missing_columns="insert")

    def _read(self) -> None:
        """What people read until the next look; the adjudicator rules on most of what is disputed."""
        what, world = self.world.condition, self.world
        left = []
        for name, person, why in self.waits:
            if name in self.gone:
                continue
            if what.hand_back and person == "bo" and why == "audit" and "torture" in world.truth[name]:
                self.back.add((name, person))
            elif self.rng.random() < READ:
                self.done.setdefault(name, set()).add(person)
            else:
                left.append((name, person, why))
        self.waits = left
        for name, people in self.done.items():
            if 2 * len(people) > what.readers and name not in self.ruled:
                if len(people) == what.readers and self.rng.random() < READ:
                    self.ruled.add(name)
                sure = [s for s in self.slugs if name in self.ruled or self._agree(name, s)]
                verdicts = {s: s in world.label[name] for s in sure}
                self.known.setdefault(name, {}).update(verdicts)
                self.ever.setdefault(name, {}).update(verdicts)

    def _agree(self, name: str, slug: str) -> bool:
        """Whether more than half of its readers say the same, whoever is still to come."""
        said = [slug in self.world.said[person][name] for person in self.done[name]]
        return 2 * max(sum(said), len(said) - sum(said)) > self.world.condition.readers

    def _bounds(self) -> bounds.LabelBounds:
        here = self.here
        if self.kind == "item_flag":
            return self._flag_bounds()
        read = pl.DataFrame({"subject": list(self.done)}, {"subject": pl.String}).with_columns(
            kind=pl.lit("sensitivity")
        )
        known = _labels(self.known)
        ever = _labels(self.ever) if self.world.condition.taxonomy else known  # else no label ever falls
        said = design.ever_judged(known, ever, read, here)
        return bounds.bounds(self.design, here, self.given, said, tables.GOLD.empty, tuple(self.slugs))

    def _flag_bounds(self) -> bounds.LabelBounds:
        """As a workspace has it: labels of what somebody marked or a proposer claimed, and who read a plot whole."""
        claimed = set(self.world.claims)
        marked = {name: {s: v for s, v in of.items() if v or (name, s) in claimed} for name, of in self.known.items()}
        ends = [(self.kind, name, "*", who, "reviewer", None) for name, people in self.done.items() for who in people]
        names = ("kind", "subject", "trait", "reviewer", "role", "out")
        standing = pl.DataFrame(ends, dict.fromkeys(names, pl.String), orient="row")
        labels = _labels(marked, self.kind)
        wait = [(name, s, None) for name in self.done for s in self._disputed(name)]
        waiting = pl.DataFrame(wait, dict.fromkeys(("subject", "trait", "verdict"), pl.String), orient="row")
        waiting = waiting.with_columns(kind=pl.lit(self.kind), method=pl.lit("unresolved")).select(labels.columns)
        flags = aggregation.plots(pl.concat([labels, waiting]), standing, self.slugs)
        told = bounds.item_bounds(self.design, self.here, self.given, flags, labels, standing, tuple(self.slugs))
        assert told is not None
        return told

    def _disputed(self, name: str) -> list[str]:
        """What one of those who have read it marked and nobody ruled on, where no label says it."""
        said = [self.world.said[who][name] for who in self.done[name]]
        return [s for s in self.slugs if any(s in of for of in said) and s not in self.known.get(name, {})]

    def _look(self, told: bounds.LabelBounds) -> Look:
        there: dict[str, set[str]] = {slug: set() for slug in self.slugs}
        found: dict[str, set[str]] = {slug: set() for slug in self.slugs}
        for name in self.here:
            for slug in self.world.label[name].intersection(self.slugs):
                there[slug].add(name)
                if self.known.get(name, {}).get(slug):
                    found[slug].add(name)
        there[bounds.POOLED], found[bounds.POOLED] = set().union(*there.values()), set().union(*found.values())
        missed = {name: len(there[name] - found[name]) / max(len(there[name]), 1) for name in there}
        shares = {slug: bound.share for slug, bound in told.traits.items()} | {bounds.POOLED: told.pooled.share}
        return Look(shares, missed, told.together)


def _labels(known: dict[str, dict[str, bool]], kind: str = "sensitivity") -> pl.DataFrame:
    columns = {
        "subject": [name for name, of in known.items() for _ in of],
        "trait": [slug for of in known.values() for slug in of],
        "verdict": ["present" if there else "absent" for of in known.values() for there in of.values()],
    }
    frame = pl.DataFrame(columns, dict.fromkeys(columns, pl.String))
    return frame.with_columns(kind=pl.lit(kind), method=pl.lit("agreed"))


def campaign(condition: str, seed: int) -> list[Look]:
    return list(Campaign(World(CONDITIONS[condition], seed)).days())


def wrong(condition: str, seeds: range) -> tuple[Counter[str], int]:
    """(bound -> worlds in which it was below the truth at any look, worlds in which a trait was certified together with
    others at any look, and should not have been)."""
    single, joint = Counter[str](), 0
    for seed in seeds:
        looks = campaign(condition, seed)
        single.update(set().union(*(look.wrong() for look in looks)))
        joint += any(look.joint_wrong() for look in looks)
    return single, joint
