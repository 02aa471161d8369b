"""The lines of `catalog show`: what a statement says, what keeps a verdict unknown, and what votes overruled."""

import pytest

from saferec_builder.catalog import arithmetic, explain
from saferec_builder.core import taxonomy, taxonomy as traits
from saferec_builder.core.oracle import Rule
from tests.worlds.shelves import ALIEN, merged, said, statement

BLOOD, GORE = "Is there blood/gore", "Is there excessive gore"
NO_ANSWER = f"{GORE} [core]: no answer; without one votes cannot clear this item"
VIOLENCE = "rated R or NC-17, names violence"
OVERRULED = "would violate, but votes say that it is not true"


def gore(*warnings):
    items, links = merged(("movielens:1", "Alien", 1979, [ALIEN]))
    explanation = explain.explained(items["item"][0], items, links, said(*warnings), traits.load())
    return next(trait for trait in explanation.traits if trait.trait == "gore")


def texts(trait):
    return [step.text for step in trait.steps]


def deciding(trait):
    return [step.text.split(":")[0] for step in trait.steps if step.decides]


def test_a_core_topic_without_an_answer_is_named_where_the_verdict_is_unknown():
    unsettled = gore(statement(ALIEN, BLOOD, yes=0, no=60))
    assert (unsettled.verdict, NO_ANSWER in texts(unsettled)) == ("unknown", True)
    cleared = gore(statement(ALIEN, BLOOD, yes=0, no=60), statement(ALIEN, GORE, yes=0, no=60))
    assert (cleared.verdict, [step for step in texts(cleared) if "no answer" in step]) == ("clear", [])
    violated = gore(statement(ALIEN, BLOOD, yes=60, no=0))
    assert (violated.verdict, NO_ANSWER in texts(violated)) == ("violated", False)


@pytest.mark.parametrize(
    ("voted", "does", "verdict"),
    [
        ([], "violates", "violated"),
        ([(ALIEN, 0, 60)], OVERRULED, "unknown"),
        ([(ALIEN, 3, 3)], "violates", "violated"),
        ([("title:Alien (1980)", 0, 60)], "violates", "violated"),  # may be about another work: outvotes nothing
    ],
)
def test_a_reason_that_votes_overrule_is_not_said_to_violate(voted, does, verdict):
    votes = [statement(ref, BLOOD, yes=yes, no=no) for ref, yes, no in voted]
    explanation = gore(statement(ALIEN, VIOLENCE, "reason"), statement(ALIEN, "toy", "reason"), *votes)
    (step,) = (step for step in explanation.steps if VIOLENCE in step.text)
    assert (explanation.verdict, step.text.rsplit(": ", 1)[1], len(step.said)) == (verdict, does, 1)


DECIDING = {  # statements, the verdict, and the beginnings of the deciding lines
    "votes": ([(BLOOD, {"yes": 60, "no": 0}), (GORE, {"yes": 0, "no": 60})], "violated", [f"{BLOOD} [core]"]),
    "all core topics": (
        [(BLOOD, {"yes": 0, "no": 60}), (GORE, {"yes": 0, "no": 60})],
        "clear",
        [f"{GORE} [core]", f"{BLOOD} [core]"],
    ),
    "one of two": ([(BLOOD, {"yes": 0, "no": 60})], "unknown", []),
    "a reason": ([("names blood or gore", {"kind": "reason"})], "violated", [f"{BLOOD} [core]"]),
    "an unread reason": ([("rated PG-13, names violence", {"kind": "reason"})], "unknown", []),
    "a descriptor": ([("blood_and_gore", {"kind": "esrb"})], "violated", ["ESRB (strong)"]),
    "people": (
        [(BLOOD, {"yes": 0, "no": 6}), ("gore", {"kind": "review", "answer": "no", "source": "review"})],
        "clear",
        ["reviewers"],
    ),
}


