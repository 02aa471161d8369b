"""Argilla: a workspace and a data set per reviewer, a record per sheet; the dialogue is one text, spans count UTF-16.

record_of   sheet -> record with suggestions
said_of     record with responses -> what each person said of it
Server      the few calls that are needed, through Argilla's library
"""

import html
import json
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any
from uuid import UUID

from annotation.tools import server_errors as failures, sync
from annotation.tools.guidelines import on_a_server
from annotation.tools.task_sheet import (
    RATHER_NOT,
    READ,
    Ours,
    Said,
    Sheet,
    Span,
    Turns,
    list_of,
    points,
    text_of,
    theirs,
    units16,
    whole,
)
from saferec_builder.core.errors import ReviewError, strict_json
from saferec_builder.core.taxonomy import Taxonomy

if TYPE_CHECKING:
    from argilla import Argilla
    from argilla._api._client import ArgillaAPI
    from argilla._models import QuestionModel

TOOL = "argilla"
BETWEEN = "\n\n"
NOTHING = "-"  # stands beside a trait that is alone, since a choice has two options at least there; no slug is like it
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
    facts: dict[str, Any] = {"asked": sheet.asked, "guideline": guideline, "taxonomy": taxonomy.digest}
    facts |= {"shown": {trait: found for trait, (_, _, found) in sheet.suggested.items()}, "escaped": True}
    suggestions = {"evidence": spans, "present": present, "unsure": unsure, "openly": openly}
    return {
        "external_id": sheet.key,
        "fields": {
            "ask": _escaped("\n".join(part for part in (sheet.head, sheet.ask) if part)),
            "dialogue": _escaped(text),
        },
        "metadata": {"saferec": json.dumps(facts, ensure_ascii=False)},
        "suggestions": {name: value for name, value in suggestions.items() if value},
    }


def _escaped(text: str) -> str:
    """Its page takes a text for HTML and runs what stands in it; in HTML's spelling it shows the very text, letter by
    letter, and the places that a browser counts are those in the text."""
    return html.escape(text, quote=False).replace("\r", "&#13;")


def _outward(span: Span, text: str, places: Places, trait: str, sheet: Sheet) -> dict[str, Any]:
    start = places[span["turn"]][1] + span["start"]
    end = start + span["end"] - span["start"]
    if text[start:end] != span["quote"]:
        raise ReviewError(f"{sheet.key}: the quote {span['quote'][:60]!r} is not in its turn: propose again")
    return {"start": units16(text, start), "end": units16(text, end), "label": trait}


# ---- in


def said_of(record: dict[str, Any], people: dict[str, str], where: str, ours: Ours) -> Iterator[Said]:
    """One per response that was submitted or discarded; a draft is nobody's word yet.

    Places are read in our own text, which `ours` gives: what the server shows may have been edited there.
    """
    record = whole(record)
    try:
        facts = strict_json((record.get("metadata") or {}).get("saferec") or "{}")
    except (ValueError, TypeError, RecursionError):
        facts = {}
    facts = facts if isinstance(facts, dict) else {}
    shown = facts.get("shown") if isinstance(facts.get("shown"), dict) else {}
    turns = ours(str(record.get("external_id")))
    there = record["fields"].get("dialogue") or ""
    there = html.unescape(there) if facts.get("escaped") is True else there  # not so before Argilla's page was tried
    for row in sorted(record.get("responses") or [], key=lambda r: r["updated_at"]):
        if row["status"] == "draft":
            continue
        values = {name: v["value"] for name, v in (row.get("values") or {}).items()}  # null where it was discarded
        said = Said(
            key=str(record.get("external_id")),
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
            shown={trait: spans for trait, spans in (shown or {}).items() if isinstance(spans, list)},
        )
        openly = set(values.get("openly") or [])
        said.forms = {t: "explicit" if t in openly else "implicit" for t in said.present}
        for span in values.get("evidence") or []:
            _inward(span, turns, there, said)
        yield said


def _inward(span: dict[str, Any], turns: Turns, there: str, said: Said) -> None:
    """A span may run over several turns: one in each of the seeker's. Words that are no turn's (a role's name) are left
    out; it is lost where the server showed other words (`there`) at its place."""
    text, places = dialogue(turns)
    trait, start, end = span["label"], points(text, span["start"]), points(text, span["end"])
    found = []
    for turn, begin, length in places:
        a, b = max(start, begin), min(end, begin + length)
        quote = text[a:b]
        a, b = a + len(quote) - len(quote.lstrip()), b - len(quote) + len(quote.rstrip())
        if a < b:
            found.append({"turn": turn, "start": a - begin, "end": b - begin, "quote": text[a:b]})
    if not found or there[start:end] != text[start:end]:
        said.lost[trait] = there[points(there, span["start"]) : points(there, span["end"])]
    said.spans.setdefault(trait, []).extend(theirs(found, turns))


