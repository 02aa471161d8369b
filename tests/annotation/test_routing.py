"""Which reviewer gets which task, in worlds that consist of ids only."""

from collections import Counter
from dataclasses import replace

import polars as pl

from annotation.gold_and_decoys import shown
from annotation.routing import Plan, drawn, found_units, route, short, texts, units
from saferec_builder.storage import tables
from tests.worlds import routing as world
from tests.worlds.routing import MANY, NO_DISPUTES, PEOPLE, answer, by_draw, conversations, proposals, send

FILM = {"domain": "film", "title": "Alien", "year": 1979, "genres": ["horror"], "plot": "blood"}


def test_an_opt_out_holds_for_what_proposals_gold_and_answers_that_count_found():
    """Not for the end of a task, nor for an answer that does not count."""
    answers = [answer("needles", verdict="present", out=None), answer("torture", verdict="present", out="stale")]
    reviews = pl.DataFrame([*answers, answer("*", verdict="unsure", out=None), answer("gore", out=None)])
    gold = tables.GOLD.frame([{"kind": "sensitivity", "subject": "c2", "traits": ["child_harm", "suicide"]}])
    units_found = found_units(proposals(("c1", "gore", "present"), ("c3", "gore", "absent")), reviews, gold)
    pairs = {("c1", "gore"), ("c1", "needles"), ("c2", "child_harm"), ("c2", "suicide")}
    assert set(units_found.select("subject", "trait").iter_rows()) == pairs


def test_a_proposal_goes_to_two_people_and_the_rest_stays_home():
    assigned = send(
        texts(conversations("c1", "c2", "c3", "c4")),
        proposals(("c1", "gore", "present"), ("c2", "gore", "unsure"), ("c3", "gore", "absent")),
    )
    assert Counter(assigned["subject"]) == {"c1": 2, "c2": 2}
    assert assigned.select("subject", "reviewer").is_unique().all()
    assert set(assigned["why"]) == {"proposed"}


def test_disputes_that_nobody_rules_on_are_told():
    """An adjudicator handed all of them back, or may not have them: no push mentioned them."""
    text, disputed = texts(conversations("c1", "c2")), proposals(("c1", "gore", "present"), ("c2", "gore", "unsure"))
    disputed, no_tasks = disputed.select("kind", "subject", "trait"), tables.ASSIGNMENTS.empty

    def waits(had: pl.DataFrame, back: pl.DataFrame, **plan) -> set[str]:
        settings = Plan(**({"audit": 0.0} | plan))
        assigned = pl.concat([had, route(text, proposals(), had, disputed, settings, back)])
        return {reason for _, reason in short(text, proposals(), assigned, disputed, settings, back)}

    columns = ["kind", "subject", "reviewer"]
    assert waits(no_tasks, no_tasks.select(columns)) == {"nobody"}
    assert waits(no_tasks, no_tasks.select(columns), adjudicator="cy") == set()
    assert waits(no_tasks, no_tasks.select(columns), adjudicator="cy", avoid=frozenset({("cy", "gore")})) == {"barred"}
    had = route(text, proposals(), no_tasks, disputed, Plan(adjudicator="cy", audit=0.0))
    assert waits(had, had.select(columns)[:0]) == set()  # cy has them, whoever is named
    assert waits(had, had.select(columns)) == {"nobody"}
    assert waits(had, had.select(columns), adjudicator="cy") == {"barred"}
    assert waits(had, had.select(columns), adjudicator="dee") == set()
    by_reviewer = had.with_columns(role=pl.lit("reviewer"))
    assert waits(by_reviewer, had.select(columns)[:0], adjudicator="cy") == {"adjudicator"}


def test_the_audit_is_a_uniform_share_that_only_grows():
    tenth, third = ({c for c in MANY if drawn(by_draw(c), share)} for share in (0.1, 0.3))
    assert tenth < third
    assert [{drawn(by_draw(c), share) for c in MANY} for share in (0.0, 1.0)] == [{False}, {True}]
    # 300 draws at .1 and .3: 30 and 90 expected, four standard deviations are 20.8 and 31.7
    assert 10 <= len(tenth) <= 50
    assert 59 <= len(third) <= 121
    assigned = send(texts(conversations(*MANY)), proposals((MANY[0], "gore", "present")), audit=0.1)
    assert set(assigned.filter(why="audit")["subject"]) == tenth - {MANY[0]}
    assert Counter(assigned["subject"])[MANY[0]] == 2


