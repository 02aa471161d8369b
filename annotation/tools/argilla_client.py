"""Client of an Argilla server: the few calls that the toolkit needs, through Argilla's library."""

import json
import re
import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from annotation.tools import server_errors, sync
from annotation.tools.argilla import ADJUDICATOR, LAYOUT, SIZES, place, questions, record_of, responses_of
from annotation.tools.guidelines import page_for
from annotation.tools.reply_models import RECORDS
from annotation.tools.task_conversion import READ, Ours, Response, page_digest
from saferec_builder.core.errors import ReviewError, strict_json, whole_object
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.storage import whole_files

if TYPE_CHECKING:
    from argilla import Argilla
    from argilla._api._client import ArgillaAPI
    from argilla._models import QuestionModel

START = "docs/how-to/team-server.md says how to start one"


class Server:
    """The requests that the toolkit makes to Argilla. Reviewers see only their own workspace; its name has our mark.

    They use the library's `client.api`, one request per call: `Dataset.create` and `records.log` above it make several,
    hide which of them failed, draw progress bars and return no record ids.
    """

    tool = "argilla"
    chunk, page_size = 100, 200
    task_of = staticmethod(record_of)

    def __init__(self, url: str, token: str, timeout: float = 120.0, accounts: Path | None = None) -> None:
        """`accounts`: the file with the passwords of the accounts made here, which the owner passes on."""
        server_errors.needed("argilla", "argilla")
        self.url, self.token, self.timeout, self.accounts = url.rstrip("/"), token, timeout, accounts
        self._questions: dict[str, dict[str, UUID]] = {}

    @cached_property
    def client(self) -> "Argilla":
        """The first access sends a request. No connection is kept alive: it would break when the server restarts."""
        import httpx
        from argilla import Argilla

        limits, hooks = httpx.Limits(max_keepalive_connections=0), {"response": [server_errors.refuse_foreign_redirect]}
        return Argilla(self.url, self.token, timeout=self.timeout, retries=0, limits=limits, event_hooks=hooks)

    @contextmanager
    def _requests(self, doing: str) -> Iterator["ArgillaAPI"]:
        from argilla._exceptions import ArgillaCredentialsError, ArgillaError

        with server_errors.translated_errors(self.url, doing, ArgillaError, hide=self.token, start=START):
            try:
                yield self.client.api
            except ArgillaCredentialsError as fault:
                fault.status_code = 401  # the only one of its errors without a status
                raise

    def projects(self, mark: str) -> list[sync.Project]:
        """The published data sets in workspaces whose name begins with the mark; the oldest first."""
        with self._requests("list the data sets") as api:
            names = {workspace.id: workspace.name for workspace in api.workspaces.list()}
            published = [dataset for dataset in api.datasets.list() if dataset.status == "ready"]
        ours = [dataset for dataset in published if names.get(dataset.workspace_id, "").startswith(_slug(mark))]
        ours.sort(key=lambda dataset: str(dataset.inserted_at))
        return [
            sync.Project(
                str(s.id), s.name, names[s.workspace_id], (str(s.workspace_id), s.guidelines or ""), s.last_activity_at
            )
            for s in ours
        ]

    def place(self, mark: str, role: str, cards: int) -> str:
        return _slug(place(mark, role, cards))

    def project_page(self, mark: str, taxonomy: Taxonomy) -> str:
        """Digest of the questions and guidelines that `project` sets."""
        return _page_digest(_questions_of(mark, taxonomy), page_for("In Argilla"))

    def project_page_there(self, project: sync.Project) -> str:
        return _page_digest([question.model_dump() for question in self._list_questions(project.id)], project.setup[1])

    def project(
        self, mark: str, name: str, account: str, taxonomy: Taxonomy, closed: Collection[str] = ()
    ) -> sync.Project:
        """The reviewer's data set for these traits, in a workspace that they can open; created if there is none."""
        user, size, expected = self._user_id(account), mark.rpartition("-")[2], _questions_of(mark, taxonomy)
        title = f"{'Disputes' if f'-{ADJUDICATOR}-' in mark else 'Conversations'} for {name}"
        if size != str(SIZES[0]):
            title += f", {size} questions each"
        project = sync.project(
            lambda word: [project for project in self.projects(word) if self._fits(project.id, expected)],
            lambda word: self._create(_slug(word), title, expected),
            mark,
            closed,
        )
        if project.setup[1].strip() != page_for("In Argilla").strip():
            with self._requests(f"put the guidelines of data set {project.id} right") as api:
                dataset = api.datasets.get(UUID(project.id))
                dataset.guidelines = page_for("In Argilla")
                api.datasets.update(dataset)
        with self._requests(f"let {account} into their workspace") as api:
            workspace = UUID(project.setup[0])
            if user not in [user.id for user in api.users.list_by_workspace_id(workspace)]:
                api.users.add_to_workspace(workspace, user)
        return project

    def _user_id(self, account: str) -> UUID:
        """The account's user, created if there is none; the password is stored first, since it cannot be read later."""
        from argilla._models import UserModel

        with self._requests("list the users") as api:
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
        passwords = whole_object(self.accounts.read_bytes()) if self.accounts.exists() else {}
        if passwords is None:
            raise ReviewError(f"{self.accounts}: damaged: put your copy of it back: it holds passwords of Argilla")
        password = str(passwords.setdefault(account, secrets.token_urlsafe(16)))
        whole_files.write_private(self.accounts, json.dumps(passwords, indent=1).encode())
        return password

    def _fits(self, project: str, rows: list[dict[str, Any]]) -> bool:
        """Whether the data set asks these questions about these traits: the server allows nobody to add or remove one
        once a data set is published. An option's name and description may change: this method corrects them."""
        from argilla._models import QuestionModel

        expected = {question["name"]: QuestionModel(**question) for question in rows}
        current = {question.name: question for question in self._list_questions(project)}
        offered = [{name: _options(q).keys() for name, q in each.items()} for each in (current, expected)]
        if offered[0] != offered[1]:
            return False
        for name, question in expected.items():
            if _options(current[name]) != _options(question):
                current[name].settings.options = question.settings.options
                with self._requests(f"put the options of data set {project} right") as api:
                    api.questions.update(current[name])
        return True

    def _list_questions(self, project: str) -> "list[QuestionModel]":
        with self._requests(f"list the questions of data set {project}") as api:
            return list(api.questions.list(UUID(project)))

    def _create(self, workspace_name: str, title: str, rows: list[dict[str, Any]]) -> sync.Project:
        """Creates and publishes a data set; a failure leaves a draft in a separate workspace, which is never used."""
        from argilla._models import DatasetModel, FieldModel, QuestionModel, WorkspaceModel

        page, name = page_for("In Argilla"), re.sub(r"[^A-Za-z0-9_, -]", "", title)
        models = [QuestionModel(**question) for question in rows]  # fails before any request is sent
        with self._requests("make a data set") as api:
            workspace = api.workspaces.create(WorkspaceModel(name=workspace_name))
            dataset = api.datasets.create(DatasetModel(name=name, workspace_id=workspace.id, guidelines=page))
            for field, title in (("ask", "What is asked"), ("dialogue", "Conversation")):
                settings = {"type": "text", "use_markdown": False}
                api.fields.create(FieldModel(name=field, title=title, settings=settings, dataset_id=dataset.id))
            for question in models:
                question.dataset_id = dataset.id
                api.questions.create(question)
            api.datasets.publish(dataset.id)
        return sync.Project(str(dataset.id), name, workspace_name, (str(workspace.id), page))

    def page_of(self, task: sync.Payload) -> str:
        return page_digest(task["fields"])

    def count(self, project: str) -> int:
        with self._requests(f"count the records of data set {project}") as api:
            return int(api.datasets.get_progress(UUID(project)).total)

    def send(self, project: str, tasks: list[sync.Payload]) -> list[str]:
        """Upserts by external id: the server replaces a record that it has, so that a repeated send adds none."""
        from argilla._models import RecordModel, SuggestionModel

        ids = self._ids(project)
        models = [[SuggestionModel(value=v, question_id=ids[q]) for q, v in t["suggestions"].items()] for t in tasks]
        records = [RecordModel(**t | {"suggestions": s}) for t, s in zip(tasks, models, strict=True)]
        with self._requests(f"send {len(tasks)} records to data set {project}") as api:
            stored, _ = api.records.bulk_upsert(UUID(project), records)
        return [str(record.id) for record in stored]

    def _ids(self, project: str) -> dict[str, UUID]:
        """The ids of the data set's questions by name."""
        if project not in self._questions:
            self._questions[project] = {question.name: question.id for question in self._list_questions(project)}
        return self._questions[project]

    def records(self, project: str, page: int | None = None) -> Iterator[dict[str, Any]]:
        """The records with their responses, or those on a page from 0, by plain requests: the library cannot read a
        discarded response (its values are null), and fails on the whole page."""
        limit = self.page_size
        offset = (page or 0) * limit
        while True:
            params = {"include": "responses", "offset": offset, "limit": limit}
            with self._requests(f"list the records of data set {project}"):
                reply = self.client.http_client.get(f"/api/v1/datasets/{project}/records", params=params)
                reply_page = strict_json(reply.raise_for_status().content)
                RECORDS.validate_python(reply_page)
            yield from reply_page["items"]
            offset += limit
            if page is not None or offset >= reply_page["total"] or not reply_page["items"]:
                break

    def keys(self, project: str, page: int | None = None) -> list[tuple[str, str, bool]]:
        def is_answered(record: dict[str, Any]) -> bool:
            return any(response["status"] != "draft" for response in record.get("responses") or [])

        return [(str(r["external_id"]), str(r["id"]), is_answered(r)) for r in self.records(project, page)]

    def delete(self, task: str) -> None:
        with self._requests(f"delete record {task}") as api:
            api.records.delete(UUID(task))

    def names(self, accounts: dict[str, str], names: Iterable[str]) -> dict[str, str]:
        """user id -> reviewer."""
        with self._requests("list the users") as api:
            return names_of({str(user.id): user.username for user in api.users.list()}, accounts, names)

    def touched(self, project: sync.Project, seen: sync.Touched) -> sync.Touched:
        """The last activity in the data set, with no task: the server does not say in which record it was."""
        return frozenset([("", project.active)] if project.active else [])

    def responses(
        self, project: sync.Project, people: dict[str, str], ours: Ours, tasks: Collection[str], keys: Mapping[str, str]
    ) -> Iterator[Response]:
        try:
            for record in self.records(project.id):
                for response in responses_of(record, people, project.name, ours, keys.get(record["id"])):
                    if f"-{LAYOUT}-" not in project.place and response.outcome == READ:
                        response.outcome = ""  # on a page without cards, by an earlier version: it is asked anew
                    response.link = f"{self.url}/dataset/{project.id}/annotation-mode"
                    response.project = project.id
                    yield response
        except server_errors.Missing:
            return  # deleted since it was listed


