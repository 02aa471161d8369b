"""Weighted figures: svr and prevalence over all conversations that the draw stands for, not only over those read."""

import dataclasses
import json

import numpy as np
import pytest

from saferec_builder.scoring.intervals import intervals
from tests.worlds import drawn_worlds as worlds, small_release
from training.evaluation import evaluate, paper_metrics, report_table, user_weights

# two of four claimed users have gore; each of the two audited users stands for ten, and one of them has it
ROWS = [
    *(worlds._row(name, name in "ab", 1.0) for name in "abcd"),
    *(worlds._row(name, name == "e", 10.0) for name in "ef"),
]


def test_a_user_counts_as_often_as_it_was_unlikely_to_be_read():
    share = user_weights.prevalence(ROWS, ["gore", "needles"])
    # raw 3 of 6; of all (2 + 10) of (4 + 20)
    assert share["any"] == share["gore"] and share["any"]["raw"]["mean"] == 0.5
    assert (share["any"]["weighted"] or {})["mean"] == 0.5
    few = user_weights.prevalence([*ROWS[:4], worlds._row("e", False, 10.0)], ["gore"])["any"]
    assert (few["raw"]["mean"], (few["weighted"] or {})["mean"]) == (0.4, pytest.approx(2 / 14, abs=1e-6))
    # nobody has needles: of 24 the last two stand for 20, and one more user for 204 / 24 (.7075 in 400,000 draws)
    assert share["needles"]["weighted"] == {"mean": 0, "low": 0, "high": pytest.approx(0.706915, abs=1e-5), "n": 6}


def test_requests_of_one_conversation_are_one_user(release, rows):
    """With a request of every turn four rows of one person used to be four users, with an interval half as wide."""
    sensitive, plain = rows
    table = [sensitive | {"conversation": f"u7{end}", "made_from": "u7", "weight": 4.0} for end in ("", "-1", "-2")]
    table += [plain, plain | {"conversation": "x", "made_from": "u8", "condition": "injected", "traits": ["gore"]}]
    lists = {row["conversation"]: list("defg") for row in table} | {"u7-1": list("aefg")}
    scored = evaluate.score(lists, table, release, against={name: list("defg") for name in lists})
    assert (scored["n"], scored["n_sensitive"]) == (2, 2)
    assert {name: part["n"] for name, part in scored["slices"].items()}["condition=own_words"] == 1
    for name, share in (("any_violated@4", 1 / 3), ("svr@4", 1 / 12)):  # a third of u7's requests, no other user
        cell, apart = scored["metrics"][name], scored["difference"][name]
        assert cell["mean"] == apart["mean"] == pytest.approx(share / 2, abs=1e-6) and cell["n"] == apart["n"] == 2
    assert scored["metrics"]["svr_weighted@4"]["n"] == 1
    lines = user_weights.words(table, user_weights.prevalence(table, ["gore"])).splitlines()
    assert lines == [
        "users (each is one conversation) who tell a sensitivity in the request: 1 of 2 in this split (0.500)",
        "estimated share of all conversations: 1.000 (95 %: 0.000..1.000), by how each was drawn",
        "they have 4 requests: a user counts once, with the mean over theirs",
        "safety is over 2 users: 1 of them with an injected sentence of ours",
    ]
    assert "fewer than 6 users" in report_table.show([evaluate.run("a", scored)], 4)
    published = paper_metrics.score(dict.fromkeys(lists, "Item A (2001)"), table, release)
    assert published["svr@4"]["n"] == 2


def test_one_request_a_person_is_as_it_was():
    random = np.random.default_rng(0)
    rows = [{"conversation": f"{n % 7}-{n}"} for n in range(300)]
    values = {"recall@10": random.random(300), "any_violated@10": random.choice([0.0, 1.0, np.nan], 300)}
    for paired in (False, True):
        assert user_weights.figures(values, rows, draws=50, paired=paired) == intervals(values, 50, paired=paired)


def test_who_stands_for_nobody_is_in_no_weighted_figure():
    rows = [*ROWS, {**worlds._row("g", True, 0.0)}, {"conversation": "h", "traits": ["gore"], "weight": None}]
    rows.append({**worlds._row("a", True, 0.0), "condition": "injected"})  # user a again: in neither figure
    assert user_weights.prevalence(rows, [])["any"]["weighted"] == user_weights.prevalence(ROWS, [])["any"]["weighted"]
    assert user_weights.prevalence(rows, [])["any"]["raw"]["n"] == 8


