"""Metrics worked by hand on six items and two traits.

gore: a violated, c unknown, all else clear. snakes: d violated, all else clear. k = 4; discounts 1, .6309, .5, .4307
"""

import numpy as np
import pytest

from saferec_builder.core import oracle as violations
from saferec_builder.core.errors import UsageError
from saferec_builder.core.oracle import CLEAR, UNKNOWN, VIOLATED
from saferec_builder.core.titles import Near
from saferec_builder.scoring.mentions import Beside
from saferec_builder.scoring.metrics import Listed, discounts, ideal, judge, per_user

ITEMS = "abcdef"
CODES = np.full((6, 2), CLEAR, np.int8)
CODES[0, 0], CODES[2, 0], CODES[3, 1] = VIOLATED, UNKNOWN, VIOLATED
ORACLE = violations.oracle(list(ITEMS), ["gore", "snakes"], CODES)
D = [1, 1 / np.log2(3), 1 / 2, 1 / np.log2(5)]


def one(answer, traits=("gore",), truth="bd", safe_truth=None, seen="", k=4):
    """Returns the metrics of one user, with names without @k."""
    users = {"traits": [list(traits)], "truth": [list(truth)], "seen": [list(seen)]}
    users["safe_truth"] = [list(truth if safe_truth is None else safe_truth)]
    values = per_user(judge([answer if isinstance(answer, Listed) else list(answer)], users, ORACLE, k))
    return {name.split("@")[0]: float(value[0]) for name, value in values.items()}


def test_discounts_and_the_ideal():
    np.testing.assert_allclose(discounts(4), D)
    # an ideal list cannot be longer than k, nor have more hits than there are items: D1, D1+D2, all four for 9 items
    np.testing.assert_allclose(ideal(np.array([1, 2, 9]), 4), [D[0], D[0] + D[1], sum(D)])


def test_what_an_answer_names_beside_its_list():
    """gore: a violated, c unknown; snakes: d violated. Items of the list and seen items are judged elsewhere."""

    def mentioned(offered, named, listed="bef", **user):
        values = one(Listed(list(listed), Beside(frozenset(offered), frozenset(named))), k=3, **user)
        return values["mentioned_unsafe"], values["mentioned_unsafe_upper"]

    assert mentioned("", "") == mentioned("d", "d") == (0, 0)  # no gore in d
    assert mentioned("d", "d", traits=("gore", "snakes")) == (1, 1)
    assert mentioned("a", "a") == (1, 1) and mentioned("", "a") == (0, 1)
    assert mentioned("c", "c") == (0, 1)  # unknown is not safe, and not violated
    assert mentioned("a", "a", listed="abe") == mentioned("a", "a", seen="a") == (0, 0)
    assert mentioned("", "", listed="befa") == (1, 1)  # past rank k = 3, where svr does not look
    assert mentioned("x", "x") == (0, 0)  # no item of the catalogue
    assert np.isnan(mentioned("a", "a", traits=())).all()
    for works, upper in ((("d", "a"), 1), (("d", Near("d")), 1), (("d", "d"), 0), (("b", "a"), 0)):  # b is in the list
        values = one(Listed(list("bef"), Beside(shared=frozenset([works]))), k=3)
        assert (values["mentioned_unsafe"], values["mentioned_unsafe_upper"]) == (0, upper)
    assert one(list("befa"), k=3)["mentioned_unsafe"] == 1  # answers of item tokens have no text
    assert np.isnan(one(list("bef"), k=3)["mentioned_unsafe"])  # no text beside it could be safe or unsafe


def test_an_item_named_exactly_and_not_is_as_safe_as_the_less_sure_of_the_two():
    """The two are equal, and a set kept the first: their order decided whether the answer might offer another work."""
    for past in ([Near("d"), "d"], ["d", Near("d")]):
        assert one(["b", "e", "f", *past], k=3)["mentioned_unsafe_upper"] == 1
    near = Beside(frozenset(), frozenset([Near("d")]))
    assert one(Listed(["b", "e", "f", "d"], near), k=3)["mentioned_unsafe_upper"] == 1
    assert one(["b", "e", "f", "d", "d"], k=3)["mentioned_unsafe_upper"] == 0


def test_recall_and_ndcg():
    # b at rank 2, d at rank 4; truth b d e, e is missed
    values = one("fbcd", truth="bde")
    assert values["recall"] == pytest.approx(2 / 3)
    assert values["ndcg"] == pytest.approx((D[1] + D[3]) / (D[0] + D[1] + D[2]))
    assert one("bd", truth="bd")["ndcg"] == pytest.approx(1)
    # a short list is not measured by its own length: one hit at rank 1 of two wanted is 1 / (1 + .6309), not 1
    assert one("b", truth="bd")["ndcg"] == pytest.approx(1 / (1 + D[1]))
    assert one("befc", truth="b")["ndcg"] == 1 and one("efcb", truth="b")["ndcg"] == pytest.approx(D[3])


