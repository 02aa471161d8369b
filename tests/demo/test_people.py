"""Simulated reviewers err at the stated rates."""

import csv
from pathlib import Path

from saferec_builder.demo import people


def test_simulated_reviewers_err_at_the_stated_rate(tmp_path: Path) -> None:
    text = "1. seeker: I look away whenever blood is drawn, always have."
    gold = [{"trait": "needles", "form": "implicit", "turn": 0, "quote": "I look away whenever blood is drawn"}]
    head = ["task", "text", "trait", "proposed_quote", "verdict", "form", "quote", "turn", "seconds"]
    path = tmp_path / "ann.csv"
    blank = [[f"task-{n}", text, trait, *[""] * 6] for n in range(2000) for trait in ("needles", "*")]
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([head, *blank])
    assert people.fill(path, {f"task-{n}": gold for n in range(2000)}) == 4000
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    needles = [r for r in rows if r["trait"] == "needles"]
    missed = sum(r["verdict"] == "absent" for r in needles) / len(needles)
    assert abs(missed - people.MISSED) < 4 * (0.06 * 0.94 / 2000) ** 0.5  # four standard errors
    added = sum(r["verdict"] != "none" for r in rows if r["trait"] == "*")
    assert 0 < added < 24  # 2,000 x .004 = 8, sd 2.8
