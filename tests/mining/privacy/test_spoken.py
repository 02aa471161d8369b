"""Names found by the words around them: people in the seeker's life, in many languages, but no film characters."""

import pytest

from saferec_builder.mining import privacy


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Good choice, Siobhán.", ["Siobhán"]),
        ("Ich heiße Lieselotte und suche etwas Ruhiges.", ["Lieselotte"]),
        ("Je m'appelle Océane, une idée pour ce soir ?", ["Océane"]),
        ("watching with Tamsin (my sister) tonight", ["Tamsin"]),
        ("nothing with needles please. Thanks again,\nOluwaseun", ["Oluwaseun"]),
        ("MY SON FERGUS CRIES AT THE DOG SCENE", ["FERGUS"]),
    ],
)
def test_who_is_spoken_of_is_found(text: str, names: list[str]) -> None:
    assert [text[start:end] for start, end, kind in privacy.find(text) if kind == "name"] == names


@pytest.mark.parametrize(
    "text",
    [
        "You and Me is a film of 1938",
        "Frodo (my favourite hobbit) walks for three films",
        "I AM LEGEND WAS TOO SAD FOR ME",
        "Thanks for the tip, Alien was great",
        "directed by Agnès, starring Catherine",
    ],
)
def test_a_character_or_a_title_is_none(text: str) -> None:
    assert [text[start:end] for start, end, kind in privacy.find(text) if kind == "name"] == []
