"""The steps of `catalog show`: what keeps a verdict unknown is said, and what votes overruled."""

import pytest

from saferec_builder.catalog import explain
from saferec_builder.core import taxonomy as traits
from tests.worlds.shelves import ALIEN, merged, said, statement

BLOOD, GORE = "Is there blood/gore", "Is there excessive gore"
NO_ANSWER = f"{GORE} [core]: no answer; without one votes cannot clear this item"
VIOLENCE = "rated R or NC-17, names violence"
OVERRULED = "would violate, but votes say that it is not true"


def gore(*warnings):
    items, links = merged(("movielens:1", "Alien", 1979, [ALIEN]))
    told = explain.explained(items["item"][0], items, links, said(*warnings), traits.load())
    return next(trait for trait in told.traits if trait.trait == "gore")


def test_a_core_topic_without_an_answer_is_named_where_the_verdict_is_unknown():
    half = gore(statement(ALIEN, BLOOD, yes=0, no=60))
    assert (half.verdict, NO_ANSWER in half.steps) == ("unknown", True)
    both = gore(statement(ALIEN, BLOOD, yes=0, no=60), statement(ALIEN, GORE, yes=0, no=60))
    assert (both.verdict, [step for step in both.steps if "no answer" in step]) == ("clear", [])
    seen = gore(statement(ALIEN, BLOOD, yes=60, no=0))
    assert (seen.verdict, NO_ANSWER in seen.steps) == ("violated", False)


@pytest.mark.parametrize(
    ("voted", "does", "verdict"),
    [
        ([], "violates", "violated"),
        ([(ALIEN, 0, 60)], OVERRULED, "unknown"),
        ([(ALIEN, 3, 3)], "violates", "violated"),
        ([("title:Alien (1980)", 0, 60)], "violates", "violated"),  # may be said of another work: outvotes nothing
    ],
)
def test_a_reason_that_votes_overrule_is_not_said_to_violate(voted, does, verdict):
    votes = [statement(ref, BLOOD, yes=yes, no=no) for ref, yes, no in voted]
    told = gore(statement(ALIEN, VIOLENCE, "reason", yes=None, no=None), *votes)
    (step,) = (step for step in told.steps if VIOLENCE in step)
    assert (told.verdict, step.rsplit(": ", 1)[1]) == (verdict, does)
