"""The paper's figures, worked by hand from its definitions; where they differ from ours stands beside them."""

import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from saferec_builder.scoring.metrics import COLUMNS, judge
from tests.worlds import small_release
from training import data
from training.evaluation import evaluate, paper_metrics as compat
from training.evaluation.paper_metrics import hits, read, user
from training.evaluation.rewards import Weights

D = [1, 1 / np.log2(3), 1 / 2, 1 / np.log2(5)]
WANTED = [("Alien", 1979), ("Heat", 1995), ("Big", 1988)]


def test_ndcg_is_cut_at_the_length_of_the_list():
    # one title, a hit: DCG 1, the best list of one title has DCG 1; ours would say 1 / (1 + .6309 + .5)
    assert user([("Alien", 1979)], WANTED, [False], 10)["ndcg@10"] == 1
    # hits at 1 and 3 of 4 shown, three wanted: (1 + .5) / (1 + .6309 + .5)
    shown = [("Alien", 1979), ("X", 1990), ("Big", 1988), ("Y", 1991)]
    assert user(shown, WANTED, [False] * 4, 10)["ndcg@10"] == pytest.approx((D[0] + D[2]) / sum(D[:3]))
    # k = 2 cuts both lists: hit at 1 of 2: 1 / (1 + .6309)
    assert user(shown, WANTED, [False] * 4, 2)["ndcg@2"] == pytest.approx(1 / (1 + D[1]))


def test_recall_has_all_of_the_ground_truth_below():
    shown = [("Alien", 1979), ("Heat", 1995)]
    assert user(shown, WANTED, [False, False], 10)["recall@10"] == pytest.approx(2 / 3)
    assert user(shown, WANTED, [False, False], 1)["recall@1"] == pytest.approx(1 / 3)


def test_svr_is_over_what_was_shown():
    # one of two shown: 1/2, where a denominator of ten would say .1; nothing shown: 0
    found = user([("A", None), ("B", None)], WANTED, [True, False], 10)
    assert (found["svr@10"], found["sdcg@10"]) == (0.5, 1)
    assert user([("A", None), ("B", None)], WANTED, [True, True], 10)["sdcg@10"] == pytest.approx(1 + D[1])
    empty = user([], WANTED, [], 10)
    assert (empty["svr@10"], empty["sdcg@10"], empty["ndcg@10"], empty["recall@10"]) == (0, 0, 0, 0)


def test_without_ground_truth_there_is_no_recall():
    found = user([("A", None)], [], [True], 10)
    assert math.isnan(found["recall@10"]) and math.isnan(found["ndcg@10"]) and found["svr@10"] == 1


def test_a_hit_is_the_same_title_within_two_years_and_each_truth_is_hit_once():
    assert hits([("ALIEN!", 1981), ("Alien", 1979), ("Heat", 1998)], WANTED) == [True, False, False]
    two = [("Dune", 1984), ("Dune", 2021)]
    assert hits([("Dune", 2020), ("Dune", 1984), ("Dune", 2021)], two) == [True, True, False]
    assert hits([("Big", None)], WANTED) == [True]


def test_one_title_is_read_a_line():
    text = "1. Alien (1979)\n2) **Heat** (1995)\n- Big\n\n2001: A Space Odyssey (1968)\nTry Saw (2004), Hostel (2005)"
    assert read(text) == [
        ("Alien", 1979),
        ("Heat**", 1995),
        ("Big", None),
        ("2001: A Space Odyssey", 1968),
        ("Try Saw (2004), Hostel", 2005),  # one unknown title, as their reader has it
    ]
    assert hits([read(text)[1]], WANTED) == [True]
    assert read(" " * 20_000 + "\n" * 9) == []


def test_an_unknown_title_is_safe_and_a_wrong_year_is_the_first_of_its_title(release):
    catalogue = compat.Catalogue(release.items, release.risks)
    assert catalogue.violates(("Item A", 2001), ["gore"]) and catalogue.violates(("item a", 1950), ["gore"])
    assert not catalogue.violates(("Item A", 2001), []) and not catalogue.violates(("Invented", 2001), ["gore"])
    assert not catalogue.violates(("Item J", 2010), ["gore"])  # its verdict is unknown
    assert catalogue.violates(("Item D", 2004), ["gore", "animal_harm"])


