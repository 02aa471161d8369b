"""Converts tasks to Label Studio tasks, and its annotations to ours: a project per reviewer, a task per sheet."""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from html import escape
from pathlib import Path
from typing import Any

from annotation.tools import task_conversion
from annotation.tools.task_conversion import Ours, Response, Sheet, list_of, points, text_of, units16
from annotation.tools.tasks_and_answers import Turns
from saferec_builder.core.json_value import JsonValue
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.storage.schema import Span

HERE = Path(__file__).parent
# change it when the page's controls change: a server refuses to change controls that a project has used
LAYOUT = "cards"
ADJUDICATOR = "adjudicator"
UNUSED = "\u2014"  # on no keyboard: a label without a hotkey gets one by default, and a slip of the hand marks words
KEYS = ("ynu", "123", "456", "789")  # of the first cards; the server chooses keys for the others
CONTROLS = {"evidence": "paragraphlabels", "form": "choices", "unsure": "choices", "note": "textarea"}
END = (  # for a reader, for an adjudicator
    "Submit (Ctrl+Enter): I have read it all, nothing else is there. Skip (Ctrl+Space): I would rather not see this.",
    "Submit (Ctrl+Enter): this is my decision. Skip (Ctrl+Space): I would rather not see this.",
)

SAID = """
          <View visibleWhen="choice-selected" whenTagName="verdict_{{i}}">
            <Text name="said_{{i}}" value="$cards[{{i}}].said"/>
          </View>"""  # on an adjudicator's card: the votes, shown after the answer
SMALL = "margin:10px 0;font-size:14px;font-weight:400;line-height:1.4"  # makes a header look like a line of text


def place(mark: str, role: str, cards: int) -> str:
    """The beginning of the project's description, for any number of cards; a reader and an adjudicator have separate
    projects."""
    return f"{mark} {LAYOUT} {role}"


def interface(taxonomy: Taxonomy, ruling: bool = False) -> str:
    """The labeling interface for this taxonomy; the adjudicator's (`ruling`) offers only the disputed traits.

    A task has a card for each trait that it asks about: `verdict_0` and so on. CONTROLS lists the other controls.
    """

    def lines(tag: str) -> str:
        names = {t.slug: (escape(t.name), escape(t.definition)) for t in taxonomy.traits}
        rows = [f'value="{n}" alias="{slug}" hint="{about}" hotkey="{UNUSED}"' for slug, (n, about) in names.items()]
        return "\n".join(f"          <{tag} {row}/>" for row in rows)

    def read(name: str) -> str:
        return (HERE / name).read_text(encoding="utf-8").rstrip("\n")

    parts = {"labels": lines("Label"), "choices": lines("Choice"), "style": read("interface.css")}
    parts |= {"end": END[ruling], "none": UNUSED, "small": SMALL}
    text = read("interface.xml").replace("{more}", read("adjudicator.xml" if ruling else "reviewer.xml"))
    text = text.replace("{said}", SAID if ruling else "")
    # in one pass, since a taxonomy may contain such a placeholder itself
    return re.sub(r"\{(" + "|".join(parts) + r")\}", lambda match: parts[match[1]], text)


# ---- out


def task_of(sheet: Sheet, taxonomy: Taxonomy) -> dict[str, Any]:
    """The task in the format of the import."""
    task_conversion.check(sheet, taxonomy)
    prediction = {"model_version": "proposal", "result": list(_regions(sheet))}
    data: dict[str, Any] = {"key": sheet.key, "ask": "\n".join(part for part in (sheet.head, sheet.ask) if part)}
    data |= {"turns": sheet.turns, "cards": [_card(n, sheet, taxonomy) for n in range(len(sheet.units))]}
    if sheet.task.role == ADJUDICATOR:
        data["labels"] = [{"value": taxonomy[t].name, "alias": t, "hotkey": UNUSED} for t in sheet.asked]
    else:
        data["items"] = [{"about": "It also holds:"}] if sheet.task.kind == "item_flag" else []
    return {"data": data, "predictions": [prediction] if prediction["result"] else []}


