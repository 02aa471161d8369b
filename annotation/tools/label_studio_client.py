"""Client of a Label Studio server: the few calls that the toolkit needs, through label-studio-sdk, never retried."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from annotation.tools import server_errors, sync
from annotation.tools.guidelines import page_for
from annotation.tools.label_studio import ADJUDICATOR, LAYOUT, interface, page_of, place, responses_of, task_of
from annotation.tools.reply_models import TASKS
from annotation.tools.task_conversion import Ours, Response, page_digest
from saferec_builder.core.addresses import is_loopback
from saferec_builder.core.errors import ReviewError, strict_json
from saferec_builder.core.json_value import JsonValue
from saferec_builder.core.taxonomy import Taxonomy

if TYPE_CHECKING:
    from httpx import Client
    from label_studio_sdk import LabelStudio

Given = TypeVar("Given")
LOOK = 100  # tasks per request for new answers
LATE = timedelta(minutes=1)  # the longest that a server's transaction waits for its database


def instructions() -> str:
    """The guidelines as HTML; Label Studio shows them before the first task, and later behind a button."""
    from markdown_it import MarkdownIt

    page: str = MarkdownIt().render(page_for("In Label Studio")).strip()  # as the server stores it
    # the server removes styles, and its own has no bullets and no space above headings
    return page.replace("<li>", "<li>– ").replace("<h2>", "<br><h2>")


START = "`saferec-build review up` starts the workspace's own Label Studio"


class Server:
    """The requests that the toolkit makes to Label Studio. Projects are found by the mark in their description."""

    tool = "label_studio"
    chunk, page_size = 1_000, 500
    place, task_of, page_of = staticmethod(place), staticmethod(task_of), staticmethod(page_of)

    def __init__(self, url: str, token: str, timeout: float = 120.0) -> None:
        server_errors.needed("label_studio_sdk", "label-studio")
        self.url, self.token, self.timeout = url.rstrip("/"), token, timeout

    @cached_property
    def client(self) -> "LabelStudio":
        """A client that never retries, since a repeated import would make a second task, and keeps no connection alive,
        since it would break when the server restarts."""
        from label_studio_sdk import LabelStudio

        options = {"base_url": self.url, "api_key": self.token, "timeout": self.timeout}
        return LabelStudio(**options, max_retries=0, httpx_client=self._web)  # type: ignore[no-untyped-call]

    @cached_property
    def _web(self) -> "Client":
        import httpx

        limits, hooks = httpx.Limits(max_keepalive_connections=0), {"response": [server_errors.refuse_foreign_redirect]}
        return httpx.Client(
            timeout=self.timeout,
            limits=limits,
            follow_redirects=True,
            event_hooks=hooks,
            trust_env=not is_loopback(self.url),  # no proxy is asked for this machine
        )

    @contextmanager
    def _requests(self, doing: str) -> Iterator["LabelStudio"]:
        from label_studio_sdk.core.api_error import ApiError
        from label_studio_sdk.core.parse_error import ParsingError

        with server_errors.translated_errors(self.url, doing, ApiError, ParsingError, hide=self.token, start=START):
            yield self.client

    def _required(self, value: Given | None) -> Given:
        """Returns the value; raises if it is None: the library accepts any JSON and sets missing fields to None."""
        if value is None:
            raise ReviewError(f"{self.url}: the answer was not understood: is this address really a Label Studio?")
        return value

    def projects(self, mark: str) -> list[sync.Project]:
        """The projects whose description begins with the mark; the oldest first."""
        with self._requests("list the projects") as client:
            pages = client.projects.list(page_size=100)  # type: ignore[var-annotated]
            self._required(pages.items)
            projects = [_project(p) for p in pages]
        return sorted((p for p in projects if p.place.startswith(mark)), key=lambda p: int(p.id))

    def project(
        self, mark: str, name: str, account: str, taxonomy: Taxonomy, closed: Collection[str] = ()
    ) -> sync.Project:
        """The reviewer's project, created or updated; every account can open it, since the open edition shares all."""
        ruling = mark.endswith(ADJUDICATOR)
        config, title = interface(taxonomy, ruling), f"{'Disputes' if ruling else 'Conversations'} for {name}"
        project = sync.project(self.projects, lambda word: self.make(title, word, config), mark, closed)
        return self.mend(project, config)

    def project_page(self, mark: str, taxonomy: Taxonomy) -> str:
        """Digest of the interface and guidelines that `project` sets."""
        return _page_digest(interface(taxonomy, mark.endswith(ADJUDICATOR)), instructions())

    def project_page_there(self, project: sync.Project) -> str:
        return _page_digest(*project.setup)

    def names(self, accounts: dict[str, str], names: Iterable[str]) -> dict[str, str]:
        return {str(user): name for user, name in names_of(self.people(), accounts, names).items()}

    def touched(self, project: sync.Project, seen: sync.Touched) -> sync.Touched:
        """The answered tasks updated after the last time in `seen`, or at most LATE before it. The task "" is the whole
        project: if `seen` is empty, or more tasks changed than fit on one page.

        The server sets the time before it commits, so a task may show up later with an earlier time than another.
        """
        last, touched = max((when for _, when in seen), default=None), frozenset[tuple[str, datetime]]()
        if last is None:
            touched = frozenset(("", when) for _, when, _ in self._newest(project, 1))
            if not touched:
                return touched
            ((_, last),) = touched
        rows = self._newest(project, LOOK, since=last - LATE)
        if len(rows) == LOOK:
            return frozenset(("", when) for _, when, _ in rows[:1])
        # with these beside the task "", they are not new at the next look
        return touched | {(task, when) for task, when, r in rows if r.total_annotations or r.cancelled_annotations}

    def _newest(
        self, project: sync.Project, most: int, since: datetime | None = None
    ) -> list[tuple[str, datetime, Any]]:
        """(task, time of its last update, its row), the latest first."""
        query: dict[str, JsonValue] = {"ordering": ["-tasks:updated_at"]}
        if since:
            value = since.isoformat(timespec="microseconds").replace("+00:00", "Z")
            after = {"filter": "filter:tasks:updated_at", "operator": "greater_or_equal", "type": "Datetime"}
            query |= {"filters": {"conjunction": "and", "items": [after | {"value": value}]}}
        with self._requests(f"look for new answers in project {project.id}") as client:
            page: Any = client.tasks.list(
                project=int(project.id), page_size=most, fields="task_only", query=json.dumps(query)
            )
        return [(str(row.id), self._required(row.updated_at), row) for row in self._required(page.items)]

    def responses(
        self, project: sync.Project, people: dict[str, str], ours: Ours, tasks: Collection[str], keys: Mapping[str, str]
    ) -> Iterator[Response]:
        reviewers = {int(user): name for user, name in people.items()}
        for task in self.answered(project.id, tasks):
            cards = f" {LAYOUT} " in project.place
            key = keys.get(str(task["id"]))
            for response in responses_of(task, reviewers, project.id, ours, cards=cards, key=key):
                response.link = f"{self.url}/projects/{project.id}/data?task={task['id']}"
                response.project = project.id
                yield response

    def invite(self) -> str:
        """Path of a new sign-up page for a reviewer. Earlier paths, which any reviewer may have seen, stop working."""
        with self._requests("make a new sign-up page"):  # the library has no call for it
            headers = {"Authorization": f"Token {self.token}"}
            answer = self._web.post(f"{self.url}/api/invite/reset-token", headers=headers).raise_for_status()
            reply = strict_json(answer.content)
            return str(self._required(reply.get("invite_url") if isinstance(reply, dict) else None))

    def make(self, title: str, description: str, config: str) -> sync.Project:
        with self._requests("make a project") as client:
            project = client.projects.create(
                title=title[:50],
                description=description,
                label_config=config,
                maximum_annotations=1,
                show_collab_predictions=True,
                enable_empty_annotation=True,
                expert_instruction=instructions(),
                show_instruction=True,
            )
        self._required(project.id)
        return _project(project)

    def mend(self, project: sync.Project, config: str) -> sync.Project:
        """Updates the project's interface and guidelines if they are not the current ones."""
        current, text = project.setup or ("", "")
        changes: dict[str, Any] = {"label_config": config} if current.strip() != config.strip() else {}
        changes |= {"expert_instruction": instructions(), "show_instruction": True} if text != instructions() else {}
        if not changes:
            return project
        with self._requests(f"put the page of project {project.id} right") as client:
            client.projects.update(int(project.id), **changes)
            return _project(client.projects.get(int(project.id)))

    def count(self, project: str) -> int:
        with self._requests(f"count the tasks of project {project}") as client:
            return int(self._required(client.projects.get(int(project)).task_number))

    def send(self, project: str, tasks: list[sync.Payload]) -> list[str]:
        with self._requests(f"import {len(tasks)} tasks into project {project}") as client:
            reply = client.projects.import_tasks(int(project), request=tasks, return_task_ids=True)  # type: ignore[arg-type]
        return [str(n) for n in getattr(reply, "task_ids", None) or []]  # the library has no such field

    def keys(self, project: str, page: int | None = None) -> list[tuple[str, str, bool]]:
        """(key, task id, whether anybody has answered it) of every task in the project, or on a page from 0."""
        start = None if page is None else page + 1
        with self._requests(f"list the tasks of project {project}") as client:
            pages: Any = client.tasks.list(
                project=int(project), page=start, page_size=self.page_size, fields="task_only"
            )
            self._required(pages.items)
            rows: list[Any] = pages.items if start else list(pages)
        flags = [bool(row.total_annotations or row.cancelled_annotations) for row in rows]  # a skipped task is answered
        return [(str((row.data or {}).get("key")), str(row.id), flag) for row, flag in zip(rows, flags, strict=True)]

    def delete(self, task: str) -> None:
        with self._requests(f"delete task {task}") as client:
            client.tasks.delete(task)

    def answered(self, project: str, tasks: Collection[str] = ()) -> list[dict[str, Any]]:
        """Every task with an annotation, or those of `tasks` that have one. The server stores a copy in its folder
        data/export; `local_label_studio.clear_exports` removes the copies of our own server."""
        only = {"additional_query_parameters": {"ids[]": sorted(tasks)}}  # the library sends `ids`, and would get all
        with self._requests(f"export project {project}") as client:
            options: Any = {"export_type": "JSON", "request_options": only if tasks else None}
            exported = strict_json(b"".join(client.projects.exports.download_sync(int(project), **options)))
            TASKS.validate_python(exported)
            return list(exported)

    def people(self) -> dict[int, tuple[str, ...]]:
        """user id -> names of that person: e-mail, the part before its @, user name."""
        with self._requests("list the users") as client:
            users = client.users.list()
            return {int(u.id): (u.email, u.email.split("@")[0], u.username or "") for u in users}


