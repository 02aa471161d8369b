"""Words of texts and titles in their plainest form."""

import pytest
from hypothesis import example, given, strategies as st

from saferec_builder.core import titles
from saferec_builder.scoring import title_words as words


@example("a''b a'’b")  # two marks split a word, one does not
@example("Oʻahu ʻ and so on")  # a letter that no normal form keeps is not a word
@given(st.text(st.sampled_from("aBz09II  '`’‘“”…–—´ʻ#&+_-.,\n\t\x00é½ı🙂"), max_size=30))
def test_words_at_once_are_the_words_one_by_one(text):
    one_by_one = [words._plain(word) for word in words._WORD.findall(text)]
    assert words._at_once(text) in (None, [word for word in one_by_one if word])
    parsed = words.as_words(text)
    assert titles.counted([words._plain(text[start:end]) for start, end in parsed.spans]) == parsed.words


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("Don’t — “it’s” the dogs' one", ["dont", "its", "the", "dogs", "one"]),
        ("rock 'n' roll, A-Team", ["rock", "n", "roll", "a", "team"]),
    ],
)
def test_what_phones_and_people_type_needs_no_closer_look(text, plain):
    assert words._at_once(text) == plain