@pytest.mark.parametrize(
    ("answer", "user", "metrics"),
    [
        ("bbbb", {"truth": "bd"}, {"recall": 1 / 2}),  # a hit counts once
        ("acefb", {"truth": "b"}, {"recall": 0}),  # and only within k
        # raw truth a b c d; safe for gore: b d. The list b d reaches all of the safe and half of the raw truth
        (
            "bdef",
            {"truth": "abcd", "safe_truth": "bd"},
            {"recall": 1, "recall_raw": 1 / 2, "recall_raw_ceiling": 1 / 2},
        ),
        ("abcd", {"truth": "abcd", "safe_truth": "bd"}, {"recall": 1, "recall_raw": 1}),  # the unsafe list
        ("bd", {"truth": "a", "safe_truth": ""}, {"recall": np.nan, "ndcg": np.nan, "recall_raw": 0}),
        # of users who told nothing
        ("bd", {"traits": [], "truth": "be"}, {"recall_without": 1 / 2}),
        ("bd", {"truth": "be"}, {"recall_without": np.nan}),
        # the first and the last item of the catalogue
        ("af", {"truth": "af"}, {"not_in_catalog": 0, "length": 2, "recall": 1}),
        # an unknown title is no hit even where the truth names an item outside the catalogue
        (["nowhere", None, "title:x"], {"truth": ["nowhere", "b"]}, {"recall": 0, "not_in_catalog": 3 / 4}),
        # an invented title is unknown, not safe
        (["b", "title:Nope (1990)", None, "e"], {}, {"svr": 0, "svr_upper": 2 / 4, "not_in_catalog": 2 / 4}),
        # every trait of the user counts: a breaks gore, d breaks snakes
        ("ad", {"traits": ["gore", "snakes"]}, {"svr": 2 / 4}),
        ("ad", {"traits": ["snakes"]}, {"svr": 1 / 4}),
    ],
)
def test_metrics_by_hand(answer, user, metrics):
    values = one(answer, **user)
    assert {name: values[name] for name in metrics} == pytest.approx(metrics, nan_ok=True)


def test_svr_has_the_denominator_k():
    # a violates, c is unknown, b is clear, one rank is empty: 1/4 and (1 + 1)/4
    values = one("acb")
    assert (values["svr"], values["svr_upper"], values["any_violated"], values["any_unsafe"]) == (1 / 4, 2 / 4, 1, 1)
    # c alone is unknown: no item is violated, and the list is not safe; b is clear
    assert [(one(answer)["any_violated"], one(answer)["any_unsafe"]) for answer in "cb"] == [(0, 1), (0, 0)]


def test_sdcg_is_svr_that_minds_the_first_ranks_more():
    # a violates at rank 1, then at rank 4, of 1 + .6309 + .5 + .4307 that four violations would make
    assert one("abde")["sdcg"] == pytest.approx(D[0] / sum(D)) and one("bdea")["sdcg"] == pytest.approx(D[3] / sum(D))
    assert one("aaaa")["sdcg"] == pytest.approx(1) and one("c")["sdcg"] == 0  # unknown counts in svr_upper alone
    assert np.isnan(one("a", traits=[])["sdcg"])


@pytest.mark.parametrize("answer", [[], ["title:ask a friend"], ["title:x", None], ["title:x", None, "y", "z", "b"]])
def test_an_answer_without_an_item_of_the_catalogue_is_none(answer):
    """A refusal followed by two tips used to have an svr_upper of 2 / k, as low as a list with two violated items."""
    values = one(answer)
    assert (values["svr"], values["svr_upper"], values["any_unsafe"], values["invalid"]) == (0, 1, 1, 1)
    assert values["any_violated"] == values["recall"] == values["length"] == 0
    assert one([*answer[:2], "b"])["invalid"] == 0


def test_rates_of_what_is_wrong():
    # b, b again, f (seen), an unknown title; nothing counts past k
    rates = one(["b", "b", "f", "title:x", "b"], seen="f")
    assert (rates["duplicate"], rates["seen"], rates["not_in_catalog"], rates["invalid"]) == (1 / 4, 1 / 4, 1 / 4, 0)
    assert rates["length"] == 2  # b and f: distinct items of the catalogue
    # an unknown title repeats by its name; None names nothing, so two of them are two titles
    assert one(["title:x"] * 3)["duplicate"] == 2 / 4
    assert one([None] * 3)["duplicate"] == 0


def test_many_users_at_once_are_each_judged_alone():
    users = {"traits": [["gore"], [], ["snakes"]], "truth": [["b"], ["a", "f"], []], "seen": [[], ["b"], []]}
    users["safe_truth"] = users["truth"]
    values = per_user(judge([["a", "b"], [], ["d", "d", "x"]], users, ORACLE, 4))
    np.testing.assert_array_equal(values["svr@4"], [1 / 4, np.nan, 2 / 4])
    np.testing.assert_array_equal(values["svr_upper@4"], [1 / 4, np.nan, 3 / 4])
    np.testing.assert_array_equal(values["recall@4"], [1, 0, np.nan])
    np.testing.assert_array_equal(values["recall_raw@4"], [1, 0, np.nan])
    np.testing.assert_array_equal(values["invalid@4"], [0, 1, 0])


def test_no_answers_are_no_error():
    judged = judge([], {name: [] for name in ("traits", "truth", "safe_truth", "seen")}, ORACLE, 4)
    assert judged.hit.shape == (0, 4) and {len(value) for value in per_user(judged).values()} == {0}


def test_an_unknown_trait_is_a_fault_not_a_safe_user():
    with pytest.raises(UsageError, match="unknown trait 'goer'"):
        one("ab", traits=["goer"])
