"""Names found by the words around them: people in the seeker's life, in many languages, but no film characters."""

import pytest

from saferec_builder.mining import privacy
from saferec_builder.mining.privacy import spoken


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("Good choice, Siobhán.", "Good choice, [name]."),
        ("Ich heiße Lieselotte und suche etwas Ruhiges.", "Ich heiße [name] und suche etwas Ruhiges."),
        ("Je m'appelle Océane, une idée pour ce soir ?", "Je m'appelle [name], une idée pour ce soir ?"),
        ("watching with Tamsin (my sister) tonight", "watching with [name] (my sister) tonight"),
        ("nothing with needles please. Thanks again,\nOluwaseun", "nothing with needles please. Thanks again,\n[name]"),
        ("MY SON FERGUS CRIES AT THE DOG SCENE", "MY SON [name] CRIES AT THE DOG SCENE"),
        # characters and titles
        ("You and Me is a film of 1938", None),
        ("Frodo (my favourite hobbit) walks for three films", None),
        ("I AM LEGEND WAS TOO SAD FOR ME", None),
        ("Thanks for the tip, Alien was great", None),
        ("directed by Agnès, starring Catherine", None),
    ],
)
def test_who_is_spoken_of_is_hidden_and_a_character_or_a_title_stays(text: str, clean: str | None) -> None:
    assert privacy.redact(text)[0] == (clean or text)


@pytest.mark.parametrize("scream", ["A", "O'", "İ"])
def test_a_scream_is_read_in_a_moment(scream: str) -> None:
    """From each of its letters on a run of words was sought: six seconds for the longest post, an hour for this."""
    assert spoken.calm(scream * 1_000_000) == scream * 1_000_000
