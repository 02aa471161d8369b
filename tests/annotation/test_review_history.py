"""Which reviews stand after changed answers, changed texts, and work that was set aside."""

from datetime import UTC, datetime
from difflib import SequenceMatcher

import polars as pl
import pytest

from annotation import review_history
from annotation.review_history import HAND_BACK, last_words, record, standing
from saferec_builder.storage import tables
from tests.worlds.opinions import TEXT, THREE, labels, review, reviews, said, span, texts


def test_evidence_follows_a_text_that_changed_and_is_stale_where_it_is_gone():
    rows = [
        review("ann", "gore", "present", spans=[span("blood")]),
        review("bo", "gore", "present", spans=[span("ugh")]),
        review("ann", "torture", "present", spans=[span("ugh")]),  # stale, it kept ann's task open for ever
    ]
    revised = ["Well... I faint: blood"]  # blood moved by 8, ugh is gone
    valid, drops = standing(reviews(*rows), texts(("d1", TEXT), ("d2", revised)), THREE)
    assert drops == {"stale": 1, "trait not in the taxonomy": 1}
    label = labels(*rows, text=texts(("d1", TEXT), ("d2", revised)))["gore"]
    assert said(label) == (None, "unresolved")
    assert label["reviews"] == ["r0"]
    assert label["digest"] == "d2"
    moved = valid.filter(reviewer="ann")["spans"][0][0]
    assert revised[0][moved["start"] : moved["end"]] == "blood"


def test_evidence_stays_with_its_own_words_where_others_have_the_same_letters():
    before = ["I loved John's bloodhounds. I faint: blood"]
    after = ["I loved [name]'s bloodhounds. I faint: blood"]
    start = before[0].rindex("blood")
    evidence = {"turn": 0, "start": start, "end": start + 5, "quote": "blood"}
    rows = [review("ann", "gore", "present", spans=[evidence])]
    valid, _ = standing(reviews(*rows), texts(("d1", before), ("d2", after)), THREE)
    assert valid["spans"][0][0]["start"] == after[0].rindex("blood")


def test_absent_stands_in_a_shorter_text_and_not_in_one_that_has_grown():
    rows = [review("ann", "gore", "absent"), review("bo", "gore", "absent")]
    redacted = texts(("d1", TEXT), ("d2", ["I faint: [name], ugh", "Try Alien (1979)"]))
    assert said(labels(*rows, text=redacted)["gore"]) == ("absent", "agreed")
    grown = texts(("d1", TEXT), ("d2", [*TEXT, "No blood please"]))
    assert labels(*rows, text=grown) == {}


REVISED = [
    ("I faint: blood, ugh", "I FAINT - blood; ugh.", True),  # the same words
    ("I faint: blood, says Anna Smith", "I faint: blood, says [name]", True),  # a name is hidden
    ("I faint: blood, says [name]", "I faint: blood, says Anna", True),  # a title of that name was added to the catalog
    ("I faint: blood, ugh", "I faint: ugh", True),  # less
    ("I faint: blood, ugh", "I faint: needles, ugh", False),
    ("I faint: blood, ugh", "I faint: blood, needles, ugh", False),
    ("My wife likes comedies a lot.", "My wife leaves the room when a newborn is shown.", False),
    ("I faint, says [name], ugh", "I faint, says [name], needles", False),
    ("I liked [name]. What next?", "I liked Saw II. What next?", True),
    # no name is that long
    ("I liked [name]. What next?", "I liked blood and gore since the accident. What next?", False),
]


@pytest.mark.parametrize(("was", "now", "stands"), REVISED)
def test_absent_stands_only_where_nothing_is_said_that_its_readers_did_not_see(was, now, stands):
    """A text with as many turns but other words was `absent, agreed`, though nobody had read it."""
    rows = [review("ann", "gore", "absent"), review("bo", "*", "absent")]
    by_trait = labels(*rows, text=texts(("d1", [was, "Try Alien (1979)"]), ("d2", [now, "Try Alien (1979)"])))
    assert said(by_trait["gore"]) == ("absent", "agreed") if stands else by_trait == {}


def test_a_long_text_of_one_word_stops_nobody(monkeypatch):
    """Regression: each command compared 13,000 words with 13,000 others, and took 11 s for one such text."""
    compared: list[int] = []

    class Counted(SequenceMatcher):
        def find_longest_match(self, *places):
            compared.append(sum(len(self.b2j.get(word, ())) for word in self.a))
            return super().find_longest_match(*places)

    monkeypatch.setattr(review_history, "SequenceMatcher", Counted)
    was = "no " * 2_000 + "blood"
    for now, words, stands in ((f"{was} please", 5_000, False), (f"{was[3:]}", 5_000, True)):
        rows = [review("ann", "gore", "absent")]
        counted, _ = standing(reviews(*rows), texts(("d1", [was]), ("d2", [now])), THREE)
        assert counted["out"].is_null().all() == stands
        assert sum(compared) < words
        compared.clear()


def test_what_nobody_found_in_a_plot_stands_where_the_plot_has_other_words():
    """Only the current plots are stored: after a changed full stop every `absent` on an item was asked again."""
    plots = texts(("d2", ["A man walks his dog. It rains."]), kind="item_flag")
    plots = plots.with_columns(turns=[[{"role": "plot", "text": "A man walks his dog.", "items": []}]])
    rows = [review(name, "gore", "absent", kind="item_flag") for name in ("ann", "bo")]
    valid, drops = standing(reviews(*rows), plots, THREE)
    assert drops == {} and valid["out"].is_null().all()


