"""From reviews to labels, in worlds small enough to check by eye."""

import polars as pl
import pytest

from annotation import review_state as command
from annotation.aggregation import adjudicate, changed, disputed, opinions, plots, tallies, votes, warnings
from annotation.review_history import standing
from saferec_builder.storage import tables, workspace as store
from tests.worlds import review_world as world
from tests.worlds.opinions import ALL, TEXT, THREE, labels, review, reviews, said, span, texts


def test_a_dispute_waits_for_the_adjudicator():
    rows = [review("ann", "gore", "present", spans=[span("blood")]), review("bo", "gore", "absent")]
    assert said(labels(*rows)["gore"]) == (None, "unresolved")
    label = labels(*rows, review("cy", "gore", "absent", role="adjudicator"))["gore"]
    assert said(label) == ("absent", "adjudicated")
    assert label["reviews"] == ["r0", "r1", "r2"]
    assert label["spans"] == []


def test_a_changed_mind_counts_once():
    label = labels(
        review("ann", "gore", "absent"),
        review("ann", "gore", "present", spans=[span("blood")], form="explicit"),
        review("bo", "gore", "present", spans=[span("blood")], form="implicit"),
    )["gore"]
    assert said(label) == ("present", "agreed")
    assert label["reviews"] == ["r1", "r2"]
    assert label["form"] == "implicit"  # one each: a tie


def test_a_form_that_nobody_gave_stays_open():
    """It became `implicit`, and a report said of such labels that they are only implied."""
    votes = [review(who, "gore", "present", spans=[span("blood")], form=None) for who in ("ann", "bo")]
    assert (said(labels(*votes)["gore"]), labels(*votes)["gore"]["form"]) == (("present", "agreed"), None)


def cast(present: int, absent: int, unsure: int) -> pl.DataFrame:
    """Returns the votes of that many people on one unit."""
    verdicts = ["present"] * present + ["absent"] * absent + ["unsure"] * unsure
    rows = [review(f"p{n}", "gore", verdict) for n, verdict in enumerate(verdicts)]
    return votes(standing(reviews(*rows), texts(("d1", TEXT)), THREE)[0], THREE)


@pytest.mark.parametrize(
    ("readers", "said", "verdict", "waits"),
    [
        *[(1, (1, 0, 0), None, True), (1, (0, 1, 0), None, True)],  # one person makes no label
        *[(1, (2, 0, 0), "present", False), (1, (1, 1, 0), None, False)],  # two do, whatever was asked for
        *[(2, (1, 0, 0), None, True), (2, (0, 0, 2), "unsure", False), (2, (1, 1, 0), None, False)],
        *[(2, (2, 1, 0), "present", False), (2, (2, 2, 0), None, False)],  # 2 of 3 voters; 2 of 4 is no more than half
        *[(3, (2, 0, 0), "present", False), (3, (1, 1, 0), None, True)],  # 2 > 1.5; the third decides
        *[(3, (1, 1, 1), None, False), (3, (0, 1, 2), "unsure", False)],
        *[(5, (2, 0, 0), None, True), (5, (3, 0, 0), "present", False)],  # 3 > 2.5: the other two can change nothing
        *[(5, (2, 2, 0), None, True), (5, (2, 2, 1), None, False), (5, (1, 1, 2), None, True)],
        *[(10, (5, 0, 0), None, True), (10, (6, 4, 0), "present", False), (10, (5, 5, 0), None, False)],
        *[(10, (5, 4, 0), None, True), (10, (4, 4, 1), None, False)],  # 5 + 1 > 5; 4 + 1 is no more than 5
    ],
)
def test_more_than_half_of_the_readers_make_a_label(readers, said, verdict, waits):
    """`waits`: the unit waits for readers; otherwise it has a label or is a dispute."""
    tally = tallies(cast(*said), readers).row(0, named=True)
    assert (tally["present"], tally["absent"], tally["unsure"]) == said
    assert tally["soft"] == pytest.approx(said[0] / sum(said))
    (label,) = adjudicate(cast(*said), tables.LABELS.empty, readers=readers).to_dicts()
    assert (label["verdict"], label["method"]) == (verdict, "agreed" if verdict else "unresolved")
    assert disputed(cast(*said), readers).height == (verdict is None and not waits)
    ruled = pl.concat([cast(*said), cast(1, 0, 0).with_columns(role=pl.lit("adjudicator"), reviewer=pl.lit("cy"))])
    assert adjudicate(ruled, tables.LABELS.empty, readers=readers)["method"].to_list() == ["adjudicated"]
    assert disputed(ruled, readers).is_empty()
    assert tallies(ruled, readers).equals(tallies(cast(*said), readers))  # an adjudicator is no reader


