"""Reads a model's answer as claims, also where it says the same in another form; evidence is checked later."""

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from saferec_builder.core.errors import fault_of
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.llm.answer_forms import json_in


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


MOST_QUOTES = 5
_TURN = r"\s*\d{1,4}(\.0)?\s*"  # some servers write every number as a float


class Quote(_Strict):
    turn: int = Field(ge=0, le=9_999)
    quote: str


class Claim(_Strict):
    trait: str
    evidence: list[Quote] = Field(max_length=MOST_QUOTES)
    form: Literal["explicit", "implicit", "none"]
    verdict: Literal["present", "absent", "unsure"]
    confidence: int = Field(ge=0, le=100)


class Answer(_Strict):
    claims: list[Claim]


@dataclass(frozen=True)
class Claims:
    """The readable claims of one answer, the number of others by reason, or why there are none."""

    claims: list[Claim] = field(default_factory=list)
    rejected: Counter[str] = field(default_factory=Counter)
    error: str | None = None


def read(content: str, taxonomy: Taxonomy) -> Claims:
    """Reads the claims of an answer. An answer off the schema gives an error; a single claim off it is counted."""
    rows = _rows(json_in(content))
    if rows is None:
        return Claims(error=f"off schema: answer: {fault_of(content) or 'no list of claims in it'}")
    claims: list[Claim] = []
    rejected: Counter[str] = Counter()
    problem, shares = "", _shares(rows)
    for row in rows:
        try:
            claim = Claim.model_validate(_normalized(row, taxonomy, shares=shares))
        except ValidationError as error:
            rejected["off schema"] += 1
            first = error.errors(include_url=False, include_input=False)[0]
            problem = f"{'.'.join(str(p) for p in first['loc'])}: {first['msg']}"
            continue
        if claim.trait in taxonomy.slugs:
            claims.append(claim)
        else:
            rejected["not in the taxonomy"] += 1
            problem = "trait: not in the taxonomy"  # `propose` prints it: no words of the answer
    return Claims(claims, rejected, f"off schema: {problem}" if rows and not claims else None)


def off_schema(content: str, taxonomy: Taxonomy) -> str | None:
    """What is wrong with an answer as a whole, or None. Checked here because a server may ignore the schema."""
    return read(content, taxonomy).error


def _rows(value: Any) -> list[Any] | None:
    """The list of claims: bare, inside an object of any name, or of several answers; None if there is none."""
    if isinstance(value, list) and any(isinstance(entry, dict) and "claims" in entry for entry in value):
        parts = [(_rows(entry) if isinstance(entry, dict) else None, entry) for entry in value]
        return [row for rows, entry in parts for row in ([entry] if rows is None else rows)]
    for _ in range(3):
        if not isinstance(value, dict):
            break
        if {"trait", "verdict"} <= value.keys():
            return [value]
        if "claims" in value:
            value = value["claims"] or []
        elif len(value) == 1:
            value = next(iter(value.values()))
    return value if isinstance(value, list) else None


def _normalized(row: Any, taxonomy: Taxonomy, *, shares: bool) -> Any:
    """A claim in the form that was asked for, if it means the same; other words, names and numbers are unchanged."""
    if not isinstance(row, dict):
        return row
    quotes = row.get("evidence") or []
    quotes = quotes if isinstance(quotes, list) else [quotes]
    return {
        "trait": _slug(row.get("trait"), taxonomy),
        "evidence": [_quote(quote) for quote in quotes[:MOST_QUOTES]],
        "form": _word(row.get("form") or "none"),
        "verdict": _word(row.get("verdict")),
        "confidence": _percent(row.get("confidence"), shares=shares),
    }


def _slug(trait: Any, taxonomy: Taxonomy) -> Any:
    if not isinstance(trait, str) or trait in taxonomy.slugs:
        return trait
    name = _folded(trait)
    return next((t.slug for t in taxonomy.traits if name in (_folded(t.name), _folded(t.slug))), trait)


def _quote(quote: Any) -> Any:
    if not isinstance(quote, dict):
        return quote
    turn = quote.get("turn")
    number = int(float(turn)) if isinstance(turn, str | float) and re.fullmatch(_TURN, str(turn)) else turn
    return {"turn": number, "quote": quote.get("quote")}


def _shares(rows: list[Any]) -> bool:
    """Whether an answer's confidences are from 0 to 1: at least one is a share, and none is more than 1."""
    numbers = [number for row in rows if isinstance(row, dict) and (number := _number(row.get("confidence")))]
    return any(is_share for _, is_share in numbers) and all(number <= 1 for number, _ in numbers)


def _percent(value: Any, *, shares: bool) -> Any:
    """80 for 80, 80.0, "80", "80 %", 0.8 or "0.8". A share has a point in it; 1 is one percent, or 100 among shares."""
    parsed = _number(value)
    if parsed is None:
        return value
    number, is_share = parsed
    return round(number * 100 if is_share or (shares and "%" not in str(value)) else number)


def _number(value: Any) -> tuple[float, bool] | None:
    """Returns (a number of up to three digits and a fraction, whether it is a share); None for anything else."""
    text = value.strip(" %") if isinstance(value, str) else repr(value)
    if not re.fullmatch(r"\d{1,3}(\.\d{1,20})?", text):
        return None
    return float(text), "." in text and float(text) <= 1 and "%" not in str(value)


def _word(value: Any) -> Any:
    return value.strip().lower() if isinstance(value, str) else value


def _folded(name: str) -> str:
    return re.sub(r"[\W_]+", "_", name.strip().lower())
