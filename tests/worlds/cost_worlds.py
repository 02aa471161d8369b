"""What certifying costs by the commands: two simulated people read what `review push` hands out, until the bound holds.

A world's conversations hold the twenty traits of the taxonomy, rare and common ones, and have the scores of
certificate_worlds: what is above a proposer's threshold is claimed. People make no errors. First they read the claims.
Where there are scores, a proposer then learns from what was read, and they read by its doubt what `review status` says,
half of it at a time, as a guess from afar is a poor one. Then the audit grows by half of what `adjudicate` says is
still needed: a plan made from few audits is often too long. The price is how many conversations both have read when
the bound says that at most ALPHA of those with any sensitivity are missed.
"""

from collections.abc import Collection
from dataclasses import dataclass
from itertools import compress
from math import log
from pathlib import Path

import numpy as np
import polars as pl

from annotation import confidence_bounds, progress, recall_bounds
from annotation.confidence_bounds import ALPHA, Audit, Floats
from annotation.routing import by_doubt, drawn
from saferec_builder.core import taxonomy as traits
from saferec_builder.storage import tables, workspace as store
from tests.worlds import certificate_worlds, pushed_worlds as worlds
from tests.worlds.certificate_worlds import Regime
from tests.worlds.settings import review_settings

UNITS = 10_000
SECRET = bytes(32)  # of the draw
ANY = (0.02, 0.10, 0.50)  # share of the conversations that hold any sensitivity
HALF = 0.5  # of everything, where nobody proposes anything
LEAST = 25  # conversations that a band or an audit grows by at least
NO_LIMITS = {"severe_a_day": 0, "severe_in_a_row": 0, "controls": 0, "held_back": 0}


@dataclass(frozen=True)
class Price:
    read: int  # conversations, each by two people
    units: int  # traits of these
    floor: int  # what an oracle would have them read: the conversations with anything
    pushes: int
    wrong: bool  # the bound held, and more than ALPHA was missed


@dataclass(frozen=True)
class World(worlds.World):
    score: Floats  # of the proposer: conversation by trait, in the order of `truth` and of the taxonomy


def world(proposer: Regime | None, any_of: float, seed: int, units: int) -> World:
    """The rare and common traits of the certificates' worlds, scaled so that `any_of` of the conversations hold one.

    None: nothing is proposed, and everything is drawn."""
    rng, slugs = np.random.default_rng([seed, 31]), traits.load().slugs
    times = log(1 - any_of) / sum(log(1 - p) for p in certificate_worlds.PREVALENCE)
    prevalence = [1 - (1 - p) ** times for p in certificate_worlds.PREVALENCE]
    regime = proposer or certificate_worlds.REGIMES[0]
    made = [certificate_worlds.draw(rng, regime, p, units) for p in prevalence]
    held, claimed, score = (np.stack([getattr(t, of) for t in made], 1) for of in ("truth", "proposed", "score"))
    names = [f"w{n}" for n in range(units)]
    truth = {name: frozenset(compress(slugs, row)) for name, row in zip(names, held.tolist(), strict=True)}
    claims = [(names[n], slugs[trait]) for n, trait in np.argwhere(claimed & (proposer is not None)).tolist()]
    return World(truth, tuple(claims), score)


def learned(made: World, read: Collection[str]) -> pl.DataFrame:
    """PROPOSALS of who has learned from `read`: `absent` on all that is not claimed, with the most that is doubted of
    any trait. A logistic curve per trait says how likely it is at its score."""
    slugs, claimed = traits.load().slugs, {name for name, _ in made.claims}
    known = np.array([name in read for name in made.truth])
    doubt = np.zeros(len(made.truth))
    for n, slug in enumerate(slugs):
        held, score = np.array([slug in of for of in made.truth.values()]), made.score[:, n]
        doubt = np.maximum(doubt, certificate_worlds.fitted(score[known], held[known], score))
    rows = [
        {"proposal": f"{name}-{len(read)}", "kind": "sensitivity", "subject": name, "trait": slugs[0]}
        | {"verdict": "absent", "confidence": 1 - sure, "digest": f"d-{name}", "proposer": "learned", "spans": []}
        for name, sure in zip(made.truth, doubt.tolist(), strict=True)
        if name not in claimed
    ]
    return pl.DataFrame([dict.fromkeys(tables.PROPOSALS.columns) | row for row in rows], tables.PROPOSALS.schema)