def test_evidence_is_the_union_over_those_who_agree_with_the_label():
    label = labels(
        review("ann", "gore", "present", spans=[span("blood"), span("faint")], form="explicit"),
        review("bo", "gore", "present", spans=[span("blood")], form="explicit"),
        review("di", "gore", "unsure", spans=[span("ugh")], form=None),
        review("cy", "gore", "present", spans=[span("Alien", 1)], role="adjudicator", form="implicit"),
    )["gore"]
    quotes = [evidence["quote"] for evidence in label["spans"]]
    assert quotes == ["faint", "blood", "Alien"]  # in order of the text, no doubles, no ugh
    assert label["form"] == "explicit"  # 2 : 1


def test_the_rest_is_absent_for_whoever_said_so_and_only_where_they_did_not_answer():
    by_trait = labels(
        review("ann", "gore", "present", spans=[span("blood")]),
        review("ann", "*", "absent"),
        review("bo", "*", "absent"),
    )
    assert said(by_trait["gore"]) == (None, "unresolved")  # ann present, bo absent by his *
    assert said(by_trait["needles"]) == said(by_trait["sad_endings"]) == ("absent", "agreed")
    assert by_trait["needles"]["reviews"] == ["r1", "r2"]
    assert len(by_trait) == 3


def test_who_read_a_plot_and_passed_over_what_another_marked_disputes_it():
    """Such a unit went to nobody before: one verdict, no second opinion, and unresolved for good."""
    flag = {"kind": "item_flag"}
    rows = [review("ann", "gore", "present", **flag), *(review(name, "*", "absent", **flag) for name in ("ann", "bo"))]
    valid, _ = standing(reviews(*rows), texts(("d1", TEXT), kind="item_flag"), THREE)
    judged = adjudicate(votes(valid, THREE), tables.LABELS.empty)
    assert disputed(votes(valid, THREE)).rows() == [("item_flag", "c1", "gore")]
    assert judged["verdict"].to_list() == [None]
    # for the bound on what readers of plots miss, the other two traits are absent: both read the plot to its end
    plot_labels = plots(judged, valid, THREE.slugs).sort("trait")
    verdicts = dict(plot_labels.select("trait", "verdict").iter_rows())
    assert verdicts == {"gore": None, "needles": "absent", "sad_endings": "absent"}
    by_ann = valid.filter(pl.col("reviewer") == "ann")
    assert plots(adjudicate(votes(by_ann, THREE), tables.LABELS.empty), by_ann, THREE.slugs).height == 1


def test_a_star_says_nothing_by_an_adjudicator_about_a_plot_or_under_another_taxonomy():
    by_trait = labels(review("ann", "*", "absent"), review("cy", "*", "absent", role="adjudicator"))
    assert {said(label) for label in by_trait.values()} == {(None, "unresolved")}
    assert labels(review("ann", "*", "absent", kind="item_flag"), text=texts(("d1", TEXT), kind="item_flag")) == {}
    rows = reviews(review("ann", "*", "absent", taxonomy="older"), review("ann", "gone", "absent"))
    valid, drops = standing(rows, texts(("d1", TEXT)), THREE)
    assert drops == {"`*` of another taxonomy": 1, "trait not in the taxonomy": 1}
    assert votes(valid, THREE).is_empty()


def appended(before: pl.DataFrame, *rows: dict, text: pl.DataFrame | None = None) -> pl.DataFrame:
    judged = tables.LABELS.frame(labels(*rows, text=text, before=before).values()).drop("label")
    added = changed(judged, before)
    assert not set(added["label"]) & set(before["label"])
    return pl.concat([before, added])