# ---- the server


def needed() -> None:
    """Raises where the library is not installed."""
    try:
        with warnings.catch_warnings():  # it is written for an older pydantic, and says so
            warnings.simplefilter("ignore", DeprecationWarning)
            import argilla  # noqa: F401
    except ModuleNotFoundError:
        raise ReviewError("Argilla needs its library: pip install 'saferec-builder[argilla]'") from None


class Server:
    """What the toolkit asks of Argilla. A reviewer sees their own workspace only; its name carries our mark.

    Through the library's `client.api`, one request a call: `Dataset.create` and `records.log` above it make several,
    hide which of them failed, draw progress bars and give no ids of records.
    """

    tool = TOOL
    chunk = 100

    def __init__(self, url: str, token: str, timeout: float = 120.0) -> None:
        needed()
        self.url, self.token, self.timeout = url.rstrip("/"), token, timeout
        self._questions: dict[UUID, dict[str, UUID]] = {}

    @cached_property
    def client(self) -> "Argilla":
        """Asks who we are as it is made. No connection is kept: a kept one breaks when the server restarts."""
        import httpx
        from argilla import Argilla

        fresh, stays = httpx.Limits(max_keepalive_connections=0), {"response": [failures.stays]}
        return Argilla(self.url, self.token, timeout=self.timeout, retries=0, limits=fresh, event_hooks=stays)

    @contextmanager
    def _asked(self, doing: str) -> Iterator["ArgillaAPI"]:
        from argilla._exceptions import ArgillaCredentialsError, ArgillaError

        with failures.told(self.url, doing, ArgillaError, hide=self.token):
            try:
                yield self.client.api
            except ArgillaCredentialsError as fault:
                fault.status_code = 401  # the only one of its errors that does not say so
                raise

    def projects(self, mark: str) -> list[sync.Project]:
        """The published data sets in workspaces whose name begins with the mark, oldest first."""
        with self._asked("list the data sets") as api:
            rooms = {room.id: room.name for room in api.workspaces.list()}
            sets = [found for found in api.datasets.list() if found.status == "ready"]
        ours = [found for found in sets if rooms.get(found.workspace_id, "").startswith(_slug(mark))]
        ours.sort(key=lambda found: str(found.inserted_at))
        return [sync.Project(s.id, s.name, rooms[s.workspace_id], s.workspace_id) for s in ours]

    def project(self, mark: str, name: str, account: str, taxonomy: Taxonomy) -> sync.Project:
        """The reviewer's data set for these traits, made where there is none, in a workspace that they can enter."""
        with self._asked("list the users") as api:
            people = [user.id for user in api.users.list() if user.username == account]
        if not people:
            hint = "make one, or name theirs under [review] accounts in saferec.toml"
            raise ReviewError(f"{self.url} has no user {account!r} for reviewer {name}: {hint}")
        found = sync.project(
            lambda word: [made for made in self.projects(word) if self._fits(made.id, taxonomy)],
            lambda word: self._make(_slug(word), taxonomy),
            mark,
        )
        with self._asked(f"let {account} into their workspace") as api:
            if people[0] not in [user.id for user in api.users.list_by_workspace_id(found.setup)]:
                api.users.add_to_workspace(found.setup, people[0])
        return found

    def _fits(self, project: UUID, taxonomy: Taxonomy) -> bool:
        """Whether it asks about these traits; the server lets nobody add an option, or take one away, once a data set
        is published. What stands beside an option it lets one change: that is put right here."""
        from argilla._models import QuestionModel

        wanted = {question["name"]: QuestionModel(**question) for question in questions(taxonomy)}
        with self._asked(f"list the questions of data set {project}") as api:
            there = {question.name: question for question in api.questions.list(project)}
        if any(_options(there.get(name)).keys() != _options(question).keys() for name, question in wanted.items()):
            return False
        for name, question in wanted.items():
            if _options(there[name]) != _options(question):
                there[name].settings.options = question.settings.options
                with self._asked(f"put the options of data set {project} right") as api:
                    api.questions.update(there[name])
        return True

    def _make(self, place: str, taxonomy: Taxonomy) -> sync.Project:
        """What breaks on the way leaves a draft in a workspace of its own, which nobody looks at again."""
        from argilla._models import DatasetModel, FieldModel, QuestionModel, WorkspaceModel

        page, name = on_a_server(), "saferec-" + place.split("-")[-1]
        asked = [QuestionModel(**question) for question in questions(taxonomy)]  # what it refuses is no server's fault
        with self._asked("make a data set") as api:
            room = api.workspaces.create(WorkspaceModel(name=place))
            made = api.datasets.create(DatasetModel(name=name, workspace_id=room.id, guidelines=page))
            for field, title in (("ask", "What is asked"), ("dialogue", "Conversation")):
                settings = {"type": "text", "use_markdown": False}
                api.fields.create(FieldModel(name=field, title=title, settings=settings, dataset_id=made.id))
            for question in asked:
                question.dataset_id = made.id
                api.questions.create(question)
            api.datasets.publish(made.id)
        return sync.Project(made.id, name, place, room.id)

    def task_of(self, sheet: Sheet, guideline: str, taxonomy: Taxonomy) -> dict[str, Any]:
        return record_of(sheet, guideline, taxonomy)

    def count(self, project: UUID) -> int:
        with self._asked(f"count the records of data set {project}") as api:
            return int(api.datasets.get_progress(project).total)

    def send(self, project: UUID, tasks: list[dict[str, Any]]) -> list[str]:
        """By external id: the server itself replaces what it has, so that sending again makes no second record."""
        from argilla._models import RecordModel, SuggestionModel

        ids = self._ids(project)
        shown = [[SuggestionModel(value=v, question_id=ids[q]) for q, v in t["suggestions"].items()] for t in tasks]
        records = [RecordModel(**t | {"suggestions": s}) for t, s in zip(tasks, shown, strict=True)]
        with self._asked(f"send {len(tasks)} records to data set {project}") as api:
            there, _ = api.records.bulk_upsert(project, records)
        return [str(record.id) for record in there]

    def _ids(self, project: UUID) -> dict[str, UUID]:
        """The data set's questions by name."""
        if project not in self._questions:
            with self._asked(f"list the questions of data set {project}") as api:
                self._questions[project] = {question.name: question.id for question in api.questions.list(project)}
        return self._questions[project]

    def records(self, project: UUID) -> Iterator[dict[str, Any]]:
        """With their responses, by plain requests: the library cannot read a discarded response, whose values are
        null, and crashes on the whole page."""
        offset, page = 0, 200
        while True:
            asked = {"include": "responses", "offset": offset, "limit": page}
            with self._asked(f"list the records of data set {project}"):
                reply = self.client.http_client.get(f"/api/v1/datasets/{project}/records", params=asked)
                found = strict_json(reply.raise_for_status().content)
            yield from found["items"]
            offset += page
            if offset >= found["total"]:
                break

    def keys(self, project: UUID) -> list[tuple[str, str, bool]]:
        return [(str(r["external_id"]), str(r["id"]), bool(r.get("responses"))) for r in self.records(project)]

    def delete(self, task: str) -> None:
        with self._asked(f"delete record {task}") as api:
            api.records.delete(UUID(task))

    def names(self, accounts: dict[str, str], names: Iterable[str]) -> dict[str, str]:
        """user id -> reviewer."""
        with self._asked("list the users") as api:
            return names_of({str(user.id): user.username for user in api.users.list()}, accounts, names)

    def said(self, project: sync.Project, people: dict[str, str], ours: Ours) -> Iterator[Said]:
        try:
            for record in self.records(project.id):
                yield from said_of(record, people, project.name, ours)
        except failures.Missing:
            return  # deleted between the list and now


