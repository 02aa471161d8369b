"""The cost of a certificate through the commands: two simulated people read what `review push` assigns until it holds.

A world's conversations have the twenty traits of the taxonomy, rare and common ones, and the scores of
certificate_worlds: a proposer claims what is above its threshold. People make no errors. First they read the claims.
Where there are scores, a proposer then learns from what was read, and they read as many conversations as `review
status` says, the most doubtful first, half of them at a time, as a guess far ahead is a poor one. Then the audit grows
by half of what `adjudicate` says is still needed: a plan made from few audits is often too long. The price is the
number of conversations that both have read when the bound says that at most ALPHA of those with any trait are missed.
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
HALF = 0.5  # share of everything that is drawn first where nobody proposes anything
LEAST = 25  # smallest number of conversations by which a band or an audit grows
NO_LIMITS = {"severe_a_day": 0, "severe_in_a_row": 0, "controls": 0, "held_back": 0}


@dataclass(frozen=True)
class Price:
    read: int  # conversations, each by two people
    floor: int  # what an oracle would have them read: the conversations with any trait
    pushes: int
    wrong: bool  # the bound held although more than ALPHA was missed


@dataclass(frozen=True)
class World(worlds.World):
    score: Floats  # of the proposer: conversation by trait, in the order of `truth` and of the taxonomy


def world(proposer: Regime | None, any_of: float, seed: int, units: int) -> World:
    """The rare and common traits of the certificates' worlds, scaled so that `any_of` of the conversations hold one.

    `proposer` None: nothing is proposed, and everything is drawn."""
    rng, slugs = np.random.default_rng([seed, 31]), traits.load().slugs
    exponent = log(1 - any_of) / sum(log(1 - p) for p in certificate_worlds.PREVALENCE)
    prevalence = [1 - (1 - p) ** exponent for p in certificate_worlds.PREVALENCE]
    regime = proposer or certificate_worlds.REGIMES[0]
    draws = [certificate_worlds.draw(rng, regime, p, units) for p in prevalence]
    present, claimed, score = (
        np.stack([getattr(t, part) for t in draws], 1) for part in ("truth", "proposed", "score")
    )
    names = [f"w{n}" for n in range(units)]
    truth = {name: frozenset(compress(slugs, row)) for name, row in zip(names, present.tolist(), strict=True)}
    claims = [(names[n], slugs[trait]) for n, trait in np.argwhere(claimed & (proposer is not None)).tolist()]
    return World(truth, tuple(claims), score)


def learned(made: World, read: Collection[str]) -> pl.DataFrame:
    """PROPOSALS of a proposer that has learned from `read`: `absent` on each conversation without a claim, with the
    largest doubt over all traits. A logistic curve per trait gives its probability at a score."""
    slugs, claimed = traits.load().slugs, {name for name, _ in made.claims}
    is_read = np.array([name in read for name in made.truth])
    doubt = np.zeros(len(made.truth))
    for n, slug in enumerate(slugs):
        present, score = np.array([slug in held for held in made.truth.values()]), made.score[:, n]
        doubt = np.maximum(doubt, certificate_worlds.fitted(score[is_read], present[is_read], score))
    rows = [
        {"proposal": f"{name}-{len(read)}", "kind": "sensitivity", "subject": name, "trait": slugs[0]}
        | {"verdict": "absent", "confidence": 1 - chance, "digest": f"d-{name}", "proposer": "learned", "spans": []}
        for name, chance in zip(made.truth, doubt.tolist(), strict=True)
        if name not in claimed
    ]
    return tables.PROPOSALS.frame(rows)


def wider(band: int, advised: int) -> int | None:
    """The next band to read, where status advises `advised`; None: it is wide enough."""
    return None if advised < band + LEAST else band + max(LEAST, (advised - band) // 2)


def onward(share: float, audited: int, zone: int, more: int | None) -> float:
    """The share of the zone to draw next, after a draw of `share` that came to `audited` conversations."""
    if not zone:  # unknown before the first draw
        return share + LEAST / UNITS
    return min(1.0, max(share, audited / zone) + max(LEAST, (more or zone - audited) / 2) / zone)


def price(made: World, root: Path, *, scores: bool = False) -> Price:
    """The price in a workspace that is made at `root`, through the commands."""
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
    """The bound after everything that a push assigns was read."""
    review_settings(root, audit=share, **NO_LIMITS)
    reviewers = [word for name in worlds.PEOPLE for word in ("--reviewer", name)]
    worlds.run("review", "push", "--tool", "files", *reviewers, "--band", 0 if share else band, "-C", root)
    for name in worlds.PEOPLE:
        worlds.fill_in(root / "review" / f"{name}.csv", made, np.random.default_rng(0), read=1.0)
    worlds.run("review", "pull", "--tool", "files", root / "review", "-C", root)
    bound: dict[str, worlds.Any] = worlds.run("adjudicate", "-C", root)["missed_of_all"]
    return bound


def computed(made: World, *, scores: bool = False) -> Price:
    """The same price from the draw and the bound alone: hundreds of worlds in the time of one."""
    read, band, pushes = {name for name, _ in made.claims}, 0, bool(made.claims)
    while scores:
        rows, positives = learned(made, read), sum(bool(made.truth[name]) for name in read)
        if not (more := wider(band, recall_bounds.band(rows, made.truth.keys() - read, positives))):
            break
        band, pushes = more, pushes + 1
        read.update(name for (_, name), _ in by_doubt(rows, ())[:band])
    draw = sorted((tables.keyed_digest(SECRET, "draw", "sensitivity", c), c) for c in made.truth if c not in read)
    outcomes = tuple(int(bool(made.truth[name])) for _, name in draw)
    positives, share = sum(bool(made.truth[name]) for name in read), LEAST / UNITS if read else HALF
    while True:
        n, pushes = sum(drawn(place, share) for place, _ in draw), pushes + 1
        bound = confidence_bounds.bound(Audit(positives, len(draw), outcomes[:n], left=len(draw) - n))
        if share == 1 or bound.within:
            return _price(made, read.union(name for _, name in draw[:n]), pushes)
        share = onward(share, n, len(draw), bound.more)


def _price(made: worlds.World, read: set[str], pushes: int) -> Price:
    sensitive = {name for name, present in made.truth.items() if present}
    missed = len(sensitive - read) / len(sensitive)
    return Price(len(read), len(sensitive), pushes, missed > ALPHA)
