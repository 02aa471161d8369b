"""The safety rule: does an item break a trait? violated, clear or unknown, and unknown is not safe.

Only the standard library and numpy. Release, rewards, metrics and `catalog check` all use it.

risk     the paper's number: max(ddd_trigger, pg_risk); NaN where neither source says anything. The trigger is 1 where
         the share of yes among the votes of a topic, (yes + prior_yes) / (votes + prior_yes + prior_no), is >= sure
verdict  violated  a topic of the trait is true with P >= violated_from by its votes (vote_model) or is stated by a
                   source, or a guide or ESRB descriptor that speaks strongly for the trait reaches violated_at, or
                   a class of statements (rating reason, keyword, tag) answers a core topic with yes, by a rule that
                   was right for at least class_from of the works read, unless votes say that it is not true
         clear     every core topic is answered and the sum of their P, an upper bound of P that any is true,
                   is <= clear_upto, or a guide or ESRB descriptor speaks strongly for the trait and risk <
                   clear_below; and no topic of the trait has P > .5, the risk is below violated_at, and no class
                   statement says yes
         unknown   everything else
         Reviewers who looked at the item decide open cases: their yes violates, their no clears unless the
         sources say violated. Neither changes the risk, which comes from the sources alone.
         A guide or descriptor that speaks weakly changes the risk and may keep an item from being clear; alone it
         neither violates nor clears.
An item whose title does not match exactly (titles.Near) may be another work: it may be violated, and is never clear.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from saferec_builder.core.errors import UsageError
from saferec_builder.core.taxonomy import Trait, unknown_trait
from saferec_builder.core.titles import Near

VERDICTS = ("unknown", "clear", "violated")
UNKNOWN, CLEAR, VIOLATED = range(3)


@dataclass(frozen=True)
class Rule:
    """All thresholds; [oracle] in saferec.toml may change them, and each release records them."""

    violated_at: float = 0.66
    clear_below: float = 0.33
    violated_from: float = 0.95
    clear_upto: float = 0.02
    class_from: float = 0.97
    sure: float = 0.9
    prior_yes: float = 1.0
    prior_no: float = 1.0


def p_yes(yes: ArrayLike, no: ArrayLike, rule: Rule = Rule()) -> NDArray[np.float64]:
    """The share of yes, smoothed: the mean of Beta(prior_yes + yes, prior_no + no); 8 yes and 0 no give 9/10."""
    yes, no = np.asarray(yes, float), np.asarray(no, float)
    p: NDArray[np.float64] = (yes + rule.prior_yes) / (yes + no + rule.prior_yes + rule.prior_no)
    return p


def pg_risk(trait: Trait, severity: NDArray[np.float64]) -> NDArray[np.float64]:
    """(w . s) / (3 * sum(w)) over rows of five severities 0..3 (NaN = not rated); NaN where the guide says nothing."""
    weights = np.array(trait.guide)
    if weights.sum() == 0:
        return np.full(len(severity), np.nan)
    used = weights > 0
    risk: NDArray[np.float64] = (severity[:, used] @ weights[used]) / (3 * weights.sum())
    return risk.round(12)  # severe everywhere is 1 and not .9999999999999999


def judge(
    trait: Trait,
    topics: Sequence[str],
    p: NDArray[np.float64],
    severity: NDArray[np.float64],
    esrb: NDArray[np.float64],
    rule: Rule = Rule(),
    *,
    reviewed: NDArray[np.int8] | None = None,
    share: NDArray[np.float64] | None = None,
    classed: NDArray[np.float64] | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.int8]]:
    """Returns (risk, verdict code) of every item for one trait.

    p         items x topics, P that the topic is true, NaN where nobody answered; columns named by `topics`
    severity  items x 5 in the order of taxonomy.GUIDE, NaN where not rated
    esrb      items, the strongest mapped descriptor 0..1 of a rated game, NaN for anything else
    reviewed  items, 1 where people said that it breaks the trait, -1 that it does not, 0 where nobody looked
    share     like p, the share of yes that the paper's risk uses; default: p
    classed   like p, the best measured precision (0: not measured) of class statements that say yes, NaN for none
    """
    reviews = np.zeros(len(p), np.int8) if reviewed is None else reviewed
    columns = [topics.index(t) for t in trait.topics if t in topics]
    core = [topics.index(t) for t in trait.core if t in topics]
    topic_p, shares = p[:, columns], (p if share is None else share)[:, columns]
    with np.errstate(invalid="ignore"):
        precision = np.full((len(p), len(core)), np.nan) if classed is None else classed[:, core]
        hit = (topic_p >= rule.violated_from).any(axis=1)
        hit |= ((precision >= rule.class_from) & ~(p[:, core] <= rule.clear_upto)).any(axis=1)
        answered = ~np.isnan(shares).all(axis=1) if columns else np.zeros(len(p), bool)
        guide = pg_risk(trait, severity)
        trigger = np.where(answered, (shares >= rule.sure).any(axis=1).astype(float), np.nan)
        risk = np.fmax(np.fmax(trigger, guide), esrb)
        unrated = np.full(len(p), np.nan)
        strong = np.fmax(
            guide if trait.guide_applies == "strong" else unrated, esrb if trait.esrb_applies == "strong" else unrated
        )
        violated = (strong >= rule.violated_at) | hit | (reviews > 0)
        core_clear = (p[:, core].sum(axis=1) <= rule.clear_upto) & (len(core) == len(trait.core) > 0)
        # too uncertain to violate, too likely to clear: a probable topic, a weak source's high risk, a class statement
        doubtful = (topic_p > 0.5).any(axis=1) | (risk >= rule.violated_at) | ~np.isnan(precision).all(axis=1)
        low_risk = ~np.isnan(strong) & (risk < rule.clear_below)
        clear = ~violated & ((~doubtful & (core_clear | low_risk)) | (reviews < 0))
    return risk, np.select([violated, clear], [VIOLATED, CLEAR], UNKNOWN).astype(np.int8)


@dataclass(frozen=True)
class Oracle:
    """Verdicts of all items for all traits. Ids and traits are resolved once; a verdict is then two bit operations."""

    items: Mapping[str, int]
    traits: Mapping[str, int]
    codes: NDArray[np.int8]  # (items + 1) x traits; the last row, all unknown, is for items not in the catalog

    def row(self, item: str | None) -> int:
        """The item's row; an id that the catalog lacks gets the last row, which is unknown and never safe."""
        return self.items.get(item, len(self.codes) - 1) if item is not None else len(self.codes) - 1

    def column(self, trait: str) -> int:
        if trait not in self.traits:
            raise unknown_trait(trait, self.traits)
        return self.traits[trait]

    def rows(self, items: Iterable[str | None]) -> NDArray[np.intp]:
        """The rows of many items, for repeated calls of `verdicts_of`."""
        last, places = len(self.codes) - 1, self.items
        return np.fromiter((last if item is None else places.get(item, last) for item in items), np.intp)

    def mask(self, traits: Iterable[str]) -> int:
        """The traits of one person as bits. Raises UsageError for an unknown trait: it must not pass as safe."""
        bits = 0
        for trait in traits:
            bits |= 1 << self.column(trait)
        return bits

    @cached_property
    def bits(self) -> NDArray[np.uint64]:
        """One number per row: violated traits in the lower 32 bits, unknown ones in the upper 32; at most 32 traits."""
        weight = np.uint64(1) << np.arange(self.codes.shape[1], dtype=np.uint64)
        violated, unknown = ((self.codes == code).astype(np.uint64) @ weight for code in (VIOLATED, UNKNOWN))
        packed: NDArray[np.uint64] = violated | (unknown << np.uint64(32))
        return packed


