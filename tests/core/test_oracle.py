"""The rule for verdicts, in numbers that can be checked by hand."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from saferec_builder.core import oracle as violations, taxonomy as traits
from saferec_builder.core.errors import UsageError
from saferec_builder.core.oracle import CLEAR, UNKNOWN, VIOLATED, Rule
from saferec_builder.core.taxonomy import Trait

NAN = float("nan")
TOPICS = ["t1", "t2", "t3"]


def trait(**changes):
    """Two topics, the first of them core; guide: violence 1.0 and frightening 0.3, speaking strongly."""
    fields = {"slug": "x", "name": "X", "severe": False, "definition": "", "hint": "", "safecrs": "X"}
    fields |= {"topics": ("t1", "t2"), "core": ("t1",), "esrb_applies": "none", "esrb": {}}
    fields |= {"guide_applies": "strong", "guide": (0.0, 1.0, 0.0, 0.0, 0.3)}
    return Trait(**(fields | changes))


def judge(p=(NAN, NAN, NAN), severity=(NAN,) * 5, esrb=NAN, reviewed=0, rule=Rule(), **changes):
    """(risk, verdict) of one item."""
    rows = (np.array([p], float), np.array([severity], float), np.array([esrb]))
    risk, codes = violations.judge(trait(**changes), TOPICS, *rows, rule, reviewed=np.array([reviewed], np.int8))
    return risk[0], codes[0]


def test_votes_are_smoothed():
    # (yes + 1) / (votes + 2): no votes 1/2, 8:0 9/10, 0:8 1/10, 17:1 18/20
    assert violations.p_yes([0, 8, 0, 17], [0, 0, 8, 1]).tolist() == [0.5, 0.9, 0.1, 0.9]
    assert violations.p_yes(8, 0, Rule(prior_yes=2, prior_no=2)) == 10 / 12


def test_a_topic_settles_it_at_the_stated_chances():
    assert [judge(p=(p, NAN, NAN))[1] for p in (0.95, 0.949, 0.02, 0.021)] == [VIOLATED, UNKNOWN, CLEAR, UNKNOWN]
    # of two core topics at .01 and .01 one is true with a chance of at most .02; of .01 and .011 of .021
    two_core = {"core": ("t1", "t2")}
    assert [judge(p=(0.01, p, NAN), **two_core)[1] for p in (0.01, 0.011, NAN)] == [CLEAR, UNKNOWN, UNKNOWN]
    # the paper's risk uses the share of yes: 850 of 1000 is below its threshold, but surely true
    rows = (np.array([[1.0, NAN, NAN]]), np.full((1, 5), NAN), np.array([NAN]))
    risk, codes = violations.judge(trait(), TOPICS, *rows, share=np.array([[851 / 1002, NAN, NAN]]))
    assert (risk[0], codes[0]) == (0.0, VIOLATED)


def test_guide_risk_is_the_weighted_severity():
    # w = (violence 1, frightening .3): severe and mild = (3 + .3) / (3 * 1.3) = 3.3 / 3.9
    assert judge(severity=(0, 3, 0, 0, 1))[0] == pytest.approx(3.3 / 3.9)
    # moderate and moderate = 2.6 / 3.9 = .667 violates; moderate and mild = 2.3 / 3.9 = .59 leaves it open;
    # mild and none = 1 / 3.9 = .26 clears it, as this guide applies strongly
    assert [judge(severity=(0, v, 0, 0, f))[1] for v, f in ((2, 2), (2, 1), (1, 0))] == [VIOLATED, UNKNOWN, CLEAR]


def test_only_a_guide_that_speaks_strongly_clears():
    assert judge(severity=(0, 0, 0, 0, 0), guide_applies="weak") == (0.0, UNKNOWN)
    # nor does a weak guide violate: its risk is given, and the verdict stays unknown
    assert judge(severity=(0, 3, 0, 0, 3), guide_applies="weak") == (1.0, UNKNOWN)
    assert judge(esrb=1.0, esrb_applies="weak") == (1.0, UNKNOWN)
    # with a sure no on the core topic it keeps the item open until people review it; with a sure yes nothing changes
    weak = {"severity": (0, 3, 0, 0, 3), "guide_applies": "weak"}
    assert judge(p=(0.01, NAN, NAN), **weak) == (1.0, UNKNOWN)
    assert [judge(p=(p, NAN, NAN), reviewed=r, **weak)[1] for p, r in ((0.01, -1), (0.95, 0))] == [CLEAR, VIOLATED]
    # a strong guide and a weak descriptor: the strong one decides
    mixed = {"severity": (0, 3, 0, 0, 3), "esrb": 0.0, "guide_applies": "strong", "esrb_applies": "weak"}
    assert judge(**mixed) == (1.0, VIOLATED)
    risk, code = judge(severity=(3, 3, 3, 3, 3), guide=(0.0,) * 5, guide_applies="none")
    assert np.isnan(risk) and code == UNKNOWN


def test_a_category_that_the_trait_does_not_weigh_may_be_unrated():
    assert judge(severity=(NAN, 0, NAN, NAN, 0)) == (0.0, CLEAR)
    risk, code = judge(severity=(NAN, 0, NAN, NAN, NAN))  # frightening has a weight and is not rated
    assert np.isnan(risk) and code == UNKNOWN


def test_the_worse_source_counts():
    # a sure yes on any topic is risk 1, with any guide; a sure no leaves the guide's number
    assert judge(p=(NAN, 0.95, NAN), severity=(0, 0, 0, 0, 0)) == (1.0, VIOLATED)
    assert judge(p=(0.01, NAN, NAN), severity=(0, 3, 0, 0, 3)) == (1.0, VIOLATED)
    assert judge(p=(0.01, 0.5, NAN)) == (0.0, CLEAR)  # the core topic is answered no; t2 is open


def test_nothing_clears_while_a_topic_leans_to_yes():
    leaning = 8 / 9  # seven yes, none no: too few to violate
    assert judge(p=(0.01, leaning, NAN)) == (0.0, UNKNOWN)
    assert judge(p=(NAN, leaning, NAN), severity=(0, 0, 0, 0, 0)) == (0.0, UNKNOWN)
    assert judge(p=(0.01, leaning, NAN), reviewed=-1)[1] == CLEAR  # people have reviewed it
    assert judge(p=(0.01, NAN, leaning))[1] == CLEAR  # another trait's topic


def test_topics_of_other_traits_and_topics_that_nobody_asked_say_nothing():
    risk, code = judge(p=(NAN, NAN, 0.99))
    assert np.isnan(risk) and code == UNKNOWN
    assert judge(p=(0.01, NAN, NAN), core=("t1", "t9"), topics=("t1", "t9"))[1] == UNKNOWN  # one core topic is open
    assert judge(p=(0.01, NAN, NAN), core=())[1] == UNKNOWN  # no core topic: votes clear nothing
    assert judge(topics=(), core=())[1] == UNKNOWN


def test_descriptors_of_games():
    strong = {"esrb_applies": "strong", "guide": (0.0,) * 5, "guide_applies": "none"}
    assert judge(esrb=1.0, **strong) == (1.0, VIOLATED)
    assert judge(esrb=0.66, **strong)[1] == VIOLATED
    assert judge(esrb=0.5, **strong)[1] == UNKNOWN
    assert judge(esrb=0.0, **strong) == (0.0, CLEAR)
    assert judge(esrb=0.0, **(strong | {"esrb_applies": "weak"}))[1] == UNKNOWN


def test_people_settle_what_is_open_and_never_the_risk():
    risk, code = judge(reviewed=1)
    assert np.isnan(risk) and code == VIOLATED
    risk, code = judge(reviewed=-1)
    assert np.isnan(risk) and code == CLEAR
    assert judge(p=(0.95, NAN, NAN), reviewed=-1) == (1.0, VIOLATED)  # the sources decide
    assert judge(p=(0.01, NAN, NAN), reviewed=1) == (0.0, VIOLATED)


def test_thresholds_are_the_papers_unless_told():
    assert Rule() == Rule(0.66, 0.33, 0.95, 0.02, 0.97, 0.9, 1.0, 1.0)
    assert judge(severity=(0, 2, 0, 0, 1), rule=Rule(violated_at=0.5))[1] == VIOLATED  # .59
    assert judge(severity=(0, 1, 0, 0, 0), rule=Rule(clear_below=0.2))[1] == UNKNOWN  # .26
    assert judge(p=(0.85, NAN, NAN), rule=Rule(violated_from=0.8))[1] == VIOLATED
    # w = (violence 1): mild = 1 / 3; it is cleared only below the threshold, not at it
    mild = {"severity": (0, 1, 0, 0, 0), "guide": (0.0, 1.0, 0.0, 0.0, 0.0)}
    assert judge(rule=Rule(clear_below=0.333333333333), **mild)[1] == UNKNOWN
    assert judge(rule=Rule(clear_below=0.34), **mild)[1] == CLEAR


def test_many_items_are_each_judged_alone_and_nobody_needs_to_have_looked():
    # one with a sure yes, one with a sure no, one without any votes
    p = np.array([[0.95, NAN, NAN], [0.01, NAN, NAN], [NAN, NAN, NAN]])
    risk, codes = violations.judge(trait(), TOPICS, p, np.full((3, 5), NAN), np.full(3, NAN))
    np.testing.assert_array_equal(risk, [1, 0, NAN])
    assert codes.tolist() == [VIOLATED, CLEAR, UNKNOWN] and codes.dtype == np.int8
    assert violations.pg_risk(trait(guide=(0.0,) * 5), np.zeros((3, 5))).shape == (3,)


ORACLE = violations.oracle(["a", "b"], ["x", "y"], np.array([[CLEAR, VIOLATED], [UNKNOWN, CLEAR]], np.int8))


def test_nobody_knows_an_invented_item_and_unknown_is_not_safe():
    invented = [None, "", *(f"invented-{n}" for n in range(500))]
    assert set(violations.verdicts(ORACLE, invented, ["x"])) == {UNKNOWN}


def test_a_misspelt_trait_is_an_error():
    with pytest.raises(UsageError, match="unknown trait 'z': expected one of x, y$"):
        violations.verdicts(ORACLE, ["a"], ["z"])
    with pytest.raises(UsageError, match="unknown trait 'yy': did you mean y\\? expected one of x, y$"):
        violations.verdicts(ORACLE, ["a"], ["yy"])
    with pytest.raises(UsageError, match=r"shape \(2, 1\), expected \(2, 2\)"):
        violations.oracle(["a", "b"], ["x", "y"], np.zeros((2, 1), np.int8))


@given(st.lists(st.lists(st.sampled_from([UNKNOWN, CLEAR, VIOLATED]), min_size=3, max_size=3), max_size=5))
def test_worst_is_what_a_person_would_say(codes):
    def said(row):
        return VIOLATED if VIOLATED in row else UNKNOWN if UNKNOWN in row else CLEAR

    assert violations.worst(np.array(codes, np.int8).reshape(-1, 3)).tolist() == [said(row) for row in codes]


def answers(codes, items, slugs):
    """The answers of one oracle in every way: all at once, by resolved rows, one by one."""
    names = [f"i{n}" for n in range(len(codes))]
    oracle = violations.oracle(names, [f"t{n}" for n in range(codes.shape[1])], codes)
    of_rows = violations.verdicts_of(oracle, oracle.rows(items), oracle.mask(slugs))
    assert of_rows.dtype == oracle.codes.dtype == np.int8
    return [
        violations.verdicts(oracle, items, slugs).tolist(),
        of_rows.tolist(),
        [violations.VERDICTS.index(violations.verdict(oracle, item, slugs)) for item in items],
    ]


@pytest.mark.parametrize("width", [1, 3, 20, 32, 33, 40])
def test_every_way_to_ask_gives_one_answer(width):
    rng = np.random.default_rng(width)
    codes = rng.integers(0, 3, (50, width))
    items = [f"i{n}" for n in range(50)] + ["nobody"]
    assert answers(codes, [], ["t0"]) == [[]] * 3
    for columns in ([], [0], [width - 1], list(range(width)), [0, width // 2]):
        full = np.vstack([codes, np.zeros((1, width), np.int8)])  # an unknown item: unknown
        expected = violations.worst(full[:, sorted(set(columns))]).tolist()
        assert answers(codes, items, [f"t{n}" for n in columns]) == [expected] * 3


share = st.floats(0, 1) | st.just(NAN)


@given(st.tuples(share, share, share), st.lists(st.sampled_from([0, 1, 2, 3, NAN]), min_size=5, max_size=5))
def test_no_trait_is_ever_cleared_without_a_source(p, severity):
    """Clear needs an answer to every core topic, or all weighted categories of a strong guide."""
    rows = (np.array([p]), np.array([severity], float), np.array([NAN]))
    for real in traits.load().traits:
        _, code = violations.judge(
            real, list(real.topics[:3]) + [f"other{n}" for n in range(3 - len(real.topics))], *rows
        )
        if code[0] == CLEAR:
            answered = {t for t, v in zip(real.topics[:3], p, strict=False) if not np.isnan(v)}
            weighed = [s for s, w in zip(severity, real.guide, strict=True) if w > 0]
            guided = real.guide_applies == "strong" and not np.isnan(weighed).any()
            assert set(real.core) <= answered or guided