def test_labels_are_appended_only_where_they_changed_and_may_come_back():
    ann = review("ann", "gore", "present", spans=[span("blood")])
    bo = review("bo", "gore", "present", spans=[span("blood")])
    first = appended(tables.LABELS.empty, ann, bo)
    assert appended(first, ann, bo).height == first.height == 1
    disputed_labels = appended(first, ann, bo, review("bo", "gore", "absent"))
    assert disputed_labels["method"].to_list() == ["agreed", "unresolved"]
    # the text changes and all evidence is gone: the label goes too, and comes back with the text
    without_evidence = appended(first, ann, bo, text=texts(("d1", TEXT), ("d2", ["hello"])))
    assert without_evidence["method"].to_list() == ["agreed", "unresolved"]
    assert without_evidence["reviews"].to_list()[1] == []
    restored = appended(without_evidence, ann, bo)
    assert restored["method"].to_list() == ["agreed", "unresolved", "agreed"]


def test_one_simulated_review_marks_its_labels():
    by_trait = labels(
        review("ann", "gore", "absent", simulated=True),
        review("bo", "gore", "absent"),
        review("bo", "needles", "absent"),
    )
    assert (by_trait["gore"]["simulated"], by_trait["needles"]["simulated"]) == (True, False)


def test_the_adjudicator_sees_arguments_and_no_names():
    rows = [
        review("ann", "gore", "present", spans=[span("blood"), span("loo")], form="explicit", note="clear to me"),
        review("bo", "gore", "absent"),
    ]
    valid, _ = standing(reviews(*rows), texts(("d1", TEXT)), THREE)
    ballots = votes(valid, THREE)
    arguments = opinions(ballots, disputed(ballots))
    assert arguments["said"].to_list() == [["absent", "present, explicit: “blood” (clear to me)"]]


def test_item_labels_become_warnings_and_are_taken_back():
    rows = [("l1", "present"), ("l2", None), ("l3", "absent")]
    fixed = {"kind": "item_flag", "subject": "i1", "trait": "gore"}
    frame = tables.LABELS.frame([fixed | {"label": name, "verdict": verdict} for name, verdict in rows])
    rows_of_warnings = tables.check(warnings(frame), tables.WARNINGS)
    answers = rows_of_warnings.select("ref", "topic", "answer").rows()
    assert answers == [("item:i1", "gore", answer) for answer in ("yes", None, "no")]
    assert warnings(frame[1:2]).is_empty()  # unresolved from the start: nothing to take back
    assert warnings(frame.with_columns(kind=pl.lit("sensitivity"))).is_empty()


def test_labels_need_only_texts_that_changed_or_hold_evidence(workspace, cli, monkeypatch):
    """c1 has evidence, c2 has a longer text than the one that was judged; for c3 and c4 the digest is enough."""
    world.fill(workspace)
    old = store.read(workspace, tables.CONVERSATIONS).filter(conversation="c2")
    turns = [{"role": "seeker", "text": f"Well. {world.TEXTS['c2']}", "items": []}, *old["turns"][0][1:]]
    grown = old.with_columns(digest=pl.lit("d2"), turns=pl.Series([turns], dtype=old.schema["turns"]))
    store.append(workspace, tables.CONVERSATIONS, grown)
    claims = [("c1", "gore", "blood"), ("c2", "accidents_disasters", "crash")]
    rows = [
        review(name, trait, "present", subject=c, digest=f"d-{c}", spans=[world.span(c, quote)], taxonomy=ALL.digest)
        for c, trait, quote in claims
        for name in ("ann", "bo")
    ]
    store.append(workspace, tables.REVIEWS, reviews(*rows))
    state = command.gather(workspace)
    assert state.known.filter(pl.col("turns").is_not_null())["digest"].to_list() == ["d-c1", "d-c2", "d2"]
    assert state.known.drop("turns").equals(state.texts.drop("turns"))
    expected, left_out = standing(state.reviews, state.texts, ALL)
    assert state.standing.equals(expected) and state.left_out == left_out == {}
    assert state.standing.filter(subject="c2")["spans"][0][0]["start"] == turns[0]["text"].index("crash")

    real_read = store.read
    monkeypatch.setattr(store, "read", lambda ws, table: 1 / (table != tables.CONVERSATIONS) and real_read(ws, table))
    result = cli("adjudicate", "-C", workspace.root, "--json")
    assert (result.code, result.json["agreed"], result.json["added"]) == (0, 2, 2), result.err
