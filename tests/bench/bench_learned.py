"""What `learned` hears beside the rules: messages of our own that nobody tuned on, and the labelled real turns.

Trained on our own messages (saferec_builder/proposing/messages) and, for real turns, on the turns of the other four
fifths of the conversations: with their labels, or with the rules' claims as silver where nobody has labelled anything.
Thresholds come from scores of texts that the model had not seen: those with the best F0.5. Labellers: language models
wrote the messages and labelled the turns (tests/data/README.md).
"""

import tomllib
from pathlib import Path

import numpy as np

from saferec_builder.core import taxonomy
from saferec_builder.proposing import learned
from saferec_builder.proposing.learning_examples import FOLDS, Bools, Floats, messages
from saferec_builder.proposing.rules import matcher as rules
from saferec_builder.scoring import linear_text
from saferec_builder.storage.tables import digest
from tests import DATA, rules_score
from tests.bench.figures import figure, real_data

SLUGS = taxonomy.load().slugs
WEAK = 0.02  # a score below which a claim of the rules is dropped


def held_out_messages() -> tuple[list[str], Floats]:
    """Texts and [text, trait]."""
    rows = []
    for trait, row in tomllib.loads((DATA / "rules_heldout.toml").read_text(encoding="utf-8"))["trait"].items():
        rows += [(text, trait) for text in row["says"]] + [(text, "") for text in row["not"]]
    return [text for text, _ in rows], np.array([[float(t == slug) for slug in SLUGS] for _, t in rows])


def claimed(texts: list[str], *verdicts: str) -> Bools:
    found = [{hit.trait for hit in rules.read(text) if hit.verdict in verdicts} for text in texts]
    return np.array([[slug in traits for slug in SLUGS] for traits in found])


def rates(found: Bools, truth: Floats) -> tuple[float, float]:
    right = (found & (truth == 1)).sum()
    return right / max(1, found.sum()), right / max(1, (truth == 1).sum())


def folds(names: list[str]) -> list[int]:
    return [int(digest(name)[:8], 16) % FOLDS for name in names]


def unseen(texts: list[str], truth: Floats, where: list[int], own: list[bool]) -> Floats:
    """Scores of each text by the model that has not seen its fold."""
    scores, fold = np.zeros_like(truth), np.array(where)
    for n, model in enumerate(linear_text.cross_fit(texts, truth, SLUGS, where, own=own)):
        mine = np.flatnonzero(fold == n)
        scores[mine] = model.score([texts[k] for k in mine], own=own[mine[0]]) if len(mine) else 0
    return scores


def held_out(texts: list[str], truth: Floats) -> None:
    scores = unseen(texts, truth, folds(texts), [True] * len(texts))
    at = learned.best(scores, truth == 1)
    others, expected = held_out_messages()
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
    where = folds([name.rpartition(":")[0] for name in names])
    base, any_word = claimed(turns, "present"), claimed(turns, "present", "unsure")
    silver = np.where(any_word & ~base, np.nan, base.astype(float))
    fold, silent = np.array(where), ~any_word.any(axis=1)
    alone = rates(base, expected)
    print(f"{len(turns)} real turns: rules alone P {alone[0]:.3f} R {alone[1]:.3f}")
    print(f"  of {silent.sum()} silent turns: {int(expected[silent].sum())} sensitivities")
    for known, told in ((silver, "silver_"), (expected, "")):
        own = [True] * len(turns) + [False] * len(texts)
        # messages are in every model
        all_scores = unseen([*turns, *texts], np.concatenate([known, truth]), [*where, *([-1] * len(texts))], own)
        scores = all_scores[: len(turns)]
        order = np.argsort(-scores[silent].sum(axis=1), kind="stable")
        top = expected[silent][order[: round(0.1 * silent.sum())]]
        figure(f"learned.{told}queue_top10", top.sum(), "", ">= 25")
        if told:
            continue
        kept, found = base & (scores >= WEAK), np.zeros_like(base)
        for n in range(FOLDS):
            there = fold != n
            at = learned.best(np.where(kept[there], 1.0, scores[there]), expected[there] == 1)
            found[~there] = (kept | (scores >= at))[~there]
        precision, recall = rates(found, expected)
        for form in ("explicit", "implicit"):
            wanted = np.array([[gold.forms.get((name, slug)) == form for slug in SLUGS] for name in names])
            was, now, size = ((which & wanted).sum() for which in (base, found, wanted))
            print(f"  {form}: rules {was}, rules and learned {now} of {size}")
        figure("learned.turns_precision", precision, "", ">= .80")
        figure("learned.turns_recall", recall, "", ">= .58")


def main() -> None:
    texts, truth = messages(taxonomy.load())
    held_out(texts, truth)
    if folder := real_data("real turns"):
        real_turns(folder, texts, truth)
