"""The certificate: what is claimed of the labels, with the counts from which anybody can recompute it; it holds no ids.

reads  LabelBounds
gives  a document (certificates.json of a workspace, certificate.json of a release), or the first error in one

It does not say which of the draw are positive: one number in the lists of two traits would show that one person has
both, a combination that a release may withhold. Numbers of rechecks are of one trait each.
"""

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from annotation import confidence_bounds, controls, recall_bounds
from annotation.confidence_bounds import ALPHA, DELTA, Audit, Bound, FalseShare
from annotation.controls import Blind
from annotation.recall_bounds import LabelBounds
from saferec_builder.core.errors import ReleaseError, strict_json

CLAIM = (
    "Of the subjects that have a trait, at most `share` are without its label, relative to the label that its readers"
    " and the adjudicator would give."
)
ITEMS = (
    "Of the items in whose plot the readers and the adjudicator would flag a trait, at most `share` are without the"
    " flag. What a plot leaves out is in no bound."
)
MODE = "anytime-valid: each bound holds at whatever look it is read, with `confidence`; `together` hold all at once"
ASSUMPTIONS = (
    "The labels are the measure: what every reader overlooks is in `of_the_truth` alone, by blind controls.",
    "Places in the draw are a keyed hash of the id, fixed before anybody was asked.",
    "A subject that is claimed, drawn or without a place, and has no sure label, counts as missed.",
    "Bounds of single traits are pointwise; those in `together` hold at once (Holm).",
    "What people find outside the audit is taken as fixed. In simulated audits in which it grew, .013 to .058 of the"
    " bounds were wrong at some look, .072 in a made-up worst case.",
)

# fields of Certificate
BOUNDS = {"missed", "missed_of_all", "together", "items", "of_the_truth", "false", "false_of_all"}
SAID = {"claim", "mode", "assumptions"}  # fields that explain the numbers


LARGEST = 100_000_000  # count in a document; of what people have read a hundredth: a larger one would fill the memory


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    @model_validator(mode="after")
    def _counts_are_small(self) -> Self:
        for name, count in vars(self).items():
            largest = LARGEST // 100 if name in ("audited", "rechecked") else LARGEST
            if isinstance(count, int) and count > largest:
                raise ValueError(f"{name} is above {largest:,}")
        return self


class Population(_Strict):
    """subjects = claimed + unplaced + zone - gone."""

    subjects: int
    claimed: int  # each of them is read
    unplaced: int  # mined since the last draw: what is unknown of them counts as missed
    zone: int  # what an audit represents, with those that have left the data since
    gone: int


class Prevalence(_Strict):
    """The share of subjects that have the trait: of those that were read, and of all."""

    read: float | None  # of those with a sure label
    all: float | None  # estimate, weighted by 1 / the chance to be read; None: it cannot be estimated
    low: float  # of all: those found
    high: float  # of all: those found, those with a label that nobody has read, and those missed at most


class Missed(_Strict):
    """A recall bound: the counts of confidence_bounds.Audit, and the results computed from them."""

    found: int
    zone: int
    audited: int
    positive: int  # of the audited: those that have it, or no sure label (`holes` of them)
    holes: int
    open: int
    elsewhere: int
    gone: int
    left: int | None
    done: int | None  # zone - left
    auto: int = 0
    labels: int  # positives that are found and in the data
    share: float | None
    most: int
    log_e: float
    more: int | None
    why: str
    certified: bool
    words: str
    prevalence: Prevalence


class Wrong(_Strict):
    """A precision bound: the counts of confidence_bounds.FalseShare, and the results computed from them."""

    zone: int
    rechecked: int
    left: int  # zone - rechecked
    wrong: list[int]  # numbers of the rechecked that are not `present`, or wait for a ruling (`waiting`)
    waiting: int
    overturned: int
    right: int
    labels: int
    share: float | None
    more: int | None
    certified: bool


class OnGold(_Strict):
    """How often labels miss or invent what gold holds."""

    unit: Literal["conversation"]
    units_present: int  # conversations with a labelled trait that is in their gold
    missed: int  # those of them whose labels miss a trait of their gold
    missed_at_most: float | None
    units_absent: int  # conversations with a labelled trait that is not in their gold; may overlap
    invented: int  # those of them with a `present` label that is not in their gold
    invented_at_most: float | None


class Truth(_Strict):
    """What blind controls show about sensitivities that the readers themselves miss (controls.py)."""

    controls: int  # conversations with a sensitivity that nothing suggested
    missed: int  # by their readers
    missed_at_most: float | None
    apart: float | None  # the share of missed_of_all, at a level at which it holds together with missed_at_most
    share: float | None  # of the truth, if missed ones are no harder than the controls
    breaks_at: float | None  # how many times as hard they may be before `share` exceeds the limit
    words: str


