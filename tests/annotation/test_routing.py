"""Who looks at what: worlds of bare ids."""

from collections import Counter
from dataclasses import replace

import polars as pl
import pytest

from annotation.routing import Plan, drawn, route, short, texts, units
from saferec_builder.storage import tables
from saferec_builder.storage.config import Review
from tests.worlds.reviewing import SEVERE
from tests.worlds.routing import (
    MANY,
    NO_DISPUTES,
    PEOPLE,
    answer,
    by_draw,
    conversations,
    designed,
    planned,
    proposals,
    send,
)


def test_a_proposal_goes_to_two_people_and_the_rest_stays_home():
    sent = send(
        texts(conversations("c1", "c2", "c3", "c4")),
        proposals(("c1", "gore", "present"), ("c2", "gore", "unsure"), ("c3", "gore", "absent")),
    )
    assert Counter(sent["subject"]) == {"c1": 2, "c2": 2}
    assert sent.select("subject", "reviewer").is_unique().all()
    assert set(sent["why"]) == {"proposed"}


def test_what_could_not_be_handed_out_is_told_with_its_reason():
    text = texts(conversations("c1", "c2", "c3"))
    props = proposals(*((c, "gore", "present") for c in ("c1", "c2", "c3")))

    def waits(**plan) -> list[tuple[str, str]]:
        said = Plan(**({"reviewers": ("ann", "bo"), "audit": 0.0} | plan))
        sent = route(text, props, tables.ASSIGNMENTS.empty, NO_DISPUTES, said)
        return short(text, props, sent, NO_DISPUTES, said, sent.clear().select("kind", "subject", "reviewer"))

    assert waits() == []
    assert waits(reviewers=("ann",)) == [("sensitivity", "readers")] * 3  # two are to read each
    assert waits(avoid=frozenset({("bo", "gore")})) == [("sensitivity", "readers")] * 3
    assert waits(budget=4) == [("sensitivity", "budget")]  # a unit each for two people: two of three


def test_gold_that_was_handed_back_is_told_and_what_somebody_may_not_see_is_not_waited_for():
    text, key = texts(conversations("c1")), ("sensitivity", "c1")
    plan, who = Plan(("ann", "bo"), audit=0.0, gold=frozenset({key})), ["kind", "subject", "reviewer"]
    had = route(text, proposals(), tables.ASSIGNMENTS.empty, NO_DISPUTES, plan)
    assert had.height == 2 and short(text, proposals(), had, NO_DISPUTES, plan, had.select(who)[:0]) == []
    back = had.filter(reviewer="bo").select(who)
    assert short(text, proposals(), had, NO_DISPUTES, plan, back) == [("sensitivity", "readers")]  # nothing was told
    known, avoid = frozenset({(*key, "gore")}), frozenset({("di", "gore")})
    three = replace(plan, reviewers=PEOPLE, known=known, avoid=avoid)  # two have read it, and di is never to see it
    assert short(text, proposals(), had, NO_DISPUTES, three, had.select(who)[:0]) == []


def test_disputes_that_nobody_rules_on_are_told():
    """An adjudicator handed all of them back, or may not have them: every push was silent of them."""
    text, disputed = texts(conversations("c1", "c2")), proposals(("c1", "gore", "present"), ("c2", "gore", "unsure"))
    disputed, nobody = disputed.select("kind", "subject", "trait"), tables.ASSIGNMENTS.empty

    def waits(had: pl.DataFrame, back: pl.DataFrame, **plan) -> set[str]:
        said = Plan(**({"audit": 0.0} | plan))
        sent = pl.concat([had, route(text, proposals(), had, disputed, said, back)])
        return {why for _, why in short(text, proposals(), sent, disputed, said, back)}

    task = ["kind", "subject", "reviewer"]
    assert waits(nobody, nobody.select(task)) == {"nobody"}
    assert waits(nobody, nobody.select(task), adjudicator="cy") == set()
    assert waits(nobody, nobody.select(task), adjudicator="cy", avoid=frozenset({("cy", "gore")})) == {"barred"}
    had = route(text, proposals(), nobody, disputed, Plan(adjudicator="cy", audit=0.0))
    assert waits(had, had.select(task)[:0]) == set()  # they are before cy, whoever is named
    assert waits(had, had.select(task)) == {"nobody"}
    assert waits(had, had.select(task), adjudicator="cy") == {"barred"}
    assert waits(had, had.select(task), adjudicator="dee") == set()
    read = had.with_columns(role=pl.lit("reviewer"))
    assert waits(read, had.select(task)[:0], adjudicator="cy") == {"adjudicator"}


