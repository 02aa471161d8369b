"""Argilla: a workspace and a data set per reviewer, a record per sheet; the dialogue is one text, spans count UTF-16.

record_of   sheet -> record with suggestions
said_of     record with responses -> what each person said of it
Server      the few calls that are needed, by REST: the SDK cannot read a discarded response
"""

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from annotation import GUIDELINES, sync
from annotation.http import Client, Missing
from annotation.sheets import RATHER_NOT, READ, Said, Sheet, Span, points, units16
from saferec_builder.errors import ReviewError
from saferec_builder.traits import Taxonomy

TOOL = "argilla"
BETWEEN = "\n\n"
Places = list[tuple[int, int, int]]  # turn, where its text begins in the dialogue, its length; in code points


def dialogue(turns: list[dict[str, str]]) -> tuple[str, Places]:
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
    spans: list[dict[str, Any]] = []
    present: list[str] = []
    unsure: list[str] = []
    openly: list[str] = []
    for trait, (verdict, form, found) in sheet.suggested.items():
        if trait not in taxonomy.slugs:
            raise ReviewError(f"{sheet.key}: {trait}: not in the taxonomy: propose again")
        (present if verdict == "present" else unsure).append(trait)
        openly += [trait] * (form == "explicit")
        spans += [_outward(span, text, places, trait, sheet) for span in found]
    facts = {"asked": sheet.asked, "places": places, "guideline": guideline, "taxonomy": taxonomy.digest}
    facts["shown"] = {trait: found for trait, (_, _, found) in sheet.suggested.items()}
    suggestions = {"evidence": spans, "present": present, "unsure": unsure, "openly": openly}
    return {
        "external_id": sheet.key,
        "fields": {"ask": "\n".join(part for part in (sheet.head, sheet.ask) if part), "dialogue": text},
        "metadata": {"saferec": json.dumps(facts, ensure_ascii=False)},
        "suggestions": {name: value for name, value in suggestions.items() if value},
    }


def _outward(span: Span, text: str, places: Places, trait: str, sheet: Sheet) -> dict[str, Any]:
    start = places[span["turn"]][1] + span["start"]
    end = start + span["end"] - span["start"]
    if text[start:end] != span["quote"]:
        raise ReviewError(f"{sheet.key}: the quote {span['quote'][:60]!r} is not in its turn: propose again")
    return {"start": units16(text, start), "end": units16(text, end), "label": trait}


# ---- in


def said_of(record: dict[str, Any], people: dict[str, str], where: str) -> Iterator[Said]:
    """One per response that was submitted or discarded; a draft is nobody's word yet."""
    try:
        facts = json.loads((record.get("metadata") or {}).get("saferec") or "{}")
    except json.JSONDecodeError:
        facts = {}
    text = record["fields"].get("dialogue") or ""
    for row in sorted(record.get("responses") or [], key=lambda r: r["updated_at"]):
        if row["status"] == "draft":
            continue
        values = {name: v["value"] for name, v in (row.get("values") or {}).items()}  # null where it was discarded
        said = Said(
            key=str(record.get("external_id")),
            who=people.get(row["user_id"], f"user-{row['user_id'][:8]}"),
            place=f"argilla data set {where} record {record['id']}",
            outcome="skipped" if row["status"] == "discarded" else str(values.get("outcome") or ""),
            asked=[t for t in facts.get("asked", []) if isinstance(t, str)],
            present=list(values.get("present") or []),
            unsure=list(values.get("unsure") or []),
            note=values.get("note") or None,
            time=datetime.fromisoformat(row["updated_at"]).replace(tzinfo=UTC),
            guideline=facts.get("guideline"),
            taxonomy=facts.get("taxonomy"),
            shown=facts.get("shown") or {},
        )
        openly = set(values.get("openly") or [])
        said.forms = {t: "explicit" if t in openly else "implicit" for t in said.present}
        for span in values.get("evidence") or []:
            _inward(span, text, facts.get("places") or [], said)
        yield said


def _inward(span: dict[str, Any], text: str, places: Places, said: Said) -> None:
    """A span may run over several turns: one in each. Words that are no turn's (a role's name) are left out."""
    trait, start, end = span["label"], points(text, span["start"]), points(text, span["end"])
    found = []
    for turn, begin, length in places:
        a, b = max(start, begin), min(end, begin + length)
        quote = text[a:b]
        a, b = a + len(quote) - len(quote.lstrip()), b - len(quote) + len(quote.rstrip())
        if a < b:
            found.append({"turn": turn, "start": a - begin, "end": b - begin, "quote": text[a:b]})
    if not found:
        said.lost[trait] = text[start:end]
    said.spans.setdefault(trait, []).extend(found)


# ---- the server


