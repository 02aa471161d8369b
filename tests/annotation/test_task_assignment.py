"""The order of tasks: audits lie among the others, without holes in their draw, and severe tasks have pauses."""

from collections import Counter
from itertools import islice, pairwise

import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

from annotation.routing import texts
from annotation.task_assignment import by_turn
from saferec_builder.storage import tables
from tests.worlds.routing import MANY, by_draw, conversations, proposals, send

PEOPLE = ("ann", "bo", "di", "el")
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
    tasks = send(TEXT, MIXED, reviewers=PEOPLE[:people], audit=0.6, **plan)
    assert tasks.head(20)["why"].to_list().count("audit") <= 5
    assert tasks.filter(why="audit").height > 5
    for name in PEOPLE[:people]:
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
        added = send(TEXT, MIXED, tasks, reviewers=PEOPLE[:people], audit=share, budget=budget, **CAPS)
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
    tasks = send(TEXT, props, reviewers=PEOPLE[:people], audit=share, budget=budget, **caps)
    for name in PEOPLE[:people]:
        counts = Counter(reasons(tasks, name))
        first_counts = Counter(reasons(tasks, name)[:20])
        assert first_counts["proposed"] >= min(8, counts["proposed"])
        assert first_counts["audit"] >= min(3, counts["audit"])
        assert first_counts["audit"] <= 5 or first_counts["proposed"] == counts["proposed"]
