"""Builds the prompt for a model and reads its reply: a claim counts only if its quote is found in the text.

The text of a conversation cannot change how it is read: it is one JSON string per turn between two markers that it
cannot contain, the answer is bound to a schema, traits come from the taxonomy and evidence from the text.
"""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl

from saferec_builder.core.errors import UsageError
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.llm import Body
from saferec_builder.proposing import model_answers
from saferec_builder.proposing.model_answers import Answer, Claim
from saferec_builder.proposing.text_units import Proposal, Subject, orders, proposal
from saferec_builder.storage import evidence_check as evidence, tables
from saferec_builder.storage.schema import Span

EMBEDDED = Path(__file__).with_name("prompts") / "propose-v2.md"
SECTIONS = {"sensitivity": "conversation", "item_flag": "item"}

_MARKUP = re.compile("[<>\\[\\]\ufe00-\ufe0e\U000e0100-\U000e01ef\u115f\u1160\u3164\uffa0]")


@dataclass
class Reading:
    """The result for one subject: rows of tables.PROPOSALS, and the number of rejected claims by reason."""

    proposals: list[Proposal]
    rejected: Counter[str]


# ---- the request


@dataclass(frozen=True)
class Prompt:
    """A prompt file: the instructions per section, and the version that its readings carry."""

    version: str  # from name and text of the file: a changed prompt counts as another proposer
    sections: tuple[tuple[str, str], ...]

    def instructions(self, kind: str, taxonomy: Taxonomy) -> str:
        traits = "\n".join(f"- {t.slug}: {t.definition} {t.hint}".rstrip() for t in taxonomy.traits)
        return dict(self.sections)[SECTIONS[kind]].replace("{traits}", traits).strip()