class Recall(_Strict):
    """The recall bounds of one population."""

    claim: str = CLAIM
    unit: Literal["conversation", "item"] = "conversation"
    population: Population
    missed: dict[str, Missed]
    missed_of_all: Missed
    together: list[str]


class Certificate(Recall):
    """The whole document."""

    format: Literal[1] = 1
    alpha: float = ALPHA
    confidence: float = 1 - DELTA
    mode: str = MODE
    items: Recall | None = None  # of unsafe-item flags; None: nobody has read an item
    of_the_truth: Truth
    false: dict[str, Wrong]
    false_of_all: Wrong | None
    on_gold: OnGold
    assumptions: list[str] = list(ASSUMPTIONS)


def from_bounds(found: LabelBounds, without: Collection[str] = ()) -> Certificate:
    """The document for these bounds; traits in `without` are not named, and count only in the bound over all traits."""
    fields = dict(_recall(found, without))
    if found.items is not None:
        fields["items"] = Recall(**dict(_recall(found.items, unit="items")) | {"claim": ITEMS, "unit": "item"})
    return Certificate(
        **fields,
        of_the_truth=_truth(found.apart, found.blind),
        false={slug: _wrong(share) for slug, share in found.false.items() if slug not in without},
        false_of_all=None if found.false_pooled is None else _wrong(found.false_pooled),
        on_gold=OnGold.model_validate(found.gold),
    )


def _recall(found: LabelBounds, without: Collection[str] = (), unit: str = "conversations") -> Recall:
    traits = {slug: bound for slug, bound in found.traits.items() if slug not in without}
    subjects = found.claimed + found.undrawn + found.zone - found.gone
    counts = {name: getattr(found, name) for name in ("claimed", "zone", "gone")}
    population = Population(subjects=subjects, unplaced=found.undrawn, **counts)
    return Recall(
        population=population,
        missed={slug: _missed(bound, population, unit) for slug, bound in traits.items()},
        missed_of_all=_missed(found.pooled, population, unit),
        together=recall_bounds.together(traits),
    )


def _missed(bound: Bound, population: Population, unit: str) -> Missed:
    computed = ("positive", "done", "words", "prevalence")
    return Missed(
        **{name: getattr(bound, name) for name in Missed.model_fields if name not in computed},
        prevalence=_prevalence(bound, population),
        positive=bound.misses,
        done=None if bound.left is None else bound.zone - bound.left,
        words=recall_bounds.words(bound, unit),
    )


def _prevalence(bound: Bound, people: Population) -> Prevalence:
    """Where some of the claimed or drawn subjects have no sure label, those that have one represent them too; subjects
    without a place in the design are represented by none."""
    claimed, zone, positives = people.claimed + people.unplaced, people.zone - people.gone, bound.misses - bound.holes
    read, audited = claimed - bound.open, bound.audited - bound.holes
    of_all = None
    if people.subjects and not people.unplaced and read >= min(claimed, 1) and audited >= min(zone, 1):
        estimate = bound.found * claimed / max(read, 1) + positives * zone / max(audited, 1)
        of_all = estimate / people.subjects
    low, most = bound.labels / max(people.subjects, 1), bound.labels + bound.auto + bound.most
    among_read = (bound.found + positives) / (read + audited) if read + audited > 0 else None
    return Prevalence(read=among_read, all=of_all, low=low, high=min(most / max(people.subjects, 1), 1.0))


def _truth(apart: float | None, blind: Blind) -> Truth:
    return Truth(
        controls=blind.read,
        missed=blind.missed,
        missed_at_most=blind.rate,
        apart=apart,
        share=controls.of_the_truth(apart, blind),
        breaks_at=controls.breaks_at(apart, blind),
        words=controls.words(apart, blind),
    )


def _wrong(share: FalseShare) -> Wrong:
    facts = {name: getattr(share, name) for name in Wrong.model_fields if name not in ("left", "wrong")}
    wrong = [number for number, outcome in enumerate(share.outcomes, 1) if outcome]
    return Wrong(**facts, left=share.zone - share.rechecked, wrong=wrong)


def _outcomes(number: int, numbers: list[int]) -> tuple[int, ...]:
    if number < 0 or numbers != sorted(set(numbers) & set(range(1, number + 1))):
        raise ValueError(f"{numbers} are no numbers of {number} in their order")
    positives = set(numbers)
    return tuple(int(n in positives) for n in range(1, number + 1))


