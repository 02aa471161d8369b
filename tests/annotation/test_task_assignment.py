"""The order of tasks: audits lie among the others, without holes in their draw, and severe tasks have pauses."""

from collections import Counter
from dataclasses import replace
from itertools import islice, pairwise

import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

from annotation.routing import Plan, route, short, texts
from annotation.task_assignment import by_turn
from saferec_builder.storage import tables
from saferec_builder.storage.config import Review
from tests.worlds.reviewing import SEVERE
from tests.worlds.routing import MANY, NO_DISPUTES, PEOPLE, by_draw, conversations, proposals, send

FOUR = ("ann", "bo", "di", "el")
TEXT = texts(conversations(*MANY))
EVEN = proposals(*((c, "gore", "present") for c in MANY[::2]))
SLUGS = ("gore", "needles", "torture")
MIXED = proposals(*((c, slug, "present") for n, c in enumerate(MANY[:180]) for slug in SLUGS[: 1 + n % 3]))
CAPS = {"severe": frozenset({"torture"}), "severe_in_a_row": 3}


def reasons(sent: pl.DataFrame, name: str) -> list[str]:
    return sent.filter(reviewer=name)["why"].to_list()


def most_of(row: list[str], size: int) -> int:
    """Returns the most audits among `size` consecutive tasks, up to the last task that is no audit."""
    stop = max((n for n, reason in enumerate(row) if reason != "audit"), default=-1) + 1
    return max((row[n : n + size].count("audit") for n in range(max(1, stop - size + 1))), default=0)


def test_a_short_push_holds_proposals():
    """30 minutes, one per task, of 150 proposals and 150 audits; before, the draw came first and took 15."""
    tasks = send(TEXT, EVEN, reviewers=("ann", "bo"), audit=1.0, budget=30)
    assert Counter(tasks["why"]) == {"proposed": 24, "audit": 6}
    assert reasons(tasks, "ann") == reasons(tasks, "bo") == [*["proposed"] * 3, "audit"] * 3 + ["proposed"] * 3


@pytest.mark.parametrize("people", [2, 3, 4])
@pytest.mark.parametrize("plan", [{}, CAPS, CAPS | {"severe_a_day": 20}, {"budget": 90}], ids=str)
def test_no_four_tasks_in_a_row_hold_two_audits_while_anything_else_waits(people: int, plan: dict):
    tasks = send(TEXT, MIXED, reviewers=FOUR[:people], audit=0.6, **plan)
    assert tasks.head(20)["why"].to_list().count("audit") <= 5
    assert tasks.filter(why="audit").height > 5
    for name in FOUR[:people]:
        own_reasons = reasons(tasks, name)
        assert most_of(own_reasons, 4) == 1 and own_reasons[3] == "audit"


def test_small_pushes_hold_audits_too():
    """Each push has two tasks per reviewer: earlier tasks count, or the fourth one (an audit) would never come."""
    tasks = tables.ASSIGNMENTS.empty
    for _ in range(6):
        tasks = pl.concat([tasks, send(TEXT, EVEN, tasks, reviewers=("ann", "bo"), audit=1.0, budget=4)])
    assert reasons(tasks, "ann") == [*["proposed"] * 3, "audit"] * 3


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=4), st.integers(2, 4), st.sampled_from([0.05, 0.3, 1.0]))
def test_what_is_handed_out_of_the_draw_is_its_beginning(budgets: list[int], people: int, share: float):
    """Under any budgets, though proposals cost one to three units: the bound would count a hole as missed."""
    tasks = tables.ASSIGNMENTS.empty
    order = sorted(set(MANY) - set(MIXED["subject"]), key=by_draw)
    for budget in budgets:
        added = send(TEXT, MIXED, tasks, reviewers=FOUR[:people], audit=share, budget=budget, **CAPS)
        tasks = pl.concat([tasks, added])
        audited = tasks.filter(why="audit")["subject"].unique(maintain_order=True).to_list()
        assert audited == order[: len(audited)]