def oracle(items: Sequence[str], traits: Sequence[str], codes: NDArray[np.int8]) -> Oracle:
    """Builds an Oracle from verdict codes, items x traits."""
    if codes.shape != (len(items), len(traits)):
        raise UsageError(f"verdicts have shape {codes.shape}, expected {(len(items), len(traits))}")
    unknown = np.zeros((1, len(traits)), np.int8)
    return Oracle(
        {item: n for n, item in enumerate(items)},
        {trait: n for n, trait in enumerate(traits)},
        np.vstack([codes, unknown]).astype(np.int8),
    )


def verdicts(oracle: Oracle, items: Sequence[str | None], traits: Sequence[str]) -> NDArray[np.int8]:
    """Per item the worst verdict over `traits` (violated > unknown > clear); no traits: clear."""
    codes = verdicts_of(oracle, oracle.rows(items), oracle.mask(traits))
    return as_named(codes, np.fromiter((isinstance(item, Near) for item in items), bool)) if traits else codes


def as_named(codes: NDArray[np.int8], near: NDArray[np.bool_]) -> NDArray[np.int8]:
    """The verdicts with clear turned into unknown where `near`: the item was not named exactly (titles.Near)."""
    return np.where(near & (codes == CLEAR), np.int8(UNKNOWN), codes)


def verdicts_of(oracle: Oracle, rows: NDArray[np.intp], mask: int) -> NDArray[np.int8]:
    """`verdicts` for resolved rows; `mask` holds one person's traits (Oracle.mask)."""
    if (width := oracle.codes.shape[1]) > 32:
        return worst(oracle.codes[rows][..., [n for n in range(width) if mask >> n & 1]])
    trait_bits = np.uint64(mask)
    bits = oracle.bits[rows]
    bits &= trait_bits | (trait_bits << np.uint64(32))
    violated = bits.astype(np.uint32) != 0
    unknown = bits > np.uint64(0xFFFFFFFF)
    unknown &= ~violated
    codes = np.ones(violated.shape, np.int8)
    codes += violated.view(np.int8)
    codes -= unknown.view(np.int8)
    return codes


def verdict(oracle: Oracle, item: str | None, traits: Sequence[str]) -> str:
    """The word for one item: violated, clear or unknown."""
    return VERDICTS[verdicts(oracle, [item], traits)[0]]


def worst(codes: NDArray[np.int8]) -> NDArray[np.int8]:
    """The worst verdict over the last axis: violated if any is, else unknown if any is, else clear."""
    violated = (codes == VIOLATED).any(axis=-1)
    unknown = (codes == UNKNOWN).any(axis=-1)
    return np.where(violated, VIOLATED, np.where(unknown, UNKNOWN, CLEAR)).astype(np.int8)
