"""Language and crisis marks: what the embedded model and the rule say of lines written for this test."""

import polars as pl
import pytest

from saferec_builder.mining import language
from saferec_builder.storage import tables
from tests import DATA

LINES = (DATA / "crisis.txt").read_text(encoding="utf-8").splitlines()


def test_present_disclosures_are_found_and_figures_of_speech_are_not():
    # 24 disclosures and 36 lookalikes, written by one person: to miss one costs more than to leave one out too many
    said = {line[2:]: line.startswith("+") for line in LINES}
    missed = [text for text, real in said.items() if real and not language.crisis(text)]
    false = [text for text, real in said.items() if not real and language.crisis(text)]
    assert (missed, false) == ([], [])


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("en", "Looking for a quiet film without any blood for tonight"),
        ("de", "Ich suche einen ruhigen Film ohne Blut für heute Abend"),
        ("fr", "Je cherche un film drôle pour ce soir, pas d'horreur s'il vous plaît"),
        ("es", "Busco una película de suspense pero sin tanta sangre"),
        ("ru", "Посоветуйте фильм про космос без страшных сцен"),
        ("ja", "今夜家族と一緒に見るのにおすすめの静かな映画はありますか"),
    ],
)
def test_the_language_of_a_request(code, text):
    found, score = language.language(text)
    assert found == code and 0.5 < score <= 1


def test_too_little_text_has_no_language():
    assert language.language("ok! https://example.org/eine/lange/adresse [name]") == (None, None)


def test_only_the_seeker_counts():
    def turn(role, text):
        return {"role": role, "text": text, "items": []}

    rows = [
        (
            "a",
            [turn("seeker", "something gentle for a bad night please"), turn("recommender", "I want to kill myself")],
        ),
        ("b", [turn("seeker", "hi"), turn("recommender", "hey"), turn("seeker", "i want to kill myself")]),
    ]
    frame = pl.DataFrame(
        [{"conversation": c, "digest": "d", "turns": t} for c, t in rows],
        schema={c: tables.CONVERSATIONS.schema[c] for c in ("conversation", "digest", "turns")},
    )
    marked = language.marks(frame)
    assert marked["crisis"].to_list() == [False, True]
    assert marked["language"][0] == "en"


@pytest.mark.parametrize(
    "text",
    [
        *(line[2:] for line in LINES if line.startswith("+")),
        "I don't wanna live anymore",  # as well as "want to", which the rule knows
        "i want to  kill myself",  # two blanks
        "i feel\u00a0suicidal\ttonight",
    ],
)
def test_a_disclosure_is_marked_however_it_is_typed(text):
    """What the rule finds alone it finds among many texts, too: the cheap search before it passes by nothing."""
    turns = [{"role": "seeker", "text": text, "items": []}]
    kinds = {c: tables.CONVERSATIONS.schema[c] for c in ("conversation", "digest", "turns")}
    frame = pl.DataFrame([{"conversation": "a", "digest": "d", "turns": turns}], schema=kinds)
    assert language.marks(frame)["crisis"].to_list() == [True]