def test_the_order_of_proposals_says_nothing_of_the_draw():
    """The first 30 of 300 in one order have a mean place of 149.5 in the other, with a standard deviation of 15.8."""
    place = {c: n for n, c in enumerate(sorted(MANY, key=by_draw))}
    first = list(islice(sorted(MANY, key=by_turn), 30))
    assert abs(sum(place[c] for c in first) / 30 - 149.5) < 3 * 15.8
    tasks = send(TEXT, EVEN, reviewers=("ann", "bo"), budget=60)
    assert set(tasks["subject"]) == set(sorted(EVEN["subject"], key=by_turn)[:30])


def test_audits_come_at_once_to_whom_nothing_else_can_be_given():
    """Ann would rather not see what is proposed: she reads audits, and bo reads both."""
    tasks = send(TEXT, EVEN, reviewers=("ann", "bo"), audit=1.0, budget=60, avoid=frozenset({("ann", "gore")}))
    assert set(reasons(tasks, "ann")) == {"audit"} and len(reasons(tasks, "ann")) >= 8
    assert reasons(tasks, "bo")[:8] == [*["proposed"] * 3, "audit"] * 2


def test_where_only_severe_tasks_wait_audits_stand_between_them_and_come_no_closer_together():
    """With one severe task in a row audits would be ten of the first twenty tasks: the pauses are waived instead."""
    severe = proposals(*((c, "torture", "present") for c in MANY[:20]))
    for row in (1, 2, 3):
        tasks = send(TEXT, severe, reviewers=("ann", "bo"), audit=0.01, **CAPS | {"severe_in_a_row": row})
        audits = tasks.filter(why="audit", reviewer="ann").height
        assert 0 < audits < 7  # 20 severe tasks would need six audits between them
        assert reasons(tasks, "ann") == [*["proposed"] * 3, "audit"] * audits + ["proposed"] * (20 - 3 * audits)


def test_other_proposals_are_pauses_before_audits_are():
    """Every second proposal is severe: with one in a row the others lie between, and audits stay at one in four."""
    mixed = proposals(*((c, "torture" if n % 2 else "gore", "present") for n, c in enumerate(MANY[:100])))
    tasks = send(TEXT, mixed, reviewers=("ann", "bo"), audit=1.0, **CAPS | {"severe_in_a_row": 1})
    severe = set(mixed.filter(trait="torture")["subject"])
    of_ann = tasks.filter(reviewer="ann")
    assert not any(a in severe and b in severe for a, b in pairwise(of_ann["subject"].head(80)))
    assert most_of(of_ann["why"].to_list()[:80], 4) == 1


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([20, 60, 120, 200]),
    st.integers(1, 4),  # every n-th proposal is severe: 1 means all of them
    st.integers(2, 4),
    st.sampled_from([0.1, 0.3, 1.0]),
    st.integers(0, 3),
    st.sampled_from([0, 12, 30]),
    st.sampled_from([0, 40, 90]),
)
def test_any_first_twenty_tasks_hold_three_to_five_audits_and_eight_proposals(
    many: int, each: int, people: int, share: float, row: int, day: int, budget: int
):
    """For every reviewer with that many tasks; there are more audits only where nothing else is left for them."""
    props = proposals(*((c, "gore" if n % each else "torture", "present") for n, c in enumerate(MANY[:many])))
    caps = CAPS | {"severe_in_a_row": row, "severe_a_day": day}
    tasks = send(TEXT, props, reviewers=FOUR[:people], audit=share, budget=budget, **caps)
    for name in FOUR[:people]:
        counts = Counter(reasons(tasks, name))
        first_counts = Counter(reasons(tasks, name)[:20])
        assert first_counts["proposed"] >= min(8, counts["proposed"])
        assert first_counts["audit"] >= min(3, counts["audit"])
        assert first_counts["audit"] <= 5 or first_counts["proposed"] == counts["proposed"]


