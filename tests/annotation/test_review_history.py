"""Which reviews stand: minds that changed, texts that changed, work set aside."""

import polars as pl
import pytest

from annotation.review_history import HAND_BACK, last_words, record, standing
from saferec_builder.storage import tables
from tests.worlds.opinions import TEXT, THREE, labels, review, reviews, said, span, texts
from tests.worlds.reviewing import TWO, answer, labels as labels_of


def test_evidence_follows_a_text_that_changed_and_is_stale_where_it_is_gone():
    rows = [
        review("ann", "gore", "present", spans=[span("blood")]),
        review("bo", "gore", "present", spans=[span("ugh")]),
    ]
    longer = ["Well... I faint: blood"]  # blood moved by 8, ugh is gone
    stands, out = standing(reviews(*rows), texts(("d1", TEXT), ("d2", longer)), THREE)
    assert out == {"stale": 1}
    told = labels(*rows, text=texts(("d1", TEXT), ("d2", longer)))["gore"]
    assert said(told) == (None, "unresolved")
    assert told["reviews"] == ["r0"]
    assert told["digest"] == "d2"
    moved = stands.filter(reviewer="ann")["spans"][0][0]
    assert longer[0][moved["start"] : moved["end"]] == "blood"


def test_evidence_stays_with_its_own_words_where_others_have_the_same_letters():
    old = ["I loved John's bloodhounds. I faint: blood"]
    moved = ["I loved [name]'s bloodhounds. I faint: blood"]
    start = old[0].rindex("blood")
    own = {"turn": 0, "start": start, "end": start + 5, "quote": "blood"}
    rows = [review("ann", "gore", "present", spans=[own])]
    stands, _ = standing(reviews(*rows), texts(("d1", old), ("d2", moved)), THREE)
    assert stands["spans"][0][0]["start"] == moved[0].rindex("blood")


def test_absent_stands_in_a_shorter_text_and_not_in_one_that_has_grown():
    rows = [review("ann", "gore", "absent"), review("bo", "gore", "absent")]
    redacted = texts(("d1", TEXT), ("d2", ["I faint: [name], ugh", "Try Alien (1979)"]))
    assert said(labels(*rows, text=redacted)["gore"]) == ("absent", "agreed")
    grown = texts(("d1", TEXT), ("d2", [*TEXT, "No blood please"]))
    assert labels(*rows, text=grown) == {}


REVISED = [
    ("I faint: blood, ugh", "I FAINT - blood; ugh.", True),  # the same words
    ("I faint: blood, says Anna Smith", "I faint: blood, says [name]", True),  # a name is hidden
    ("I faint: blood, says [name]", "I faint: blood, says Anna", True),  # a title of that name came into the catalog
    ("I faint: blood, ugh", "I faint: ugh", True),  # less
    ("I faint: blood, ugh", "I faint: needles, ugh", False),
    ("I faint: blood, ugh", "I faint: blood, needles, ugh", False),
    ("My wife likes comedies a lot.", "My wife leaves the room when a newborn is shown.", False),
    ("I faint, says [name], ugh", "I faint, says [name], needles", False),
    ("I liked [name]. What next?", "I liked Saw II. What next?", True),
    (
        "I liked [name]. What next?",
        "I liked blood and gore since the accident. What next?",
        False,
    ),  # no name is so long
]


@pytest.mark.parametrize(("was", "now", "stands"), REVISED)
def test_absent_stands_only_where_nothing_is_said_that_its_readers_did_not_see(was, now, stands):
    """A text of as many turns and of other words was `absent, agreed`, though nobody had read it."""
    rows = [review("ann", "gore", "absent"), review("bo", "*", "absent")]
    told = labels(*rows, text=texts(("d1", [was, "Try Alien (1979)"]), ("d2", [now, "Try Alien (1979)"])))
    assert said(told["gore"]) == ("absent", "agreed") if stands else told == {}


