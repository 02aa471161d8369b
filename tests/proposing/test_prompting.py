"""The conditions under which a model's claim becomes a proposal."""

import json
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import given, strategies as st

from saferec_builder.core import taxonomy as traits
from saferec_builder.proposing import model_answers, prompting as propose
from saferec_builder.proposing.rules import matcher as rules
from saferec_builder.storage import tables
from tests.worlds.model_replies import answer

TAXONOMY, BY = traits.load(), ("m", "v")
TURNS = (
    ("seeker", "🙂 Ever since the accident\nI can't  watch hospital scenes."),
    ("recommender", "How about a war film with blood?"),
    ("seeker", "My sister hates blood."),
)
TALK = propose.Subject("sensitivity", "c1", "d1", TURNS)
PLOT = propose.Subject("item_flag", "i1", "d2", (("plot", "The dog dies on the second page."),))


def claim(trait: str = "medical_trauma", **changes: Any) -> dict[str, Any]:
    evidence = [{"turn": 0, "quote": "can't  watch hospital scenes"}]
    fields = {"trait": trait, "evidence": evidence, "form": "explicit", "verdict": "present", "confidence": 80}
    return fields | changes


def read(*claims: dict[str, Any], subject: propose.Subject = TALK, **options: Any) -> propose.Reading:
    return propose.read_reply(subject, answer(*claims), TAXONOMY, BY, **options)


# ---- the request


def test_the_taxonomy_comes_first_and_is_the_same_for_all() -> None:
    request, other = (propose.build_request(s, TAXONOMY) for s in (TALK, propose.Subject("sensitivity", "c2", "d", ())))
    assert [m["role"] for m in request["messages"]] == ["system", "user"]
    assert request["messages"][0] == other["messages"][0]
    assert request["response_format"] == other["response_format"]
    prompt = request["messages"][0]["content"]
    assert all(f"- {t.slug}: {t.definition}" in prompt for t in TAXONOMY.traits) and "{traits}" not in prompt
    item = propose.build_request(PLOT, TAXONOMY)["messages"][0]["content"]
    assert item != prompt and "- gore: " in item


@given(st.text())
def test_a_turn_is_one_line_that_can_be_read_back(text: str) -> None:
    line = propose._data_line(3, "seeker", text)
    assert json.loads(line) == {"turn": 3, "role": "seeker", "text": text}
    assert line.isprintable() and not set(line) & set("<>[]")


def test_the_schema_is_what_every_server_reads() -> None:
    schema = propose.schema(TAXONOMY)
    assert schema["properties"]["claims"]["items"]["properties"]["trait"]["enum"] == list(TAXONOMY.slugs)
    assert "$ref" not in json.dumps(schema)

    def objects(node: Any) -> list[Any]:
        parts = node.values() if isinstance(node, dict) else node if isinstance(node, list) else []
        inner = [child for part in parts for child in objects(part)]
        return [node, *inner] if isinstance(node, dict) and node.get("type") == "object" else inner

    assert len(objects(schema)) == 3  # the answer, a claim, a quote
    for node in objects(schema):  # OpenAI's strict mode requires this
        assert node["additionalProperties"] is False
        assert set(node["required"]) == set(node["properties"])


def test_who_watches_along_counts_for_models_rules_and_reviewers() -> None:
    """The prompt wanted no friend or relative, whoever was watching; what models passed by no reviewer was asked."""
    prompt = propose.build_request(TALK, TAXONOMY)["messages"][0]["content"]
    assert "says of themselves, or of somebody who watches along" in prompt
    assert "somebody who will be watching along" in files("annotation").joinpath("guidelines.md").read_text("utf-8")
    assert rules.claimed("Something funny? My wife, who watches along, can't stand needles.") == {"needles"}


# ---- evidence


def test_evidence_is_located_in_code_points() -> None:
    proposal = read(claim()).proposals[0]
    # the emoji counts as one: 1 + " Ever since the accident" 24 + line break 1 + "I " 2 = 28; the quote has 28 more
    text = TALK.turns[0][1]
    assert proposal["spans"] == [{"turn": 0, "start": 28, "end": 56, "quote": "can't  watch hospital scenes"}]
    assert text[28:56] == "can't  watch hospital scenes"
    assert (proposal["verdict"], proposal["form"], proposal["confidence"]) == ("present", "explicit", 0.8)


@given(st.text(), st.text(min_size=1), st.text())
def test_a_verbatim_quote_is_found(before: str, quote: str, after: str) -> None:
    text = f"{before} {quote} {after}"
    place = propose.locate(text, quote)
    if sum(c.isalnum() for c in quote) < 2:
        assert place is None
    else:
        assert place is not None and text[slice(*place)] == quote.strip()


@pytest.mark.parametrize("quote", ["hospitals", "watch scenes", "can t watch", "", " ", "I", "."])
def test_what_the_text_does_not_say_is_not_found(quote: str) -> None:
    assert propose.locate(TALK.turns[0][1], quote) is None