def test_what_could_not_be_handed_out_is_told_with_its_reason():
    text = texts(conversations("c1", "c2", "c3"))
    props = proposals(*((c, "gore", "present") for c in ("c1", "c2", "c3")))

    def waits(**plan) -> list[tuple[str, str]]:
        settings = Plan(**({"reviewers": ("ann", "bo"), "audit": 0.0} | plan))
        tasks = route(text, props, tables.ASSIGNMENTS.empty, NO_DISPUTES, settings)
        return short(text, props, tasks, NO_DISPUTES, settings, tasks.clear().select("kind", "subject", "reviewer"))

    assert waits() == []
    assert waits(reviewers=("ann",)) == [("sensitivity", "readers")] * 3  # each needs two readers
    assert waits(avoid=frozenset({("bo", "gore")})) == [("sensitivity", "readers")] * 3
    assert waits(budget=4) == [("sensitivity", "budget")]  # one unit for each of two people: two of three conversations


def test_gold_that_was_handed_back_is_told_and_what_somebody_may_not_see_is_not_waited_for():
    text, key = texts(conversations("c1")), ("sensitivity", "c1")
    plan, columns = Plan(("ann", "bo"), audit=0.0, gold=frozenset({key})), ["kind", "subject", "reviewer"]
    tasks = route(text, proposals(), tables.ASSIGNMENTS.empty, NO_DISPUTES, plan)
    assert tasks.height == 2 and short(text, proposals(), tasks, NO_DISPUTES, plan, tasks.select(columns)[:0]) == []
    returned = tasks.filter(reviewer="bo").select(columns)
    assert short(text, proposals(), tasks, NO_DISPUTES, plan, returned) == [("sensitivity", "readers")]  # was missing
    known, avoid = frozenset({(*key, "gore")}), frozenset({("di", "gore")})
    larger = replace(plan, reviewers=PEOPLE, known=known, avoid=avoid)  # two have read it, di must not see it
    assert short(text, proposals(), tasks, NO_DISPUTES, larger, tasks.select(columns)[:0]) == []


def test_work_is_balanced_and_a_rerun_adds_nothing_whatever_the_order_of_rows():
    text = texts(conversations(*MANY))
    props = proposals(*((c, "gore", "present") for c in MANY))
    assigned = send(text, props)
    load = Counter(assigned["reviewer"])
    assert sum(load.values()) == 600
    assert max(load.values()) - min(load.values()) <= 1
    assert send(text, props, assigned).is_empty()
    assert send(text.reverse(), props.reverse()).equals(assigned)


def test_who_joins_later_takes_what_is_new():
    first = proposals(*((c, "gore", "present") for c in MANY[:200]))
    earlier = send(texts(conversations(*MANY[:200])), first, reviewers=("ann", "bo"))
    added = send(texts(conversations(*MANY)), proposals(*((c, "gore", "present") for c in MANY)), earlier)
    assert set(added["subject"]) == set(MANY[200:])
    # ann and bo have 200 each, di has none: she is in each of the 100 new pairs
    assert Counter(added["reviewer"])["di"] == 100


def test_one_reviewer_is_one_reading_and_the_second_comes_later():
    text, props = texts(conversations("c1")), proposals(("c1", "gore", "present"))
    assigned = send(text, props, reviewers=("ann",))
    assert assigned["reviewer"].to_list() == ["ann"]
    assert send(text, props, assigned, reviewers=("ann", "bo"))["reviewer"].to_list() == ["bo"]