def _project(project: Any) -> sync.Project:
    place = str(project.description or "").split("\n")[0]
    setup = (str(project.label_config or ""), str(project.expert_instruction or ""))
    return sync.Project(str(project.id), str(project.title), place, setup, made=str(project.created_at))


def _page_digest(config: str, guidelines: str) -> str:
    return page_digest([config.strip(), guidelines])


def names_of(people: dict[int, tuple[str, ...]], accounts: dict[str, str], names: Iterable[str]) -> dict[int, str]:
    """user id -> reviewer, by the account in saferec.toml, else by a matching name; other users get other names."""
    names = list(names)
    by_account = {accounts.get(name, name).casefold(): name for name in names}
    taken = {name.casefold() for name in names}
    fits = {
        user: [by_account[k.casefold()] for k in logins if k.casefold() in by_account]
        for user, logins in people.items()
    }
    chosen = {}
    for user, logins in people.items():
        other = logins[1] if logins[1] and logins[1].casefold() not in taken else f"user-{user}"
        chosen[user] = fits[user][0] if fits[user] else other
        for name in fits[user][1:]:
            if name != chosen[user] and not any(name in others for them, others in fits.items() if them != user):
                raise ReviewError(
                    f"{logins[0]} could be {chosen[user]} and {name}: one person is never two readers: say who is who:"
                    f' [review] accounts = {{ {name} = "..." }} in saferec.toml'
                )
    for name in names:
        if len(same := [people[user][0] for user, reviewer in chosen.items() if reviewer == name]) > 1:
            raise ReviewError(
                f"{' and '.join(same)} could both be {name}: say who is: "
                f'[review] accounts = {{ {name} = "{same[0]}" }} in saferec.toml'
            )
    return chosen
