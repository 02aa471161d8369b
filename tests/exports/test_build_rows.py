"""Splits, requests, answers, lists and the checks that stop a release."""

import numpy as np
import polars as pl
import pytest

from exports import build_rows as release
from exports.card import percent
from saferec_builder.core.oracle import CLEAR, UNKNOWN, VIOLATED, oracle
from tests.worlds.release_rows import learn, letters, only, split
from tests.worlds.release_world import conversation, conversations, film, label, labels

# ---- splits


def test_a_seeker_on_both_sides_keeps_the_latest_split():
    rows = [conversation(f"c{n}", "hi", day=n, seeker="ann" if n in (0, 8, 9) else None) for n in range(10)]
    straddling = split(rows, validation=0.1, test=0.1).filter("straddles")["conversation"].to_list()
    assert straddling == ["c0", "c8"]  # ann's day 9 is test; her train and validation rows must go
    _, drops = learn([row | {"turns": row["turns"]} for row in rows])
    assert drops.filter(reason="straddles split")["place"].to_list() == ["c0", "c8"]


# ---- request and answer


D_OR_E = ("Hi", f"Try {film('D')} or {film('E')}", f"{film('E')} it is")
D_AND_E = ("Hi", f"Try {film('D')}", "More?", f"Also {film('E')}", "Great", "So watch it!")
AFTER_D = (f"I loved {film('D')}", f"Then {film('D')} fans like {film('E')}", "ok")
THEN_F = ("Hi", f"Try {film('D')}", "More?", f"Also {film('E')}", f"I have seen {film('F')}, like {film('E')}")


@pytest.mark.parametrize(
    ("turns", "accepted", "cut", "truth", "named", "seen"),
    [
        # D is in the request of the last answer: learning to repeat it would be copying
        pytest.param(D_AND_E, "DE", 3, "E", "D", "", id="the request ends before the last turn that adds an answer"),
        pytest.param(D_OR_E, "E", 1, "E", "", "", id="accepted items go before recommended ones"),
        pytest.param(D_OR_E, "", 1, "DE", "", "", id="found in the text, as nobody gave refs"),
        pytest.param(AFTER_D, "", 1, "E", "D", "D", id="what the seeker named first is seen and no answer"),
        pytest.param(THEN_F, "", 3, "E", "D", "DG", id="what is first named after the request is not known in it"),
        pytest.param(("Hi", "Sure", "Comedies please"), "D", 3, "D", "", "", id="ids only: all of it is the request"),
    ],
)
def test_request_and_answer(turns, accepted, cut, truth, named, seen):
    row = only([conversation("c", *turns, accepted=accepted, seen="DFG" if turns is THEN_F else "")])
    request = row["cut"], *(letters(row[name]) for name in ("truth", "named", "seen"))
    assert request == (cut, truth, named, seen)


def test_what_has_no_answer_or_no_request_is_counted_and_kept_apart():
    rows = [
        conversation("none", "Hi", "Hello", "Bye"),
        conversation("blank", " ", f"Try {film('D')}", "ok"),
        conversation("good", "Hi", f"Try {film('D')}", "ok"),
    ]
    built, drops = learn(rows)
    assert dict(drops.select("place", "reason").iter_rows()) == {
        "none": "no linked item",
        "blank": "no request before the answer",
    }
    # they stay in `conversations` and `labels`: 3 rows, one of them to learn from
    assert built.height == 3 and built["cut"].is_not_null().sum() == 1


TWICE = ("Hi", f"Try {film('D')}", "More?", f"{film('E')}, {film('D')}", "More?", f"{film('F')} or {film('G')}", "ok")


@pytest.mark.parametrize(
    ("accepted", "expected"),
    [
        # the request of the last answer first; then one per turn with a new item: D is not new in the second
        ("", [(0, 5, "FG", "recommended", 3), (1, 1, "D", "recommended", 1), (2, 3, "E", "recommended", 2)]),
        # in a turn with an accepted item only that item is the truth
        ("EF", [(0, 5, "F", "accepted", 3), (1, 1, "D", "recommended", 1), (2, 3, "E", "accepted", 2)]),
        ("D", [(0, 1, "D", "accepted", 1), (1, 3, "E", "recommended", 2), (2, 5, "FG", "recommended", 3)]),
    ],
)
def test_each_turn_with_new_items_is_a_request(accepted, expected):
    built, _ = learn([conversation("c", *TWICE, accepted=accepted)], terms=release.Terms(unreviewed=True, turns=True))
    requests = built.select("further", "cut", "truth", "truth_kind", "asks").rows()
    assert [(n, cut, letters(truth), kind, asks) for n, cut, truth, kind, asks in requests] == expected