def prompt(path: Path = EMBEDDED) -> Prompt:
    """Reads the sections `# conversation` and `# item` of a file, each with a place for the traits.

    The file is read at each call, so that an edit is seen; it is parsed again only when its text has changed.
    """
    try:
        return _parsed(path, path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as fault:
        raise UsageError(f"{path}: the prompt cannot be read: {fault}") from None


@lru_cache(maxsize=8)
def _parsed(path: Path, text: str) -> Prompt:
    head, *parts = re.split(r"^# (\w+)\n", text, flags=re.M)
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    for name in SECTIONS.values():
        if "{traits}" not in sections.get(name, ""):
            raise UsageError(f"{path}: expected a section `# {name}` with {{traits}} in it: see docs/proposing.md")
    if head.strip() or sorted(parts[::2]) != sorted(SECTIONS.values()):
        names = ", ".join([*(["text before the first one"] if head.strip() else []), *(f"# {n}" for n in parts[::2])])
        raise UsageError(
            f"{path}: found {names}: expected # conversation and # item, each once and nothing beside them: "
            "no model would read it; give headings inside a section two marks (##)"
        )
    return Prompt(f"{path.stem}-{tables.digest(text)[:8]}", tuple(sections.items()))


def build_request(subject: Subject, taxonomy: Taxonomy, chosen: Prompt | None = None) -> Body:
    """Body of a chat completion without model and sampling: the same first message for all, then the text as data."""
    system, answer = _fixed(subject.kind, taxonomy, chosen or prompt())
    lines = "\n".join(_data_line(n, role, text) for n, (role, text) in enumerate(subject.turns))
    user = f"<data>\n{lines}\n</data>\nAnswer with the JSON object for this data."
    return {"messages": [system, {"role": "user", "content": user}], "response_format": answer}


_FIXED: dict[tuple[str, str, str], tuple[Body, Body]] = {}


def _fixed(kind: str, taxonomy: Taxonomy, chosen: Prompt) -> tuple[Body, Body]:
    """The first message and the response format, which all requests of a kind share; built once."""
    key = (kind, taxonomy.digest, chosen.version)
    if key not in _FIXED:
        form: Body = {"name": "claims", "strict": True, "schema": schema(taxonomy)}
        system: Body = {"role": "system", "content": chosen.instructions(kind, taxonomy)}
        _FIXED[key] = system, {"type": "json_schema", "json_schema": form}
    return _FIXED[key]


def _data_line(number: int, role: str, text: str) -> str:
    """One JSON object on one line, with markup, invisible and control characters as escapes.

    So no text can close the data, forge a turn or a model's control token (`<|...|>`, `[INST]`), or be invisible.
    """
    line = json.dumps({"turn": number, "role": role, "text": text}, ensure_ascii=False)
    line = _MARKUP.sub(lambda match: _escape(match[0]), line)
    return line if line.isprintable() else "".join(c if c.isprintable() else _escape(c) for c in line)


def _escape(c: str) -> str:
    return f"\\u{ord(c):04x}" if ord(c) <= 0xFFFF else json.dumps(c)[1:-1]


def schema(taxonomy: Taxonomy) -> dict[str, Any]:
    """JSON schema of `Answer` with the taxonomy's slugs, without references (not every server supports them)."""
    full = Answer.model_json_schema()
    built: dict[str, Any] = _inlined({k: v for k, v in full.items() if k != "$defs"}, full["$defs"])
    claims = built["properties"]["claims"]
    claims["maxItems"] = len(taxonomy.traits)
    claims["items"]["properties"]["trait"] = {"type": "string", "enum": list(taxonomy.slugs)}
    return built


def _inlined(node: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_inlined(part, definitions) for part in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _inlined(definitions[node["$ref"].rsplit("/", 1)[1]], definitions)
    # "title" is pydantic's label if it is text, and a property's name if it is a schema
    return {k: _inlined(v, definitions) for k, v in node.items() if k != "title" or not isinstance(v, str)}


# ---- the reply


def read_reply(
    subject: Subject,
    content: str,
    taxonomy: Taxonomy,
    by: tuple[str, str],
    settled: Collection[str] = (),
    asked: Collection[str] | None = None,
) -> Reading:
    """Reads a usable answer: valid claims become rows of tables.PROPOSALS, the others are counted by reason.

    by: the proposer, and the version of the prompt; settled: traits of an item on which the catalog already has a
    verdict; asked: the traits that the request was about, if not all.
    `present` becomes `unsure` if any turn gives orders: a model that obeys it may quote another turn as evidence.
    """
    answer = model_answers.read(content, taxonomy)
    rows: dict[str, Proposal] = {}
    rejected = answer.rejected
    suspect = bool(orders(subject))
    for claim in answer.claims:
        spans, fault = _evidence(claim, subject)
        if asked is not None and claim.trait not in asked:
            fault = "not asked"
        fault = "verdict known" if claim.trait in settled else "trait claimed twice" if claim.trait in rows else fault
        if fault:
            rejected[fault] += 1
            continue
        verdict = "unsure" if suspect and claim.verdict == "present" else claim.verdict
        rows[claim.trait] = proposal(
            (subject.kind, subject.subject, claim.trait, subject.digest),
            by,
            taxonomy.digest,
            taxonomy[claim.trait].wording,
            verdict=verdict,
            form=claim.form,
            spans=spans,
            confidence=claim.confidence / 100,
        )
    return Reading(list(rows.values()), rejected)


def _evidence(claim: Claim, subject: Subject) -> tuple[list[Span], str | None]:
    """Returns the claim's spans, or why it is rejected; one quote that is not in the text rejects the whole claim."""
    spans: dict[tuple[int, int, int], Span] = {}
    for cited in claim.evidence:
        if cited.turn >= len(subject.turns):
            return [], evidence.NO_TURN
        role, text = subject.turns[cited.turn]
        if role != evidence.SPEAKER[subject.kind]:
            return [], evidence.NOT_THEIRS
        place = locate(text, cited.quote)
        if place is None:
            return [], evidence.NOT_FOUND
        start, end = place
        spans[cited.turn, start, end] = {"turn": cited.turn, "start": start, "end": end, "quote": text[start:end]}
    if claim.verdict != "absent" and not spans:
        return [], "no evidence"
    if claim.verdict == "present" and claim.form == "none":
        return [], "no form"
    return [spans[key] for key in sorted(spans)], None


def locate(text: str, quote: str) -> tuple[int, int] | None:
    """The code points [start, end) of `quote` in `text`: an exact match, else one with other white space, else one that
    also ignores case, asterisks, kinds of quotation marks, dashes and ellipses, the composition of letters, and marks
    at the quote's ends.

    A single letter is no quote: it occurs in any text. Nor is a part of a word: "war" does not occur in "wardrobe". If
    words may be written together (not in Latin, Greek, Cyrillic or Armenian letters), a part counts if no word does.
    """
    quote = quote.strip()
    if len([*islice(filter(str.isalnum, quote), 2)]) < 2:
        return None
    for haystack, needle, places in _forms(text, quote):
        cuts, start = {}, haystack.find(needle)  # a pattern would take the square of the length of `aaaa...`
        while start >= 0:
            cuts[start] = max(_cut(haystack, start), _cut(haystack, start + len(needle)))
            start = haystack.find(needle, start + 1)
        if cuts and cuts[start := min(cuts, key=cuts.__getitem__)] < _IN_A_WORD:
            return places[start], places[start + len(needle) - 1] + 1
    return None


def _forms(text: str, quote: str) -> Iterator[tuple[str, str, Sequence[int]]]:
    """Yields (text, quote, place of each letter in the original text), each time with fewer differences left."""
    yield text, quote, range(len(text))
    words = [match.span() for match in re.finditer(r"\S+", text)]
    places = [n for a, b in words for n in range(a, b + 1)]
    flat, flat_quote = " ".join(text[a:b] for a, b in words), " ".join(quote.split())
    yield flat, flat_quote, places
    folded = [(c, n) for letter, n in zip(flat, places, strict=False) for c in _folded(letter)]
    yield "".join(c for c, _ in folded), "".join(map(_folded, flat_quote)).strip(_MARKS), [n for _, n in folded]


_MARKS = " .,;:!?'\"-()…"
_ALIKE: dict[int, int | str] = {
    **str.maketrans("‘’‚‛ʼ′`“”„‟″«»\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "'" * 7 + '"' * 7 + "-" * 7),
    **{ord("…"): "...", ord("*"): ""},  # Markdown's asterisks
}
_TOGETHER, _IN_A_WORD = 1, 2
_SPACED = re.compile("[\\d\u0000-\u058f\u1e00-\u1fff]")


def _folded(letter: str) -> str:
    """A letter without the differences that models make when they quote: plain marks, lower case, decomposed."""
    return unicodedata.normalize("NFD", letter.translate(_ALIKE).lower())


def _cut(text: str, place: int) -> int:
    """How bad an end of a quote at this place is: _IN_A_WORD, _TOGETHER (may be between words), or 0."""
    letters = text[max(0, place - 1) : place + 1]
    if len(letters) < 2 or not all(c.isalnum() or unicodedata.combining(c) for c in letters):
        return 0
    return _IN_A_WORD if all(map(_SPACED.match, letters)) else _TOGETHER


def proposal_rows(readings: Iterable[Reading]) -> pl.DataFrame:
    """tables.PROPOSALS rows of all readings."""
    return tables.PROPOSALS.frame(row for r in readings for row in r.proposals)


def with_evidence(
    proposals: pl.DataFrame, subjects: Iterable[Subject]
) -> tuple[pl.DataFrame, Counter[str], pl.DataFrame]:
    """Returns (proposals whose evidence is in the texts, the number of others by reason, the texts: evidence.TEXTS)."""
    rows = [
        (s.kind, s.subject, s.digest, [{"role": role, "text": text, "items": []} for role, text in s.turns])
        for s in subjects
    ]
    texts = pl.DataFrame(rows, schema=evidence.TEXTS, orient="row").unique(["kind", "subject", "digest"], keep="first")
    kept, rejected = evidence.split(proposals, texts)
    return kept, Counter(rejected["reason"].to_list()), texts


def in_current_wording(proposals: pl.DataFrame, taxonomy: Taxonomy) -> pl.DataFrame:
    """Rows of tables.PROPOSALS on traits of the taxonomy in its present wording; those of the rules in any wording."""
    wording = {t.slug: t.wording for t in taxonomy.traits}
    rows = proposals.filter(pl.col("trait").is_in(list(wording)))
    columns = rows.select("proposal", "kind", "subject", "trait", "digest", "proposer", "version")
    is_current = [
        by == "rules" or name == tables.digest(kind, subject, trait, text, by, made_by, wording[trait])
        for name, kind, subject, trait, text, by, made_by in columns.iter_rows()
    ]
    return rows.filter(pl.Series(is_current, dtype=pl.Boolean))
