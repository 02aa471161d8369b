"""Converts tasks to Label Studio's form and its annotations back: a project per reviewer, a task per sheet.

task_of        sheet -> task with its prediction, as the import takes it
responses_of   exported task -> each person's response to it
"""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from html import escape
from pathlib import Path
from typing import Any

from annotation.tools import task_conversion as sheets
from annotation.tools.task_conversion import Ours, Response, Sheet, list_of, points, text_of, units16
from annotation.tools.tasks_and_answers import Turns
from saferec_builder.core.json_value import JsonValue
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.storage.schema import Span

HERE = Path(__file__).parent
LAYOUT = (
    "cards"  # another word where the controls of the page change: a server refuses that in a project that used them
)
ADJUDICATOR = "adjudicator"
UNUSED = "\u2014"  # no key of a keyboard: what has none gets one by itself, and then a slip of the hand marks words
KEYS = ("ynu", "123", "456", "789")  # of the first cards; the server finds some for the others
CONTROLS = {"evidence": "paragraphlabels", "form": "choices", "unsure": "choices", "note": "textarea"}
END = (  # of a reader, of an adjudicator
    "Submit (Ctrl+Enter): I have read it all, nothing else is there. Skip (Ctrl+Space): I would rather not see this.",
    "Submit (Ctrl+Enter): this is my decision. Skip (Ctrl+Space): I would rather not see this.",
)

SAID = """
          <View visibleWhen="choice-selected" whenTagName="verdict_{{i}}">
            <Text name="said_{{i}}" value="$cards[{{i}}].said"/>
          </View>"""  # of an adjudicator's card: the votes, once it is answered
SMALL = "margin:10px 0;font-size:14px;font-weight:400;line-height:1.4"  # a header that reads like a line of text


def place(mark: str, role: str) -> str:
    """What begins the description of somebody's project: readers and adjudicators have one each."""
    return f"{mark} {LAYOUT} {role}"


def interface(taxonomy: Taxonomy, ruling: bool = False) -> str:
    """The labeling interface for this taxonomy; the adjudicator's (`ruling`) offers the traits at issue only.

    A task brings a card for each trait that is asked: `verdict_0` and so on. CONTROLS names the other controls.
    """

    def lines(tag: str) -> str:
        names = {t.slug: (escape(t.name), escape(t.definition)) for t in taxonomy.traits}
        each = [f'value="{n}" alias="{slug}" hint="{about}" hotkey="{UNUSED}"' for slug, (n, about) in names.items()]
        return "\n".join(f"          <{tag} {attributes}/>" for attributes in each)

    def part(name: str) -> str:
        return (HERE / name).read_text(encoding="utf-8").rstrip("\n")

    parts = {"labels": lines("Label"), "choices": lines("Choice"), "style": part("interface.css")}
    parts |= {"end": END[ruling], "none": UNUSED, "small": SMALL}
    text = part("interface.xml").replace("{more}", part("adjudicator.xml" if ruling else "reviewer.xml"))
    text = text.replace("{said}", SAID if ruling else "")
    # at once, since a taxonomy may hold such a word itself
    return re.sub(r"\{(" + "|".join(parts) + r")\}", lambda found: parts[found[1]], text)


# ---- out


def task_of(sheet: Sheet, taxonomy: Taxonomy) -> dict[str, Any]:
    """What the import takes."""
    sheets.check(sheet, taxonomy)
    prediction = {"model_version": "proposal", "result": list(_result(sheet))}
    data: dict[str, Any] = {"key": sheet.key, "ask": "\n".join(part for part in (sheet.head, sheet.ask) if part)}
    data |= {"turns": sheet.turns, "cards": [_card(n, sheet, taxonomy) for n in range(len(sheet.units))]}
    if sheet.task.role == ADJUDICATOR:
        data["labels"] = [{"value": taxonomy[t].name, "alias": t, "hotkey": UNUSED} for t in sheet.asked]
    else:
        data["items"] = [{"about": "It also holds:"}] if sheet.task.kind == "item_flag" else []
    return {"data": data, "predictions": [prediction] if prediction["result"] else []}


def page_of(data: dict[str, Any]) -> str:
    """Names what the page shows of a task's data."""
    return sheets.page_digest({name: data.get(name) for name in ("ask", "turns", "cards", "labels", "items")})


def _card(n: int, sheet: Sheet, taxonomy: Taxonomy) -> dict[str, JsonValue]:
    """What is asked of one trait; its answers name it, so that they can be held against our own record."""
    unit, keys = sheet.units[n], KEYS[n] if n < len(KEYS) else ""
    trait = taxonomy[unit["trait"]]
    choices: list[JsonValue] = [
        {"value": name, "alias": f"{trait.slug} {verdict}"} | ({"hotkey": keys[n]} if keys else {})
        for n, (name, verdict) in enumerate(sheets.CHOICES)
    ]
    votes = sheets.opinions(unit)
    lines = [line for line in sheets.about(unit, sheet, taxonomy) if line not in votes]
    said: dict[str, JsonValue] = {"said": f"{votes[0]}. You may change your answer."} if votes else {}
    return {"name": trait.name, "about": "\n".join(lines), "choices": choices} | said