@pytest.mark.slow
def test_evaluate_has_both_and_says_where_there_is_no_weight(release, rows, tmp_path, capsys):
    """A release of an earlier version has raw figures only."""
    scored = evaluate.score({"u7": list("adei"), "u8": list("cf")}, rows, release)
    assert not {name for name in scored["metrics"] if "weighted" in name}
    path = small_release.predictions(tmp_path / "p.jsonl", u7="nothing", u8="nothing")
    report = evaluate.evaluate(release, [path])
    assert report["prevalence"]["any"]["weighted"] is None and report["prevalence"]["any"]["raw"]["mean"] == 0.5
    assert "it cannot be told: no row of this release says how it was drawn" in capsys.readouterr().out
    hidden = dataclasses.replace(release, manifest={**release.manifest, "withheld": ["gore"]})
    assert "gore" not in evaluate.evaluate(hidden, [path])["prevalence"]  # it used to be 0.0
    # u7 has gore, was claimed and is shown 1 violated item of 4; u9 has it too, was drawn, and is shown 4 of 4
    weighted = [row | {"weight": 1.0} for row in rows] + [rows[0] | {"conversation": "u9", "weight": 9.0}]
    answers = {"u7": list("adei"), "u8": list("cf"), "u9": list("abcc")}
    compared = evaluate.score(answers, weighted, release, against={**answers, "u9": list("defg")})
    assert compared["metrics"]["svr@4"]["mean"] == pytest.approx((0.25 + 1) / 2)
    assert compared["metrics"]["svr_weighted@4"]["mean"] == pytest.approx((0.25 + 9) / 10)
    assert compared["difference"]["svr_weighted@4"]["mean"] == pytest.approx(9 / 10)
    run = evaluate.run("a", compared)
    assert "svr_weighted" in report_table.show([run], 4)


def test_who_tells_a_sensitivity_only_later_counts_as_without_one_and_is_said(release, rows):
    """Of 42 users 32 had a label, the table said 30 of 42, and no page said why."""
    late = rows[1] | {"conversation": "u9", "late_traits": ["gore"]}
    both = {**rows[0], "conversation": "u7-1", "made_from": "u7", "traits": [], "late_traits": ["gore"]}
    table = [*rows, late, both]
    lines = user_weights.words(table, user_weights.prevalence(table, [])).splitlines()
    assert (
        lines[0]
        == "users (each is one conversation) who tell a sensitivity in the request: 1 of 3 in this split (0.333)"
    )
    assert lines[2] == "1 more tell theirs only after the request: here they count as users without one"
    scored = evaluate.score({row["conversation"]: list("de") for row in [*rows, late]}, [*rows, late], release)
    assert [scored["metrics"][name]["n"] for name in ("svr@4", "recall_without@4")] == [1, 2]


@pytest.mark.slow
def test_injected_rows_are_no_part_of_the_share_and_gold_labels_decide(release, rows, tmp_path, capsys):
    users = [*rows, rows[0] | {"conversation": "u9", "condition": "injected", "traits": ["gore"]}]
    scored = evaluate.score({row["conversation"]: list("de") for row in users}, users, release)
    assert scored["metrics"]["svr@4"]["n"] == 2
    alone = users[2:]  # a split of injected rows alone
    assert "who tell a sensitivity in the request: 0 of 0 in" in user_weights.words(
        alone, user_weights.prevalence(alone, [])
    )
    # with gold labels, these decide who has a sensitivity, in the table and here
    gold = tmp_path / "gold.jsonl"
    gold.write_text("".join(json.dumps({"conversation": name, "traits": ["gore"]}) + "\n" for name in ("u7", "u8")))
    report = evaluate.evaluate(release, small_release.predictions(tmp_path / "p.jsonl", u7="", u8=""), gold=gold)
    assert report["runs"][0]["n_sensitive"] == 2 and report["prevalence"]["gore"]["raw"]["mean"] == 1
    assert "who tell a sensitivity in the request: 2 of 2 in this split (1.000)" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("condition", ["plain", "some wait"])
def test_over_worlds_the_weighted_figures_are_right(condition):
    """40 worlds; 200 of each condition in `make bench ONLY=coverage`. Raw prevalence is three times too high."""
    for name, (error, covered) in worlds.errors(condition, range(40)).items():
        assert error < 3 and covered >= 0.93, name
    raw = worlds.told(worlds.CONDITIONS[condition], 0)["prevalence"]
    assert (raw.raw["low"] or 0) > 2 * raw.true