def test_what_was_drawn_once_gets_all_its_readers_under_a_smaller_share():
    """After `--all` a plain push assigned nothing that was handed back or lacked readers, and did not say so."""
    text, props, no_tasks = texts(conversations(*MANY[:40])), proposals(), tables.ASSIGNMENTS.empty
    tasks = send(text, props, reviewers=("ann", "bo"), everything=True)
    assert tasks["subject"].n_unique() == 40
    added = send(text, props, tasks, readers=3, audit=0.1)
    assert Counter(added.select("reviewer", "why").iter_rows()) == {("di", "audit"): 40}
    returned = tasks.filter(reviewer="ann").head(3).select("kind", "subject", "reviewer")
    plan = world.planned(Plan(PEOPLE, audit=0.1), world.designed(text, props, Plan(PEOPLE, everything=True)))
    assert route(text, props, tasks, NO_DISPUTES, plan, returned)["subject"].sort().equals(returned["subject"].sort())
    smaller = replace(plan, reviewers=("ann", "bo"))
    assert short(text, props, tasks, NO_DISPUTES, smaller, returned) == [("sensitivity", "readers")] * 3
    assert send(text, props, no_tasks, audit=0.1)["subject"].n_unique() < 20


def test_all_takes_every_conversation_but_not_every_item():
    items = pl.DataFrame([FILM | {"item": "i1"}, FILM | {"item": "i2"}])
    props = proposals(("i1", "gore", "present"), kind="item_flag")
    assigned = send(texts(conversations("c1", "c2"), items), props, everything=True)
    readers = Counter(assigned.select("kind", "subject").rows())
    assert readers == {("sensitivity", "c1"): 2, ("sensitivity", "c2"): 2, ("item_flag", "i1"): 2}


def test_disputes_go_to_the_adjudicator_once():
    text, unit = texts(conversations("c1", "c2")), {"kind": "sensitivity", "subject": "c2"}
    disputes = pl.DataFrame([unit | {"trait": "gore"}, unit | {"trait": "needles"}])
    plan = Plan(adjudicator="cy")
    assigned = route(text, proposals(), tables.ASSIGNMENTS.empty, disputes, plan).filter(role="adjudicator")
    assert assigned.select("subject", "reviewer", "why").rows() == [("c2", "cy", "disagreement")]
    assert route(text, proposals(), assigned, disputes, plan).filter(role="adjudicator").is_empty()


# ---- what a task shows


def show(sent: pl.DataFrame, props: pl.DataFrame, reviews: list[dict] | None = None, said: pl.DataFrame | None = None):
    frame = pl.DataFrame(reviews or [], schema=tables.REVIEWS.schema | {"out": pl.String})
    said = NO_DISPUTES.with_columns(said=pl.lit([], pl.List(pl.String))) if said is None else said
    return units(sent, texts(conversations("c1", "c2")), props, frame, said, shown(tables.DECOYS.empty))


def test_proposed_units_first_then_the_rest_and_no_suggestion_in_an_audit():
    props = proposals(("c1", "needles", "unsure"), ("c1", "gore", "present"), ("c1", "torture", "absent"))
    assigned = send(texts(conversations("c1")), props, reviewers=("ann",))
    rows = show(assigned, props).select("trait", "verdict").rows()
    assert rows == [("gore", "present"), ("needles", "unsure"), ("*", None)]
    audit = assigned.with_columns(why=pl.lit("audit"))
    assert show(audit, props).select("trait", "verdict").rows() == [("*", None)]


