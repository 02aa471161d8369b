"""Cues: every trait has some, and the index misses none."""

import re
import tomllib

import pytest
from hypothesis import given, strategies as st

from saferec_builder.core import taxonomy as traits
from saferec_builder.proposing.learning_examples import MESSAGES
from saferec_builder.proposing.rules import cues

SPANS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 5)).map(lambda s: (s[0], s[0] + s[1])), max_size=6)


@given(SPANS, st.integers(0, 14), st.integers(0, 6))
def test_places_are_asked_as_if_one_by_one(spans: list[tuple[int, int]], start: int, length: int) -> None:
    places, end = cues.Places(spans), start + length
    assert places.begin(start, end) == any(start <= a < end for a, _ in spans)
    assert places.end_at(end) == any(b == end for _, b in spans)
    assert places.hold(start, end) == any(a <= start and end <= b for a, b in spans)
    longer = any(a <= start and end <= b and (a, b) != (start, end) for a, b in spans)
    assert places.hold_more(start, end) == longer


def test_blanks_keep_every_place() -> None:
    text = "I’d say “Blood Wedding” — or Needle Park (1971), @1234 — İs “no gore” fine?"
    masked = cues.load().mask(text, ["Needle Park"])
    assert len(masked) == len(text)
    assert not any(word in masked for word in ("blood", "needle", "1234")) and "gore" in masked


def test_every_trait_has_cues() -> None:
    assert {slug for rows in cues.load().signs.by_start.values() for (slug, _), _ in rows} == set(traits.load().slugs)


@pytest.mark.slow
def test_a_phrase_is_found_wherever_it_begins() -> None:
    """Phrases are looked up by their first letters; trying each phrase at each word finds exactly the same."""
    book = cues.load()
    rows = tomllib.loads((MESSAGES / "strangers.toml").read_text(encoding="utf-8"))["trait"]
    masked = [book.mask(text, ()) for row in rows.values() for text in row["says"][:1]]
    texts = [*masked, *(low.replace(" ", " - ") for low in masked)]
    for phrases in (book.signs, book.stances, book.blank, book.plots):
        patterns = [(label, re.compile(p)) for label, p in {e for row in phrases.by_start.values() for e in row}]
        for low in texts:
            starts = [m.start() for m in re.finditer(r"(?<!\w)\w|'(?=\w)", low)]
            expected = [(label, at, m.end()) for at in starts for label, p in patterns if (m := p.match(low, at))]
            assert sorted(phrases.find(low)) == sorted(expected)