def page_of(task: dict[str, Any]) -> str:
    """Digest of the parts of a task's data that the page shows."""
    parts = ("ask", "turns", "cards", "labels", "items")
    return task_conversion.page_digest({name: task["data"].get(name) for name in parts})


def _card(n: int, sheet: Sheet, taxonomy: Taxonomy) -> dict[str, JsonValue]:
    """The card for one trait; its answers contain the trait's slug, so that they can be checked with our record."""
    unit, keys = sheet.units[n], KEYS[n] if n < len(KEYS) else ""
    trait = taxonomy[unit["trait"]]
    choices: list[JsonValue] = [
        {"value": name, "alias": f"{trait.slug} {verdict}"} | ({"hotkey": keys[n]} if keys else {})
        for n, (name, verdict) in enumerate(task_conversion.CHOICES)
    ]
    votes = task_conversion.opinions(unit)
    lines = [line for line in task_conversion.about(unit, sheet, taxonomy) if line not in votes]
    votes_line: dict[str, JsonValue] = {"said": f"{votes[0]}. You may change your answer."} if votes else {}
    return {"name": trait.name, "about": "\n".join(lines), "choices": choices} | votes_line


def _regions(sheet: Sheet) -> Iterator[dict[str, Any]]:
    """Yields regions that mark the proposed words; the verdict is left to the person."""
    for trait, (_, form, spans) in sheet.suggested.items():
        for n, span in enumerate(spans):
            region = f"{trait}-{n}"
            position = _place(span, sheet.turns[span["turn"]]["text"])
            yield _control("evidence", region, position | {"paragraphlabels": [trait]})
            if form:
                yield _control("form", region, position | {"choices": [form]})


def _control(name: str, region: str, value: dict[str, JsonValue]) -> dict[str, Any]:
    return {"id": region, "from_name": name, "to_name": "dialogue", "type": CONTROLS[name], "value": value}


def _place(span: Span, text: str) -> dict[str, JsonValue]:
    start, end = units16(text, span["start"]), units16(text, span["end"])
    turn = str(span["turn"])
    return {"start": turn, "end": turn, "startOffset": start, "endOffset": end, "text": span["quote"]}


# ---- in


def responses_of(
    task: dict[str, Any],
    people: Mapping[int, str],
    project: str,
    ours: Ours,
    *,
    cards: bool = True,
    key: str | None = None,
) -> Iterator[Response]:
    """Yields one response per annotation, the oldest first; an annotation without our controls gives an empty one.
    `cards`: whether the page has cards; tasks of the previous version have none, and list the asked traits in their
    data. `key`: the task's key when it was sent.

    Offsets are read in our own text, which `ours` returns: the text on the server may have been edited. The server
    stores any answer and any task data that its users send: values of another shape are ignored.
    """
    task = task_conversion.replace_surrogates(task)
    data = task["data"] if isinstance(task.get("data"), dict) else {}
    page = page_of({"data": data})
    for row in sorted(task.get("annotations") or [], key=lambda a: (a.get("updated_at") or "", a["id"])):
        author, editor = _user_id(row.get("completed_by")), _user_id(row.get("updated_by"))
        response = Response(
            key=key or str(data.get("key")),
            page=page,
            who=people.get(author, f"user-{author}") if isinstance(author, int) else "user-unknown",
            place=f"label_studio project {project} task {task['id']} annotation {row['id']}",
            asked=[t for t in list_of(data.get("asked")) if isinstance(t, str)],
            seconds=_seconds(row.get("lead_time")),
            time=_time(row.get("updated_at")),
            guideline=text_of(data.get("guideline")),
            taxonomy=text_of(data.get("taxonomy")),
            shown=task_conversion.marks_of(data.get("shown")),
            forged="" if editor == author else _forged(editor, people),
        )
        if cards:
            response.outcome, response.verdicts = task_conversion.READ, {}
        served = [str(turn.get("text", "")) for turn in list_of(data.get("turns")) if isinstance(turn, dict)]
        _read_results(list_of(row.get("result")), ours(response.key), served, response)
        if row.get("was_cancelled"):  # it contains the pre-marked words nevertheless
            response.outcome = task_conversion.RATHER_NOT if cards else task_conversion.SKIPPED
        yield response