def wider(band: int, advised: int) -> int | None:
    """The band that is read next, where status advises so much; None: it is wide enough."""
    return None if advised < band + LEAST else band + max(LEAST, (advised - band) // 2)


def onward(share: float, audited: int, zone: int, more: int | None) -> float:
    """The share of the zone that is drawn next, where `share` was before and came to `audited`."""
    if not zone:  # before the first draw nobody knows
        return share + LEAST / UNITS
    return min(1.0, max(share, audited / zone) + max(LEAST, (more or zone - audited) / 2) / zone)


def price(made: World, root: Path, *, scores: bool = False) -> Price:
    """In a workspace that is made at `root`, by the commands."""
    ws, share, pushes, band = worlds.filled(made, root), 0.0 if made.claims else HALF, 0, 0
    (root / ".secret").write_bytes(SECRET)
    while True:
        bound, pushes = _pushed(made, root, share, band), pushes + 1
        read = set(store.read(ws, tables.ASSIGNMENTS)["subject"])
        if scores and not share:
            store.append(ws, tables.PROPOSALS, learned(made, read))
            if more := wider(band, progress.review_status(ws).band):
                band = more
                continue
        if share == 1 or (bound["share"] is not None and bound["share"] <= ALPHA):
            return _price(made, read, pushes)
        share = onward(share, bound["audited"], bound["zone"], bound["more"])


def _pushed(made: World, root: Path, share: float, band: int) -> dict[str, worlds.Any]:
    """The bound once all that a push hands out was read."""
    review_settings(root, audit=share, **NO_LIMITS)
    who = [word for name in worlds.PEOPLE for word in ("--reviewer", name)]
    worlds.run("review", "push", "--tool", "files", *who, "--band", 0 if share else band, "-C", root)
    for name in worlds.PEOPLE:
        worlds.fill_in(root / "review" / f"{name}.csv", made, np.random.default_rng(0), read=1.0)
    worlds.run("review", "pull", "--tool", "files", root / "review", "-C", root)
    bound: dict[str, worlds.Any] = worlds.run("adjudicate", "-C", root)["missed_of_all"]
    return bound


def computed(made: World, secret: bytes = SECRET, *, scores: bool = False) -> Price:
    """The same from the draw and the bound alone: hundreds of worlds in the time of one."""
    read, band, pushes = {name for name, _ in made.claims}, 0, bool(made.claims)
    while scores:
        rows, found = learned(made, read), sum(bool(made.truth[name]) for name in read)
        if not (more := wider(band, recall_bounds.band(rows, made.truth.keys() - read, found))):
            break
        band, pushes = more, pushes + 1
        read.update(name for (_, name), _ in by_doubt(rows, ())[:band])
    draw = sorted((tables.keyed_digest(secret, "draw", "sensitivity", c), c) for c in made.truth if c not in read)
    outcomes = tuple(int(bool(made.truth[name])) for _, name in draw)
    found, share = sum(bool(made.truth[name]) for name in read), LEAST / UNITS if read else HALF
    while True:
        n, pushes = sum(drawn(place, share) for place, _ in draw), pushes + 1
        bound = confidence_bounds.bound(Audit(found, len(draw), outcomes[:n], left=len(draw) - n))
        if share == 1 or bound.within:
            return _price(made, read.union(name for _, name in draw[:n]), pushes)
        share = onward(share, n, len(draw), bound.more)


def _price(made: worlds.World, read: set[str], pushes: int) -> Price:
    has = {name for name, held in made.truth.items() if held}
    missed = len(has - read) / len(has)
    return Price(len(read), len(read) * len(traits.load().slugs), len(has), pushes, missed > ALPHA)
