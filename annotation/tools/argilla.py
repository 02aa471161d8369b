"""Converts tasks to Argilla records, and Argilla responses to ours: one record per task, data sets per reviewer."""

import html
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from annotation.tools import task_conversion
from annotation.tools.task_conversion import Ours, Response, Sheet, numbered, points, units16
from annotation.tools.tasks_and_answers import Turns
from saferec_builder.core.json_value import JsonValue
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.storage.schema import Span

LAYOUT = "cards"  # change it when answers are read in another way: data sets with other questions are replaced anyway
ADJUDICATOR = "adjudicator"
SIZES = (3, 8)  # cards per data set, as its records share the questions; for more cards: one per trait
BETWEEN = "\n"  # between turns
NO_CARD = "nothing is proposed"
CARD = re.compile(r"verdict_[1-9]\d{0,3}")
END = ("I have read it all, nothing else is there", "this is my decision")  # for a reader, for an adjudicator
NOTHING = "-"  # the option that stands for no trait: Argilla wants two options at least; no slug looks like it
FIRST = 3  # traits that are shown without a click
Places = list[tuple[int, int, int]]  # turn, start of its text in the dialogue, length; in code points


def place(mark: str, role: str, cards: int) -> str:
    """The beginning of the workspace's name, for one person's tasks with this many cards."""
    return f"{mark} {LAYOUT} {role} {_size(cards) or 'many'}"


def _size(cards: int) -> int | None:
    """How many card questions the data set for such a task has; None: one per trait."""
    return next((size for size in SIZES if cards <= size), None)


def dialogue(turns: Turns) -> tuple[str, Places]:
    """All turns as one text, and the place of each turn's words in it.

    Spaces at the end make up for characters that a browser counts twice: the server counts them once, and would
    refuse a span that ends beyond its own count.
    """
    parts, places, start = [], [], 0
    for n, turn in enumerate(turns):
        prefix = f"{turn['role']}: "
        places.append((n, start + len(prefix), len(turn["text"])))
        parts.append(prefix + turn["text"])
        start += len(parts[-1]) + len(BETWEEN)
    text = BETWEEN.join(parts)
    return text + " " * (units16(text, len(text)) - len(text)), places


# ---- out


def record_of(sheet: Sheet, taxonomy: Taxonomy) -> dict[str, Any]:
    """The record that `send` takes; suggestions are keyed by the name of their question."""
    task_conversion.check(sheet, taxonomy)
    text, places = dialogue(sheet.turns)
    ruling = sheet.task.role == ADJUDICATOR
    labels = {trait: numbered(n) if ruling else trait for n, trait in enumerate(sheet.asked, 1)}
    forms = {labels[trait]: form for trait, (_, form, _) in sheet.suggested.items() if form}
    openly = [label for label, form in forms.items() if form == "explicit"] or [NOTHING] * bool(forms)
    spans = [_suggestion(s, text, places, labels[t]) for t, (*_, marks) in sheet.suggested.items() for s in marks]
    cards = [
        f"{n}. {taxonomy[unit['trait']].name}: " + "\n".join(task_conversion.about(unit, sheet, taxonomy))
        for n, unit in enumerate(sheet.units, 1)
    ]
    end = f"Submit: {END[ruling]}. Discard: I would rather not see this."
    return {
        "external_id": sheet.key,
        "fields": {
            "ask": _escaped("\n".join(part for part in (sheet.head, sheet.ask, *cards, end) if part)),
            "dialogue": _escaped(text),
        },
        "suggestions": {name: value for name, value in (("evidence", spans), ("openly", openly)) if value}
        | {f"verdict_{n + 1}": NO_CARD for n in range(len(cards), _size(len(cards)) or len(taxonomy.traits))},
    }


def _escaped(text: str) -> str:
    """The text escaped for HTML: Argilla's page renders a field as HTML and would run scripts in it. Escaped, it shows
    the exact text, and the offsets that a browser counts are those in the text."""
    return html.escape(text, quote=False).replace("\r", "&#13;")


def _suggestion(span: Span, text: str, places: Places, label: str) -> dict[str, JsonValue]:
    start, end = (places[span["turn"]][1] + span[edge] for edge in ("start", "end"))
    return {"start": units16(text, start), "end": units16(text, end), "label": label}


# ---- in