def _result(sheet: Sheet) -> Iterator[dict[str, Any]]:
    """The proposed words, marked; the verdict is left to the person."""
    for trait, (_, form, spans) in sheet.suggested.items():
        for n, span in enumerate(spans):
            region = f"{trait}-{n}"
            there = _place(span, sheet.turns[span["turn"]]["text"])
            yield _control("evidence", region, there | {"paragraphlabels": [trait]})
            if form:
                yield _control("form", region, there | {"choices": [form]})


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
    """One per annotation, oldest first; what is no annotation of ours at all comes back empty. `cards`: the page has
    them; one of the version before has not, and its tasks bring what was asked with them. `key`: as it was sent.

    Places are read in our own text, which `ours` gives: what the server shows may have been edited there. It keeps
    whatever its users send, as an answer and as a task's data: what has another shape is not there.
    """
    task = sheets.whole(task)
    data = task["data"] if isinstance(task.get("data"), dict) else {}
    page = page_of(data)
    for row in sorted(task.get("annotations") or [], key=lambda a: (a.get("updated_at") or "", a["id"])):
        who, editor = _user(row.get("completed_by")), _user(row.get("updated_by"))
        response = Response(
            key=key or str(data.get("key")),
            page=page,
            who=people.get(who, f"user-{who}") if isinstance(who, int) else "user-unknown",
            place=f"label_studio project {project} task {task['id']} annotation {row['id']}",
            asked=[t for t in list_of(data.get("asked")) if isinstance(t, str)],
            seconds=_seconds(row.get("lead_time")),
            time=_time(row.get("updated_at")),
            guideline=text_of(data.get("guideline")),
            taxonomy=text_of(data.get("taxonomy")),
            shown=sheets.marks_of(data.get("shown")),
            forged="" if editor == who else _forged(editor, people),
        )
        if cards:
            response.outcome, response.verdicts = sheets.READ, {}
        shown = [str(turn.get("text", "")) for turn in list_of(data.get("turns")) if isinstance(turn, dict)]
        _read(list_of(row.get("result")), ours(response.key), shown, response)
        if row.get("was_cancelled"):  # the words marked beforehand are in it all the same
            response.outcome = sheets.RATHER_NOT if cards else sheets.SKIPPED
        yield response


def _user(found: Any) -> Any:
    return found.get("id") if isinstance(found, dict) else found


def _forged(editor: Any, people: Mapping[int, str]) -> str:
    """The server itself notes who wrote last, and nobody for what was imported: neither can be set from outside."""
    if not isinstance(editor, int):
        return "it was imported, and nobody gave it: its task is still to be answered"
    return f"{people.get(editor, f'user-{editor}')} wrote over it: its author may answer the task anew"


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text.replace("Z", "+00:00")) if text else None


def _seconds(value: Any) -> float | None:
    return round(float(value), 1) if isinstance(value, int | float) and 0 < value < 1e9 else None


def _read(result: list[Any], turns: Turns, shown: list[str], response: Response) -> None:
    result = [row for row in result if isinstance(row, dict) and isinstance(row.get("value"), dict)]
    chosen = {str(r.get("id")): _names(r)[0] for r in result if r.get("from_name") == "form" and _names(r)}
    forms = {region: form for region, form in chosen.items() if form in ("explicit", "implicit")}
    for row in result:
        name, names = row.get("from_name"), _names(row)
        if response.verdicts is None and name == "outcome" and names:
            response.outcome = names[0]
        elif response.verdicts is not None and (card := re.fullmatch(r"verdict_(\d{1,4})", str(name))):
            n = int(card[1])  # answered twice it is not answered
            response.verdicts[n] = " ".join([*filter(None, [response.verdicts.get(n)]), *names])
        elif name in ("present", "unsure", "also_0"):
            (response.unsure if name == "unsure" else response.present).extend(names)
        elif name == "note":
            lines = row["value"].get("text")
            response.note = " ".join(t for t in (list_of(lines) or [lines]) if isinstance(t, str)) or None
        elif name == "evidence":
            for trait in names:
                _spans(row["value"], turns, shown, trait, response)
                if str(row.get("id")) in forms:
                    response.forms.setdefault(trait, forms[str(row.get("id"))])


def _names(row: dict[str, Any]) -> list[str]:
    return [name for name in list_of(row["value"].get(str(row.get("type")))) if isinstance(name, str)]


def _spans(value: dict[str, Any], turns: Turns, shown: list[str], trait: str, response: Response) -> None:
    """A region may run over several turns: one span in each of the seeker's."""
    try:
        first, last = int(value["start"]), int(value["end"])
        begin, end = int(value["startOffset"]), int(value["endOffset"])
        if min(first, begin, end) < 0:
            raise ValueError("before the beginning")
        texts = [turn["text"] for turn in turns[first : last + 1]]
    except (KeyError, TypeError, ValueError, OverflowError):
        response.lost[trait] = str(value.get("text", ""))
        return
    found: list[Span] = []
    for n, text in enumerate(texts, first):
        start, stop = points(text, begin) if n == first else 0, points(text, end) if n == last else len(text)
        found += sheets.words_at(n, text, start, stop)
    quote = str(value.get("text") or "")
    others = [other for span in found if (other := _words(shown, span)) != span["quote"]]
    ours = found and not others and (not quote or first < last or _bare(quote) == _bare(found[0]["quote"]))
    sheets.take_mark(response, trait, found, turns, None if ours else quote or " ".join(others), moves=first == last)


def _words(shown: list[str], span: Span) -> str:
    return shown[span["turn"]][span["start"] : span["end"]] if span["turn"] < len(shown) else ""


def _bare(text: str) -> str:
    """Without spaces and escapes: what a browser may change in the text that it reports."""
    return "".join(text.replace("\\n", "").split())
