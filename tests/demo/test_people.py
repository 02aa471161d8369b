"""Simulated reviewers err at the stated rates."""

from pathlib import Path

from saferec_builder.demo import people
from tests.worlds.csv_rows import rows_of, save


def test_simulated_reviewers_err_at_the_stated_rate(tmp_path: Path) -> None:
    text = "1. seeker: I look away whenever blood is drawn, always have."
    gold = [{"trait": "needles", "form": "implicit", "turn": 0, "quote": "I look away whenever blood is drawn"}]
    head = ["task", "text", "trait", "proposed_quote", "verdict", "form", "quote", "turn", "seconds"]
    blank = [{"task": f"task-{n}", "text": text, "trait": trait} for n in range(2000) for trait in ("needles", "*")]
    path = save(tmp_path / "ann.csv", blank, head)
    assert people.fill(path, {f"task-{n}": gold for n in range(2000)}) == 4000
    rows = rows_of(path)
    needles = [r for r in rows if r["trait"] == "needles"]
    missed = sum(r["verdict"] == "absent" for r in needles) / len(needles)
    assert abs(missed - people.MISSED) < 4 * (0.06 * 0.94 / 2000) ** 0.5  # four standard errors
    added = sum(r["verdict"] != "none" for r in rows if r["trait"] == "*")
    assert 0 < added < 24  # 2,000 x .004 = 8, sd 2.8
