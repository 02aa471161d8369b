"""Client of a Label Studio server: the few calls that are needed, each made once, through label-studio-sdk."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from annotation.tools import server_errors as failures, sync
from annotation.tools.guidelines import of_tool
from annotation.tools.label_studio import ADJUDICATOR, LAYOUT, interface, page_of, place, responses_of, task_of
from annotation.tools.reply_models import TASKS
from annotation.tools.task_conversion import Ours, Response, Sheet, page_digest
from saferec_builder.core.errors import ReviewError, strict_json
from saferec_builder.core.json_value import JsonValue
from saferec_builder.core.taxonomy import Taxonomy

if TYPE_CHECKING:
    from httpx import Client
    from label_studio_sdk import LabelStudio

Given = TypeVar("Given")
LOOK = 100  # tasks that one look asks for
LATE = timedelta(minutes=1)  # as long as a transaction of the server may wait for its database


def instructions() -> str:
    """The guidelines as the page that Label Studio shows before the first task, and behind a button later."""
    from markdown_it import MarkdownIt

    page: str = MarkdownIt().render(of_tool("In Label Studio")).strip()  # as the server keeps it
    # nor does it keep a style, and its own has neither bullets nor room above a heading
    return page.replace("<li>", "<li>– ").replace("<h2>", "<br><h2>")


def needed() -> None:
    """Raises where the library is not installed."""
    try:
        import label_studio_sdk  # noqa: F401
    except ModuleNotFoundError:
        raise ReviewError(
            "--tool label-studio needs its library: pip install 'saferec-builder[label-studio]'"
        ) from None


class Server:
    """What the toolkit asks of Label Studio. Projects are found by the mark in their description."""

    tool = "label_studio"
    chunk = 1_000

    def __init__(self, url: str, token: str, timeout: float = 120.0) -> None:
        needed()
        self.url, self.token, self.timeout = url.rstrip("/"), token, timeout

    @cached_property
    def client(self) -> "LabelStudio":
        """Never retries by itself, since a repeated import is a second task; and no connection is kept, since a kept
        one breaks when the server restarts."""
        from label_studio_sdk import LabelStudio

        to = {"base_url": self.url, "api_key": self.token, "timeout": self.timeout}
        return LabelStudio(**to, max_retries=0, httpx_client=self._web)  # type: ignore[no-untyped-call]

    @cached_property
    def _web(self) -> "Client":
        import httpx

        fresh, stays = httpx.Limits(max_keepalive_connections=0), {"response": [failures.stays]}
        return httpx.Client(timeout=self.timeout, limits=fresh, follow_redirects=True, event_hooks=stays)

    @contextmanager
    def _asked(self, doing: str) -> Iterator["LabelStudio"]:
        from label_studio_sdk.core.api_error import ApiError
        from label_studio_sdk.core.parse_error import ParsingError

        with failures.explained(self.url, doing, ApiError, ParsingError, hide=self.token):
            yield self.client

    def _given(self, value: Given | None) -> Given:
        """The library takes any JSON for an answer, and leaves empty what is not in it: that is not "nothing there"."""
        if value is None:
            raise ReviewError(f"{self.url}: the answer was not understood: is this address really a Label Studio?")
        return value

    def projects(self, mark: str) -> list[sync.Project]:
        """Those whose description begins with the mark, oldest first."""
        with self._asked("list the projects") as client:
            pages = client.projects.list(page_size=100)  # type: ignore[var-annotated]
            self._given(pages.items)
            found = [_project(p) for p in pages]
        return sorted((p for p in found if p.place.startswith(mark)), key=lambda p: int(p.id))

    def place(self, mark: str, role: str, cards: int) -> str:
        return place(mark, role)

    def project(
        self, mark: str, name: str, account: str, taxonomy: Taxonomy, closed: Collection[str] = ()
    ) -> sync.Project:
        """The reviewer's project, made or mended; the account needs nothing more, the open edition shares all."""
        ruling = mark.endswith(ADJUDICATOR)
        config, title = interface(taxonomy, ruling), f"{'Disputes' if ruling else 'Conversations'} for {name}"
        found = sync.project(self.projects, lambda word: self.make(title, word, config), mark, closed)
        return self.mend(found, config)

    def project_page(self, mark: str, taxonomy: Taxonomy) -> str:
        """Names what `project` makes it show."""
        return _page(interface(taxonomy, mark.endswith(ADJUDICATOR)), instructions())

    def project_page_there(self, project: sync.Project) -> str:
        return _page(*project.setup)

    def task_of(self, sheet: Sheet, guideline: str, taxonomy: Taxonomy) -> sync.Payload:
        return task_of(sheet, taxonomy)

    def page_of(self, task: sync.Payload) -> str:
        return page_of(task["data"])

    def names(self, accounts: dict[str, str], names: Iterable[str]) -> dict[str, str]:
        return {str(user): name for user, name in names_of(self.people(), accounts, names).items()}

    def touched(self, project: sync.Project, seen: sync.Touched) -> sync.Touched:
        """The tasks with an answer that were touched since shortly before the last that was seen; any of the project
        where nothing was seen, or they are more than a page.

        The server writes a time before it commits, so a task may turn up with an earlier one than another had.
        """
        last, whole = max((when for _, when in seen), default=None), frozenset[tuple[str, datetime]]()
        if last is None:
            whole = frozenset(("", when) for _, when, _ in self._newest(project, 1))
            if not whole:
                return whole
            ((_, last),) = whole
        rows = self._newest(project, LOOK, since=last - LATE)
        if len(rows) == LOOK:
            return frozenset(("", when) for _, when, _ in rows[:1])
        # with those that an all is said of: at the next look they are not new
        return whole | {(task, when) for task, when, r in rows if r.total_annotations or r.cancelled_annotations}

    def _newest(
        self, project: sync.Project, most: int, since: datetime | None = None
    ) -> list[tuple[str, datetime, Any]]:
        """(task, when it was touched, its row), the last first."""
        query: dict[str, JsonValue] = {"ordering": ["-tasks:updated_at"]}
        if since:
            value = since.isoformat(timespec="microseconds").replace("+00:00", "Z")
            after = {"filter": "filter:tasks:updated_at", "operator": "greater_or_equal", "type": "Datetime"}
            query |= {"filters": {"conjunction": "and", "items": [after | {"value": value}]}}
        with self._asked(f"look for new answers in project {project.id}") as client:
            page: Any = client.tasks.list(
                project=int(project.id), page_size=most, fields="task_only", query=json.dumps(query)
            )
        return [(str(row.id), self._given(row.updated_at), row) for row in self._given(page.items)]

    def responses(
        self, project: sync.Project, people: dict[str, str], ours: Ours, tasks: Collection[str], keys: Mapping[str, str]
    ) -> Iterator[Response]:
        known = {int(user): name for user, name in people.items()}
        for task in self.answered(project.id, tasks):
            cards = f" {LAYOUT} " in project.place
            key = keys.get(str(task["id"]))
            for response in responses_of(task, known, project.id, ours, cards=cards, key=key):
                response.link = f"{self.url}/projects/{project.id}/data?task={task['id']}"
                response.project = project.id
                yield response

    def invite(self) -> str:
        """Path of a new page on which a reviewer signs up; from now on nobody can on an earlier one, though every
        reviewer may have read it."""
        with self._asked("make a new sign-up page"):  # the library has no call for it
            who = {"Authorization": f"Token {self.token}"}
            answer = self._web.post(f"{self.url}/api/invite/reset-token", headers=who).raise_for_status()
            found = strict_json(answer.content)
            return str(self._given(found.get("invite_url") if isinstance(found, dict) else None))

    def make(self, title: str, description: str, config: str) -> sync.Project:
        with self._asked("make a project") as client:
            made = client.projects.create(
                title=title[:50],
                description=description,
                label_config=config,
                maximum_annotations=1,
                show_collab_predictions=True,
                enable_empty_annotation=True,
                expert_instruction=instructions(),
                show_instruction=True,
            )
        self._given(made.id)
        return _project(made)

    def mend(self, project: sync.Project, config: str) -> sync.Project:
        """Puts our interface and guidelines there where the taxonomy or they changed."""
        shown, read = project.setup or ("", "")
        new: dict[str, Any] = {"label_config": config} if shown.strip() != config.strip() else {}
        new |= {"expert_instruction": instructions(), "show_instruction": True} if read != instructions() else {}
        if not new:
            return project
        with self._asked(f"put the page of project {project.id} right") as client:
            client.projects.update(int(project.id), **new)
            return _project(client.projects.get(int(project.id)))

    def count(self, project: str) -> int:
        with self._asked(f"count the tasks of project {project}") as client:
            return int(self._given(client.projects.get(int(project)).task_number))

    def send(self, project: str, tasks: list[sync.Payload]) -> list[str]:
        with self._asked(f"import {len(tasks)} tasks into project {project}") as client:
            reply = client.projects.import_tasks(int(project), request=tasks, return_task_ids=True)  # type: ignore[arg-type]
        return [str(n) for n in getattr(reply, "task_ids", None) or []]  # the library does not list this field

    def keys(self, project: str) -> list[tuple[str, str, bool]]:
        """(key, task id, whether anybody has answered it) of every task there."""
        with self._asked(f"list the tasks of project {project}") as client:
            pages: Any = client.tasks.list(project=int(project), page_size=500, fields="task_only")
            self._given(pages.items)
            rows: list[Any] = list(pages)
        given = [bool(row.total_annotations or row.cancelled_annotations) for row in rows]  # a skipped task is answered
        return [(str((row.data or {}).get("key")), str(row.id), there) for row, there in zip(rows, given, strict=True)]

    def delete(self, task: str) -> None:
        with self._asked(f"delete task {task}") as client:
            client.tasks.delete(task)

    def answered(self, project: str, tasks: Collection[str] = ()) -> list[dict[str, Any]]:
        """Every task with an annotation, or these of them. The server keeps a copy of what it sends in its folder
        data/export: of our own server `local_label_studio.clear_exports` removes it."""
        some = {"additional_query_parameters": {"ids[]": sorted(tasks)}}  # the library asks for `ids`, and gets all
        with self._asked(f"export project {project}") as client:
            how: Any = {"export_type": "JSON", "request_options": some if tasks else None}
            found = strict_json(b"".join(client.projects.exports.download_sync(int(project), **how)))
            TASKS.validate_python(found)
            return list(found)

    def people(self) -> dict[int, tuple[str, ...]]:
        """user id -> what may name that person: e-mail, its part before the @, user name."""
        with self._asked("list the users") as client:
            users = client.users.list()
            return {int(u.id): (u.email, u.email.split("@")[0], u.username or "") for u in users}


