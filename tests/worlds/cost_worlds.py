"""What certifying costs by the commands: two simulated people read what `review push` hands out, until the bound holds.

A world's conversations hold the twenty traits of the taxonomy, rare and common ones; a proposer of a stated recall
claims them. People make no errors, and the audit grows by half of what `adjudicate` says is still needed: a plan made
from few audits is often too long. The price is how many conversations both have read when the bound says that at most
ALPHA of those with any sensitivity are missed.
"""

from dataclasses import dataclass
from math import log
from pathlib import Path

import numpy as np

from annotation import confidence_bounds
from annotation.confidence_bounds import ALPHA, Audit
from annotation.routing import drawn
from saferec_builder.core import taxonomy as traits
from saferec_builder.storage import tables, workspace as store
from tests.worlds import certificate_worlds, pushed_worlds as worlds
from tests.worlds.certificate_worlds import Regime
from tests.worlds.settings import review_settings

UNITS = 10_000
SECRET = bytes(32)  # of the draw
ANY = (0.02, 0.10, 0.50)  # share of the conversations that hold any sensitivity
NOBODY = Regime("random order", 0.0, 0.0, 0.0)  # nothing is proposed: everything is drawn
STEP = 0.01  # share of the zone that an audit grows by at least
NO_LIMITS = {"severe_a_day": 0, "severe_in_a_row": 0, "controls": 0, "held_back": 0}


@dataclass(frozen=True)
class Price:
    read: int  # conversations, each by two people
    units: int  # traits of these
    floor: int  # what an oracle would have them read: the conversations with anything
    pushes: int
    wrong: bool  # the bound held, and more than ALPHA was missed


def world(proposer: Regime, any_of: float, seed: int, units: int) -> worlds.World:
    """The rare and common traits of the certificates' worlds, scaled so that `any_of` of the conversations hold one."""
    rng = np.random.default_rng([seed, 31])
    spread = certificate_worlds.PREVALENCE
    times = log(1 - any_of) / sum(log(1 - p) for p in spread)
    prevalence = dict(zip(traits.load().slugs, (1 - (1 - p) ** times for p in spread), strict=True))
    truth = {f"w{n}": frozenset(s for s, p in prevalence.items() if rng.random() < p) for n in range(units)}
    claims = [
        (name, slug)
        for name, held in truth.items()
        for slug in prevalence
        if rng.random() < (proposer.recall if slug in held else proposer.alarms)
    ]
    return worlds.World(truth, tuple(claims))


def onward(share: float, audited: int, zone: int, more: int | None) -> float:
    """The share of the zone that is drawn next, where `share` was before and came to `audited`."""
    return min(1.0, max((audited + (more or zone - audited) / 2) / zone, share + STEP))


def price(made: worlds.World, root: Path) -> Price:
    """In a workspace that is made at `root`, by the commands."""
    ws, share, pushes = worlds.filled(made, root), 0.0 if made.claims else onward(0, 0, len(made.truth), None), 0
    who = [word for name in worlds.PEOPLE for word in ("--reviewer", name)]
    rng = np.random.default_rng(0)
    (root / ".secret").write_bytes(SECRET)
    while True:
        review_settings(root, audit=share, **NO_LIMITS)
        worlds.run("review", "push", "--tool", "files", *who, "-C", root)
        for name in worlds.PEOPLE:
            worlds.fill_in(root / "review" / f"{name}.csv", made, rng, read=1.0)
        worlds.run("review", "pull", "--tool", "files", root / "review", "-C", root)
        bound, pushes = worlds.run("adjudicate", "-C", root)["missed_of_all"], pushes + 1
        if share == 1 or (bound["share"] is not None and bound["share"] <= ALPHA):
            break
        share = onward(share, bound["audited"], bound["zone"], bound["more"])
    return _price(made, set(store.read(ws, tables.ASSIGNMENTS)["subject"]), pushes)


def computed(made: worlds.World, secret: bytes = SECRET) -> Price:
    """The same from the draw and the bound alone: hundreds of worlds in the time of one."""
    claimed = {name for name, _ in made.claims}
    draw = sorted((tables.keyed_digest(secret, "draw", "sensitivity", c), c) for c in made.truth if c not in claimed)
    outcomes = tuple(int(bool(made.truth[name])) for _, name in draw)
    found = sum(bool(made.truth[name]) for name in claimed)
    share, n, pushes = 0.0 if claimed else onward(0, 0, len(draw), None), 0, 0
    while True:
        n, pushes = sum(drawn(place, share) for place, _ in draw), pushes + 1
        bound = confidence_bounds.bound(Audit(found, len(draw), outcomes[:n]))
        if share == 1 or bound.within:
            return _price(made, claimed.union(name for _, name in draw[:n]), pushes)
        share = onward(share, n, len(draw), bound.more)


def _price(made: worlds.World, read: set[str], pushes: int) -> Price:
    has = {name for name, held in made.truth.items() if held}
    missed = len(has - read) / len(has)
    return Price(len(read), len(read) * len(traits.load().slugs), len(has), pushes, missed > ALPHA)
