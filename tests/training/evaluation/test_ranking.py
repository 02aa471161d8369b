"""The ranker of the guard: its three parts worked by hand on small rows."""

import numpy as np

from training.evaluation import ranking


def row(text, seen="", truth="", condition="none"):
    prompt = [{"role": "user", "content": text}]
    return {"prompt": prompt, "seen": list(seen), "truth": list(truth), "condition": condition}


ITEMS = {"a": 0, "b": 1, "c": 2}


def test_the_ridge_is_the_least_squares_solution_over_all_blocks(monkeypatch):
    monkeypatch.setattr(ranking, "_BLOCK", 2)  # five rows in three blocks
    train = [row("red cat", truth="a"), row("red", truth="ab"), row("cat", "c", "b"), row("red", "c"), row("cat")]
    ranker = ranking.fit(train, ITEMS)
    assert set(ranker.features) == {"word red", "word cat", "seen c"}
    x = np.array([[1, 1, 0], [1, 0, 0], [0, 1, 1], [1, 0, 1], [0, 1, 0]], float)
    y = np.array([[1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 0], [0, 0, 0]], float)
    expected = np.linalg.inv(x.T @ x + ranking.PENALTY * np.eye(3)) @ x.T @ y
    order = [ranker.features[name] for name in ("word red", "word cat", "seen c")]
    np.testing.assert_allclose(ranker.weights[order], expected)


def test_items_taken_up_beside_the_seen_ones_count_less_where_everybody_takes_them():
    # users who had seen c took a twice and b once; popularity a 4, b 1: 2 / 1^.3 against 1 / .25^.3 = 1.52
    train = [row("x", "c", "a"), row("x", "c", "ab"), row("x", "", "a"), row("x", "", "a")]
    ranker = ranking.fit(train, ITEMS)
    np.testing.assert_allclose(ranker._co_occurrence(row("", "c")), [1, 0.25**-0.3 / 2, 0])
    assert not ranker._co_occurrence(row("", "b")).any()  # no user had seen b


def test_relevance_is_the_mean_of_three_shares_and_popularity_decides_ties():
    train = [row("red", "c", "a"), row("blue", "", "b"), row("blue", "", "b")]
    ranker = ranking.fit(train, ITEMS)
    relevance = ranker.relevance(row("red", "c"))
    assert relevance[0] == relevance.max() and 0.66 < relevance[0] <= 1 + 1e-6  # first for "red", and taken up beside c
    unlike = ranker.relevance(row("zzz"))
    np.testing.assert_allclose(unlike, 1e-6 * np.array([0.5, 1, 0]))


def test_an_injected_row_is_no_second_person_and_one_without_text_teaches_nothing():
    train = [row("red", "c", "a"), row("red", "c", "b")]
    ours = [row("red I faint", "c", "b", "injected"), row("red", "c", "b") | {"prompt": []}]
    ranker, with_extra_rows = ranking.fit(train, ITEMS), ranking.fit([*train, *ours], ITEMS)
    np.testing.assert_array_equal(ranker.relevance(train[0]), with_extra_rows.relevance(train[0]))


def test_bm25_by_hand():
    # three texts of 2, 1 and 3 words (mean 2); idf of "red", in two texts: log(1 + 1.5/2.5); "cat": log(1 + 2.5/1.5)
    index = ranking.Index(["Red cat", "red", "a blue dog"])
    red, cat = np.log(1 + 1.5 / 2.5), np.log(1 + 2.5 / 1.5)
    long = [1.2 * (0.25 + 0.75 * length / 2) for length in (2, 1, 3)]
    np.testing.assert_allclose(index.scores("red red?"), [red * 2.2 / (1 + long[0]), red * 2.2 / (1 + long[1]), 0])
    np.testing.assert_allclose(index.scores("cat")[0], cat * 2.2 / (1 + long[0]))
