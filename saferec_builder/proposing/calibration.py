"""Scores a proposer's claims and confidence against known labels: precision, recall, calibration, evidence."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from saferec_builder.proposing.text_units import Proposal

Unit = tuple[str, str]  # subject, trait
Place = tuple[int, int, int]  # turn, start, end
Floats = NDArray[np.float64]
BINS = 10
ENOUGH = 50  # judged claims of a trait before its confidence is fitted


@dataclass(frozen=True)
class Truth:
    """present: unit -> form; absent: units known to be absent; whole: subjects whose other traits are all absent."""

    present: Mapping[Unit, str | None]
    absent: Collection[Unit] = ()
    whole: Collection[str] = ()
    spans: Mapping[Unit, Sequence[Place]] = field(default_factory=dict)

    def of(self, unit: Unit) -> bool | None:
        """Whether the trait is present; None if nobody knows."""
        if unit in self.present:
            return True
        return False if unit in self.absent or unit[0] in self.whole else None


class Rates(TypedDict):
    precision: float | None
    recall: float | None
    f1: float | None
    right: int
    claimed: int
    wanted: int  # number of units in which the trait is present


class Bin(TypedDict):
    """Claims with confidence from `low` to `high`: their mean confidence, and the share of them that is right."""

    low: float
    high: float
    n: int
    confidence: float
    right: float


class Evidence(TypedDict):
    """Shares of right claims whose evidence overlaps the known evidence, or equals it; the mean overlap (IoU)."""

    touches: float
    exact: float
    iou: float


@dataclass(frozen=True)
class Figures:
    """read: subjects with a known truth; open: claims that nobody judged; ece: expected calibration error."""

    read: int
    open: int
    all: Rates
    recall_of: dict[str, float]  # form -> recall
    traits: dict[str, Rates]
    ece: float | None
    reliability: list[Bin]
    evidence: Evidence | None


def rates(right: int, claimed: int, wanted: int) -> Rates:
    """Precision, recall and F1; each is None if its denominator is 0."""
    p = right / claimed if claimed else None
    r = right / wanted if wanted else None
    f1 = None if p is None or r is None else 2 * p * r / (p + r) if p + r else 0.0
    return {"precision": p, "recall": r, "f1": f1, "right": right, "claimed": claimed, "wanted": wanted}


def score(claims: Sequence[Proposal], read: Collection[str], truth: Truth) -> Figures:
    """All figures of one proposer. claims: rows with verdict `present`; `open` counts claims that nobody judged."""
    judged = [row for row in claims if truth.of((row["subject"], row["trait"])) is not None]
    right = [row for row in judged if (row["subject"], row["trait"]) in truth.present]
    expected = {unit: form for unit, form in truth.present.items() if unit[0] in read}
    hits = {(row["subject"], row["trait"]) for row in right}
    counts = {name: Counter(row["trait"] for row in rows) for name, rows in (("claimed", judged), ("right", right))}
    wanted = Counter(trait for _, trait in expected)
    slugs = sorted(set(wanted) | set(counts["claimed"]))
    forms = {form: [u for u, f in expected.items() if f == form] for form in ("explicit", "implicit")}
    return Figures(
        read=len(read),
        open=len(claims) - len(judged),
        all=rates(len(right), len(judged), len(expected)),
        recall_of={form: len(hits & set(units)) / len(units) for form, units in forms.items() if units},
        traits={slug: rates(counts["right"][slug], counts["claimed"][slug], wanted[slug]) for slug in slugs},
        ece=ece(*pairs(judged, truth)),
        reliability=reliability(*pairs(judged, truth)),
        evidence=evidence(right, truth),
    )


def pairs(judged: Sequence[Proposal], truth: Truth) -> tuple[Floats, Floats]:
    """Returns two arrays over the judged claims: their confidence, and whether each is right (1.0 or 0.0)."""
    confidence = np.array([row["confidence"] for row in judged], float)
    return confidence, np.array([(row["subject"], row["trait"]) in truth.present for row in judged], float)


def reliability(confidence: Floats, right: Floats) -> list[Bin]:
    """The bins that hold at least one claim."""
    bin_of = np.clip((confidence * BINS).astype(int), 0, BINS - 1)
    bins: list[Bin] = []
    for b in range(BINS):
        inside = bin_of == b
        if inside.any():
            mean, share = float(confidence[inside].mean()), float(right[inside].mean())
            bins.append(Bin(low=b / BINS, high=(b + 1) / BINS, n=int(inside.sum()), confidence=mean, right=share))
    return bins


def ece(confidence: Floats, right: Floats) -> float | None:
    """Expected calibration error: mean |confidence - share right| of bins, weighted by claims; None without claims."""
    bins = reliability(confidence, right)
    total = sum(b["n"] for b in bins)
    return sum(b["n"] * abs(b["confidence"] - b["right"]) for b in bins) / total if total else None


def evidence(right: Sequence[Proposal], truth: Truth) -> Evidence | None:
    """Evidence scores over the right claims whose evidence is known; None if there are none."""
    known = [(row["spans"], truth.spans[u]) for row in right if (u := (row["subject"], row["trait"])) in truth.spans]
    if not known:
        return None
    ious = [_iou([(s["turn"], s["start"], s["end"]) for s in spans], expected) for spans, expected in known]
    n = len(ious)
    return {"touches": sum(v > 0 for v in ious) / n, "exact": sum(v == 1 for v in ious) / n, "iou": sum(ious) / n}


def _iou(claimed: Sequence[Place], expected: Sequence[Place]) -> float:
    """Number of characters in both, divided by number of characters in either (intersection over union)."""
    a, b = ({(turn, n) for turn, start, end in spans for n in range(start, end)} for spans in (claimed, expected))
    return len(a & b) / len(a | b) if a | b else 0.0


# ---- isotonic calibration


@dataclass(frozen=True)
class Steps:
    """A rising step function: a confidence above upto[i - 1], up to upto[i], is calibrated to share[i]."""

    upto: tuple[float, ...]
    share: tuple[float, ...]

    def of(self, confidence: float) -> float:
        n = int(np.searchsorted(self.upto, confidence))
        return self.share[min(n, len(self.share) - 1)]


def isotonic(confidence: Floats, right: Floats) -> Steps:
    """The rising step function nearest to the claims in least squares (pool adjacent violators)."""
    pools: list[list[float]] = []  # largest confidence, right, claims
    for c in np.unique(confidence):
        equal = right[confidence == c]
        pools.append([float(c), float(equal.sum()), float(len(equal))])
        while len(pools) > 1 and pools[-2][1] / pools[-2][2] >= pools[-1][1] / pools[-1][2]:
            c_last, r, n = pools.pop()
            pools[-1] = [c_last, pools[-1][1] + r, pools[-1][2] + n]
    return Steps(tuple(p[0] for p in pools), tuple(p[1] / p[2] for p in pools))


def fits(judged: Sequence[Proposal], truth: Truth) -> dict[str, Steps]:
    """trait -> its isotonic fit, for traits with at least ENOUGH judged claims."""
    by_trait: dict[str, list[Proposal]] = {}
    for row in judged:
        by_trait.setdefault(row["trait"], []).append(row)
    return {t: isotonic(*pairs(rows, truth)) for t, rows in sorted(by_trait.items()) if len(rows) >= ENOUGH}


def held_out_ece(judged: Sequence[Proposal], truth: Truth) -> tuple[float | None, float | None]:
    """(ECE as claimed, ECE after fits) over traits with enough claims; each half is calibrated by the other's fit."""
    raw: list[tuple[float, float]] = []
    calibrated: list[tuple[float, float]] = []
    for trait in fits(judged, truth):
        rows = sorted((row for row in judged if row["trait"] == trait), key=lambda row: row["proposal"])
        halves = rows[::2], rows[1::2]
        for fit_half, held_out in (halves, halves[::-1]):
            steps = isotonic(*pairs(fit_half, truth))
            for c, r in zip(*pairs(held_out, truth), strict=True):
                raw.append((c, r))
                calibrated.append((steps.of(c), r))
    if not raw:
        return None, None
    return ece(*np.array(raw).T), ece(*np.array(calibrated).T)
