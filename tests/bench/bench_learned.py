"""What the linear model hears beside the rules: messages of our own that nobody tuned on, and the labelled real turns.

Trained on our own messages (rules_development, rules_voices, rules_strangers) and, for real turns, on the turns of the
other four fifths of the conversations. Thresholds come from out-of-fold scores of what it was trained on: those with
the best F1. Labellers: language models wrote the messages and labelled the turns (tests/data/README.md).
"""

import os
import tomllib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from saferec_builder.core import taxonomy
from saferec_builder.proposing.rules import matcher as rules
from saferec_builder.scoring import linear_text
from saferec_builder.storage.tables import digest
from tests import DATA, rules_score
from tests.bench.figures import figure

SLUGS = taxonomy.load().slugs
TUNED = ("rules_development.toml", "rules_voices.toml", "rules_strangers.toml")
FOLDS, STEPS, WEAK = 5, np.arange(0.05, 0.96, 0.05), 0.02  # WEAK: a score below which a claim of the rules is dropped
Floats, Bools = NDArray[np.float64], NDArray[np.bool_]


def messages(*files: str) -> tuple[list[str], Floats]:
    """Texts and [text, trait]: each message is written for one trait, and counts as one without the others."""
    rows = []
    for file in files:
        for trait, row in tomllib.loads((DATA / file).read_text(encoding="utf-8"))["trait"].items():
            rows += [(text, trait) for text in row["says"]] + [(text, "") for text in row["not"]]
    return [text for text, _ in rows], np.array([[float(t == slug) for slug in SLUGS] for _, t in rows])


def claimed(texts: list[str], *verdicts: str) -> Bools:
    found = [{hit.trait for hit in rules.read(text) if hit.verdict in verdicts} for text in texts]
    return np.array([[slug in traits for slug in SLUGS] for traits in found])


def rates(found: Bools, truth: Floats) -> tuple[float, float]:
    right = (found & (truth == 1)).sum()
    return right / max(1, found.sum()), right / max(1, (truth == 1).sum())


def best(scores: Floats, base: Bools, truth: Floats) -> float:
    """The threshold with the best F1 of base or score."""

    def f1(at: float) -> float:
        p, r = rates(base | (scores >= at), truth)
        return 2 * p * r / (p + r or 1.0)

    return float(max(STEPS, key=f1))


def folds(names: list[str]) -> NDArray[np.int64]:
    return np.array([int(digest(name)[:8], 16) % FOLDS for name in names])


def held_out(texts: list[str], truth: Floats) -> None:
    fold, inside = folds(texts), np.zeros_like(truth)
    for n in range(FOLDS):
        there = fold != n
        part = linear_text.fit([t for t, k in zip(texts, there, strict=True) if k], truth[there], SLUGS)
        inside[~there] = part.score([t for t, k in zip(texts, there, strict=True) if not k])
    at = best(inside, np.zeros_like(inside, dtype=bool), truth)
    others, expected = messages("rules_heldout.toml")
    assert not {*texts} & {*others}, "a held-out message is trained on"
    base = claimed(others, "present")
    precision, recall = rates(base | (linear_text.fit(texts, truth, SLUGS).score(others) >= at), expected)
    alone = rates(base, expected)
    print(f"held out: threshold {at:.2f}; rules alone P {alone[0]:.3f} R {alone[1]:.3f}")
    figure("learned.heldout_precision", precision, "", ">= .88")
    figure("learned.heldout_recall", recall, "", ">= .85")


def real_turns(folder: Path, texts: list[str], truth: Floats) -> None:
    gold = rules_score.real(folder)
    names = list(gold.frame["conversation"])
    turns = [row[0]["text"] for row in gold.frame["turns"]]
    expected = np.array([[float((name, slug) in gold.forms) for slug in SLUGS] for name in names])
    fold, scores = folds([name.rpartition(":")[0] for name in names]), np.zeros_like(expected)
    for n in range(FOLDS):
        there = fold != n
        mine = [t for t, k in zip(turns, there, strict=True) if k]
        own = [False] * len(texts) + [True] * len(mine)
        model = linear_text.fit([*texts, *mine], np.concatenate([truth, expected[there]]), SLUGS, own=own)
        scores[~there] = model.score([t for t, k in zip(turns, there, strict=True) if not k])
    base = claimed(turns, "present")
    kept, found = base & (scores >= WEAK), np.zeros_like(base)
    for n in range(FOLDS):
        there = fold != n
        found[~there] = (kept | (scores >= best(scores[there], kept[there], expected[there])))[~there]
    precision, recall = rates(found, expected)
    alone = rates(base, expected)
    print(f"{len(turns)} real turns: rules alone P {alone[0]:.3f} R {alone[1]:.3f}")
    for form in ("explicit", "implicit"):
        wanted = np.array([[gold.forms.get((name, slug)) == form for slug in SLUGS] for name in names])
        was, now, size = ((which & wanted).sum() for which in (base, found, wanted))
        print(f"  {form}: rules {was}, rules and learned {now} of {size}")
    figure("learned.turns_precision", precision, "", ">= .80")
    figure("learned.turns_recall", recall, "", ">= .58")
    silent = ~claimed(turns, "present", "unsure").any(axis=1)
    order = np.argsort(-scores[silent].sum(axis=1), kind="stable")
    top = expected[silent][order[: round(0.1 * silent.sum())]]
    print(f"  of {silent.sum()} silent turns: {int(expected[silent].sum())} sensitivities")
    figure("learned.queue_top10", top.sum(), "", ">= 25")


def main() -> None:
    texts, truth = messages(*TUNED)
    held_out(texts, truth)
    folder = os.environ.get("SAFEREC_REAL_DATA")
    if folder:
        real_turns(Path(folder), texts, truth)
    else:
        print("real turns: SAFEREC_REAL_DATA is not set")
