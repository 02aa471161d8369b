"""Language and crisis marks: what the embedded model and the rule say of lines written for this test."""

import polars as pl

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


def test_the_language_of_a_request():
    said = {
        "en": "Looking for a quiet film without any blood for tonight",
        "de": "Ich suche einen ruhigen Film ohne Blut für heute Abend",
        "fr": "Je cherche un film drôle pour ce soir, pas d'horreur s'il vous plaît",
        "es": "Busco una película de suspense pero sin tanta sangre",
        "ru": "Посоветуйте фильм про космос без страшных сцен",
        "ja": "今夜家族と一緒に見るのにおすすめの静かな映画はありますか",
    }
    found = {code: language.language(text) for code, text in said.items()}
    assert [code for code, _ in found.values()] == list(said) and all(0.5 < score <= 1 for _, score in found.values())
    assert language.language("ok! https://example.org/eine/lange/adresse [name]") == (None, None)  # too little text


def marks(*talks):
    """Of conversations in which the seeker speaks first, then in turn."""
    roles = ("seeker", "recommender")
    turns = [[{"role": roles[n % 2], "text": text, "items": []} for n, text in enumerate(talk)] for talk in talks]
    kinds = {c: tables.CONVERSATIONS.schema[c] for c in ("conversation", "digest", "turns")}
    names = [f"c{n}" for n in range(len(talks))]
    return language.marks(pl.DataFrame({"conversation": names, "digest": "d", "turns": turns}, schema=kinds))


def test_only_the_seeker_counts():
    kind = ("something gentle for a bad night please", "I want to kill myself")
    marked = marks(kind, ("hi", "hey", "i want to kill myself"))
    assert marked["crisis"].to_list() == [False, True]
    assert marked["language"][0] == "en"


def test_a_disclosure_is_marked_however_it_is_typed():
    """What the rule finds alone it finds among many texts, too: the cheap search before it passes by nothing."""
    said = [line[2:] for line in LINES if line.startswith("+")]
    said += ["I don't wanna live anymore", "i want to  kill myself", "i feel\u00a0suicidal\ttonight"]
    assert [text for text in said if not marks([text])["crisis"][0]] == []