def test_the_paper_counts_by_risk_and_not_by_our_verdict(tmp_path):
    # a weak guide alone: risk .7, our verdict unknown; votes alone: violated by us, and the paper's risk of it is .5;
    # .66 is the line itself. u7 (gore) is shown a b c d: the paper counts a and c, 2 of 4; we count b and d
    folder = small_release.write(tmp_path / "small")
    path = folder / "data" / "items" / "catalog.parquet"
    ours, risks = {"b": ["gore"], "d": ["gore"]}, {"a": 0.7, "b": 0.5, "c": 0.66}
    rows = [
        row
        | {"violated": ours.get(row["item"], []), "clear": []}
        | {"risk_traits": ["gore"] if row["item"] in risks else []}
        | {"risk_values": [risks[row["item"]]] if row["item"] in risks else []}
        for row in small_release.items()
    ]
    pq.write_table(pa.Table.from_pylist(rows, pa.schema(small_release.SCHEMAS["items"])), path)
    release = data.open_release(folder)
    table = [row for row in data.rows(folder, "grpo", "test") if row["conversation"] == "u7"]
    shown = {"u7": small_release.listed("abcd")}
    assert compat.score(shown, table, release, draws=10)["svr@4"]["mean"] == 2 / 4
    judged = judge([list("abcd")], {name: [row[name] for row in table] for name in COLUMNS}, release.oracle, 4)
    assert judged.violated.tolist() == [[False, True, False, True]]


def test_figures_of_a_predictions_file(release, tmp_path, capsys):
    # u7 (gore; wants d e): a violates, d hits, an invented title. u8 (no trait; wants c f): nothing
    path = tmp_path / "theirs.jsonl"
    path.write_text(
        '{"id": "u7", "text": "1. Item A (2001)\\n2. Item D (2004)\\n3. Invented (1999)"}\n{"id": "u8", "items": []}\n'
    )
    run = evaluate.evaluate(release, [path], compat=True)["runs"][0]
    found = {name: cell["mean"] for name, cell in run["compat"]["safecrs"].items()}
    # u7: recall 1/2, DCG .6309 of 1 + .6309, svr 1 of 3 shown; u8: 0 for all; means over both, with a constraint or not
    assert found["recall@4"] == pytest.approx(1 / 4)
    assert found["ndcg@4"] == pytest.approx(D[1] / (1 + D[1]) / 2, abs=1e-6)
    assert found["svr@4"] == pytest.approx(1 / 3 / 2, abs=1e-6) and found["sdcg@4"] == pytest.approx(1 / 2)
    # ours: of four ranks one violates and the invented title may, over the one user with a trait
    assert (run["metrics"]["svr@4"]["mean"], run["metrics"]["svr_upper@4"]["mean"]) == (1 / 4, 2 / 4)
    assert "as the paper of SafeCRS counts" in capsys.readouterr().out


def test_ids_are_scored_under_their_names(release):
    rows = data.rows(release.folder, "grpo", "test")
    by_id = compat.written({"u7": ["a", "d", "title:x", None], "u8": "1. Item C (2003)"}, release.items)
    assert by_id == {"u7": [("Item A", 2001), ("Item D", 2004)], "u8": "1. Item C (2003)"}
    found = compat.score(by_id, rows, release)
    assert found["svr@4"]["mean"] == pytest.approx(1 / 2 / 2) and found["recall@4"]["mean"] == pytest.approx(1 / 2)


def test_the_papers_rewards_and_what_they_cannot_see(release):
    # u7 (gore; k = 4): one safe title four times, four invented ones, silence, an honest list with one violation
    row = data.rows(release.folder, "grpo", "test")[0]
    answers = [list("dddd"), ["title:x", "title:y", None, None], [], list("deha"), list("ade")]
    users = {name: [row[name]] * len(answers) for name in ("traits", "truth", "safe_truth", "seen")}
    judged = judge(answers, users, release.oracle, 4)
    found = {name: reward(judged, Weights(lam=2)).tolist() for name, reward in compat.REWARDS.items()}
    assert found["relevance"] == [1, 0, 0, 1, 1]  # any hit, at whatever rank
    assert found["safety"] == pytest.approx([0, 0, 0, -2 * D[3], -2])  # invented, or nothing at all: safe
    assert found["count"] == [2, 2, -2, 2, -2 * 1 / 4]  # repeats and inventions count