def _project(found: Any) -> sync.Project:
    place = str(found.description or "").split("\n")[0]
    setup = (str(found.label_config or ""), str(found.expert_instruction or ""))
    return sync.Project(str(found.id), str(found.title), place, setup, made=str(found.created_at))


def _page(config: str, guidelines: str) -> str:
    return page_digest([config.strip(), guidelines])


def names_of(people: dict[int, tuple[str, ...]], accounts: dict[str, str], names: Iterable[str]) -> dict[int, str]:
    """user id -> reviewer, by the account given in saferec.toml, else by a name that fits; no stranger gets theirs."""
    names = list(names)
    by_account = {accounts.get(name, name).casefold(): name for name in names}
    taken = {name.casefold() for name in names}
    fits = {
        user: [by_account[k.casefold()] for k in known if k.casefold() in by_account] for user, known in people.items()
    }
    found = {}
    for user, known in people.items():
        other = known[1] if known[1] and known[1].casefold() not in taken else f"user-{user}"
        found[user] = fits[user][0] if fits[user] else other
        for name in fits[user][1:]:
            if name != found[user] and not any(name in of for them, of in fits.items() if them != user):
                raise ReviewError(
                    f"{known[0]} could be {found[user]} and {name}: one person is never two readers: say who is who:"
                    f' [review] accounts = {{ {name} = "..." }} in saferec.toml'
                )
    for name in names:
        if len(same := [people[user][0] for user, known in found.items() if known == name]) > 1:
            raise ReviewError(
                f"{' and '.join(same)} could both be {name}: say who is: "
                f'[review] accounts = {{ {name} = "{same[0]}" }} in saferec.toml'
            )
    return found
