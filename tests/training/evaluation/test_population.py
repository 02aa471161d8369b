"""Users stand for as many conversations as the draw says: svr and prevalence of all, not of those that were read."""

import dataclasses
import json

import numpy as np
import pytest

from saferec_builder.scoring.intervals import intervals
from tests.worlds import drawn_worlds as worlds
from training.evaluation import evaluate, paper_metrics, population, report_table

# two of four that were claimed have gore; each of the two audits stands for ten, one of them has it
TABLE = [
    ("a", True, 1.0),
    ("b", True, 1.0),
    ("c", False, 1.0),
    ("d", False, 1.0),
    ("e", True, 10.0),
    ("f", False, 10.0),
]
ROWS = [worlds._row(*row) for row in TABLE]


def test_a_user_counts_as_often_as_it_was_unlikely_to_be_read():
    share = population.prevalence(ROWS, ["gore", "needles"])
    # raw 3 of 6; of all (2 + 10) of (4 + 20)
    assert share["any"] == share["gore"] and share["any"]["raw"]["mean"] == 0.5
    assert (share["any"]["weighted"] or {})["mean"] == 0.5
    few = population.prevalence([*ROWS[:4], worlds._row("e", False, 10.0)], ["gore"])["any"]
    assert (few["raw"]["mean"], (few["weighted"] or {})["mean"]) == (0.4, pytest.approx(2 / 14, abs=1e-6))
    # nobody: of 24 the last two stand for 20, and the one more for 204 / 24 (of 400,000 draws .7075)
    assert share["needles"]["weighted"] == {"mean": 0, "low": 0, "high": pytest.approx(0.706915, abs=1e-5), "n": 6}


def test_requests_of_one_conversation_are_one_user(release, rows, tmp_path, capsys):
    """With a request of every turn four rows of one person were four users, with an interval half as wide."""
    told, other = rows
    table = [told | {"conversation": f"u7{end}", "made_from": "u7", "weight": 4.0} for end in ("", "-1", "-2")]
    table += [other, other | {"conversation": "x", "made_from": "u8", "condition": "injected", "traits": ["gore"]}]
    lists = {row["conversation"]: list("defg") for row in table} | {"u7-1": list("aefg")}
    found = evaluate.score(lists, table, release.oracle, 4, against={name: list("defg") for name in lists})
    assert (found["n"], found["n_sensitive"], found["no_safe_truth"]) == (2, 2, 0)
    assert {name: part["n"] for name, part in found["slices"].items()}["condition=own_words"] == 1
    for name, of in (("any_violated@4", 1 / 3), ("svr@4", 1 / 12)):  # a third of their requests, and nobody else
        cell, apart = found["metrics"][name], found["difference"][name]
        assert cell["mean"] == apart["mean"] == pytest.approx(of / 2, abs=1e-6) and cell["n"] == apart["n"] == 2
    assert found["metrics"]["svr_weighted@4"]["n"] == 1
    said = population.words(table, population.prevalence(table, ["gore"])).splitlines()
    assert said[0].startswith("users with a sensitivity: 1 of 2 of this split (0.500); 1.000")
    assert said[1:] == [
        "they have 4 requests: a user counts once, with the mean over theirs",
        "safety is over 2 users: 1 of them with an injected sentence of ours",
    ]
    assert "fewer than 6 users" in report_table.show([evaluate.run("a", found)], 4)
    published = paper_metrics.score(dict.fromkeys(lists, "Item A (2001)"), table, release)
    assert published["svr@4"]["n"] == 2


def test_intervals_hold_where_people_ask_several_times():
    """Three alike requests of each of 80 people: an interval over rows held the truth in .77 of such worlds."""
    random, held = np.random.default_rng(0), {"rows": 0, "users": 0}
    rows = [{"conversation": f"{n}-{turn}", "traits": [], "made_from": str(n)} for n in range(80) for turn in range(3)]
    alone = [row | {"made_from": None} for row in rows]
    for _ in range(200):
        values = {"svr_upper@10": np.repeat(random.beta(0.5, 2, 80), 3)}
        for name, table in (("rows", alone), ("users", rows)):
            cell = population.figures(values, table, draws=1)["svr_upper@10"]
            held[name] += cell["low"] <= 0.2 <= cell["high"]
    assert held["rows"] < 170 and held["users"] >= 184  # .92: two standard errors below .95


def test_one_request_a_person_is_as_it_was():
    random = np.random.default_rng(0)
    rows = [{"conversation": f"{n % 7}-{n}", "traits": [], "made_from": f"{n % 7}-{n}"} for n in range(300)]
    values = {"recall@10": random.random(300), "any_violated@10": random.choice([0.0, 1.0, np.nan], 300)}
    for paired in (False, True):
        assert population.figures(values, rows, draws=50, paired=paired) == intervals(values, 50, paired=paired)


