"""Recall and precision of personal data per kind, in texts by writers who did not know the rules.

The figures are for texts that nobody read while the rules were changed: half of privacy_apart.jsonl, and all of
privacy_fourth.jsonl, which is mainly about names. `fresh` are those of privacy_fifth.txt, and `rare` the names of
names_rare.txt, not read either. `read` are texts that were read and fitted on: the other half, and all of
privacy_strangers.jsonl and privacy_third.jsonl. `real_names` are names found in the half of the real conversations that
in_passing.py was not fitted on, where nearly every name is an actor's or a character's.
"""

from pathlib import Path

import polars as pl

from saferec_builder.mining import privacy
from tests.bench import real_talk
from tests.bench.figures import figure, real_data
from tests.worlds.privacy_lines import APART, FIFTH, FOURTH, RARE, THIRD, labelled, measured, strangers

EXACT = ("email", "url", "card", "ip")
HALF = 60
GOALS = (">= .85", ">= .93", ">= .90", ">= .80")


def main() -> None:
    texts = list(strangers(APART))
    tell([*texts[HALF:], *strangers(FOURTH)], "", GOALS)
    tell(list(labelled(FIFTH)), "fresh_", GOALS)
    tell([*texts[:HALF], *strangers(), *strangers(THIRD)], "read_", ("reported",) * 4)
    marked, covered, found, right = measured(labelled(RARE), privacy.find)
    figure("privacy.rare_name_recall", covered["name"] / marked["name"], "of all", "reported")
    print(f"  name: {covered['name']} of {marked['name']}, {right['name']} of {found['name']} found right")
    if folder := real_data("real names"):
        real(folder)


def tell(lines: list[tuple[str, list[tuple[int, int, str]]]], of: str, goals: tuple[str, str, str, str]) -> None:
    marked, covered, found, right = measured(lines, privacy.find)
    claimed = [kind for kind in privacy.KINDS if kind != "address"]

    def recall(*kinds: str) -> float:
        return sum(covered[kind] for kind in kinds) / sum(marked[kind] for kind in kinds)

    figure(f"privacy.{of}claimed_recall", recall(*claimed), "of all", goals[0])
    figure(f"privacy.{of}precision", sum(right.values()) / sum(found.values()), "of all", goals[1])
    figure(f"privacy.{of}exact_recall", min(recall(kind) for kind in EXACT), "worst", goals[2])
    figure(f"privacy.{of}name_recall", recall("name"), "of all", goals[3])
    figure(f"privacy.{of}address_recall", recall("address"), "of all", "none: apart")
    for kind in privacy.KINDS:
        print(f"  {kind}: {covered[kind]} of {marked[kind]}, {right[kind]} of {found[kind]} found right")


def real(folder: Path) -> None:
    talks = [talk for talk in real_talk.conversations(folder) if not real_talk.fitted_on(talk[1])]
    texts = pl.Series([text for *_, turns in talks for text in turns])
    numbers = pl.Series([n for n, (*_, turns) in enumerate(talks) for _ in turns])
    found = privacy.redact_all(texts, numbers, leave={"handle"})[1]["name"]
    figure("privacy.real_names", 1000 * found / len(talks), "a 1,000", "none")
    print(f"  {found} names in {len(talks)} conversations")
