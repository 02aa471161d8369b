"""Label Studio: a project per reviewer, a task per sheet; spans there count UTF-16 units of one paragraph.

task_of     sheet -> task with its prediction, as the import takes it
said_of     exported task -> what each person said of it
Server      the few calls that are needed, each made once, through label-studio-sdk
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property, lru_cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from annotation.tools import server_errors as failures, sync
from annotation.tools.guidelines import on_a_server
from annotation.tools.task_sheet import Ours, Said, Sheet, Span, Turns, list_of, points, text_of, theirs, units16, whole
from saferec_builder.core.errors import ReviewError, strict_json
from saferec_builder.core.taxonomy import Taxonomy

if TYPE_CHECKING:
    from httpx import Client
    from label_studio_sdk import LabelStudio

INTERFACE = Path(__file__).with_name("interface.xml")
CONTROLS = {"evidence": "paragraphlabels", "form": "choices", "present": "choices", "unsure": "choices"}
CONTROLS |= {"outcome": "choices", "note": "textarea"}
TOOL = "label_studio"


def interface(taxonomy: Taxonomy) -> str:
    """The labeling interface for this taxonomy; the names of its controls are CONTROLS."""

    def lines(tag: str) -> str:
        hints = {t.slug: escape(f"{t.name}: {t.definition}") for t in taxonomy.traits}
        return "\n".join(f'    <{tag} value="{slug}" hint="{hint}"/>' for slug, hint in hints.items())

    text = INTERFACE.read_text(encoding="utf-8")
    return text.replace("{labels}", lines("Label")).replace("{choices}", lines("Choice"))


# ---- out


def task_of(sheet: Sheet, guideline: str, taxonomy: Taxonomy) -> dict[str, Any]:
    """What the import takes. A prediction that the interface could not hold is a bug, and raises before it leaves."""
    data: dict[str, Any] = {
        "key": sheet.key,
        "head": sheet.head,
        "ask": sheet.ask,
        "turns": sheet.turns,
        "asked": sheet.asked,
    }
    data |= {"guideline": guideline, "taxonomy": taxonomy.digest}
    data["shown"] = {trait: spans for trait, (_, _, spans) in sheet.suggested.items()}
    prediction = {"model_version": "proposal", "result": list(_result(sheet))}
    _check(prediction, sheet, taxonomy)
    return {"data": data, "predictions": [prediction] if prediction["result"] else []}


def _result(sheet: Sheet) -> Iterator[dict[str, Any]]:
    shown = sheet.suggested
    for trait, (_, form, spans) in shown.items():
        for n, span in enumerate(spans):
            region = f"{trait}-{n}"
            place = _place(span, sheet.turns[span["turn"]]["text"])
            yield _control("evidence", region, place | {"paragraphlabels": [trait]})
            if form:
                yield _control("form", region, place | {"choices": [form]})
    for verdict in ("present", "unsure"):
        if traits := [t for t, (said, _, _) in shown.items() if said == verdict]:
            yield _control(verdict, verdict, {"choices": traits})


def _control(name: str, region: str, value: dict[str, Any]) -> dict[str, Any]:
    return {"id": region, "from_name": name, "to_name": "dialogue", "type": CONTROLS[name], "value": value}


def _place(span: Span, text: str) -> dict[str, Any]:
    start, end = units16(text, span["start"]), units16(text, span["end"])
    turn = str(span["turn"])
    return {"start": turn, "end": turn, "startOffset": start, "endOffset": end, "text": span["quote"]}


def _check(prediction: dict[str, Any], sheet: Sheet, taxonomy: Taxonomy) -> None:
    """The server takes any prediction; so the library holds it against the interface, and we read every place back."""
    faults = _schema(interface(taxonomy)).validate_prediction(prediction, return_errors=True) or []
    if isinstance(faults, list) and faults:
        raise ReviewError(f"{sheet.key}: {faults[0][:300]}: propose again")
    for value in (row["value"] for row in prediction["result"] if "start" in row["value"]):
        text = sheet.turns[int(value["start"])]["text"]
        if text[points(text, value["startOffset"]) : points(text, value["endOffset"])] != value["text"]:
            raise ReviewError(f"{sheet.key}: the quote {value['text'][:60]!r} is not in its turn: propose again")


@lru_cache(maxsize=4)
def _schema(config: str) -> Any:
    from label_studio_sdk.label_interface.interface import LabelInterface

    return LabelInterface(config)


# ---- in


def said_of(task: dict[str, Any], people: dict[int, str], project: int, ours: Ours) -> Iterator[Said]:
    """One per annotation, oldest first; what is no annotation of ours at all comes back with nothing said.

    Places are read in our own text, which `ours` gives: what the server shows may have been edited there. It keeps
    whatever its users send, as an answer and as a task's data: what has another shape is not there.
    """
    task = whole(task)
    data = task["data"] if isinstance(task.get("data"), dict) else {}
    for row in sorted(task.get("annotations") or [], key=lambda a: (a.get("updated_at") or "", a["id"])):
        who = row.get("completed_by")
        who = who.get("id") if isinstance(who, dict) else who
        said = Said(
            key=str(data.get("key")),
            who=people.get(who, f"user-{who}") if isinstance(who, int) else "user-unknown",
            place=f"label_studio project {project} task {task['id']} annotation {row['id']}",
            asked=[t for t in list_of(data.get("asked")) if isinstance(t, str)],
            seconds=_seconds(row.get("lead_time")),
            time=_time(row.get("updated_at")),
            guideline=text_of(data.get("guideline")),
            taxonomy=text_of(data.get("taxonomy")),
        )
        shown = [str(turn.get("text", "")) for turn in list_of(data.get("turns")) if isinstance(turn, dict)]
        _read(list_of(row.get("result")), ours(said.key), shown, said)
        before = data.get("shown") if isinstance(data.get("shown"), dict) else {}
        said.shown = {trait: spans for trait, spans in (before or {}).items() if isinstance(spans, list)}
        if row.get("was_cancelled"):
            said.outcome = "skipped"
        yield said


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text.replace("Z", "+00:00")) if text else None


def _seconds(value: Any) -> float | None:
    return round(float(value), 1) if isinstance(value, int | float) and 0 < value < 1e9 else None


def _read(result: list[Any], turns: Turns, shown: list[str], said: Said) -> None:
    result = [row for row in result if isinstance(row, dict) and isinstance(row.get("value"), dict)]
    told = {str(r.get("id")): _names(r)[0] for r in result if r.get("from_name") == "form" and _names(r)}
    forms = {region: form for region, form in told.items() if form in ("explicit", "implicit")}
    for row in result:
        name, names = row.get("from_name"), _names(row)
        if name == "outcome" and names:
            said.outcome = names[0]
        elif name in ("present", "unsure"):
            getattr(said, name).extend(names)
        elif name == "note":
            lines = row["value"].get("text")
            said.note = " ".join(t for t in (list_of(lines) or [lines]) if isinstance(t, str)) or None
        elif name == "evidence":
            for trait in names:
                _spans(row["value"], turns, shown, trait, said)
                if str(row.get("id")) in forms:
                    said.forms.setdefault(trait, forms[str(row.get("id"))])


def _names(row: dict[str, Any]) -> list[str]:
    return [name for name in list_of(row["value"].get(str(row.get("type")))) if isinstance(name, str)]


def _spans(value: dict[str, Any], turns: Turns, shown: list[str], trait: str, said: Said) -> None:
    """A region may run over several turns: one span in each of the seeker's.

    It is lost, with a reason, where it is not in our text, or where the server showed other words at its place.
    """
    try:
        first, last = int(value["start"]), int(value["end"])
        begin, end = int(value["startOffset"]), int(value["endOffset"])
        if min(first, begin, end) < 0:
            raise ValueError("before the beginning")
        texts = [turn["text"] for turn in turns[first : last + 1]]
    except (KeyError, TypeError, ValueError, OverflowError):
        said.lost[trait] = str(value.get("text", ""))
        return
    found: list[Span] = []
    for n, text in enumerate(texts, first):
        start = points(text, begin) if n == first else 0
        stop = points(text, end) if n == last else len(text)
        start += len(text[start:stop]) - len(text[start:stop].lstrip())
        stop = start + len(text[start:stop].rstrip())
        if start < stop:
            found.append({"turn": n, "start": start, "end": stop, "quote": text[start:stop]})
    quote = str(value.get("text") or "")
    others = [other for span in found if (other := _words(shown, span)) != span["quote"]]
    if not found or others or (quote and first == last and _bare(quote) != _bare(found[0]["quote"])):
        said.lost[trait] = quote or " ".join(others)
    said.spans.setdefault(trait, []).extend(theirs(found, turns))


def _words(shown: list[str], span: Span) -> str:
    return shown[span["turn"]][span["start"] : span["end"]] if span["turn"] < len(shown) else ""


def _bare(text: str) -> str:
    """Without spaces and escapes: what a browser may change in the text that it reports."""
    return "".join(text.replace("\\n", "").split())


# ---- the server


def instructions() -> str:
    """The guidelines as the page that Label Studio shows before the first task, and behind a button later."""
    from markdown_it import MarkdownIt

    page: str = MarkdownIt().render(on_a_server()).strip()  # as the server keeps it
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

    tool = TOOL
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

        with failures.told(self.url, doing, ApiError, ParsingError, hide=self.token):
            yield self.client

    def _given(self, value: Any) -> Any:
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
        return sorted((p for p in found if p.place.startswith(mark)), key=lambda p: p.id)

    def project(self, mark: str, name: str, account: str, taxonomy: Taxonomy) -> sync.Project:
        """The reviewer's project, made or mended; the account needs nothing more, the open edition shares all."""
        config = interface(taxonomy)
        found = sync.project(self.projects, lambda word: self.make(f"SafeRec {name}", word, config), mark)
        self.mend(found, config)
        return found

    def task_of(self, sheet: Sheet, guideline: str, taxonomy: Taxonomy) -> dict[str, Any]:
        return task_of(sheet, guideline, taxonomy)

    def names(self, accounts: dict[str, str], names: Iterable[str]) -> dict[int, str]:
        return names_of(self.people(), accounts, names)

    def said(self, project: sync.Project, people: dict[int, str], ours: Ours) -> Iterator[Said]:
        for task in self.answered(project.id):
            yield from said_of(task, people, project.id, ours)

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

    def mend(self, project: sync.Project, config: str) -> None:
        """Puts our interface and guidelines there where somebody edited them, or the taxonomy or they changed."""
        shown, read = project.setup or ("", "")
        if str(shown).strip() != config.strip():
            with self._asked(f"put the interface of project {project.id} back") as client:
                client.projects.update(project.id, label_config=config)
        if read != instructions():
            with self._asked(f"put the guidelines of project {project.id} right") as client:
                client.projects.update(project.id, expert_instruction=instructions(), show_instruction=True)

    def count(self, project: int) -> int:
        with self._asked(f"count the tasks of project {project}") as client:
            return int(self._given(client.projects.get(project).task_number))

    def send(self, project: int, tasks: list[dict[str, Any]]) -> list[str]:
        with self._asked(f"import {len(tasks)} tasks into project {project}") as client:
            reply = client.projects.import_tasks(project, request=tasks, return_task_ids=True)  # type: ignore[arg-type]
        return [str(n) for n in getattr(reply, "task_ids", None) or []]  # the library does not list this field

    def keys(self, project: int) -> list[tuple[str, str, bool]]:
        """(key, task id, whether anybody has answered it) of every task there."""
        with self._asked(f"list the tasks of project {project}") as client:
            pages: Any = client.tasks.list(project=project, page_size=500, fields="task_only")
            self._given(pages.items)
            rows: list[Any] = list(pages)
        return [(str((row.data or {}).get("key")), str(row.id), bool(row.total_annotations)) for row in rows]

    def delete(self, task: str) -> None:
        with self._asked(f"delete task {task}") as client:
            client.tasks.delete(task)

    def answered(self, project: int) -> list[dict[str, Any]]:
        """Every task with an annotation. By the plain export: a snapshot (`exports.as_json`) takes four requests and
        stays on the server."""
        with self._asked(f"export project {project}") as client:
            return list(strict_json(b"".join(client.projects.exports.download_sync(project, export_type="JSON"))))

    def people(self) -> dict[int, tuple[str, ...]]:
        """user id -> what may name that person: e-mail, its part before the @, user name."""
        with self._asked("list the users") as client:
            users = client.users.list()
        return {int(u.id): (u.email, u.email.split("@")[0], u.username or "") for u in users}


def _project(found: Any) -> sync.Project:
    place = str(found.description or "").split("\n")[0]
    return sync.Project(int(found.id), str(found.title), place, (found.label_config, found.expert_instruction))


def names_of(people: dict[int, tuple[str, ...]], accounts: dict[str, str], names: Iterable[str]) -> dict[int, str]:
    """user id -> reviewer, by the account given in saferec.toml, else by a name that fits; no stranger gets theirs."""
    names = list(names)
    wanted = {accounts.get(name, name).casefold(): name for name in names}
    taken = {name.casefold() for name in names}
    fits = {user: [wanted[k.casefold()] for k in known if k.casefold() in wanted] for user, known in people.items()}
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
        if len(same := [people[user][0] for user, told in found.items() if told == name]) > 1:
            raise ReviewError(
                f"{' and '.join(same)} could both be {name}: say who is: "
                f'[review] accounts = {{ {name} = "{same[0]}" }} in saferec.toml'
            )
    return found