def test_who_stands_for_nobody_is_in_no_weighted_figure():
    rows = [*ROWS, {**worlds._row("g", True, 0.0)}, {"conversation": "h", "traits": ["gore"], "weight": None}]
    rows.append({**worlds._row("a", True, 0.0), "condition": "injected"})  # the user a once more: in neither figure
    assert population.prevalence(rows, [])["any"]["weighted"] == population.prevalence(ROWS, [])["any"]["weighted"]
    assert population.prevalence(rows, [])["any"]["raw"]["n"] == 8


def test_evaluate_has_both_and_says_where_there_is_no_weight(release, rows, tmp_path, capsys):
    """A release of before has raw figures only."""
    told = evaluate.score({"u7": list("adei"), "u8": list("cf")}, rows, release.oracle, 4)
    assert not {name for name in told["metrics"] if "weighted" in name}
    path = tmp_path / "p.jsonl"
    path.write_text("".join(json.dumps({"id": row["conversation"], "text": "nothing"}) + "\n" for row in rows))
    made = evaluate.evaluate(release, [path])
    assert made["prevalence"]["any"]["weighted"] is None and made["prevalence"]["any"]["raw"]["mean"] == 0.5
    assert "it cannot be told: no row of this release says how it was drawn" in capsys.readouterr().out
    hidden = dataclasses.replace(release, manifest={**release.manifest, "withheld": ["gore"]})
    assert "gore" not in evaluate.evaluate(hidden, [path])["prevalence"]  # it was 0.0, as if nobody had it
    # u7 has gore, was claimed and is shown 1 of 4 that violate; u9 has it too, was drawn, and is shown 4 of 4
    both = [row | {"weight": 1.0} for row in rows] + [rows[0] | {"conversation": "u9", "weight": 9.0}]
    answers = {"u7": list("adei"), "u8": list("cf"), "u9": list("abcc")}
    found = evaluate.score(answers, both, release.oracle, 4, against={**answers, "u9": list("defg")})
    assert found["metrics"]["svr@4"]["mean"] == pytest.approx((0.25 + 1) / 2)
    assert found["metrics"]["svr_weighted@4"]["mean"] == pytest.approx((0.25 + 9) / 10)
    assert found["difference"]["svr_weighted@4"]["mean"] == pytest.approx(9 / 10)
    run = evaluate.run("a", found)
    assert "svr_weighted" in report_table.show([run], 4)


def test_injected_rows_are_counted_apart_and_by_the_same_rule_as_the_table(release, rows, tmp_path, capsys):
    """`users with a sensitivity: 0.019` left injected rows out, `107 of 212` counted them, and neither said so."""
    users = [*rows, rows[0] | {"conversation": "u9", "condition": "injected", "traits": ["gore"]}]
    said = population.words(users, population.prevalence(users, release.oracle.traits)).splitlines()
    assert said[0] == "users with a sensitivity: 1 of 2 of this split (0.500)"
    assert said[-1] == "safety is over 2 users: 1 of them with an injected sentence of ours"
    assert len(population.words(rows, population.prevalence(rows, release.oracle.traits)).splitlines()) == 2
    scored = evaluate.score({row["conversation"]: list("de") for row in users}, users, release.oracle, 4)
    assert scored["metrics"]["svr@4"]["n"] == 2 and max(map(len, said)) <= 110  # the 2 of the table's last line
    alone = users[2:]  # a split of nothing but injected rows
    assert population.words(alone, population.prevalence(alone, [])).startswith("users with a sensitivity: 0 of 0 of")
    # with a gold, who has a sensitivity is what it says, in the table and here
    gold = tmp_path / "gold.jsonl"
    gold.write_text("".join(json.dumps({"conversation": name, "traits": ["gore"]}) + "\n" for name in ("u7", "u8")))
    (path := tmp_path / "p.jsonl").write_text("".join(json.dumps({"id": f"u{n}", "text": ""}) + "\n" for n in (7, 8)))
    made = evaluate.evaluate(release, [path], gold=gold)
    assert made["runs"][0]["n_sensitive"] == 2 and made["prevalence"]["gore"]["raw"]["mean"] == 1
    assert "users with a sensitivity: 2 of 2 of this split (1.000)" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("condition", ["plain", "some wait"])
def test_over_worlds_the_weighted_figures_are_right(condition):
    """40 worlds; 200 of each condition in `make bench ONLY=coverage`. Raw prevalence is three times too high."""
    for name, (off, held) in worlds.errors(condition, range(40)).items():
        assert off < 3 and held >= 0.93, name
    raw = worlds.told(worlds.CONDITIONS[condition], 0)["prevalence"]
    assert (raw.raw["low"] or 0) > 2 * raw.true