# ---- checking a document


def check(path: Path) -> Certificate:
    """The document at `path`, every bound recomputed from its counts; raises ReleaseError with the first error."""
    try:
        stated = Certificate.model_validate(strict_json(path.read_bytes()))
    except (OSError, ValueError, RecursionError) as fault:
        raise ReleaseError(f"{path}: no certificate that this program can read: {_message(fault)}") from None
    try:
        field = _first_difference(stated, from_bounds(_bounds(stated)))
    except ValueError as fault:
        raise ReleaseError(f"{path}: {_message(fault)}: build or fetch it again") from None
    if field is not None:
        raise ReleaseError(f"{path}: {field} does not follow from the counts beside it: build or fetch it again")
    return stated


def alike(released: Path, current: Path) -> bool:
    """Whether a release states the same as the workspace's document, apart from traits that it withholds and from
    `together`, which depends on their number. False if one of them cannot be read."""
    try:
        stated, ours = (Certificate.model_validate(strict_json(path.read_bytes())) for path in (released, current))
    except (OSError, ValueError, RecursionError):
        return False
    return _first_difference(stated.model_copy(update={"together": ours.together}), ours) is None


def _message(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return str(error.strerror if isinstance(error, OSError) else error)
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def _bounds(stated: Certificate) -> LabelBounds:
    """The bounds from the document's counts; raises ValueError if the counts are impossible."""
    truth, gold, pooled = stated.of_the_truth, stated.on_gold, stated.false_of_all
    missed = confidence_bounds.rate(gold.missed, gold.units_present)
    invented = confidence_bounds.rate(gold.invented, gold.units_absent)
    return replace(
        _recall_bounds(stated, Blind.of(truth.controls, truth.missed)),
        gold=gold.model_dump() | {"missed_at_most": missed, "invented_at_most": invented},
        false={slug: _false_share(wrong) for slug, wrong in stated.false.items()},
        false_pooled=_false_share(pooled) if pooled else None,
        items=_recall_bounds(stated.items, controls.NOBODY) if stated.items else None,
    )


def _recall_bounds(stated: Recall, blind: Blind) -> LabelBounds:
    people = stated.population
    audits = {slug: _audit(missed, people.zone) for slug, missed in stated.missed.items()}
    bounds = recall_bounds.from_audits(audits, _audit(stated.missed_of_all, people.zone), blind)
    return replace(bounds, claimed=people.claimed, undrawn=people.unplaced, zone=people.zone, gone=people.gone)


def _audit(missed: Missed, zone: int) -> Audit:
    counts = {name: getattr(missed, name) for name in ("found", "holes", "open", "elsewhere", "gone", "left", "auto")}
    _check_counts(counts | {"zone": zone})
    if not 0 <= missed.positive <= missed.audited:
        raise ValueError(f"{missed.positive} of {missed.audited} is no count")
    outcomes = (0,) * (missed.audited - missed.positive) + (1,) * missed.positive
    return Audit(zone=zone, outcomes=outcomes, **counts)


def _false_share(wrong: Wrong) -> FalseShare:
    counts = {name: getattr(wrong, name) for name in ("zone", "right", "waiting")}
    _check_counts(counts)
    return confidence_bounds.false_share(outcomes=_outcomes(wrong.rechecked, wrong.wrong), **counts)


def _check_counts(counts: Mapping[str, int | None]) -> None:
    if any(count is not None and count < 0 for count in counts.values()):
        raise ValueError(f"a count below 0: {counts}")


def _first_difference(stated: Any, recomputed: Any) -> str | None:
    """The path of the first field that differs, or None; wording may differ between versions, and floats in what
    processors round."""
    if isinstance(stated, BaseModel | dict):
        ours, theirs = dict(recomputed or {}), {name: value for name, value in dict(stated).items() if name not in SAID}
        theirs |= {"words": _claims(theirs["words"])} if "words" in theirs else {}
        ours |= {"words": _claims(ours["words"])} if "words" in ours else {}
        differences = ((name, _first_difference(value, ours.get(name))) for name, value in theirs.items())
        return next((f"{name}.{field}".rstrip(".") for name, field in differences if field is not None), None)
    floats = isinstance(stated, float) and isinstance(recomputed, float)
    equal = math.isclose(stated, recomputed, rel_tol=1e-9, abs_tol=1e-9) if floats else stated == recomputed
    return None if equal else ""


def _claims(words: str) -> list[str]:
    """What a bound's wording claims: its numbers, and whether it is certified."""
    return re.findall(r"\d[\d,.]*|certified|truth", words)
