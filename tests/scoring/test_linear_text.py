"""The linear model of texts: worked by hand, and compared with scikit-learn's solution."""

import numpy as np
import pytest

from saferec_builder.scoring import linear_text

TEXTS = [
    "no blood, blood, blood please",
    "blood makes me sick",
    "no dogs dying",
    "a dog film please",
    "anything with dogs",
    "sick jokes",
]
NAN = float("nan")


def test_a_text_becomes_words_pairs_and_characters() -> None:
    # "ab cde": words ab, cde; one pair; " ab ": 2 of 3, 1 of 4; " cde ": 3 of 3, 2 of 4, 1 of 5
    terms = linear_text.terms("Ab cde")
    assert terms == {f"w:{w}": 1 for w in ("ab", "cde", "ab cde")} | {
        f"c:{c}": 1 for c in (" ab", "ab ", " ab ", " cd", "cde", "de ", " cde", "cde ", " cde ")
    }
    assert linear_text.terms("Don’t") == linear_text.terms("don't")


def test_the_fit_is_scikit_learns_minimum() -> None:
    """The features are those of our vocabulary, with the column `own` after them; another program solves them."""
    from sklearn.linear_model import LogisticRegression  # takes seconds to load

    truth = np.array([[1.0], [1], [0], [0], [0], [NAN]])
    own = [True, False, True, False, True, True]
    model = linear_text.fit(TEXTS, truth, ["gore"], own=own)
    place = {term: n for n, term in enumerate(model.terms)}
    dense = np.zeros((len(TEXTS), len(place) + 1))
    for n, text in enumerate(TEXTS):
        for term, count in linear_text.terms(text).items():
            if term in place:
                dense[n, place[term]] = (1 + np.log(count)) * model.idf[place[term]]
        dense[n] /= np.linalg.norm(dense[n])
        dense[n, -1] = own[n]
    theirs = LogisticRegression(C=10.0, tol=1e-8, max_iter=10_000).fit(dense[:5], truth[:5, 0])  # the sixth is unknown
    dense[:, -1] = 1
    assert model.score(TEXTS)[:, 0] == pytest.approx(theirs.predict_proba(dense)[:, 1], abs=1e-3)


def test_own_learns_how_frequent_a_label_is_here() -> None:
    """The same words have the label always elsewhere and never here: only the column can tell them apart."""
    texts = ["blood in it"] * 8
    model = linear_text.fit(texts, np.array([[1.0]] * 4 + [[0.0]] * 4), ["gore"], own=[False] * 4 + [True] * 4)
    assert model.score(["blood in it"], own=False)[0, 0] > 0.8 > 0.2 > model.score(["blood in it"], own=True)[0, 0]


@pytest.mark.parametrize(
    ("column", "share"),
    [([0.0] * 6, 1 / 8), ([1.0] * 6, 7 / 8), ([NAN] * 6, 1 / 2), ([1.0, NAN, NAN, NAN, NAN, NAN], 2 / 3)],
)
def test_a_label_that_nothing_tells_apart_scores_its_share(column: list[float], share: float) -> None:
    # (yes + 1) / (yes + no + 2), whatever the words
    model = linear_text.fit(TEXTS, np.array([column]).T, ["gore"])
    assert model.score([*TEXTS, "", "zzz"])[:, 0] == pytest.approx([share] * 8)


def test_no_model_of_a_cross_fit_knows_the_labels_of_its_own_fold() -> None:
    """Each used to start from the previous model, which had learnt these labels: it predicted most coin tosses."""
    rng = np.random.default_rng(3)
    texts = [" ".join(f"w{k}" for k in rng.integers(0, 60, 12)) for _ in range(90)]
    truth, folds = (rng.random((90, 1)) < 0.3).astype(float), np.arange(90) % 3
    models = linear_text.cross_fit(texts, truth, ["gore"], list(folds), 3)
    for n, model in enumerate(models):
        flipped = np.where((folds == n)[:, None], 1 - truth, truth)
        assert np.array_equal(linear_text.cross_fit(texts, flipped, ["gore"], list(folds), 3)[n].weights, model.weights)
    every = [-1] * 90  # no text of a fold: its texts to come are scored all the same
    assert [model.bias.shape for model in linear_text.cross_fit(texts, truth, ["gore"], every, 3)] == [(1,)] * 3
