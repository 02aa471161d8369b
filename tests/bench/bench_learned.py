"""What `learned` finds beyond the rules: in our own messages that nobody tuned on, and in the labelled real turns.

Trained on our own messages (saferec_builder/proposing/messages) and, for real turns, on the turns of the other four
fifths of the conversations: with their labels, or with the rules' claims as silver, as if nobody had labelled anything.
Thresholds come from scores of texts that the model had not seen: those with the best F0.5, on messages of `learned`
alone (the rules are tuned on these), on turns of its claims and the rules', as in `propose`. Labellers: language models
wrote the messages and labelled the turns (tests/data/README.md).
"""

import tomllib
from pathlib import Path

import numpy as np

from saferec_builder.core import taxonomy
from saferec_builder.core.errors import strict_json
from saferec_builder.proposing import learned
from saferec_builder.proposing.learning_examples import FOLDS, Bools, Floats, messages
from saferec_builder.proposing.rules import matcher as rules
from saferec_builder.scoring import linear_text
from saferec_builder.storage.tables import digest
from tests import DATA, rules_score
from tests.bench.figures import figure, real_data

SLUGS = taxonomy.load().slugs


def held_out_messages() -> tuple[list[str], Floats]:
    """Texts and a matrix [text, trait]."""
    rows = []
    for trait, row in tomllib.loads((DATA / "rules_heldout.toml").read_text(encoding="utf-8"))["trait"].items():
        rows += [(text, trait) for text in row["says"]] + [(text, "") for text in row["not"]]
    return [text for text, _ in rows], np.array([[float(t == slug) for slug in SLUGS] for _, t in rows])


def held_out_requests() -> tuple[list[str], Floats]:
    """Texts and a matrix [text, trait] of what the writer and a second reader agree on, else nan."""
    rows = [strict_json(line) for line in (DATA / "requests_heldout.jsonl").read_bytes().splitlines()]
    units = [[(slug in r["traits"], slug in r["read"], slug in r["unsure"]) for slug in SLUGS] for r in rows]
    truth = [
        [np.nan if unsure or by_writer != by_reader else by_writer for by_writer, by_reader, unsure in row]
        for row in units
    ]
    return [row["text"] for row in rows], np.array(truth, dtype=np.float64)


def claimed(texts: list[str], *verdicts: str) -> Bools:
    hits = [{hit.trait for hit in rules.read(text) if hit.verdict in verdicts} for text in texts]
    return np.array([[slug in traits for slug in SLUGS] for traits in hits])


def rates(found: Bools, truth: Floats) -> tuple[float, float]:
    right = (found & (truth == 1)).sum()
    return right / max(1, (found & ~np.isnan(truth)).sum()), right / max(1, (truth == 1).sum())


def folds(names: list[str]) -> list[int]:
    return [int(digest(name)[:8], 16) % FOLDS for name in names]


def unseen(texts: list[str], truth: Floats, where: list[int], own: list[bool]) -> Floats:
    """Scores of each text by the model that was trained without its fold."""
    scores, fold = np.zeros_like(truth), np.array(where)
    for n, model in enumerate(linear_text.cross_fit(texts, truth, SLUGS, where, FOLDS, own=own)):
        members = np.flatnonzero(fold == n)
        scores[members] = model.score([texts[k] for k in members], own=own[members[0]]) if len(members) else 0
    return scores


def held_out(texts: list[str], truth: Floats) -> None:
    scores = unseen(texts, truth, folds(texts), [True] * len(texts))
    everywhere = np.ones_like(truth, dtype=bool)
    threshold = learned.best(scores, truth == 1, everywhere, ~everywhere).heard
    model = linear_text.fit(texts, truth, SLUGS)
    sets = {"540 messages": held_out_messages(), "1,074 requests": held_out_requests()}
    for (name, (unread, expected)), prefix in zip(sets.items(), ("heldout", "requests"), strict=True):
        by_rules = claimed(unread, "present")
        precision, recall = rates(by_rules | (model.score(unread) >= threshold), expected)
        of_rules = "P {:.3f} R {:.3f}".format(*rates(by_rules, expected))
        print(f"{name}: threshold {threshold:.2f}; rules alone {of_rules}")
        goals = (">= .88", ">= .85") if prefix == "heldout" else ("none", "none")
        figure(f"learned.{prefix}_precision", precision, "", goals[0])
        figure(f"learned.{prefix}_recall", recall, "", goals[1])


def real_turns(folder: Path, texts: list[str], truth: Floats) -> None:
    gold = rules_score.real(folder)
    names = list(gold.frame["conversation"])
    turns = [row[0]["text"] for row in gold.frame["turns"]]
    expected = np.array([[float((name, slug) in gold.forms) for slug in SLUGS] for name in names])
    where = folds([name.rpartition(":")[0] for name in names])
    by_rules, any_word = claimed(turns, "present"), claimed(turns, "present", "unsure")
    silver = np.where(any_word & ~by_rules, np.nan, by_rules.astype(float))
    fold, silent = np.array(where), ~any_word.any(axis=1)
    rules_rates = rates(by_rules, expected)
    print(f"{len(turns)} real turns: rules alone P {rules_rates[0]:.3f} R {rules_rates[1]:.3f}")
    print(f"  of {silent.sum()} silent turns: {int(expected[silent].sum())} sensitivities")
    for labels, prefix in ((silver, "silver_"), (expected, "")):
        is_turn = [True] * len(turns) + [False] * len(texts)
        # messages are in every model
        all_scores = unseen([*turns, *texts], np.concatenate([labels, truth]), [*where, *([-1] * len(texts))], is_turn)
        scores = all_scores[: len(turns)]
        order = np.argsort(-scores[silent].sum(axis=1), kind="stable")
        top = expected[silent][order[: round(0.1 * silent.sum())]]
        figure(f"learned.{prefix}queue_top10", top.sum(), "", ">= 25")
        if prefix:
            continue
        found = by_rules.copy()
        for n in range(FOLDS):
            own, rest = fold == n, fold != n
            thresholds = learned.best(scores[rest], expected[rest] == 1, any_word[rest], by_rules[rest])
            found[own] |= thresholds.claims(scores[own], any_word[own])
        precision, recall = rates(found, expected)
        for form in ("explicit", "implicit"):
            of_form = np.array([[gold.forms.get((name, slug)) == form for slug in SLUGS] for name in names])
            before, after, total = ((mask & of_form).sum() for mask in (by_rules, found, of_form))
            print(f"  {form}: rules {before}, rules and learned {after} of {total}")
        figure("learned.turns_precision", precision, "", ">= .80")
        figure("learned.turns_recall", recall, "", ">= .58")


def main() -> None:
    texts, truth = messages(taxonomy.load())
    held_out(texts, truth)
    if folder := real_data("real turns"):
        real_turns(folder, texts, truth)
