"""Converts tasks to Argilla records and its responses back: data sets per reviewer, a record per task.

record_of      sheet -> record with suggestions
responses_of   record with responses -> each person's response to it
questions      what a data set asks
"""

import html
import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from annotation.tools import task_conversion as sheets
from annotation.tools.task_conversion import Ours, Response, Sheet, list_of, marks_of, points, text_of, units16
from annotation.tools.tasks_and_answers import Turns
from saferec_builder.core.errors import strict_json
from saferec_builder.core.json_value import JsonValue
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.storage.schema import Span

LAYOUT = "cards"  # another word where the questions change: the server lets nobody change them in a data set
ADJUDICATOR = "adjudicator"
SIZES = (3, 8)  # cards of a data set, whose questions all its records share; with more cards there is one a trait
BETWEEN, FORMERLY = "\n", "\n\n"  # between turns; FORMERLY in data sets without cards
NO_CARD = "nothing is proposed"
CARD = re.compile(r"verdict_[1-9]\d{0,3}")
END = ("I have read it all, nothing else is there", "this is my decision")  # of a reader, of an adjudicator
NOTHING = "-"  # stands beside a trait that is alone, since a choice has two options at least there; no slug is like it
FIRST = 3  # traits that are shown at once
Places = list[tuple[int, int, int]]  # turn, where its text begins in the dialogue, its length; in code points


def place(mark: str, role: str, cards: int) -> str:
    """What begins the name of the workspace for somebody's tasks of so many cards."""
    return f"{mark} {LAYOUT} {role} {_size(cards) or 'many'}"


def _size(cards: int) -> int | None:
    """How many questions about cards the data set of such a task has; None: one a trait."""
    return next((size for size in SIZES if cards <= size), None)


def dialogue(turns: Turns, between: str = BETWEEN) -> tuple[str, Places]:
    """All turns as one text, and where each one's words stand in it.

    Blanks at the end make up for characters that a browser counts twice: the server counts them once, and would
    refuse a span that ends beyond its own count.
    """
    parts, places, at = [], [], 0
    for n, turn in enumerate(turns):
        head = f"{turn['role']}: "
        places.append((n, at + len(head), len(turn["text"])))
        parts.append(head + turn["text"])
        at += len(parts[-1]) + len(between)
    text = between.join(parts)
    return text + " " * (units16(text, len(text)) - len(text)), places


# ---- out


def record_of(sheet: Sheet, guideline: str, taxonomy: Taxonomy) -> dict[str, Any]:
    """What `send` takes; suggestions are by the name of their question."""
    sheets.check(sheet, taxonomy)
    text, places = dialogue(sheet.turns)
    openly = [trait for trait, (_, form, _) in sheet.suggested.items() if form == "explicit"]
    spans = [_outward(span, text, places, trait) for trait, (*_, found) in sheet.suggested.items() for span in found]
    cards = [
        f"{n}. {taxonomy[unit['trait']].name}: " + "\n".join(sheets.about(unit, sheet, taxonomy))
        for n, unit in enumerate(sheet.units, 1)
    ]
    end = f"Submit: {END[sheet.task.role == ADJUDICATOR]}. Discard: I would rather not see this."
    facts: dict[str, Any] = {"asked": sheet.asked, "guideline": guideline, "taxonomy": taxonomy.digest}
    facts |= {"shown": {trait: found for trait, (_, _, found) in sheet.suggested.items()}, "escaped": True}
    return {
        "external_id": sheet.key,
        "fields": {
            "ask": _escaped("\n".join(part for part in (sheet.head, sheet.ask, *cards, end) if part)),
            "dialogue": _escaped(text),
        },
        "metadata": {"saferec": json.dumps(facts, ensure_ascii=False)},
        "suggestions": {name: value for name, value in (("evidence", spans), ("openly", openly)) if value}
        | {f"verdict_{n + 1}": NO_CARD for n in range(len(cards), _size(len(cards)) or len(taxonomy.traits))},
    }


def _escaped(text: str) -> str:
    """Its page takes a text for HTML and runs what stands in it; in HTML's spelling it shows the very text, letter by
    letter, and the places that a browser counts are those in the text."""
    return html.escape(text, quote=False).replace("\r", "&#13;")


def _outward(span: Span, text: str, places: Places, trait: str) -> dict[str, JsonValue]:
    start, end = (places[span["turn"]][1] + span[edge] for edge in ("start", "end"))
    return {"start": units16(text, start), "end": units16(text, end), "label": trait}


