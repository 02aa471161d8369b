"""Client of an Argilla server: the few calls that are needed, through Argilla's library."""

import json
import re
import secrets
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from annotation.tools import server_errors as failures, sync
from annotation.tools.argilla import ADJUDICATOR, LAYOUT, SIZES, place, questions, record_of, responses_of
from annotation.tools.guidelines import of_tool
from annotation.tools.reply_models import PAGE
from annotation.tools.task_conversion import Ours, Response, Sheet, page_digest
from saferec_builder.core.errors import ReviewError, strict_json, whole_object
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.storage import whole_files

if TYPE_CHECKING:
    from argilla import Argilla
    from argilla._api._client import ArgillaAPI
    from argilla._models import QuestionModel


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

    tool = "argilla"
    chunk = 100

    def __init__(self, url: str, token: str, timeout: float = 120.0, accounts: Path | None = None) -> None:
        """`accounts`: the file that keeps the passwords of accounts that are made, for the owner to hand on."""
        needed()
        self.url, self.token, self.timeout, self.accounts = url.rstrip("/"), token, timeout, accounts
        self._questions: dict[str, dict[str, UUID]] = {}

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

        with failures.explained(self.url, doing, ArgillaError, hide=self.token):
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
        return [
            sync.Project(
                str(s.id), s.name, rooms[s.workspace_id], (str(s.workspace_id), s.guidelines or ""), s.last_activity_at
            )
            for s in ours
        ]

    def place(self, mark: str, role: str, cards: int) -> str:
        return _slug(place(mark, role, cards))

    def project_page(self, mark: str, taxonomy: Taxonomy) -> str:
        """Names what `project` makes it show."""
        return _page(_asked_at(mark, taxonomy), of_tool("In Argilla"))

    def project_page_there(self, project: sync.Project) -> str:
        return _page([question.model_dump() for question in self._there(project.id)], project.setup[1])

    def project(
        self, mark: str, name: str, account: str, taxonomy: Taxonomy, closed: Collection[str] = ()
    ) -> sync.Project:
        """The reviewer's data set for these traits, made where there is none, in a workspace that they can enter."""
        user, size, asked = self._user(account), mark.rpartition("-")[2], _asked_at(mark, taxonomy)
        title = f"{'Disputes' if f'-{ADJUDICATOR}-' in mark else 'Conversations'} for {name}"
        if size != str(SIZES[0]):
            title += f", {size} questions each"
        found = sync.project(
            lambda word: [made for made in self.projects(word) if self._fits(made.id, asked)],
            lambda word: self._make(_slug(word), title, asked),
            mark,
            closed,
        )
        if found.setup[1].strip() != of_tool("In Argilla").strip():
            with self._asked(f"put the guidelines of data set {found.id} right") as api:
                there = api.datasets.get(UUID(found.id))
                there.guidelines = of_tool("In Argilla")
                api.datasets.update(there)
        with self._asked(f"let {account} into their workspace") as api:
            room = UUID(found.setup[0])
            if user not in [user.id for user in api.users.list_by_workspace_id(room)]:
                api.users.add_to_workspace(room, user)
        return found

    def _user(self, account: str) -> UUID:
        """Theirs, made where there is none: its password is kept first, and none other would open it."""
        from argilla._models import UserModel

        with self._asked("list the users") as api:
            people: dict[str, UUID] = {user.username: user.id for user in api.users.list()}
            if account not in people:
                password = self._password(account)
                people[account] = api.users.create(
                    UserModel(username=account, first_name=account, password=password)
                ).id
        return people[account]

    def _password(self, account: str) -> str:
        if self.accounts is None:
            raise ReviewError(f"{self.url} has no user {account!r}: make one there")
        kept = whole_object(self.accounts.read_bytes()) if self.accounts.exists() else {}
        if kept is None:
            raise ReviewError(f"{self.accounts}: damaged: put your copy of it back: it holds passwords of Argilla")
        word = str(kept.setdefault(account, secrets.token_urlsafe(16)))
        whole_files.write_private(self.accounts, json.dumps(kept, indent=1).encode())
        return word

    def _fits(self, project: str, asked: list[dict[str, Any]]) -> bool:
        """Whether it asks about these traits; the server lets nobody add an option, or take one away, once a data set
        is published. What stands beside an option it lets one change: that is put right here."""
        from argilla._models import QuestionModel

        expected = {question["name"]: QuestionModel(**question) for question in asked}
        there = {question.name: question for question in self._there(project)}
        if any(_options(there.get(name)).keys() != _options(question).keys() for name, question in expected.items()):
            return False
        for name, question in expected.items():
            if _options(there[name]) != _options(question):
                there[name].settings.options = question.settings.options
                with self._asked(f"put the options of data set {project} right") as api:
                    api.questions.update(there[name])
        return True

    def _there(self, project: str) -> "list[QuestionModel]":
        with self._asked(f"list the questions of data set {project}") as api:
            return list(api.questions.list(UUID(project)))

    def _make(self, room_name: str, title: str, asked: list[dict[str, Any]]) -> sync.Project:
        """What breaks on the way leaves a draft in a workspace of its own, which nobody looks at again."""
        from argilla._models import DatasetModel, FieldModel, QuestionModel, WorkspaceModel

        page, name = of_tool("In Argilla"), re.sub(r"[^A-Za-z0-9_, -]", "", title)
        made_of = [QuestionModel(**question) for question in asked]  # what it refuses is no server's fault
        with self._asked("make a data set") as api:
            room = api.workspaces.create(WorkspaceModel(name=room_name))
            made = api.datasets.create(DatasetModel(name=name, workspace_id=room.id, guidelines=page))
            for field, title in (("ask", "What is asked"), ("dialogue", "Conversation")):
                settings = {"type": "text", "use_markdown": False}
                api.fields.create(FieldModel(name=field, title=title, settings=settings, dataset_id=made.id))
            for question in made_of:
                question.dataset_id = made.id
                api.questions.create(question)
            api.datasets.publish(made.id)
        return sync.Project(str(made.id), name, room_name, (str(room.id), page))

    def task_of(self, sheet: Sheet, guideline: str, taxonomy: Taxonomy) -> sync.Payload:
        return record_of(sheet, guideline, taxonomy)

    def page_of(self, task: sync.Payload) -> str:
        return page_digest(task["fields"])

    def count(self, project: str) -> int:
        with self._asked(f"count the records of data set {project}") as api:
            return int(api.datasets.get_progress(UUID(project)).total)

    def send(self, project: str, tasks: list[sync.Payload]) -> list[str]:
        """By external id: the server itself replaces what it has, so that sending again makes no second record."""
        from argilla._models import RecordModel, SuggestionModel

        ids = self._ids(project)
        shown = [[SuggestionModel(value=v, question_id=ids[q]) for q, v in t["suggestions"].items()] for t in tasks]
        records = [RecordModel(**t | {"suggestions": s}) for t, s in zip(tasks, shown, strict=True)]
        with self._asked(f"send {len(tasks)} records to data set {project}") as api:
            there, _ = api.records.bulk_upsert(UUID(project), records)
        return [str(record.id) for record in there]

    def _ids(self, project: str) -> dict[str, UUID]:
        """The data set's questions by name."""
        if project not in self._questions:
            self._questions[project] = {asked.name: asked.id for asked in self._there(project)}
        return self._questions[project]

    def records(self, project: str) -> Iterator[dict[str, Any]]:
        """With their responses, by plain requests: the library cannot read a discarded response, whose values are
        null, and crashes on the whole page."""
        offset, page = 0, 200
        while True:
            asked = {"include": "responses", "offset": offset, "limit": page}
            with self._asked(f"list the records of data set {project}"):
                reply = self.client.http_client.get(f"/api/v1/datasets/{project}/records", params=asked)
                found = strict_json(reply.raise_for_status().content)
                PAGE.validate_python(found)
            yield from found["items"]
            offset += page
            if offset >= found["total"] or not found["items"]:
                break

    def keys(self, project: str) -> list[tuple[str, str, bool]]:
        return [(str(r["external_id"]), str(r["id"]), bool(r.get("responses"))) for r in self.records(project)]

    def delete(self, task: str) -> None:
        with self._asked(f"delete record {task}") as api:
            api.records.delete(UUID(task))

    def names(self, accounts: dict[str, str], names: Iterable[str]) -> dict[str, str]:
        """user id -> reviewer."""
        with self._asked("list the users") as api:
            return names_of({str(user.id): user.username for user in api.users.list()}, accounts, names)

    def touched(self, project: sync.Project, seen: sync.Touched) -> sync.Touched:
        """Any of the data set: the server says when somebody last was at work there, and not in which record."""
        return frozenset([("", project.active)] if project.active else [])

    def responses(
        self, project: sync.Project, people: dict[str, str], ours: Ours, tasks: Collection[str], keys: Mapping[str, str]
    ) -> Iterator[Response]:
        try:
            for record in self.records(project.id):
                cards, key = f"-{LAYOUT}-" in project.place, keys.get(record["id"])
                for response in responses_of(record, people, project.name, ours, key, cards=cards):
                    response.link = f"{self.url}/dataset/{project.id}/annotation-mode"
                    response.project = project.id
                    yield response
        except failures.Missing:
            return  # deleted between the list and now


