"""Handles by the words with which people state them."""

import polars as pl
import pytest

from saferec_builder.mining import privacy
from tests.worlds.privacy_lines import HANDLES, labelled, measured


def test_handles_that_people_state_are_found_and_brands_code_and_plain_words_stay():
    marked, covered, findings, correct = measured(labelled(HANDLES), privacy.find)
    assert marked["handle"] == 173 and covered["handle"] >= 160  # 163 measured
    assert sum(findings.values()) - sum(correct.values()) <= 3  # two handles, of which one is code, and a name


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("my username is mossowl, thanks", "my username is [handle], thanks"),
        ("my username is wrong, thanks", None),  # everyday English
        ("psn: Mossowl", "psn: [name]"),  # no handle, for it may be a game: taken for an unknown name
        ("psn: mossowl", "psn: [handle]"),
        ("add me: mossowl", None),
        ("add me: moss_owl", "add me: [handle]"),
        ("my account: tt0114709", None),  # a film's id
        ("on steam as jo@example.org moss_owl", "on steam as [email] moss_owl"),
        ("find me films such as Se7en, please", None),
        ("find me on steam as mossowl", "find me on steam as [handle]"),
        ("a game on steam called subnautica.", None),
        ("i'm j.moss_88!", "i'm [handle]!"),
    ],
)
def test_the_less_the_words_before_say_the_odder_a_handle_must_look(text: str, clean: str | None) -> None:
    assert privacy.redact(text)[0] == privacy.redact_all(pl.Series([text]))[0][0] == (clean or text)