def test_a_stale_present_is_never_filled_from_a_star():
    # ann found gore in a quote that is gone; her "the rest is absent" was not about gore
    rows = [
        review("ann", "gore", "present", spans=[span("ugh")]),
        review("ann", "*", "absent"),
        review("bo", "*", "absent"),
    ]
    by_trait = labels(*rows, text=texts(("d1", TEXT), ("d2", ["I faint: blood", "Try Alien (1979)"])))
    assert said(by_trait["gore"]) == (None, "unresolved")
    assert said(by_trait["needles"]) == ("absent", "agreed")


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_mind_changed_n_times_is_n_rows_and_a_repeated_pull_none(times):
    history = tables.REVIEWS.empty
    for n in range(times):
        answer = reviews(review("ann", "gore", "absent" if n % 2 else "unsure")).drop("review")
        history = pl.concat([history, record(answer, history)])
        assert record(answer, history).is_empty()
    assert history["review"].n_unique() == times


def test_an_answer_given_again_later_is_no_repeat_of_the_earlier_one():
    """On the page, in a file, and on the page as at first: the last answer was stored nowhere."""
    days = [datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2)]
    rows = [review("ann", "gore", "unsure", tool="page", time=day) for day in days]
    first, again = (reviews(row).drop("review") for row in rows)
    history = reviews(rows[0], review("ann", "gore", "absent"))
    assert (record(first, history, THREE.digest).height, record(again, history, THREE.digest).height) == (0, 1)
    row = review("ann", "*", "absent", tool="label_studio", taxonomy=THREE.digest, time=days[0])
    history = reviews(row, review("ann", "*", "absent", taxonomy="T2", digest="d2"))
    assert record(reviews(row).drop("review"), history, THREE.digest).is_empty()  # pulled again, in its taxonomy again


SERVER = {"tool": "label_studio", "time": datetime(2026, 11, 2, tzinfo=UTC)}
LATER = SERVER | {"time": datetime(2026, 11, 9, tzinfo=UTC)}
OLDER_ANSWERS = {  # what a person said, in this order, and an answer that is pulled then
    "of the server, on a text that they have left": (
        [("gore", "present", SERVER), ("gore", "absent", {"digest": "d2"})],
        ("gore", "present", SERVER),
        False,
    ),
    "of the server, which lacks what a file added": (
        [("gore", "present", SERVER), ("needles", "present", {})],
        ("needles", "absent", SERVER),
        False,
    ),
    "given on the server since": (
        [("gore", "present", SERVER), ("needles", "present", {})],
        ("needles", "absent", LATER),
        True,
    ),
    "in a file of a former list": (
        [("gore", "absent", {"taxonomy": "T1"}), ("gore", "present", {})],
        ("gore", "absent", {"taxonomy": "T1"}),
        False,
    ),
    "in a file of a former text": (
        [("gore", "present", {}), ("gore", "unsure", {"digest": "d2"})],
        ("gore", "present", {}),
        False,
    ),
    "in a file that was pulled before they answered on a server": (
        [("gore", "absent", {}), ("gore", "present", LATER)],
        ("gore", "absent", {}),
        False,
    ),
    "in a file, in other words than before": (
        [("gore", "absent", {}), ("gore", "present", LATER)],
        ("gore", "unsure", {}),
        True,
    ),
}


@pytest.mark.parametrize("case", OLDER_ANSWERS)
def test_an_older_answer_undoes_nothing_that_was_said_since(case):
    """The tool, the text and the taxonomy change midway; copies of files and answers on servers are pulled again."""
    history, (trait, verdict, more), counts = OLDER_ANSWERS[case]
    earlier = reviews(*(review("ann", *words, **facts) for *words, facts in history))
    pulled = reviews(review("ann", trait, verdict, **more)).drop("review")
    assert record(pulled, earlier, THREE.digest).height == counts


def test_who_hands_back_an_answer_themselves_has_changed_their_mind():
    """Of the `*` of one taxonomy only the last counts. One of another taxonomy, or by the command, stays beside it."""
    star = {"review": "1", "kind": "sensitivity", "subject": "c1", "trait": "*"}
    star |= {"reviewer": "bo", "role": "reviewer", "verdict": "absent", "tool": "page", "taxonomy": "t1"}
    handed_back = star | {"review": "2", "verdict": None, "note": tables.HANDED_BACK}
    for changes, expected in (({}, ["2"]), ({"taxonomy": "t2"}, ["2", "1"]), ({"tool": HAND_BACK}, ["2", "1"])):
        rows = tables.REVIEWS.frame([star, handed_back | changes])
        assert last_words(rows)["review"].to_list() == expected
    new = review_history.hand_back(tables.REVIEWS.frame([star]), tables.REVIEWS.frame([star]), "t1")
    columns = ("subject", "reviewer", "trait", "verdict", "note", "tool", "taxonomy")
    assert new.select(columns).rows() == [("c1", "bo", "*", None, tables.HANDED_BACK, HAND_BACK, "t1")]
    # the second time by the command: what bo took back is gone, and does not count again
    twice = [star, handed_back, handed_back | {"review": "3", "tool": HAND_BACK}]
    assert last_words(tables.REVIEWS.frame(twice))["review"].to_list() == ["3"]
    # a new answer in between stays
    answered_again = [star, handed_back, star | {"review": "4"}, handed_back | {"review": "5", "tool": HAND_BACK}]
    assert last_words(tables.REVIEWS.frame(answered_again))["review"].to_list() == ["5", "4"]