@pytest.mark.parametrize("name", DECIDING)
def test_the_line_that_decides_is_marked(name):
    answers, verdict, lines = DECIDING[name]
    statements = [statement(ALIEN, topic, **({"yes": None, "no": None} | answer)) for topic, answer in answers]
    explanation = gore(*statements)
    assert (explanation.verdict, deciding(explanation)) == (verdict, lines)


@pytest.mark.slow
def test_a_guide_decides_where_it_speaks_strongly():
    """gore: 1 x severity of violence, or as traits.toml weighs it; severe everywhere is 1, none everywhere 0."""
    for severity, verdict in ((3, "violated"), (0, "clear"), (1, "unknown")):
        rated = [statement(ALIEN, c, "guide", yes=None, no=None, severity=severity) for c in taxonomy.GUIDE]
        explanation = gore(*rated)
        strong = [step.decides for step in explanation.steps if step.text.startswith("guide (strong)")]
        assert strong == [verdict != "unknown"] * len(strong)
        assert explanation.verdict == verdict or not strong


def test_a_step_has_its_statements_and_says_where_one_source_contradicts_itself():
    pages = [statement(ALIEN, BLOOD, yes=yes, no=40 - yes, url=f"https://example.org/{yes}") for yes in (1, 39)]
    (step, *_) = (step for step in gore(*pages).steps if step.said)
    assert step.text.endswith("; csv contradicts itself: votes of pages add up, the worse answer and severity counts")
    assert step.said == (
        f"1 yes, 39 no · csv · https://example.org/1 · of {ALIEN}",
        f"39 yes, 1 no · csv · https://example.org/39 · of {ALIEN}",
    )
    two_sources = gore(*pages[:1], statement(ALIEN, BLOOD, yes=39, no=1, source="ddd"))  # two sources may differ
    assert not any("contradicts" in text for text in texts(two_sources))


def test_a_step_says_that_it_rests_on_the_worst_of_several_counts():
    steps = texts(gore(statement(ALIEN, BLOOD, yes=75, no=25), statement("title:Alien (1979)", BLOOD, yes=3, no=0)))
    assert "75 yes of 100, the worst of 2 counts that may be of the same people (voters" in steps[-1]


def test_a_chance_is_told_with_what_it_leads_to():
    chances = {0.95: "true", 0.949: "open, and nothing clears while it leans to yes", 0.5: "open", 0.02: "not true"}
    expected = {p: f": P(true) = {p:.3f}, {word}" for p, word in chances.items()}
    assert {p: arithmetic._outcome(p, Rule()) for p in chances} == expected
    assert arithmetic._outcome(float("nan"), Rule()) == ": open, for these voters hardly tell"


def line(exact=True, name=False, **told):
    (row,) = said(statement(ALIEN, **told)).to_dicts()
    return arithmetic.statement(row | {"exact": exact}, name)


def test_a_reason_is_shown_in_its_own_words_and_with_its_place():
    reason = {"topic": "names blood or gore", "kind": "reason", "words": "Rated R for gore & “blood”"}
    assert line(**reason) == f"“Rated R for gore & “blood”” · csv · f:1 · of {ALIEN}"
    assert line(name=True, **reason).startswith("reason names blood or gore: “Rated R")


def test_a_page_of_the_source_stands_in_place_of_the_file_it_came_in():
    page = "https://example.org/1"
    assert line(yes=3, url=page, retrieved="2026-01-01") == f"3 yes, 0 no · csv · {page} · 2026-01-01 · of {ALIEN}"


def test_no_answer_is_made_of_no_votes_and_none_is_hidden():
    assert line(answer="no") == f"no · csv · f:1 · of {ALIEN}"  # no votes were counted
    assert line(yes=0, no=0).startswith("0 yes, 0 no · ")
    assert line(kind="guide", topic="violence", severity=0, name=True).startswith("violence: none · ")
    assert line(exact=False, answer="yes").endswith(" · names it, but not exactly: clears nothing")