def test_present_wins_over_another_proposers_doubt_and_a_claim_that_lost_its_quotes_is_not_shown():
    """The task of a text that had changed since showed `present`, with no quote that supports it."""
    props = proposals(("c1", "gore", "present"), ("c1", "gore", "unsure"))
    tasks = send(texts(conversations("c1")), props, reviewers=("ann",))
    assert show(tasks, props).row(0, named=True)["verdict"] == "present"
    moved = [{"turn": 0, "start": 0, "end": 5, "quote": "blood"}]
    without_quotes = props.with_columns(spans=pl.Series([moved, moved], dtype=tables.PROPOSALS.schema["spans"]))
    assert show(tasks, without_quotes)["trait"].to_list() == ["*"]
    half_quoted = props.with_columns(spans=pl.Series([moved, props["spans"][1]], dtype=props.schema["spans"]))
    assert show(tasks, half_quoted).row(0, named=True)["verdict"] == "unsure"  # its quote is still there


def test_a_decoy_that_lost_its_quote_is_not_shown():
    """A push to a server stopped at it with `propose again`, which was no remedy."""
    text, props = texts(conversations("c1")), proposals(("c1", "gore", "present"))
    sent = send(text, props, reviewers=("ann",))
    reviews = tables.REVIEWS.empty.with_columns(out=pl.lit(None, pl.String))
    no_disputes = NO_DISPUTES.with_columns(said=pl.lit([], pl.List(pl.String)))
    for start, traits in ((3, ["gore", "needles", "*"]), (0, ["gore", "*"])):
        span = {"turn": 0, "start": start, "end": start + 5, "quote": "blood"}
        decoy = shown(tables.DECOYS.frame([("sensitivity", "c1", "ann", "needles", [span])]))
        assert units(sent, text, props, reviews, no_disputes, decoy)["trait"].to_list() == traits


def test_a_finished_task_is_not_shown_and_an_open_one_shows_what_was_answered():
    props = proposals(("c1", "gore", "present"))
    tasks = send(texts(conversations("c1")), props, reviewers=("ann",))
    open_task = show(tasks, props, [answer("needles", verdict="unsure"), answer("gore", out="stale")])
    assert open_task.select("trait", "own_verdict").rows() == [("gore", None), ("needles", "unsure"), ("*", None)]
    assert show(tasks, props, [answer("gore"), answer("*")]).is_empty()
    assert show(tasks, props, [answer("*", out="stale")]).height == 2  # her answer no longer stands: asked again


def test_the_adjudicator_is_asked_about_disputes_only():
    props = proposals(("c1", "gore", "present"), ("c1", "needles", "present"))
    case = pl.DataFrame([{"kind": "sensitivity", "subject": "c1", "trait": "gore", "said": ["absent", "present"]}])
    task = route(texts(conversations("c1")), props, tables.ASSIGNMENTS.empty, case.drop("said"), Plan(adjudicator="cy"))
    shown = show(task, props, said=case)
    assert shown.select("trait", "said", "verdict").rows() == [("gore", ["absent", "present"], "present")]


def test_a_band_holds_so_many_conversations_whatever_is_doubted_of_plots():
    text = texts(conversations("c1", "c2", "c3"), pl.DataFrame([FILM | {"item": f"i{n}"} for n in range(3)]))
    dialogues = proposals(*((c, "gore", "absent") for c in ("c1", "c2", "c3"))).with_columns(confidence=0.7)
    plots = proposals(*((f"i{n}", "gore", "absent") for n in range(3)), kind="item_flag").with_columns(confidence=0.6)
    assigned = send(text, pl.concat([dialogues, plots]), band=2)
    assert set(assigned.select("kind", "why").iter_rows()) == {("sensitivity", "band")}
    assert assigned["subject"].n_unique() == 2


def test_orders_to_a_model_are_read_by_people_and_the_band_goes_by_score():
    text = texts(conversations("c1", "c2", "c3"))
    props = proposals(("c2", "gore", "absent"), ("c3", "gore", "absent")).with_columns(confidence=pl.Series([0.9, 0.6]))
    plan = Plan(("ann",), audit=0, band=1, orders=frozenset({("sensitivity", "c1")}))
    assigned = route(text, props, tables.ASSIGNMENTS.empty, NO_DISPUTES, plan)
    assert set(assigned.select("subject", "why").iter_rows()) == {("c1", "orders"), ("c3", "band")}