def names_of(people: dict[str, str], accounts: dict[str, str], names: Iterable[str]) -> dict[str, str]:
    """user id -> reviewer; a stranger whose user name is a reviewer's, who has another account, is not them."""
    names = list(names)
    wanted = {accounts.get(name, name): name for name in names}
    return {
        user: wanted[known] if known in wanted else f"user-{user[:8]}" if known in names else known
        for user, known in people.items()
    }


def _options(question: "QuestionModel | None") -> dict[str, tuple[str | None, ...]]:
    """value -> what stands beside it; none where there is no such question, or nothing to choose."""
    options = getattr(question.settings, "options", []) if question else []
    return {option["value"]: (option.get("text"), option.get("description")) for option in options}


def _slug(mark: str) -> str:
    """The name of a workspace holds no blanks."""
    return mark.replace(" ", "-")


def questions(taxonomy: Taxonomy) -> list[dict[str, Any]]:
    """The same questions as Label Studio's interface asks; `openly` stands for the form of each span."""
    options = [
        {"value": t.slug, "text": t.slug, "description": f"{t.name}: {t.definition}"[:500]} for t in taxonomy.traits
    ]
    shown = {"visible_options": len(options)} if len(options) > 2 else {}  # a smaller number is refused
    ticked = options if len(options) > 1 else [*options, {"value": NOTHING, "text": "nothing else"}]
    many = {"type": "multi_label_selection", "options": ticked, **shown}
    last = [{"value": word, "text": word} for word in (READ, RATHER_NOT)]
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