def names_of(people: dict[str, str], accounts: dict[str, str], names: Iterable[str]) -> dict[str, str]:
    """user id -> reviewer; a user who has a reviewer's name, but not the reviewer's account, is not that reviewer."""
    names = list(names)
    by_account = {accounts.get(name, name): name for name in names}
    return {
        user: by_account[name] if name in by_account else f"user-{user[:8]}" if name in names else name
        for user, name in people.items()
    }


def _questions_of(mark: str, taxonomy: Taxonomy) -> list[dict[str, Any]]:
    """The questions of the data sets with this mark."""
    size = mark.rpartition("-")[2]
    cards = int(size) if size.isdigit() else len(taxonomy.traits)
    return questions(taxonomy, cards, ruling=f"-{ADJUDICATOR}-" in mark)


def _page_digest(rows: list[dict[str, Any]], guidelines: str) -> str:
    """Digest of what people see of each question, and of the guidelines: the server stores more than that."""
    keys = ("value", "text", "description")
    options = [[[o.get(key) for key in keys] for o in q["settings"].get("options") or []] for q in rows]
    visible = {q["name"]: [q["title"], q["required"], seen] for q, seen in zip(rows, options, strict=True)}
    return page_digest([visible, guidelines.strip()])


def _options(question: "QuestionModel") -> dict[str, tuple[str | None, ...]]:
    """value -> (text, description); empty if the question has no options."""
    options = getattr(question.settings, "options", [])
    return {option["value"]: (option.get("text"), option.get("description")) for option in options}


def _slug(mark: str) -> str:
    """The name of a workspace, which may have no spaces."""
    return mark.replace(" ", "-")