@pytest.mark.parametrize(
    ("text", "quote", "place"),
    [
        ("My wardrobe came. Please no war.", "war", (28, 31)),
        ("My wardrobe came. Please no War", "war.", (28, 31)),
        ("I love grapes and my therapist", "rape", None),
        ("At 1984 Road", "84", None),
        ("so-called 'war-film'", "war", (11, 14)),
        ("No «война»", "война", (4, 9)),
        ("Тигровойна", "война", None),
        ("我怕血腥的电影", "血腥", (2, 4)),  # no spaces between words
        ("ไม่ชอบเลือดเลย", "เลือด", (6, 11)),
        ("전쟁이 싫어", "전쟁", (0, 2)),
        ("我讨厌war电影", "war", (3, 6)),
        ("No cafe\u0301 tonight", "café tonight", (3, 16)),
        ("No café tonight", "cafe\u0301 tonight", (3, 15)),
        ("No gore… please", "gore... please", (3, 15)),
        ("No gore... please", "gore… please", (3, 17)),
        ("I **really** can't", "I really can't", (0, 18)),  # Markdown, as on Reddit
        ("No cafe\u0301 tonight", "cafe", None),
        ("No café tonight", "No cafe", None),
    ],
)
def test_a_quote_is_no_part_of_a_word(text: str, quote: str, place: tuple[int, int] | None) -> None:
    """An invented "rape" was found in "grapes", and accepted as evidence."""
    assert propose.locate(text, quote) == place


@pytest.mark.parametrize("quote", ["can’t watch", "CAN'T WATCH", "“can't watch…”", "can't watch.", "Can‘t\nwatch,"])
def test_a_quote_as_models_write_it_is_the_text_as_it_stands(quote: str) -> None:
    text = TALK.turns[0][1]
    assert text[slice(*propose.locate(text, quote) or (0, 0))] == "can't  watch"
    curly = "İ “I won’t — ever — watch That”"  # a letter that grows in lower case shifts no place after it
    assert curly[slice(*propose.locate(curly, "i won't - ever - watch that.") or (0, 0))] == curly[3:-1]


ONE_IS_NOT_THERE = [{"turn": 0, "quote": "hospital scenes"}, {"turn": 0, "quote": "and needles"}]


@pytest.mark.parametrize(
    ("reason", "bad"),
    [
        ("quote not found", claim(evidence=[{"turn": 0, "quote": "I hate hospitals"}])),
        ("quote not found", claim(evidence=ONE_IS_NOT_THERE)),
        ("no such turn", claim(evidence=[{"turn": 3, "quote": "hospital"}])),
        ("not the seeker's words", claim("gore", evidence=[{"turn": 1, "quote": "blood"}])),
        ("no evidence", claim(evidence=[])),
        ("no form", claim(form="none")),
    ],
)
def test_a_claim_that_does_not_hold_is_counted_and_the_others_stay(reason: str, bad: dict[str, Any]) -> None:
    valid = claim("accidents_disasters", evidence=[{"turn": 0, "quote": "Ever since the accident"}], form="implicit")
    reading = read(bad, valid)
    assert dict(reading.rejected) == {reason: 1}
    assert [(row["trait"], row["form"]) for row in reading.proposals] == [("accidents_disasters", "implicit")]


def test_unsure_needs_evidence_and_absent_does_not() -> None:
    reading = read(claim("gore", verdict="unsure", evidence=[]), claim("needles", verdict="absent", evidence=[]))
    assert [(row["trait"], row["verdict"], row["form"]) for row in reading.proposals] == [("needles", "absent", None)]


def test_a_trait_is_claimed_once() -> None:
    reading = read(claim(), claim(verdict="absent"))
    assert [row["verdict"] for row in reading.proposals] == ["present"]
    assert dict(reading.rejected) == {"trait claimed twice": 1}


def test_an_item_is_flagged_from_its_plot_where_no_verdict_is_known() -> None:
    flag = claim("animal_harm", evidence=[{"turn": 0, "quote": "The dog dies"}])
    assert read(flag, subject=PLOT).proposals[0]["kind"] == "item_flag"
    reading = read(flag, subject=PLOT, settled=frozenset({"animal_harm"}))
    assert (reading.proposals, dict(reading.rejected)) == ([], {"verdict known": 1})


def test_what_is_off_the_schema_in_an_answer_is_counted_and_the_rest_stays() -> None:
    reading = read(claim("sadness"), claim(verdict="maybe"), claim(note="x"))
    assert [row["trait"] for row in reading.proposals] == ["medical_trauma"]
    assert dict(reading.rejected) == {"not in the taxonomy": 1, "off schema": 1}
    fault = model_answers.off_schema(answer(claim("I lost my brother")), TAXONOMY)
    assert fault == "off schema: trait: not in the taxonomy"  # it is printed: no words of the seeker in it


def test_proposals_fit_their_table() -> None:
    frame = tables.check(propose.proposal_rows([read(claim()), read()]), tables.PROPOSALS)
    row = frame.row(0, named=True)
    unit = ("sensitivity", "c1", "medical_trauma", "d1", *BY, TAXONOMY["medical_trauma"].wording)
    assert row["proposal"] == tables.digest(*unit)
    assert tables.check(propose.proposal_rows([read()]), tables.PROPOSALS).height == 0