def test_severe_tasks_are_capped_by_day_and_never_come_in_long_rows():
    rows = [(c, "torture" if n % 2 else "gore", "present") for n, c in enumerate(MANY)]
    text, props = texts(conversations(*MANY)), proposals(*rows)
    caps = {"severe": SEVERE, "severe_a_day": 20, "severe_in_a_row": Review().severe_in_a_row}
    monday = route(text, props, tables.ASSIGNMENTS.empty, NO_DISPUTES, Plan(PEOPLE, audit=0, batch="mon", **caps))
    severe = {c for c, trait, _ in rows if trait in SEVERE}
    for name in PEOPLE:
        subjects = monday.filter(reviewer=name)["subject"].to_list()
        assert sum(c in severe for c in subjects) == 20
        pattern = "".join("s" if c in severe else "." for c in subjects)
        assert "sss" not in pattern
    rerun = route(text, props, monday, NO_DISPUTES, Plan(PEOPLE, audit=0, batch="mon", **caps))
    assert rerun.is_empty()
    complete = [c for c, n in Counter(monday["subject"]).items() if c in severe and n == 2]
    shortages = short(text, props, monday, NO_DISPUTES, Plan(PEOPLE, audit=0, batch="mon", **caps), monday.clear())
    assert Counter(shortages) == {("sensitivity", "day"): len(severe) - len(complete)}
    tuesday = route(text, props, monday, NO_DISPUTES, Plan(PEOPLE, audit=0, batch="tue", **caps))
    assert tuesday.height > 0
    assert set(tuesday["subject"]) <= severe


def test_a_budget_is_kept_and_the_next_push_goes_on():
    text, props = texts(conversations(*MANY)), proposals(*((c, "gore", "present") for c in MANY))
    assigned = tables.ASSIGNMENTS.empty
    for _ in range(3):
        added = route(text, props, assigned, NO_DISPUTES, Plan(PEOPLE, audit=0, budget=50))
        assert added.height == 50
        assigned = pl.concat([assigned, added])
    assert assigned.select("subject", "reviewer").is_unique().all()
    assert max(Counter(assigned["reviewer"]).values()) <= 51
    costs = dict(MIXED.group_by("subject").len().iter_rows())
    assert sum(costs[c] for c in send(TEXT, MIXED, budget=50)["subject"]) == 50  # cheap tasks use what is left


def test_the_suggestion_is_kept_from_one_of_two_readers_in_a_tenth_of_the_claims():
    ids = [f"c{n}" for n in range(2_000)]
    claims = proposals(*((c, "gore", "present") for c in ids))
    sent = send(texts(conversations(*ids)), claims, held_back=0.1)
    held_back = sent.filter(why="held_back")
    # binomial: 200 of 2,000, with a standard deviation of 13
    assert 160 < held_back.height == held_back["subject"].n_unique() < 240 and sent.height == 4_000
    assert min(held_back["reviewer"].value_counts()["count"]) > 30
    positions = sent.with_columns(nth=pl.int_range(pl.len()).over("subject")).filter(why="held_back")["nth"]
    assert 0.3 < positions.mean() < 0.7


def test_nothing_severe_is_held_back():
    """Its warning would be held back with the suggestion: one of ten such readers would read it unwarned."""
    ids = [f"c{n}" for n in range(200)]
    claims = proposals(*((c, "gore" if n % 2 else "needles", "present") for n, c in enumerate(ids)))
    text, severe = texts(conversations(*ids)), frozenset({"gore"})
    held_back = send(text, claims, held_back=1.0, severe=severe).filter(why="held_back")
    assert {*held_back["subject"]} == {*ids[::2]}
    known = frozenset(("sensitivity", c, "gore") for c in ids)  # another reader found it there
    assert send(text, claims, held_back=1.0, severe=severe, known=known).filter(why="held_back").is_empty()


def test_gold_with_something_severe_has_its_part_in_the_cap():
    text, ids = texts(conversations(*(f"c{n}" for n in range(6)))), [f"c{n}" for n in range(6)]
    severe_units = frozenset(("sensitivity", c, "torture") for c in ids[:4])
    gold = frozenset(("sensitivity", c) for c in ids)
    plan = {"gold": gold, "known": severe_units, "severe": SEVERE, "severe_a_day": 2}
    assert Counter(send(text, proposals(), **plan)["reviewer"]) == dict.fromkeys(PEOPLE, 4)
    assert Counter(send(text, proposals(), **plan | {"known": frozenset()})["reviewer"]) == dict.fromkeys(PEOPLE, 6)
