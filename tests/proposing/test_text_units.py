"""A text is read whole, or not at all."""

from typing import Any

import pytest

from saferec_builder.proposing import prompting as propose, text_units as subjects


@pytest.mark.parametrize(
    ("turns", "why"),
    [
        ((), "nothing to read"),
        ((("recommender", "Alien?"),), "nothing to read"),
        ((("seeker", " \n"),), "nothing to read"),
        ((("seeker", "a" * 20_000), ("recommender", "b" * 20_001)), "too long"),
        ((("seeker", "a" * 20_000), ("recommender", "b" * 20_000)), None),
    ],
)
def test_what_cannot_be_read_is_not_asked(turns: Any, why: str | None) -> None:
    fault = subjects.cannot_ask(propose.Subject("sensitivity", "c", "d", turns))
    assert (fault or "").split(":")[0] == (why or "")
    assert why != "too long" or "40001 char" in (fault or "")