def names_of(people: dict[str, str], accounts: dict[str, str], names: Iterable[str]) -> dict[str, str]:
    """user id -> reviewer; a stranger whose user name is a reviewer's, who has another account, is not them."""
    names = list(names)
    by_account = {accounts.get(name, name): name for name in names}
    return {
        user: by_account[known] if known in by_account else f"user-{user[:8]}" if known in names else known
        for user, known in people.items()
    }


def _asked_at(mark: str, taxonomy: Taxonomy) -> list[dict[str, Any]]:
    """What the data sets of this mark ask."""
    size = mark.rpartition("-")[2]
    return questions(taxonomy, int(size) if size.isdigit() else len(taxonomy.traits))


def _page(asked: list[dict[str, Any]], guidelines: str) -> str:
    """Of each question what people see: the server keeps more besides."""
    shown = {
        q["name"]: [
            q["title"],
            q["required"],
            [[o["value"], o.get("text"), o.get("description")] for o in q["settings"].get("options") or []],
        ]
        for q in asked
    }
    return page_digest([shown, guidelines.strip()])


def _options(question: "QuestionModel | None") -> dict[str, tuple[str | None, ...]]:
    """value -> what stands beside it; none where there is no such question, or nothing to choose."""
    options = getattr(question.settings, "options", []) if question else []
    return {option["value"]: (option.get("text"), option.get("description")) for option in options}


def _slug(mark: str) -> str:
    """The name of a workspace holds no blanks."""
    return mark.replace(" ", "-")