# ---- in


def responses_of(
    record: dict[str, Any],
    people: Mapping[str, str],
    where: str,
    ours: Ours,
    key: str | None = None,
    *,
    cards: bool = True,
) -> Iterator[Response]:
    """One per response that was submitted or discarded; a draft is nobody's word yet. `key`: of the record as it was
    sent. `cards`: its data set has them; one of the version before asks for ticks, and how the task ends.

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
        given = row.get("values") or {}  # null where it was discarded
        values = {name: v.get("value") for name, v in given.items() if isinstance(v, dict)}
        response = Response(
            key=key,
            page=page,
            who=people.get(row["user_id"], f"user-{row['user_id'][:8]}"),
            place=f"argilla data set {where} record {record['id']}",
            asked=[t for t in list_of(facts.get("asked")) if isinstance(t, str)],
            present=[t for t in values.get("present") or [] if t != NOTHING],
            unsure=[t for t in values.get("unsure") or [] if t != NOTHING],
            note=values.get("note") or None,
            time=datetime.fromisoformat(row["updated_at"]).replace(tzinfo=UTC),
            guideline=text_of(facts.get("guideline")),
            taxonomy=text_of(facts.get("taxonomy")),
            shown=marks_of(facts.get("shown")),
        )
        gone = row["status"] == "discarded"
        if cards:
            said = {
                name: dict(sheets.CHOICES).get(str(value), "") for name, value in values.items() if CARD.fullmatch(name)
            }
            response.verdicts = {int(name.removeprefix("verdict_")) - 1: verdict for name, verdict in said.items()}
            response.outcome = sheets.RATHER_NOT if gone else sheets.READ
        else:
            response.outcome = sheets.SKIPPED if gone else str(values.get("outcome") or "")
        for span in values.get("evidence") or []:
            _inward(span, dialogue(turns, BETWEEN if cards else FORMERLY), turns, there, response)
        openly, named = set(values.get("openly") or []), {*response.asked, *response.present, *response.spans}
        response.forms = {t: "explicit" if t in openly else "implicit" for t in named}
        yield response


def _inward(span: dict[str, Any], whole: tuple[str, Places], turns: Turns, there: str, response: Response) -> None:
    """A span may run over several turns: one in each of the seeker's. Words that are no turn's (a role's name) are left
    out. `there`: what the server showed."""
    text, places = whole
    start, end = points(text, span["start"]), points(text, span["end"])
    found: list[Span] = []
    for turn, begin, length in places:
        found += sheets.words_at(turn, turns[turn]["text"], max(start - begin, 0), max(min(end - begin, length), 0))
    ours = found and there[start:end] == text[start:end]
    other = None if ours else there[points(there, span["start"]) : points(there, span["end"])]
    sheets.take_mark(response, span["label"], found, turns, other)


def questions(taxonomy: Taxonomy, cards: int = SIZES[0]) -> list[dict[str, Any]]:
    """A question for each card, which must be answered, then what anything else needs. All records of a data set share
    them: where a record has fewer cards, the others come answered with NO_CARD."""
    options = [
        {"value": t.slug, "text": t.name, "description": f"{t.name}: {t.definition}"[:500]} for t in taxonomy.traits
    ]
    ticked = options if len(options) > 1 else [*options, {"value": NOTHING, "text": "nothing else"}]
    first = {"visible_options": FIRST} if len(options) > FIRST else {}  # the others behind a click, or a search
    many: dict[str, Any] = {"type": "multi_label_selection", "options": ticked, **first}
    span: dict[str, Any] = {"type": "span", "field": "dialogue", "allow_overlapping": True, "options": options, **first}
    answers: dict[str, Any] = {
        "type": "label_selection",
        "options": [{"value": word, "text": word} for word in (*dict(sheets.CHOICES), NO_CARD)],
    }
    asked = [(f"verdict_{n}", f"Proposal {n}", answers) for n in range(1, cards + 1)]
    asked += [
        ("evidence", "Words that show it, or something else: click its name, drag over the words", span),
        ("openly", "Which of these do they say openly? The others are implied", many | {"options_order": "suggestion"}),
        ("present", "Also there, without words that show it (a film or game)", many),
        ("unsure", "Unsure about something else", many),
        ("note", "A note for the team; it is never published", {"type": "text", "use_markdown": False}),
    ]
    return [
        {"name": n, "title": title, "settings": settings, "required": settings is answers}
        for n, title, settings in asked
    ]
