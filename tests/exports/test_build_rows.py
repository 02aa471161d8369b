"""Splits, requests, answers, lists and the checks that stop a release."""

from exports import build_rows as release
from tests.worlds.release_rows import learn, letters, only, split
from tests.worlds.release_world import conversation, conversations, film, label, labels

# ---- splits


def test_a_seeker_on_both_sides_keeps_the_latest_split():
    rows = [conversation(f"c{n}", "hi", day=n, seeker="ann" if n in (0, 8, 9) else None) for n in range(10)]
    got = split(rows, validation=0.1, test=0.1).filter("straddles")["conversation"].to_list()
    assert got == ["c0", "c8"]  # ann's day 9 is test; her train and validation rows must go
    _, drops = learn([r | {"turns": r["turns"]} for r in rows])
    assert drops.filter(reason="straddles split")["place"].to_list() == ["c0", "c8"]


# ---- request and answer


def test_the_request_ends_before_the_last_turn_that_adds_an_answer():
    talk = conversation(
        "c", "Hi", f"Try {film('D')}", "More?", f"Also {film('E')}", "Great", "So watch it!", accepted="DE"
    )
    row = only([talk])
    # D stands in the request of the last answer: learning to repeat it would be copying
    assert (row["cut"], letters(row["truth"]), letters(row["named"])) == (3, "E", "D")


def test_accepted_items_go_before_recommended_ones():
    talk = ("Hi", f"Try {film('D')} or {film('E')}", f"{film('E')} it is")
    assert letters(only([conversation("c", *talk, accepted="E")])["truth"]) == "E"
    assert letters(only([conversation("c", *talk)])["truth"]) == "DE"  # found in the text: nobody gave refs


def test_an_item_that_the_seeker_named_first_is_seen_and_no_answer():
    row = only([conversation("c", f"I loved {film('D')}", f"Then {film('D')} fans like {film('E')}", "ok")])
    assert (letters(row["truth"]), letters(row["seen"])) == ("E", "D")


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
    # they stay in `conversations` and `labels`: 3 rows, 1 of which trains
    assert built.height == 3 and built["cut"].is_not_null().sum() == 1


def test_an_answer_given_as_ids_only_makes_the_whole_talk_the_request():
    row = only([conversation("c", "Hi", "Sure", "Comedies please", accepted="D")])
    assert (row["cut"], letters(row["truth"])) == (3, "D")


# ---- labels


def test_only_evidence_in_the_request_makes_a_trait_known():
    talk = conversation("c", "I faint at blood", f"Try {film('D')}", "No needles though", accepted="D")
    said = [
        label(talk, "gore", quote="faint at blood"),
        label(talk, "needles", quote="No needles"),
        label(talk, "medical_trauma"),  # present, but nobody marked where
        label(talk, "sad_endings", verdict=None, reviews=["r1", "r2"]),
        label(talk, "hate_speech", verdict=None, reviews=["r3"]),
        label(talk, "animal_harm", verdict="unsure"),
        label(talk, "torture", verdict="absent"),
    ]
    row = only([talk], said, voiced=["r2"])  # r2 saw sad endings; r3, alone, saw no hate speech
    assert (row["traits"], row["form"]) == (["gore"], ["implicit"])
    assert row["late_traits"] == ["medical_trauma", "needles"]
    assert row["at_risk"] == ["animal_harm", "gore", "medical_trauma", "needles", "sad_endings"]


def test_a_label_on_another_text_is_unresolved_again():
    talk = conversation("c", "I faint at blood", f"Try {film('D')}", "ok")
    known = release.current(labels(label(talk, quote="faint", digest="older")), conversations(talk))
    row = known.row(0, named=True)
    assert (row["verdict"], row["method"], row["spans"], row["form"]) == (None, "unresolved", [], None)
