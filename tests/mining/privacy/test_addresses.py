"""Postal addresses: with a code, or after words such as "live"; a street in a film is no address."""

import pytest

from saferec_builder.mining import privacy


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("send it to 14 Larkspur Road, Leeds LS7 3QX please", "send it to [address] please"),
        ("my address is 9 Copper Lane", "my address is [address]"),
        ("Wir wohnen an der Küste: Lindenstraße 12, 50321 Köln.", "Wir wohnen an der Küste: [address]."),
        ("j'habite 8 rue des Glycines, 44100 Nantes", "j'habite [address]"),
        ("return it to Calle Almendro 7, 28005 Madrid", "return it to [address]"),
        *(("10 Cloverfield Lane is great", None), ("A Nightmare on Elm Street 3", None)),
        *(("221B Baker Street, the series", None), ("12 Angry Men, 1957", None)),
    ],
)
def test_an_address_is_hidden_whole_and_a_title_stays(text: str, clean: str | None) -> None:
    assert privacy.redact(text)[0] == (clean or text)