def test_work_is_balanced_and_a_rerun_adds_nothing_whatever_the_order_of_rows():
    text = texts(conversations(*MANY))
    props = proposals(*((c, "gore", "present") for c in MANY))
    sent = send(text, props)
    load = Counter(sent["reviewer"])
    assert sum(load.values()) == 600
    assert max(load.values()) - min(load.values()) <= 1
    assert send(text, props, sent).is_empty()
    assert send(text.reverse(), props.reverse()).equals(sent)


def test_who_joins_later_takes_what_is_new():
    had = send(
        texts(conversations(*MANY[:200])),
        proposals(*((c, "gore", "present") for c in MANY[:200])),
        reviewers=("ann", "bo"),
    )
    sent = send(texts(conversations(*MANY)), proposals(*((c, "gore", "present") for c in MANY)), had)
    assert set(sent["subject"]) == set(MANY[200:])
    # ann and bo hold 200 each, di none: she is in every one of the 100 new pairs
    assert Counter(sent["reviewer"])["di"] == 100


def test_the_audit_is_a_uniform_share_that_only_grows():
    few, more = ({c for c in MANY if drawn(by_draw(c), share)} for share in (0.1, 0.3))
    assert few < more
    # 300 draws at .1 and .3: 30 and 90 expected, four standard deviations are 20.8 and 31.7
    assert 10 <= len(few) <= 50
    assert 59 <= len(more) <= 121
    sent = send(texts(conversations(*MANY)), proposals((MANY[0], "gore", "present")), audit=0.1)
    assert set(sent.filter(why="audit")["subject"]) == few - {MANY[0]}
    assert Counter(sent["subject"])[MANY[0]] == 2


def test_what_was_drawn_once_gets_all_its_readers_under_a_smaller_share():
    """After `--all` a plain push gave nobody what had been handed back, or lacked readers, and said nothing of it."""
    text, props, none = texts(conversations(*MANY[:40])), proposals(), tables.ASSIGNMENTS.empty
    had = send(text, props, reviewers=("ann", "bo"), everything=True)
    assert had["subject"].n_unique() == 40
    more = send(text, props, had, readers=3, audit=0.1)
    assert Counter(more.select("reviewer", "why").iter_rows()) == {("di", "audit"): 40}
    back = had.filter(reviewer="ann").head(3).select("kind", "subject", "reviewer")
    plan = planned(Plan(PEOPLE, audit=0.1), designed(text, props, Plan(PEOPLE, everything=True)))
    assert route(text, props, had, NO_DISPUTES, plan, back)["subject"].sort().equals(back["subject"].sort())
    two = replace(plan, reviewers=("ann", "bo"))
    assert short(text, props, had, NO_DISPUTES, two, back) == [("sensitivity", "readers")] * 3
    assert send(text, props, none, audit=0.1)["subject"].n_unique() < 20


def test_all_takes_every_conversation_but_not_every_item():
    film = {"domain": "film", "title": "Alien", "year": 1979, "genres": ["horror"], "plot": "blood"}
    items = pl.DataFrame([film | {"item": "i1"}, film | {"item": "i2"}])
    props = proposals(("i1", "gore", "present"), kind="item_flag")
    sent = send(texts(conversations("c1", "c2"), items), props, everything=True)
    assert Counter(sent.select("kind", "subject").rows()) == {
        ("sensitivity", "c1"): 2,
        ("sensitivity", "c2"): 2,
        ("item_flag", "i1"): 2,
    }