def responses_of(
    record: dict[str, Any],
    people: Mapping[str, str],
    where: str,
    ours: Ours,
    key: str | None = None,
) -> Iterator[Response]:
    """Yields one response per submitted or discarded response; drafts are skipped. `key`: the record's key when it was
    sent.

    Offsets are read in our own text, which `ours` returns: the text on the server may have been edited there.
    """
    record = task_conversion.replace_surrogates(record)
    key = key or str(record.get("external_id"))
    turns, page = ours(key), task_conversion.page_digest(record["fields"])
    served = html.unescape(record["fields"].get("dialogue") or "")
    for row in sorted(record.get("responses") or [], key=lambda r: r["updated_at"]):
        if row["status"] == "draft":
            continue
        raw_values = row.get("values") or {}  # null if it was discarded
        values = {name: v.get("value") for name, v in raw_values.items() if isinstance(v, dict)}
        openly = values.get("openly") or []
        response = Response(
            key=key,
            page=page,
            who=people.get(row["user_id"], f"user-{row['user_id'][:8]}"),
            place=f"argilla data set {where} record {record['id']}",
            present=[t for t in values.get("present") or [] if t != NOTHING],
            unsure=[t for t in values.get("unsure") or [] if t != NOTHING],
            note=values.get("note") or None,
            time=_utc(datetime.fromisoformat(row["updated_at"])),
            outcome=task_conversion.RATHER_NOT if row["status"] == "discarded" else task_conversion.READ,
            verdicts={
                int(name.removeprefix("verdict_")) - 1: dict(task_conversion.CHOICES).get(str(value), "")
                for name, value in values.items()
                if CARD.fullmatch(name)
            },
            forms=dict.fromkeys((t for t in openly if t != NOTHING), "explicit"),
            form="implicit" if openly else None,  # the question is optional: no answer does not say `implied`
        )
        for span in values.get("evidence") or []:
            _add_span(span, dialogue(turns), turns, served, response)
        yield response


def _utc(time: datetime) -> datetime:
    """Argilla gives times without an offset, which are UTC."""
    return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)


def _add_span(span: dict[str, Any], ours: tuple[str, Places], turns: Turns, served: str, response: Response) -> None:
    """Adds a span to the response; one over several turns becomes one span per turn, of which take_mark keeps
    those that can be evidence. Words outside the turns' text (a role's name) are left out. `served`: the dialogue that
    the server showed."""
    text, places = ours
    start, end = points(text, span["start"]), points(text, span["end"])
    spans: list[Span] = []
    for turn, offset, length in places:
        spans += task_conversion.words_at(
            turn, turns[turn]["text"], max(start - offset, 0), max(min(end - offset, length), 0)
        )
    same = spans and served[start:end] == text[start:end]
    words = None if same else served[points(served, span["start"]) : points(served, span["end"])]
    task_conversion.take_mark(response, span["label"], spans, turns, words)


def questions(taxonomy: Taxonomy, cards: int = SIZES[0], *, ruling: bool = False) -> list[dict[str, Any]]:
    """A required question per card, then the optional questions about everything else. All records of a data set share
    them: where a record has fewer cards, the other card questions come answered with NO_CARD. `ruling`: those of an
    adjudicator, who marks words of a card by its number: answers about anything else would not be taken."""
    options = [
        {"value": t.slug, "text": t.name, "description": f"{t.name}: {t.definition}"[:500]} for t in taxonomy.traits
    ]
    if ruling:
        options = [{"value": numbered(n), "text": f"Proposal {n}"} for n in range(1, cards + 1)]
    ticks = options if len(options) > 1 else [*options, {"value": NOTHING, "text": "nothing else"}]
    limit = {"visible_options": FIRST} if len(options) > FIRST else {}  # the others need a click or a search
    many: dict[str, Any] = {"type": "multi_label_selection", "options": ticks, **limit}
    none_openly = {"value": NOTHING, "text": "none: all are implied"}
    openly = many | {"options": [none_openly, *options], "options_order": "suggestion"}
    span: dict[str, Any] = {"type": "span", "field": "dialogue", "allow_overlapping": True, "options": options, **limit}
    verdicts: dict[str, Any] = {
        "type": "label_selection",
        "options": [{"value": word, "text": word} for word in (*dict(task_conversion.CHOICES), NO_CARD)],
    }
    thing = ": click its number" if ruling else ", or something else: click its name"
    rows = [(f"verdict_{n}", f"Proposal {n}", verdicts) for n in range(1, cards + 1)]
    rows += [
        ("evidence", f"Words that show it{thing}, drag over them", span),
        ("openly", "Which of these do they say openly? The others are implied", openly),
        ("present", "Also there, without words that show it (a film or game)", many),
        ("unsure", "Unsure about something else", many),
        ("note", "A note for the team; it is never published", {"type": "text", "use_markdown": False}),
    ]
    return [
        {"name": name, "title": title, "settings": settings, "required": settings is verdicts}
        for name, title, settings in rows
        if not (ruling and name in ("present", "unsure"))
    ]