def test_a_conversation_with_a_further_request_is_not_counted_as_left_out():
    """Its last answer is in a train request, and its other requests are in the release."""
    built, _ = learn([conversation("c", *TWICE)], terms=release.Terms(unreviewed=True, turns=True))
    left_out = pl.DataFrame(schema=dict.fromkeys(("conversation", "source", "reason"), pl.String))
    for rest, expected in (([0], []), ([0, 1, 2], ["c"])):
        rows = release.unlearned(built, built["further"].is_in(rest), release.REPEATED)
        assert release.drops(left_out, rows)["place"].to_list() == expected


def test_a_test_request_without_an_answer_is_kept_where_that_is_allowed():
    rows = [conversation(f"c{n}", "Hi", "Hello", "A comedy?", day=n) for n in range(10)]  # day 9 is the test
    built, drops = learn(rows, terms=release.Terms(unreviewed=True, truthless=True))
    assert built.filter(pl.col("cut").is_not_null()).select("conversation", "cut", "truth_kind").rows() == [
        ("c9", 3, "none")
    ]
    assert drops.height == 9 and learn(rows)[1].height == 10


# ---- labels


def test_only_evidence_in_the_request_makes_a_trait_known():
    talk = conversation("c", "I faint at blood", f"Try {film('D')}", "No needles though", accepted="D")
    label_rows = [
        label(talk, "gore", quote="faint at blood", form="explicit"),
        label(talk, "needles", quote="No needles"),
        label(talk, "medical_trauma"),  # present, but without evidence
        label(talk, "sad_endings", verdict=None, reviews=["r1", "r2"]),
        label(talk, "hate_speech", verdict=None, reviews=["r3"]),
        label(talk, "animal_harm", verdict="unsure"),
        label(talk, "torture", verdict="absent"),
    ]
    built, _ = learn([talk], label_rows, voiced=["r2"])  # r2 saw sad endings; r3, alone, saw no hate speech
    row = built.row(0, named=True)
    assert (row["traits"], row["form"]) == (["gore"], ["explicit"])
    assert row["late_traits"] == ["medical_trauma", "needles"]
    assert row["at_risk"] == ["animal_harm", "gore", "medical_trauma", "needles", "sad_endings"]


def test_a_label_on_another_text_is_unresolved_again_and_only_what_was_read_counts():
    talk = conversation("c", "I faint at blood", f"Try {film('D')}", "ok")
    rows = [
        label(talk, "gore", quote="faint"),
        label(talk, "torture", quote="faint", digest="older", reviews=["r1"]),
        label(talk, "needles", verdict=None, reviews=["r1", "r2"]),
        label(talk, "sad_endings", verdict=None, reviews=["r1"]),
        label(talk, "hate_speech", verdict=None),
        label(talk, "clowns", kind="item_flag"),
    ]
    current = release.current(labels(*rows), conversations(talk), pl.Series(["r2"]))
    found = current.select("verdict", "method", "form", pl.col("spans").list.len(), "read", "at_risk").rows()
    assert found == [
        ("present", "agreed", "implicit", 1, True, True),
        (None, "unresolved", None, 0, False, True),  # nobody has seen that it is not there any more
        (None, "unresolved", None, 0, True, True),
        (None, "unresolved", None, 0, True, False),
        (None, "unresolved", None, 0, False, False),
    ]


