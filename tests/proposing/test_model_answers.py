"""A model's answer is read literally, or mended if the meaning is the same; nothing is added to it."""

import json
from typing import Any

import pytest

from saferec_builder.core import taxonomy as traits
from saferec_builder.proposing import model_answers

TAXONOMY = traits.load()
QUOTE = {"turn": 0, "quote": "hospital"}
CLAIM: dict[str, Any] = {
    **{"trait": "medical_trauma", "evidence": [QUOTE], "form": "explicit", "verdict": "present", "confidence": 80}
}


def read(**changes: Any) -> model_answers.Claims:
    return model_answers.read(json.dumps({"claims": [CLAIM | changes]}), TAXONOMY)


@pytest.mark.parametrize(
    ("changes", "is_read_as"),
    [
        *(({"confidence": said}, {"confidence": 80}) for said in (80.0, 0.8, "80", "80 %", "0.8", "80.2")),
        *(({"confidence": said}, {"confidence": n}) for said, n in ((1, 1), (1.0, 100), (0, 0), ("1", 1), ("0.5%", 0))),
        *(({"trait": said}, {}) for said in ("Medical trauma", "MEDICAL_TRAUMA", " medical-trauma ")),
        ({"verdict": "Present", "form": "EXPLICIT "}, {}),
        ({"form": None, "verdict": "absent"}, {"form": "none", "verdict": "absent"}),
        ({"evidence": QUOTE}, {}),
        ({"evidence": [{"turn": "0", "quote": "hospital", "why": "x"}]}, {}),
        ({"evidence": [{"turn": 0.0, "quote": "hospital"}]}, {}),
        ({"evidence": [QUOTE] * 7}, {"evidence": [QUOTE] * 5}),
        ({"evidence": None}, {"evidence": []}),
        ({"note": "x"}, {}),
    ],
)
def test_the_same_in_another_form(changes: dict[str, Any], is_read_as: dict[str, Any]) -> None:
    claims = read(**changes)
    assert claims.error is None and [c.model_dump() for c in claims.claims] == [CLAIM | is_read_as]


@pytest.mark.parametrize(
    ("said", "are"),
    [
        *(([0.9, 1], [90, 100]), ([0.5, "1"], [50, 100]), ([0.0, 1], [0, 100]), ([0.9, "1%"], [90, 1])),
        *(([1, 1], [1, 1]), ([100, 1], [100, 1]), ([0.9, 1, 80], [90, 1, 80]), ([0.9, "high", 1], [90, 100])),
    ],
)
def test_one_among_shares_is_the_whole(said: list[Any], are: list[int]) -> None:
    """Beside 0.9, a 1 was read as one percent: the surest claim became the least sure."""
    result = model_answers.read(json.dumps({"claims": [CLAIM | {"confidence": value} for value in said]}), TAXONOMY)
    assert [claim.confidence for claim in result.claims] == are


OFF = [
    *({"trait": "sadness"}, {"trait": 7}, {"verdict": "maybe"}, {"verdict": None}, {"form": "both"}),
    *({"confidence": 101}, {"confidence": "high"}, {"confidence": -1}, {"confidence": True}, {"confidence": None}),
    *({"evidence": "hospital"}, {"evidence": [{"turn": -1, "quote": "x"}]}, {"evidence": [{"turn": 0, "start": 3}]}),
]


@pytest.mark.parametrize("changes", OFF)
def test_what_says_something_else_is_no_claim(changes: dict[str, Any]) -> None:
    claims = read(**changes)
    assert claims.claims == [] and (claims.error or "").startswith("off schema: ") and claims.rejected.total() == 1


BOTH = json.dumps(CLAIM)


@pytest.mark.parametrize(
    ("content", "claims"),
    [
        *((text, 0) for text in ('{"claims": []}', "[]", '{"claims": null}', '{"claims": [], "note": "hi"}')),
        *((f"```json\n{text}\n```", 1) for text in (f"[{BOTH}]", BOTH, f'{{"claims": [{BOTH}]}}')),
        (f'{{"answer": {{"claims": [{BOTH}]}}}}', 1),
        (f'[{{"claims": [{BOTH}]}}, {{"claims": []}}, {{"claims": [{BOTH}]}}]', 2),  # from several calls of a tool
        (f'[{{"claims": [{BOTH}]}}, 7]', 1),
        *((text, None) for text in ("", "fine", '{"claims": []', '{"claims": "none"}', '{"a": [], "b": []}', "7")),
        (f'{{"claims": [{BOTH[:-1]}, "verdict": "absent"}}]}}', None),  # `present` and `absent` make no claim
        ("{'claims': [], 'claims': []}", None),
    ],
)
def test_the_list_is_found_where_it_stands_once(content: str, claims: int | None) -> None:
    result = model_answers.read(content, TAXONOMY)
    assert result.error is None if claims is not None else (result.error or "").startswith("off schema: ")
    assert len(result.claims) == (claims or 0) and model_answers.off_schema(content, TAXONOMY) == result.error