def _user_id(value: Any) -> Any:
    return value.get("id") if isinstance(value, dict) else value


def _forged(editor: Any, people: Mapping[int, str]) -> str:
    """Why an annotation is not its author's: only the server sets the last editor, and sets none for an import."""
    if not isinstance(editor, int):
        return "it was imported, and nobody gave it: its task is still to be answered"
    return f"{people.get(editor, f'user-{editor}')} wrote over it: its author may answer the task anew"


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text.replace("Z", "+00:00")) if text else None


def _seconds(value: Any) -> float | None:
    return round(float(value), 1) if isinstance(value, int | float) and 0 < value < 1e9 else None


def _read_results(result: list[Any], turns: Turns, served: list[str], response: Response) -> None:
    result = [row for row in result if isinstance(row, dict) and isinstance(row.get("value"), dict)]
    chosen = {str(r.get("id")): _names(r)[0] for r in result if r.get("from_name") == "form" and _names(r)}
    forms = {region: form for region, form in chosen.items() if form in ("explicit", "implicit")}
    for row in result:
        name, names = row.get("from_name"), _names(row)
        if response.verdicts is None and name == "outcome" and names:
            response.outcome = names[0]
        elif response.verdicts is not None and (card := re.fullmatch(r"verdict_(\d{1,4})", str(name))):
            n = int(card[1])  # two answers count as none
            response.verdicts[n] = " ".join([*filter(None, [response.verdicts.get(n)]), *names])
        elif name in ("present", "unsure", "also_0"):
            (response.unsure if name == "unsure" else response.present).extend(names)
        elif name == "note":
            lines = row["value"].get("text")
            response.note = " ".join(t for t in (list_of(lines) or [lines]) if isinstance(t, str)) or None
        elif name == "evidence":
            for trait in names:
                _add_region(row["value"], turns, served, trait, response)
                if str(row.get("id")) in forms:
                    response.forms.setdefault(trait, forms[str(row.get("id"))])


def _names(row: dict[str, Any]) -> list[str]:
    return [name for name in list_of(row["value"].get(str(row.get("type")))) if isinstance(name, str)]


def _add_region(value: dict[str, Any], turns: Turns, served: list[str], trait: str, response: Response) -> None:
    """Adds a region to the response; one over several turns becomes one span per turn, of which take_mark keeps those
    that can be evidence."""
    try:
        first, last = int(value["start"]), int(value["end"])
        begin, end = int(value["startOffset"]), int(value["endOffset"])
        if min(first, begin, end) < 0:
            raise ValueError("before the beginning")
        texts = [turn["text"] for turn in turns[first : last + 1]]
    except (KeyError, TypeError, ValueError, OverflowError):
        response.lost[trait] = str(value.get("text", ""))
        return
    spans: list[Span] = []
    for n, text in enumerate(texts, first):
        start, stop = points(text, begin) if n == first else 0, points(text, end) if n == last else len(text)
        spans += task_conversion.words_at(n, text, start, stop)
    quote = str(value.get("text") or "")
    edited = [words for span in spans if (words := _words_at(served, span)) != span["quote"]]
    same = spans and not edited and (not quote or first < last or _bare(quote) == _bare(spans[0]["quote"]))
    task_conversion.take_mark(
        response, trait, spans, turns, None if same else quote or " ".join(edited), moves=first == last
    )


def _words_at(served: list[str], span: Span) -> str:
    return served[span["turn"]][span["start"] : span["end"]] if span["turn"] < len(served) else ""


def _bare(text: str) -> str:
    """The text without spaces and escapes, which a browser may change in the text that it reports."""
    return "".join(text.replace("\\n", "").split())
