"""Converts tasks to Argilla records and its responses back: a data set per reviewer, a record per task.

record_of      sheet -> record with suggestions
responses_of   record with responses -> each person's response to it
questions      what a data set asks
"""

import html
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from annotation.tools import task_conversion as sheets
from annotation.tools.quotes import only
from annotation.tools.task_conversion import Ours, Response, Sheet, list_of, marks_of, points, text_of, theirs, units16
from annotation.tools.tasks_and_answers import Span, Turns
from saferec_builder.core.errors import ReviewError, strict_json
from saferec_builder.core.json_value import JsonValue
from saferec_builder.core.taxonomy import Taxonomy

BETWEEN = "\n\n"
NOTHING = "-"  # stands beside a trait that is alone, since a choice has two options at least there; no slug is like it
FIRST = 5  # options that are shown at once, what was proposed before all others
Places = list[tuple[int, int, int]]  # turn, where its text begins in the dialogue, its length; in code points


def dialogue(turns: Turns) -> tuple[str, Places]:
    """All turns as one text, and where each one's words stand in it.

    Blanks at the end make up for characters that a browser counts twice: the server counts them once, and would
    refuse a span that ends beyond its own count.
    """
    parts, places, at = [], [], 0
    for n, turn in enumerate(turns):
        head = f"{turn['role']}: "
        places.append((n, at + len(head), len(turn["text"])))
        parts.append(head + turn["text"])
        at += len(parts[-1]) + len(BETWEEN)
    text = BETWEEN.join(parts)
    return text + " " * (units16(text, len(text)) - len(text)), places


# ---- out


def record_of(sheet: Sheet, guideline: str, taxonomy: Taxonomy) -> dict[str, Any]:
    """What `send` takes; suggestions are by the name of their question."""
    text, places = dialogue(sheet.turns)
    spans: list[dict[str, JsonValue]] = []
    present: list[str] = []
    unsure: list[str] = []
    openly: list[str] = []
    for trait, (verdict, form, found) in sheet.suggested.items():
        if trait not in taxonomy.slugs:
            raise ReviewError(f"{sheet.key}: {trait}: not in the taxonomy: propose again")
        (present if verdict == "present" else unsure).append(trait)
        openly += [trait] * (form == "explicit")
        spans += [_outward(span, text, places, trait, sheet) for span in found]
    rulings = [
        f"{taxonomy[unit['trait']].name} ({unit['trait']}): {line}"
        for unit in sheet.units
        for line in sheets.opinions(unit)
    ]
    facts: dict[str, Any] = {"asked": sheet.asked, "guideline": guideline, "taxonomy": taxonomy.digest}
    facts |= {"shown": {trait: found for trait, (_, _, found) in sheet.suggested.items()}, "escaped": True}
    suggestions = {"evidence": spans, "present": present, "unsure": unsure, "openly": openly}
    return {
        "external_id": sheet.key,
        "fields": {
            "ask": _escaped("\n".join(part for part in (sheet.head, sheet.ask, *rulings) if part)),
            "dialogue": _escaped(text),
        },
        "metadata": {"saferec": json.dumps(facts, ensure_ascii=False)},
        "suggestions": {name: value for name, value in suggestions.items() if value},
    }


def _escaped(text: str) -> str:
    """Its page takes a text for HTML and runs what stands in it; in HTML's spelling it shows the very text, letter by
    letter, and the places that a browser counts are those in the text."""
    return html.escape(text, quote=False).replace("\r", "&#13;")


def _outward(span: Span, text: str, places: Places, trait: str, sheet: Sheet) -> dict[str, JsonValue]:
    start = places[span["turn"]][1] + span["start"]
    end = start + span["end"] - span["start"]
    if text[start:end] != span["quote"]:
        raise ReviewError(f"{sheet.key}: the quote {span['quote'][:60]!r} is not in its turn: propose again")
    return {"start": units16(text, start), "end": units16(text, end), "label": trait}


# ---- in