def test_who_was_read_by_nobody_or_has_a_withheld_trait_has_no_lists():
    rows = [conversation(name, "I faint at blood", f"Try {film('D')}", "ok") for name in "abc"]
    said = [label(rows[0], quote="faint"), label(rows[1], "needles", verdict="unsure", quote="faint")]
    for terms, reasons in (
        (release.Terms(), {"c": release.UNREVIEWED}),
        (release.Terms(frozenset({"needles"})), {"b": release.WITHHELD, "c": release.UNREVIEWED}),
        (release.Terms(frozenset({"gore"}), unreviewed=True), {"a": release.WITHHELD}),
    ):
        built, drops = learn(rows, said, terms=terms)
        assert dict(drops.select("place", "reason").iter_rows()) == reasons
        withheld = {"gore"} & terms.withheld
        assert built["traits"].to_list() == [["gore"] if not withheld else [], [], []]
    old = "has a withheld trait"  # in releases of older programs
    dropped = dict.fromkeys([*reasons.values(), old, "text not put back: x", "crisis", "straddles split"], 2)
    assert [[*part] for part in release.apart(dropped)] == [["crisis", "straddles split"], [*dropped][:3]]


def test_a_request_whose_sensitivity_is_in_doubt_is_open():
    """It was `none`: "I'm a recovering alcoholic", of which one reader says present and the other absent."""
    rows = [conversation(name, "I faint at blood", f"Try {film('D')}", "No needles") for name in "abcd"]
    present, late = label(rows[0], quote="faint"), label(rows[2], "needles", quote="No needles")
    unsure = [label(row, "torture", verdict="unsure", quote="faint") for row in rows[:2]]  # a tells gore as well
    built, _ = learn(rows, [present, late, *unsure, label(rows[3], verdict="absent")])
    assert built.select(release.CONDITION).to_series().to_list() == ["own_words", "open", "none", "none"]


def test_what_teaches_nothing_keeps_its_place():
    rows, _ = learn([conversation(name, "I saw " + film("E"), f"Try {film('D')}", "ok") for name in "ab"])
    blank, kept = release.unlearned(rows, rows["conversation"] == "a", "why").to_dicts()
    assert (blank["cut"], blank["reason"], blank["truth"], blank["named"]) == (None, "why", [], [])
    assert kept == rows.row(1, named=True) and kept["cut"] == 1 and blank["recommended"] == kept["recommended"]


def test_figures_count_labels_makers_and_what_is_unknown():
    said = [("gore", verdict, "agreed", False) for verdict in ("present", "unsure", None, "withheld")]
    said += [("gore", "absent", "auto", False), ("needles", "present", "agreed", True)]
    columns = {"trait": pl.String, "verdict": pl.String, "method": pl.String, "simulated": pl.Boolean}
    frame = pl.DataFrame(said, columns, orient="row")
    gore, lists = [["gore"], [], [], ["gore"]], pl.List(pl.String)
    rows = pl.DataFrame({"cut": [1, 1, 0, None], "traits": gore}).with_columns(
        pl.Series("late_traits", [[]] * 4, lists), pl.Series("at_risk", [["gore"], ["needles"], [], ["gore"]], lists)
    )
    codes = np.array([[CLEAR, UNKNOWN], [VIOLATED, CLEAR]], np.int8)
    nothing = dict.fromkeys(("present", "absent", "unsure", "unresolved"), 0)
    facts = release.figures(rows, frame, oracle(["a", "b"], ["gore", "needles"], codes))
    assert facts == {
        "labels": {"gore": dict.fromkeys(nothing, 1), "needles": nothing | {"present": 1}},
        "conditions": {"own_words": 1, "none": 1, "open": 1},
        "makers": {"people": 1, "simulated": 1, "unresolved": 2, "auto": 1},
        "unknown": {"gore": 0.0, "needles": 0.5},
    }
    facts = release.figures(rows, frame.clear(), oracle([], ["gore"], codes[:0, :1]))
    assert (facts["makers"], facts["unknown"]) == ({"people": 0, "simulated": 0, "unresolved": 0}, {"gore": 1.0})
    of_many = np.full((60_000, 1), UNKNOWN, np.int8)
    of_many[0] = CLEAR
    facts = release.figures(rows, frame.clear(), oracle([str(n) for n in range(60_000)], ["gore"], of_many))
    assert percent(facts["unknown"]["gore"]) == ">99%"  # the card said that all items are unknown
