"""What certifying costs by the commands: two simulated people read what `review push` hands out, until the bound holds.

A world's conversations hold the twenty traits of the taxonomy, rare and common ones; a proposer of a stated recall
claims them. People make no errors, and the audit grows by what `adjudicate` says is still needed. The price is how many
conversations both have read when the bound says that at most ALPHA of those with any sensitivity are missed.
"""

from dataclasses import dataclass
from math import log
from pathlib import Path

import numpy as np

from annotation.confidence_bounds import ALPHA
from saferec_builder.core import taxonomy as traits
from saferec_builder.storage import tables, workspace as store
from tests.worlds import certificate_worlds, pushed_worlds as worlds
from tests.worlds.certificate_worlds import Regime
from tests.worlds.settings import review_settings

UNITS = 10_000
ANY = (0.02, 0.10, 0.50)  # share of the conversations that hold any sensitivity
NOBODY = Regime("random order", 0.0, 0.0, 0.0)  # nothing is proposed: everything is drawn
FIRST = 0.1  # share of the zone that is drawn first
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


def price(made: worlds.World, root: Path) -> Price:
    """In a workspace that is made at `root`."""
    ws, share, pushes = worlds.filled(made, root), 0.0 if made.claims else FIRST, 0
    who = [word for name in worlds.PEOPLE for word in ("--reviewer", name)]
    rng = np.random.default_rng(0)
    (root / ".secret").write_bytes(rng.bytes(32))  # of the draw
    while True:
        review_settings(root, audit=share, **NO_LIMITS)
        worlds.run("review", "push", "--tool", "files", *who, "-C", root)
        for name in worlds.PEOPLE:
            worlds.fill_in(root / "review" / f"{name}.csv", made, rng, read=1.0)
        worlds.run("review", "pull", "--tool", "files", root / "review", "-C", root)
        bound, pushes = worlds.run("adjudicate", "-C", root)["missed_of_all"], pushes + 1
        if share == 1 or (bound["share"] is not None and bound["share"] <= ALPHA):
            break
        further = (bound["audited"] + bound["more"]) / bound["zone"] if bound["more"] else 1.0
        share = min(1.0, max(further, share + 0.01)) if share else min(FIRST, further)
    read = store.read(ws, tables.ASSIGNMENTS)["subject"].unique()
    has = {name for name, held in made.truth.items() if held}
    missed = len(has - set(read)) / len(has)
    return Price(len(read), len(read) * len(traits.load().slugs), len(has), pushes, missed > ALPHA)