def responses_of(
    record: dict[str, Any], people: Mapping[str, str], where: str, ours: Ours, key: str | None = None
) -> Iterator[Response]:
    """One per response that was submitted or discarded; a draft is nobody's word yet. `key`: of the record as it was
    sent.

    Places are read in our own text, which `ours` gives: what the server shows may have been edited there.
    """
    record = sheets.whole(record)
    try:
        facts = strict_json((record.get("metadata") or {}).get("saferec") or "{}")
    except (ValueError, TypeError, RecursionError):
        facts = {}
    facts = facts if isinstance(facts, dict) else {}
    key = key or str(record.get("external_id"))
    turns, page = ours(key), sheets.page_digest(record["fields"])
    there = record["fields"].get("dialogue") or ""
    there = html.unescape(there) if facts.get("escaped") is True else there  # not so before Argilla's page was tried
    for row in sorted(record.get("responses") or [], key=lambda r: r["updated_at"]):
        if row["status"] == "draft":
            continue
        values = {name: v["value"] for name, v in (row.get("values") or {}).items()}  # null where it was discarded
        response = Response(
            key=key,
            page=page,
            who=people.get(row["user_id"], f"user-{row['user_id'][:8]}"),
            place=f"argilla data set {where} record {record['id']}",
            outcome="skipped" if row["status"] == "discarded" else str(values.get("outcome") or ""),
            asked=[t for t in list_of(facts.get("asked")) if isinstance(t, str)],
            present=[t for t in values.get("present") or [] if t != NOTHING],
            unsure=[t for t in values.get("unsure") or [] if t != NOTHING],
            note=values.get("note") or None,
            time=datetime.fromisoformat(row["updated_at"]).replace(tzinfo=UTC),
            guideline=text_of(facts.get("guideline")),
            taxonomy=text_of(facts.get("taxonomy")),
            shown=marks_of(facts.get("shown")),
        )
        openly = set(values.get("openly") or [])
        response.forms = {t: "explicit" if t in openly else "implicit" for t in response.present}
        for span in values.get("evidence") or []:
            _inward(span, turns, there, response)
        yield response


def _inward(span: dict[str, Any], turns: Turns, there: str, response: Response) -> None:
    """A span may run over several turns: one in each of the seeker's. Words that are no turn's (a role's name) are left
    out; it is lost where the server showed other words (`there`) at its place."""
    text, places = dialogue(turns)
    trait, start, end = span["label"], points(text, span["start"]), points(text, span["end"])
    found: list[Span] = []
    for turn, begin, length in places:
        a, b = max(start, begin), min(end, begin + length)
        quote = text[a:b]
        a, b = a + len(quote) - len(quote.lstrip()), b - len(quote) + len(quote.rstrip())
        if a < b:
            found.append({"turn": turn, "start": a - begin, "end": b - begin, "quote": text[a:b]})
    if not found or there[start:end] != text[start:end]:
        quote = there[points(there, span["start"]) : points(there, span["end"])]
        if moved := only(quote, turns):
            found = [moved]
        else:
            response.lost[trait] = quote
    response.spans.setdefault(trait, []).extend(theirs(found, turns))


def questions(taxonomy: Taxonomy) -> list[dict[str, Any]]:
    """The same questions as Label Studio's interface asks; `openly` stands for the form of each span."""
    options = [
        {"value": t.slug, "text": t.name, "description": f"{t.name}: {t.definition}"[:500]} for t in taxonomy.traits
    ]
    shown = {"visible_options": len(options)} if len(options) > 2 else {}  # a smaller number is refused
    ticked = options if len(options) > 1 else [*options, {"value": NOTHING, "text": "nothing else"}]
    first = {"visible_options": FIRST} if len(options) > FIRST else shown  # the others behind a click, or a search
    many = {"type": "multi_label_selection", "options": ticked, "options_order": "suggestion", **first}
    last = [{"value": word, "text": word} for word in (sheets.READ, sheets.RATHER_NOT)]
    span = {"type": "span", "field": "dialogue", "allow_overlapping": True, "options": options, **shown}
    asked = (
        ("evidence", "1. Read it all. 2. Mark the words that show it", span, False),
        ("present", "3. Present (what you leave unticked is absent)", many, False),
        ("openly", "Which of these do they say openly? The others are implied", many, False),
        ("unsure", "Unsure", many, False),
        ("note", "A note for the team; it is never published", {"type": "text", "use_markdown": False}, False),
        ("outcome", "4. And then", {"type": "label_selection", "options": last}, True),
    )
    return [{"name": n, "title": title, "settings": s, "required": need} for n, title, s, need in asked]
