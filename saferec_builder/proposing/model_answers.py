"""A model's answer as claims: to the letter, or mended where it says the same in another form; evidence comes later."""

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
    """Of one answer: the claims that can be read, the others by reason, or why there are none."""

    claims: list[Claim] = field(default_factory=list)
    rejected: Counter[str] = field(default_factory=Counter)
    error: str | None = None


def read(content: str, taxonomy: Taxonomy) -> Claims:
    """The claims of an answer. One that is off the schema as a whole has an error; a claim that is, is counted."""
    rows = _rows(json_in(content))
    if rows is None:
        return Claims(error=f"off schema: answer: {fault_of(content) or 'no list of claims in it'}")
    kept: list[Claim] = []
    rejected: Counter[str] = Counter()
    last, shares = "", _shares(rows)
    for row in rows:
        try:
            claim = Claim.model_validate(_as_asked(row, taxonomy, shares=shares))
        except ValidationError as error:
            rejected["off schema"] += 1
            first = error.errors(include_url=False, include_input=False)[0]
            last = f"{'.'.join(str(p) for p in first['loc'])}: {first['msg']}"
            continue
        if claim.trait in taxonomy.slugs:
            kept.append(claim)
        else:
            rejected["not in the taxonomy"] += 1
            last = f"trait {claim.trait[:60]!r} is not in the taxonomy"
    return Claims(kept, rejected, f"off schema: {last}" if rows and not kept else None)


def off_schema(content: str, taxonomy: Taxonomy) -> str | None:
    """What is wrong with an answer as a whole, or None: a server may ignore the schema, so it is checked here."""
    return read(content, taxonomy).error


def _rows(found: Any) -> list[Any] | None:
    """The list of claims, bare or inside an object of another name, or of several answers; None where there is none."""
    if isinstance(found, list) and any(isinstance(one, dict) and "claims" in one for one in found):
        parts = [(_rows(one) if isinstance(one, dict) else None, one) for one in found]
        return [row for rows, one in parts for row in ([one] if rows is None else rows)]
    for _ in range(3):
        if not isinstance(found, dict):
            break
        if {"trait", "verdict"} <= found.keys():
            return [found]
        if "claims" in found:
            found = found["claims"] or []
        elif len(found) == 1:
            found = next(iter(found.values()))
    return found if isinstance(found, list) else None


def _as_asked(row: Any, taxonomy: Taxonomy, *, shares: bool) -> Any:
    """A claim in the form that was asked for, as far as it says the same: other words, names and numbers stay."""
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
    said = _folded(trait)
    return next((t.slug for t in taxonomy.traits if said in (_folded(t.name), _folded(t.slug))), trait)


def _quote(quote: Any) -> Any:
    if not isinstance(quote, dict):
        return quote
    turn = quote.get("turn")
    number = int(turn) if isinstance(turn, str) and re.fullmatch(r"\s*\d{1,4}\s*", turn) else turn
    return {"turn": number, "quote": quote.get("quote")}


def _shares(rows: list[Any]) -> bool:
    """Whether an answer rates from 0 to 1: one number is a share, and none is more than 1."""
    found = [number for row in rows if isinstance(row, dict) and (number := _number(row.get("confidence")))]
    return any(share for _, share in found) and all(number <= 1 for number, _ in found)


def _percent(value: Any, *, shares: bool) -> Any:
    """80 of 80, 80.0, "80", "80 %", 0.8 and "0.8": a share has a point in it, and 1 is one percent but among shares."""
    found = _number(value)
    if found is None:
        return value
    number, share = found
    return round(number * 100 if share or (shares and "%" not in str(value)) else number)


def _number(value: Any) -> tuple[float, bool] | None:
    """(a number of up to three digits and a fraction, whether it is a share); None of all else."""
    text = value.strip(" %") if isinstance(value, str) else repr(value)
    if not re.fullmatch(r"\d{1,3}(\.\d{1,20})?", text):
        return None
    return float(text), "." in text and float(text) <= 1 and "%" not in str(value)


def _word(value: Any) -> Any:
    return value.strip().lower() if isinstance(value, str) else value


def _folded(name: str) -> str:
    return re.sub(r"[\W_]+", "_", name.strip().lower())