def test_one_reviewer_is_one_reading_and_the_second_comes_later():
    text, props = texts(conversations("c1")), proposals(("c1", "gore", "present"))
    first = send(text, props, reviewers=("ann",))
    assert first["reviewer"].to_list() == ["ann"]
    assert send(text, props, first, reviewers=("ann", "bo"))["reviewer"].to_list() == ["bo"]


def test_disputes_go_to_the_adjudicator_once():
    text, unit = texts(conversations("c1", "c2")), {"kind": "sensitivity", "subject": "c2"}
    two = pl.DataFrame([unit | {"trait": "gore"}, unit | {"trait": "needles"}])
    plan = Plan(adjudicator="cy")
    sent = route(text, proposals(), tables.ASSIGNMENTS.empty, two, plan).filter(role="adjudicator")
    assert sent.select("subject", "reviewer", "why").rows() == [("c2", "cy", "disagreement")]
    assert route(text, proposals(), sent, two, plan).filter(role="adjudicator").is_empty()


# ---- what a task shows


def show(sent: pl.DataFrame, props: pl.DataFrame, reviews: list[dict] | None = None, said: pl.DataFrame | None = None):
    frame = pl.DataFrame(reviews or [], schema=tables.REVIEWS.schema | {"out": pl.String})
    said = NO_DISPUTES.with_columns(said=pl.lit([], pl.List(pl.String))) if said is None else said
    return units(sent, texts(conversations("c1", "c2")), props, frame, said)


def test_proposed_units_first_then_the_rest_and_no_suggestion_in_an_audit():
    props = proposals(("c1", "needles", "unsure"), ("c1", "gore", "present"), ("c1", "torture", "absent"))
    sent = send(texts(conversations("c1")), props, reviewers=("ann",))
    assert show(sent, props).select("trait", "verdict").rows() == [
        ("gore", "present"),
        ("needles", "unsure"),
        ("*", None),
    ]
    blind = sent.with_columns(why=pl.lit("audit"))
    assert show(blind, props).select("trait", "verdict").rows() == [("*", None)]


def test_present_wins_over_another_proposers_doubt_and_a_claim_that_lost_its_quotes_is_not_shown():
    """The task of a text that was changed since showed `present`, with nothing that said so."""
    props = proposals(("c1", "gore", "present"), ("c1", "gore", "unsure"))
    sent = send(texts(conversations("c1")), props, reviewers=("ann",))
    assert show(sent, props).row(0, named=True)["verdict"] == "present"
    elsewhere = [{"turn": 0, "start": 0, "end": 5, "quote": "blood"}]
    lost = props.with_columns(spans=pl.Series([elsewhere, elsewhere], dtype=tables.PROPOSALS.schema["spans"]))
    assert show(sent, lost)["trait"].to_list() == ["*"]
    half = props.with_columns(spans=pl.Series([elsewhere, props["spans"][1]], dtype=props.schema["spans"]))
    assert show(sent, half).row(0, named=True)["verdict"] == "unsure"  # its quote is still there


def test_a_finished_task_is_not_shown_and_an_open_one_shows_what_was_answered():
    props = proposals(("c1", "gore", "present"))
    sent = send(texts(conversations("c1")), props, reviewers=("ann",))
    begun = show(sent, props, [answer("needles", verdict="unsure"), answer("gore", out="stale")])
    assert begun.select("trait", "own_verdict").rows() == [("gore", None), ("needles", "unsure"), ("*", None)]
    assert show(sent, props, [answer("gore"), answer("*")]).is_empty()
    assert show(sent, props, [answer("*", out="stale")]).height == 2  # her word no longer stands: asked again