class Server:
    """What the toolkit asks of Argilla. A reviewer sees their own workspace only; its data set carries our mark."""

    tool = TOOL
    chunk = 100

    def __init__(self, url: str, token: str, timeout: float = 120.0) -> None:
        self.call = Client(url, {"X-Argilla-Api-Key": token}, timeout)
        self.url = self.call.url
        self._questions: dict[str, dict[str, str]] = {}

    def projects(self, mark: str) -> list[dict[str, Any]]:
        sets = self.call("GET", "/api/v1/me/datasets")["items"]
        named = [s | {"description": (s.get("metadata") or {}).get("saferec") or ""} for s in sets]
        ours = [s for s in named if s["description"].startswith(mark) and s["status"] == "ready"]
        return sorted(ours, key=lambda s: s["inserted_at"])

    def project(self, mark: str, name: str, account: str, taxonomy: Taxonomy) -> dict[str, Any]:
        """The reviewer's data set, made where there is none, in a workspace that they can enter."""
        people = [u for u in self.call("GET", "/api/v1/users")["items"] if u["username"] == account]
        if not people:
            hint = "make one, or name theirs under [review] accounts in saferec.toml"
            raise ReviewError(f"{self.url} has no user {account!r} for reviewer {name}: {hint}")
        found = sync.project(self.projects, lambda word: self._make(word, mark, taxonomy), mark)
        place = f"/api/v1/workspaces/{found['workspace_id']}/users"
        if people[0]["id"] not in [u["id"] for u in self.call("GET", place)["items"]]:
            self.call("POST", place, {"user_id": people[0]["id"]})
        return found

    def _make(self, word: str, mark: str, taxonomy: Taxonomy) -> dict[str, Any]:
        title = "saferec-" + word.split()[-1]
        there = [w for w in self.call("GET", "/api/v1/me/workspaces")["items"] if w["name"] == title]
        room = there[0] if there else self.call("POST", "/api/v1/workspaces", {"name": title})
        page = GUIDELINES.read_text(encoding="utf-8")
        body = {"name": title, "workspace_id": room["id"], "guidelines": page, "metadata": {"saferec": word}}
        made = self.call("POST", "/api/v1/datasets", body)
        path = f"/api/v1/datasets/{made['id']}"
        for name, named in (("ask", "What is asked"), ("dialogue", "Conversation")):
            settings = {"type": "text", "use_markdown": False}
            self.call("POST", f"{path}/fields", {"name": name, "title": named, "required": True, "settings": settings})
        for question in questions(taxonomy):
            self.call("POST", f"{path}/questions", question)
        self.call("PUT", f"{path}/publish")
        return dict(made | {"description": word})

    def task_of(self, sheet: Sheet, guideline: str, taxonomy: Taxonomy) -> dict[str, Any]:
        return record_of(sheet, guideline, taxonomy)

    def count(self, project: str) -> int:
        return int(self.call("GET", f"/api/v1/datasets/{project}/progress").get("total", 0))

    def send(self, project: str, tasks: list[dict[str, Any]]) -> list[str]:
        """By external id: the server itself replaces what it has, so that sending again makes no second record."""
        names = self._names(project)
        items = [
            task | {"suggestions": [{"question_id": names[q], "value": v} for q, v in task["suggestions"].items()]}
            for task in tasks
        ]
        reply = self.call("PUT", f"/api/v1/datasets/{project}/records/bulk", {"items": items})
        return [str(row["id"]) for row in reply["items"]]

    def _names(self, project: str) -> dict[str, str]:
        if project not in self._questions:
            rows = self.call("GET", f"/api/v1/datasets/{project}/questions")["items"]
            self._questions[project] = {row["name"]: row["id"] for row in rows}
        return self._questions[project]

    def _records(self, project: str) -> Iterator[dict[str, Any]]:
        offset, page = 0, 200
        while True:
            reply = self.call(
                "GET", f"/api/v1/datasets/{project}/records", include="responses", offset=offset, limit=page
            )
            yield from reply["items"]
            offset += page
            if offset >= reply["total"]:
                break

    def keys(self, project: str) -> list[tuple[str, str, bool]]:
        rows = self._records(project)
        return [(str(r["external_id"]), str(r["id"]), bool(r.get("responses"))) for r in rows]

    def delete(self, project: str, task: str) -> None:
        self.call("DELETE", f"/api/v1/records/{task}")

    def names(self, accounts: dict[str, str], names: Iterable[str]) -> dict[str, str]:
        """user id -> reviewer."""
        wanted = {accounts.get(name, name): name for name in names}
        users = self.call("GET", "/api/v1/users")["items"]
        return {u["id"]: wanted.get(u["username"], u["username"]) for u in users}

    def said(self, project: dict[str, Any], people: dict[str, str]) -> Iterator[Said]:
        try:
            for record in self._records(project["id"]):
                yield from said_of(record, people, project["name"])
        except Missing:
            return  # deleted between the list and now


def questions(taxonomy: Taxonomy) -> list[dict[str, Any]]:
    """The same questions as Label Studio's interface asks; `openly` stands for the form of each span."""
    options = [
        {"value": t.slug, "text": t.slug, "description": f"{t.name}: {t.definition}"[:500]} for t in taxonomy.traits
    ]
    labels = {"options": options, "visible_options": len(options)}
    many = {"type": "multi_label_selection", **labels}
    last = [{"value": word, "text": word} for word in (READ, RATHER_NOT)]
    span = {"type": "span", "field": "dialogue", "allow_overlapping": True, **labels}
    asked = (
        ("evidence", "1. Read it all. 2. Mark the words that show it", span, False),
        ("present", "3. Present (what you leave unticked is absent)", many, False),
        ("openly", "Which of these do they say openly? The others are implied", many, False),
        ("unsure", "Unsure", many, False),
        ("note", "A note for the team; it is never published", {"type": "text", "use_markdown": False}, False),
        ("outcome", "4. And then", {"type": "label_selection", "options": last}, True),
    )
    return [{"name": n, "title": title, "settings": s, "required": need} for n, title, s, need in asked]