def test_what_nobody_found_in_a_plot_stands_where_the_plot_has_other_words():
    """Of plots only the present ones are known: every `absent` on an item was asked again at a full stop."""
    plots = texts(("d2", ["A man walks his dog. It rains."]), kind="item_flag")
    plots = plots.with_columns(turns=[[{"role": "plot", "text": "A man walks his dog.", "items": []}]])
    rows = [review(who, "gore", "absent", kind="item_flag") for who in ("ann", "bo")]
    stands, out = standing(reviews(*rows), plots, THREE)
    assert out == {} and stands["out"].is_null().all()


def test_a_stale_present_is_never_filled_from_a_star():
    # ann found gore in words that are gone; her "the rest is absent" was not about gore
    rows = [
        review("ann", "gore", "present", spans=[span("ugh")]),
        review("ann", "*", "absent"),
        review("bo", "*", "absent"),
    ]
    told = labels(*rows, text=texts(("d1", TEXT), ("d2", ["I faint: blood", "Try Alien (1979)"])))
    assert said(told["gore"]) == (None, "unresolved")
    assert said(told["needles"]) == ("absent", "agreed")


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_mind_changed_n_times_is_n_rows_and_a_repeated_pull_none(times):
    had = tables.REVIEWS.empty
    for n in range(times):
        answer = pl.DataFrame(
            [review("ann", "gore", "absent" if n % 2 else "unsure")], schema=tables.REVIEWS.schema
        ).drop("review")
        had = pl.concat([had, record(answer, had)])
        assert record(answer, had).is_empty()
    assert had["review"].n_unique() == times


@pytest.mark.slow
def test_a_reviewers_work_is_set_aside_and_brought_back(ws, cli, review, adjudicate):
    review("push", *TWO)
    answer(ws, review)
    adjudicate()
    assert labels_of(ws)["c1", "gore"] == ("present", "agreed")
    words = ("-C", ws.root, "--json")
    assert cli("review", "set-aside", "bo", *words).code == 1  # a reason is asked for
    assert cli("review", "set-aside", "bo", "--reason", "read nothing", *words).json["added"] == 4
    assert adjudicate()["reviews_left_out"] == {"set aside": 4}
    assert labels_of(ws)["c1", "gore"] == (None, "unresolved")
    again = review("pull", ws.root / "review" / "bo.csv")  # her file does not bring them back
    assert (again["added"], again["dropped"]) == (0, {"set aside": 4})
    sent = review("push", "--reviewer", "di")
    assert sent["new"] == {"proposed": 2}  # somebody else takes the two tasks over
    assert cli("review", "set-aside", "bo", "--undo", *words).json["added"] == 4
    adjudicate()
    assert labels_of(ws)["c1", "gore"] == ("present", "agreed")


def test_who_hands_back_an_answer_themselves_has_changed_their_mind():
    """`*` of one taxonomy is one word: the last of it counts. Of another, or by the command, it stays beside it."""
    star = dict.fromkeys(tables.REVIEWS.columns) | {"review": "1", "kind": "sensitivity", "subject": "c1", "trait": "*"}
    star |= {"reviewer": "bo", "role": "reviewer", "verdict": "absent", "tool": "page", "taxonomy": "t1"}
    back = star | {"review": "2", "verdict": None, "note": tables.HANDED_BACK}
    for more, left in (({}, ["2"]), ({"taxonomy": "t2"}, ["2", "1"]), ({"tool": HAND_BACK}, ["2", "1"])):
        rows = tables.REVIEWS.frame([star, back | more])
        assert last_words(rows)["review"].to_list() == left
    # the second time by the command: what bo took back is gone, and does not count again
    twice = [star, back, back | {"review": "3", "tool": HAND_BACK}]
    assert last_words(tables.REVIEWS.frame(twice))["review"].to_list() == ["3"]
    # an answer given anew in between stays
    anew = [star, back, star | {"review": "4"}, back | {"review": "5", "tool": HAND_BACK}]
    assert last_words(tables.REVIEWS.frame(anew))["review"].to_list() == ["5", "4"]
