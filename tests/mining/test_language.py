"""Language and crisis marks: the embedded model and the rule, on lines written for this test."""

from saferec_builder.mining import language
from saferec_builder.mining.rules_version import samples
from tests import DATA
from tests.rules_score import talks

LINES = (DATA / "crisis.txt").read_text(encoding="utf-8").splitlines()


def test_present_disclosures_are_found_and_figures_of_speech_are_not():
    # 60 disclosures and 66 lookalikes, written by one person: a missed one costs more than one left out needlessly
    lines = {line[2:]: line.startswith("+") for line in LINES}
    missed = [text for text, is_disclosure in lines.items() if is_disclosure and not language.crisis(text)]
    false = [text for text, is_disclosure in lines.items() if not is_disclosure and language.crisis(text)]
    assert (missed, false) == ([], [])


def test_of_lines_that_were_written_after_the_rule_it_finds_most() -> None:
    # 20 disclosures and 20 lookalikes, by the author of the rule: never tune it on them, docs/mining.md has the counts
    lines = (DATA / "crisis_apart.txt").read_text(encoding="utf-8").splitlines()
    hits = [line[0] for line in lines if language.crisis(line[2:])]
    assert (hits.count("+"), hits.count("-")) == (13, 2)


def test_the_language_of_a_request():
    texts = {
        "en": "Looking for a quiet film without any blood for tonight",
        "de": "Ich suche einen ruhigen Film ohne Blut für heute Abend",
        "fr": "Je cherche un film drôle pour ce soir, pas d'horreur s'il vous plaît",
        "es": "Busco una película de suspense pero sin tanta sangre",
        "ru": "Посоветуйте фильм про космос без страшных сцен",
        "ja": "今夜家族と一緒に見るのにおすすめの静かな映画はありますか",
    }
    guesses = {code: language.language(text) for code, text in texts.items()}
    assert [code for code, _ in guesses.values()] == list(texts)
    assert all(0.5 < score <= 1 for _, score in guesses.values())
    assert language.language("ok! https://example.org/eine/lange/adresse [name]") == (None, None)  # too little text


def test_only_the_seeker_counts():
    kind = ("something gentle for a bad night please", "I want to kill myself")
    marked = language.marks(talks(kind, ("hi", "hey", "i want to kill myself")))
    assert marked["crisis"].to_list() == [False, True]
    assert marked["language"][0] == "en"


def test_a_disclosure_is_marked_however_it_is_typed():
    """The rule finds the same in a text alone and among many: the cheap search before it overlooks nothing."""
    disclosures = [line[2:] for line in LINES if line.startswith("+")]
    disclosures += filter(language.crisis, samples("language")["crisis"])
    disclosures += ["I don't wanna live anymore", "i want to  kill myself", "i feel\u00a0suicidal\ttonight"]
    assert language.marks(talks(*([text] for text in disclosures)))["crisis"].all()
