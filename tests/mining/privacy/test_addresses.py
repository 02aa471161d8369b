"""Postal addresses: with a code, or after words such as "live"; a street in a film is no address."""

import pytest

from saferec_builder.mining import privacy


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("send it to 14 Larkspur Road, Leeds LS7 3QX please", "14 Larkspur Road, Leeds LS7 3QX"),
        ("my address is 9 Copper Lane", "9 Copper Lane"),
        ("Wir wohnen an der Küste: Lindenstraße 12, 50321 Köln.", "Lindenstraße 12, 50321 Köln"),
        ("j'habite 8 rue des Glycines, 44100 Nantes", "8 rue des Glycines, 44100 Nantes"),
        ("return it to Calle Almendro 7, 28005 Madrid", "Calle Almendro 7, 28005 Madrid"),
    ],
)
def test_an_address_is_found_whole(text: str, found: str) -> None:
    assert [text[start:end] for start, end, kind in privacy.find(text) if kind == "address"] == [found]


@pytest.mark.parametrize(
    "text",
    [
        "10 Cloverfield Lane is great",
        "A Nightmare on Elm Street 3",
        "221B Baker Street, the series",
        "12 Angry Men, 1957",
    ],
)
def test_a_title_is_no_address(text: str) -> None:
    assert [kind for *_, kind in privacy.find(text)] == []
