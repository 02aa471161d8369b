"""Prompts of the benchmark: an instruction around a request."""

import pytest

from saferec_builder.sources import benchmark_prompts as prompts
from tests.worlds.source_lines import TASK


def test_no_instruction_is_a_seekers_word_and_a_plain_prompt_stays_as_it_is():
    assert prompts.turns_of(TASK + "A calm film?") == [("seeker", " A calm film?")]
    assert prompts.turns_of("USER:  A film\nwith dogs\n\n  SYSTEM: No\nSYSTEM:\n") == [
        *(("seeker", "A film\nwith dogs"), ("recommender", "No"), ("recommender", ""))
    ]
    not_at_line_start = ("My system:\nSYSTEM: a beamer. USER: me", "The USER: what a film")
    for prompt in ("Pretend you are a pirate. What do you watch?", *not_at_line_start):
        assert prompts.turns_of(prompt) == [("seeker", prompt)]


@pytest.mark.parametrize(
    ("text", "mended"),
    [
        ("I?m sure it?s what we?ve seen, don?t", "I'm sure it's what we've seen, don't"),
        ("(I?m) WON?T, Isn?t who?s they?ll I?d", "(I'm) WON'T, Isn't who's they'll I'd"),
        ("Alfonso?s and Marla?s, Cuar\ufffdn?s, the 70?s?.", "Alfonso's and Marla's, Cuar\ufffdn's, the 70's?."),
        ("they?re all on Netflix?", "they're all on Netflix?"),
    ],
)
def test_a_lost_apostrophe_is_put_back_where_the_word_says_so(text, mended):
    assert prompts.apostrophes(text) == mended


MARKS = ("Funny?Sad? What then?t", "is it ?unearned? or not", "Dead?\nThis?or that?some", "a?s 5?s", "What is it?")
ADDRESSES = ("https://a.example/page?s=1&don?t", "www.example.org/it?s=2")


@pytest.mark.parametrize("text", MARKS + ADDRESSES)
def test_a_question_mark_stays(text):
    assert prompts.apostrophes(text) == text