def test_the_adjudicator_is_asked_about_disputes_only():
    props = proposals(("c1", "gore", "present"), ("c1", "needles", "present"))
    said = pl.DataFrame(
        {"kind": ["sensitivity"], "subject": ["c1"], "trait": ["gore"], "said": [["absent", "present"]]}
    )
    sent = route(texts(conversations("c1")), props, tables.ASSIGNMENTS.empty, said.drop("said"), Plan(adjudicator="cy"))
    shown = show(sent, props, said=said)
    assert shown.select("trait", "said", "verdict").rows() == [("gore", ["absent", "present"], "present")]


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_no_audit_and_all_of_it(share):
    assert {drawn(by_draw(c), share) for c in MANY} == {share == 1.0}


def test_severe_tasks_are_capped_by_day_and_never_come_in_long_rows():
    rows = [(c, "torture" if n % 2 else "gore", "present") for n, c in enumerate(MANY)]
    text, props = texts(conversations(*MANY)), proposals(*rows)
    caps = {"severe": SEVERE, "severe_a_day": 20, "severe_in_a_row": Review().severe_in_a_row}
    first = route(text, props, tables.ASSIGNMENTS.empty, NO_DISPUTES, Plan(PEOPLE, audit=0, batch="mon", **caps))
    severe = {c for c, trait, _ in rows if trait in SEVERE}
    for name in PEOPLE:
        mine = first.filter(reviewer=name)["subject"].to_list()
        assert sum(c in severe for c in mine) == 20
        runs = "".join("s" if c in severe else "." for c in mine)
        assert "sss" not in runs
    again = route(text, props, first, NO_DISPUTES, Plan(PEOPLE, audit=0, batch="mon", **caps))
    assert again.is_empty()
    whole = [c for c, n in Counter(first["subject"]).items() if c in severe and n == 2]
    waits = short(text, props, first, NO_DISPUTES, Plan(PEOPLE, audit=0, batch="mon", **caps), first.clear())
    assert Counter(waits) == {("sensitivity", "day"): len(severe) - len(whole)}
    next_day = route(text, props, first, NO_DISPUTES, Plan(PEOPLE, audit=0, batch="tue", **caps))
    assert next_day.height > 0
    assert set(next_day["subject"]) <= severe


def test_a_budget_is_kept_and_the_next_push_goes_on():
    text, props = texts(conversations(*MANY)), proposals(*((c, "gore", "present") for c in MANY))
    sent = tables.ASSIGNMENTS.empty
    for _ in range(3):
        new = route(text, props, sent, NO_DISPUTES, Plan(PEOPLE, audit=0, budget=50))
        assert new.height == 50
        sent = pl.concat([sent, new])
    assert sent.select("subject", "reviewer").is_unique().all()
    assert max(Counter(sent["reviewer"]).values()) <= 51


def test_a_band_holds_so_many_conversations_whatever_is_doubted_of_plots():
    film = {"domain": "film", "title": "Alien", "year": 1979, "genres": ["horror"], "plot": "blood"}
    text = texts(conversations("c1", "c2", "c3"), pl.DataFrame([film | {"item": f"i{n}"} for n in range(3)]))
    talks = proposals(*((c, "gore", "absent") for c in ("c1", "c2", "c3"))).with_columns(confidence=0.7)
    plots = proposals(*((f"i{n}", "gore", "absent") for n in range(3)), kind="item_flag").with_columns(confidence=0.6)
    sent = send(text, pl.concat([talks, plots]), band=2)
    assert set(sent.select("kind", "why").iter_rows()) == {("sensitivity", "band")}
    assert sent["subject"].n_unique() == 2


def test_orders_to_a_model_are_read_by_people_and_the_band_goes_by_score():
    text = texts(conversations("c1", "c2", "c3"))
    props = proposals(("c2", "gore", "absent"), ("c3", "gore", "absent")).with_columns(confidence=pl.Series([0.9, 0.6]))
    plan = Plan(("ann",), audit=0, band=1, orders=frozenset({("sensitivity", "c1")}))
    sent = route(text, props, tables.ASSIGNMENTS.empty, NO_DISPUTES, plan)
    assert set(sent.select("subject", "why").iter_rows()) == {("c1", "orders"), ("c3", "band")}
