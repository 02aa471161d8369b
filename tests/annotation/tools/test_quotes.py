"""Locating a quote in a text."""

import pytest

from annotation.tools.quotes import locate, merged, nearest, only


def test_composed_and_decomposed_letters_are_alike_but_never_halved():
    cafe = [{"role": "seeker", "text": "the cafe\u0301 and the café"}]
    assert locate("café and", cafe)["quote"] == "cafe\u0301 and"
    assert locate("the café", [{"role": "seeker", "text": "the café"}])["end"] == 8
    assert locate("the  caf e", cafe) is None
    assert locate("a  cafe", [{"role": "seeker", "text": "a café"}]) is None


TEXT = "no  needles\nscare me; cafe\u0301 😱 wounds, and no  needles again"


@pytest.mark.parametrize(
    ("quote", "found"),
    [
        ("needles scare me", (4, 20)),  # white space as a page shows it: 2 + two blanks, the line break is the 12th
        ("cafe\u0301 😱 wounds", (22, 36)),  # code points: 5 + 1 + 1 + 1 + 6
        ("no needles", None),  # twice
        ("wounds", None),  # 6 letters
        ("Thank you!", None),  # the recommender's
    ],
)
def test_words_name_a_place_where_they_stand_once(quote, found):
    turns = [{"role": "seeker", "text": TEXT}, {"role": "recommender", "text": "Thank you!"}]
    place = only(quote, turns)
    assert (place and (place["start"], place["end"])) == found
    assert place is None or TEXT[place["start"] : place["end"]] == place["quote"]


@pytest.mark.parametrize(
    ("text", "quote", "start"),
    [
        ("I loved Warhorse. Nothing about war please.", "war", 32),
        ("Warhorses only, I said warhorse", "warhors", 23),  # nowhere as a whole word
        ("a catalogue, my  “cat”", 'my "cat"', 13),  # as a spreadsheet changes it
        ("café or cafe?", "cafe", 9),
        ("No -- no needles", "no – No", 0),  # as typed where a program corrects what one types
        ("战争片", "争", 1),  # no blanks between words
    ],
)
def test_words_are_looked_for_before_the_same_letters_inside_others(text, quote, start):
    assert locate(quote, [{"role": "seeker", "text": text}])["start"] == start


def test_words_that_moved_are_nearest_to_where_they_were():
    text = "cat, catalogue, cat, cat"
    assert [nearest("cat", text, start) for start in (0, 6, 17, 40)] == [(0, 3), (0, 3), (16, 19), (21, 24)]
    assert nearest("dog", text, 0) is None and nearest("atal", text, 0) == (6, 10)


def test_quotes_that_overlap_are_read_as_one():
    """Three overlapping quotes of one sentence were three lines of a card."""
    text = "I faint when I see blood, always"

    def span(quote, turn=0):
        return {"turn": turn, "start": text.index(quote), "end": text.index(quote) + len(quote), "quote": quote}

    inside = [span("see blood"), span("I faint when"), span("when I see"), span("faint")]
    assert merged(inside) == ["I faint when I see blood"]
    assert merged([span("always", turn=1), span("blood"), span("always")]) == ["blood", "always", "always"]
    assert merged([span("I faint"), span(" when")]) == ["I faint", " when"]  # they touch: no word is in both
