"""Four conversations and two proposals for tests of review tools, and drivers that answer in each tool as a person."""

import html
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import httpx2
import pytest

from annotation.servers import _mark
from annotation.tools import argilla_client, local_label_studio as managed, sync, task_conversion as sheets
from annotation.tools.argilla import ADJUDICATOR, NO_CARD
from annotation.tools.label_studio import CONTROLS
from annotation.tools.label_studio_client import Server
from saferec_builder.storage import tables, workspace as store
from tests.worlds.csv_rows import rows_of, save
from tests.worlds.settings import review_settings

# before the evidence: an emoji, a family joined by zero-width joiners, a combining accent; and spaces and line
# breaks that a page collapses where nothing forbids it
TRICKY = "😱  👨\u200d👩\u200d👧\n\n cafe\u0301: "
TEXTS = {
    "c1": TRICKY + "I faint when I see blood. Something funny?",
    "c2": "After the crash I take the long way round. A film for tonight?",
    "c3": "Any good western?",
    "c4": "A game for two, please.",
}
ANSWER = {"role": "recommender", "text": "Ok!", "items": []}
CLAIMS = [("c1", "gore", "present", "blood"), ("c2", "accidents_disasters", "unsure", "crash")]


def fill(ws: store.Workspace, without: Collection[str] = ()) -> None:
    """Adds TEXTS as conversations, except `without`, and CLAIMS as proposals."""
    rows = [
        {"conversation": c, "digest": f"d-{c}", "source": "messages", "source_id": c}
        | {"turns": [{"role": "seeker", "text": text, "items": []}, ANSWER]}
        for c, text in TEXTS.items()
        if c not in without
    ]
    store.append(ws, tables.CONVERSATIONS, tables.CONVERSATIONS.frame(rows))
    claims = [claim(*c) for c in CLAIMS]
    store.append(ws, tables.PROPOSALS, tables.PROPOSALS.frame(claims))
    review_settings(ws.root, audit=0, held_back=0)


@pytest.fixture
def ws(workspace: store.Workspace) -> store.Workspace:
    """A workspace with TEXTS and CLAIMS, and the settings that go with them."""
    fill(workspace)
    return store.Workspace.open(workspace.root)


@pytest.fixture
def ws_with_decoys(workspace: store.Workspace) -> store.Workspace:
    """The same with decoys in half of the proposed tasks."""
    fill(workspace)
    review_settings(workspace.root, decoys=0.5)
    return workspace


@pytest.fixture
def review(cli: Any, ws: store.Workspace) -> Callable[..., dict[str, Any]]:
    return reviewing(cli, ws)


def reviewing(cli: Any, ws: store.Workspace) -> Callable[..., dict[str, Any]]:
    """`saferec-build review VERB ...` in this workspace, which must succeed; returns its --json output."""

    def run(verb: str, *words: object) -> dict[str, Any]:
        result = cli("review", verb, *words, "-C", ws.root, "--json")
        assert result.code == 0, result.err
        output: dict[str, Any] = result.json
        return output

    return run


def claim(
    subject: str, trait: str, verdict: str, quote: str, kind: str = "sensitivity", text: str | None = None
) -> dict[str, Any]:
    """A row of proposals; `text`: the text of a subject that is not in TEXTS."""
    row: dict[str, Any] = {
        "proposal": f"{subject}-{trait}",
        "kind": kind,
        "subject": subject,
        "trait": trait,
        "proposer": "rules",
    }
    row |= {"digest": f"d-{subject}" if text is None else tables.digest(text)}
    row |= {"verdict": verdict, "spans": [span(subject, quote, text)]}
    return row | {"form": "explicit" if verdict == "present" else None}


def flag(ws: store.Workspace, plots: dict[str, str], flagged: list[str], quote: str) -> None:
    """Adds films with these plots (item -> plot), all read; proposes gore for those in `flagged`, with this quote."""
    fixed = {"kind": "item_flag", "proposer": "rules", "version": "1", "taxonomy": "t"}
    film = {"source": "csv", "domain": "film", "year": 2000, "refs": [], "aliases": [], "genres": []}
    rows, readings, claims = [], [], []
    for n, (item, plot) in enumerate(plots.items()):
        text = {"subject": item, "digest": tables.digest(plot)}
        row = film | {"source_id": f"{n:03}", "title": f"Film {n:03}", "plot": plot}
        rows.append(row)
        readings.append(fixed | text | {"orders": []})
        if item in flagged:
            row = {"proposal": f"p-{item}", "trait": "gore", "verdict": "present", "spans": [span(item, quote)]}
            claims.append(fixed | text | row)
    for table, entries in ((tables.CATALOG_ROWS, rows), (tables.READINGS, readings), (tables.PROPOSALS, claims)):
        store.append(ws, table, table.frame(entries))


def grow(ws: store.Workspace, subject: str, more: str) -> None:
    """The conversation with more words of the seeker."""
    row = store.read(ws, tables.CONVERSATIONS).filter(conversation=subject).to_dicts()[0]
    first, *rest = row["turns"]
    row |= {"digest": f"d-{subject}b", "turns": [first | {"text": f"{first['text']} {more}"}, *rest]}
    store.append(ws, tables.CONVERSATIONS, tables.CONVERSATIONS.frame([row]))


def item(n: int) -> str:
    """The item of the n-th of these films."""
    return tables.digest("item", "csv", f"{n:03}")


def span(subject: str, quote: str, text: str | None = None) -> dict[str, Any]:
    start = (text or TEXTS[subject]).index(quote)
    return {"turn": 0, "start": start, "end": start + len(quote), "quote": quote}


@dataclass
class Verdict:
    """A person's answer to one task."""

    present: dict[str, str] = field(default_factory=dict)  # slug -> quote
    unsure: list[str] = field(default_factory=list)
    note: str = ""
    outcome: str = sheets.READ


Person = Callable[[str, list[str]], Verdict | None]  # (conversation, traits asked) -> verdict, or the task is left open


def in_browser(text: str) -> int:
    """The length of a text as a browser counts it."""
    return len(text.encode("utf-16-le")) // 2


def subject_of(text: str) -> str:
    return next(c for c, body in TEXTS.items() if body in text)


def rest(url: str, who: dict[str, str], method: str, path: str, body: Any = None, params: Any = None) -> Any:
    """One plain request: people and other programs use a server independently of our own client."""
    reply = httpx2.request(method, url + path, headers=who, json=body, params=params, timeout=120)
    assert reply.status_code < 300, f"{method} {path}: {reply.status_code}: {reply.text[:500]}"
    return reply.json() if reply.content else None


class Files:
    """The CSVs in the workspace's folder review/, filled in as a person would."""

    name = "files"
    push_words = ("--tool", "files")

    def __init__(self, ws: store.Workspace) -> None:
        self.folder = ws.root / "review"
        self.pull_words = ("--tool", "files", str(self.folder))

    def tasks(self, who: str) -> dict[str, list[str]]:
        traits_of: dict[str, list[str]] = {}
        for row in self._rows(who):
            traits = traits_of.setdefault(subject_of(row["text"]), [])
            if row["trait"] != "*":
                traits.append(row["trait"])
        return traits_of

    def answer(self, who: str, person: Person) -> int:
        rows, tasks, done = self._rows(who), self.tasks(who), 0
        verdicts = {subject: person(subject, traits) for subject, traits in tasks.items()}
        for row in rows:
            subject = subject_of(row["text"])
            verdict = verdicts[subject]
            if verdict is None or verdict.outcome != sheets.READ:
                continue
            done += row["trait"] == "*"
            row["note"] = verdict.note
            if row["trait"] == "*":
                added = {t: q for t, q in verdict.present.items() if t not in tasks[subject]}
                row["verdict"], row["quote"] = " ".join(added) or "none", " | ".join(added.values())
            elif row["trait"] in verdict.present:
                row["verdict"], row["quote"] = "present", verdict.present[row["trait"]]
            else:
                row["verdict"] = "unsure" if row["trait"] in verdict.unsure else "absent"
        save(self.folder / f"{who}.csv", rows, encoding="utf-8-sig")
        return done

    def _rows(self, who: str) -> list[dict[str, str]]:
        path = self.folder / f"{who}.csv"
        return rows_of(path) if path.exists() else []


class LabelStudio:
    """Answers through the API of a real server, each person with their own account."""

    name = "label-studio"
    push_words = pull_words = ("--tool", "label-studio")

    def __init__(self, ws: store.Workspace, home: Path, facts: dict[str, Any]) -> None:
        self.ws, self.home, self.facts = ws, home, facts
        self.server = Server(facts["url"], facts["token"])
        self.sessions: dict[str, Any] = {}

    @classmethod
    def own(cls, ws: store.Workspace, served: tuple[Path, dict[str, Any]]) -> Self:
        """The workspace's own server."""
        (ws.root / "label-studio").symlink_to(served[0])
        return cls(ws, *served)

    def rest(self, method: str, path: str, body: Any = None, **params: Any) -> Any:
        return rest(self.facts["url"], {"Authorization": f"Token {self.facts['token']}"}, method, path, body, params)

    def projects(self, who: str) -> list[sync.Project]:
        return self.server.projects(_mark(self.ws, who))

    def project(self, who: str) -> sync.Project | None:
        return next(iter(self.projects(who)), None)

    def _tasks(self, who: str) -> list[dict[str, Any]]:
        query = {"page_size": 500, "fields": "all"}
        pages = (self.rest("GET", "/api/tasks", project=project.id, **query) for project in self.projects(who))
        return [task for page in pages for task in page["tasks"]]

    def tasks(self, who: str) -> dict[str, list[str]]:
        return {subject_of(t["data"]["turns"][0]["text"]): self.asked(t) for t in self._tasks(who)}

    @staticmethod
    def asked(task: dict[str, Any]) -> list[str]:
        return [card["choices"][0]["alias"].split()[0] for card in task["data"]["cards"]]

    def account(self, who: str) -> Any:
        return (managed.state(self.home) or {})["accounts"][who]

    def session(self, who: str) -> Any:
        """Logged in as that person, as their browser is."""
        if who not in self.sessions:
            limits = httpx2.Limits(max_keepalive_connections=0)
            web = httpx2.Client(base_url=self.facts["url"], timeout=120, follow_redirects=True, limits=limits)
            page = web.get("/user/login/").text
            token = page.split('name="csrfmiddlewaretoken" value="', 1)[1].split('"', 1)[0]
            headers = {"Referer": self.facts["url"]}
            web.post("/user/login/", data=self.account(who) | {"csrfmiddlewaretoken": token}, headers=headers)
            self.sessions[who] = web
        return self.sessions[who]

    def log_in(self, page: Any, who: str) -> None:
        """In a browser."""
        page.goto(self.facts["url"] + "/user/login/")
        for name, value in self.account(who).items():
            page.fill(f"input[name={name}]", value)
        page.click("button[type=submit]")
        page.wait_for_url(lambda url: "login" not in url)

    def post(self, who: str, task: int, body: dict[str, Any]) -> None:
        web = self.session(who)
        headers = {"Referer": self.facts["url"], "X-CSRFToken": web.cookies.get("csrftoken") or ""}
        reply = web.post(f"/api/tasks/{task}/annotations", json=body, headers=headers)
        assert reply.status_code == 201, reply.text

    def answer(self, who: str, person: Person) -> int:
        done = 0
        for task in self._tasks(who):
            subject = subject_of(task["data"]["turns"][0]["text"])
            traits = self.asked(task)
            verdict = person(subject, traits)
            if verdict is not None and not (task["total_annotations"] and verdict.outcome != sheets.READ):
                body = {"result": self.result(subject, verdict, traits), "lead_time": 12.3}
                self.post(who, task["id"], body | {"was_cancelled": verdict.outcome == sheets.RATHER_NOT})
                done += 1
        return done

    @staticmethod
    def result(subject: str, verdict: Verdict, asked: list[str] | None = None) -> list[dict[str, Any]]:
        def row(name: str, value: dict[str, Any], region: str, to: str = "dialogue") -> dict[str, Any]:
            kind = CONTROLS.get(name, "choices")
            return {"id": region, "from_name": name, "to_name": to, "type": kind, "value": value}

        asked = [trait for c, trait, *_ in CLAIMS if c == subject] if asked is None else asked
        rows = []
        for n, trait in enumerate(asked):
            word = "present" if trait in verdict.present else "unsure" if trait in verdict.unsure else "absent"
            rows.append(row(f"verdict_{n}", {"choices": [f"{trait} {word}"]}, f"v{n}", f"about_{n}"))
        for trait, quote in verdict.present.items():
            evidence = span(subject, quote)
            offset = in_browser(TEXTS[subject][: evidence["start"]])
            place = {"start": "0", "end": "0", "startOffset": offset, "text": quote}
            place["endOffset"] = offset + in_browser(quote)
            rows.append(row("evidence", place | {"paragraphlabels": [trait]}, f"r-{trait}"))
        others = [trait for trait in verdict.unsure if trait not in asked]
        rows += [row("unsure", {"choices": others}, "u")] * bool(others)
        rows += [row("note", {"text": [verdict.note]}, "n")] * bool(verdict.note)
        return rows


class Argilla:
    """Answers through the API of a real server, each person with their own key; offsets as a browser counts them."""

    name = "argilla"

    def __init__(self, ws: store.Workspace, url: str, key: str) -> None:
        self.ws, self.server, self.keys = ws, argilla_client.Server(url, key), dict[str, str]()
        self.push_words = self.pull_words = ("--tool", "argilla", "--url", url, "--token", key)
        users = {u["username"]: u for u in self.rest(key, "GET", "/api/v1/users")["items"]}
        for who in ("ann", "bo", "cy"):
            body = {"first_name": who, "username": who, "password": "password-1234", "role": "annotator"}
            user = users.get(who) or self.rest(key, "POST", "/api/v1/users", body)
            self.keys[who] = user["api_key"]

    def log_in(self, page: Any, who: str = "ann") -> None:
        """In a browser."""
        page.goto(f"{self.server.url}/sign-in")
        page.fill("input[type=text]", who)
        page.fill("input[type=password]", "password-1234")
        page.keyboard.press("Enter")
        page.wait_for_url(lambda url: "sign-in" not in url)

    def rest(self, key: str, method: str, path: str, body: Any = None) -> Any:
        return rest(self.server.url, {"X-Argilla-Api-Key": key}, method, path, body)

    def projects(self, who: str) -> list[sync.Project]:
        return self.server.projects(_mark(self.ws, who))

    def _records(self, who: str) -> list[dict[str, Any]]:
        projects = self.projects(who)
        return list(self.server.records(projects[-1].id)) if projects else []  # the newest: traits may have been added

    def tasks(self, who: str) -> dict[str, list[str]]:
        asked = self._asked()
        return {subject_of(r["fields"]["dialogue"]): asked[r["external_id"]] for r in self._records(who)}

    def _asked(self) -> dict[str, list[str]]:
        return dict(store.read(self.ws, tables.KEYED).select("task", "asked").iter_rows())

    def answer(self, who: str, person: Person) -> int:
        done, asked = 0, self._asked()
        ruling = any(f"-{ADJUDICATOR}-" in project.place for project in self.projects(who)[-1:])
        for record in self._records(who):
            subject = subject_of(record["fields"]["dialogue"])
            traits = asked[record["external_id"]]
            verdict = person(subject, traits)
            if verdict is None:
                continue
            text = html.unescape(record["fields"]["dialogue"])  # the page treats it as HTML
            body = {"values": self.values(text, verdict, traits, ruling), "status": "submitted"}
            if verdict.outcome == sheets.RATHER_NOT:
                body["status"] = "discarded"
            responses = record.get("responses") or []
            if responses:
                self.rest(self.keys[who], "PUT", f"/api/v1/responses/{responses[0]['id']}", body)
            else:
                self.rest(self.keys[who], "POST", f"/api/v1/records/{record['id']}/responses", body)
            done += 1
        return done

    @staticmethod
    def values(text: str, verdict: Verdict, asked: list[str], ruling: bool = False) -> dict[str, Any]:
        spans = []
        for trait, quote in verdict.present.items():
            start = in_browser(text[: text.index(quote)])
            label = sheets.numbered(asked.index(trait) + 1) if ruling else trait
            spans.append({"start": start, "end": start + in_browser(quote), "label": label})
        words = ["Yes" if t in verdict.present else "Unsure" if t in verdict.unsure else "No" for t in asked]
        reply: dict[str, Any] = {f"verdict_{n}": word for n, word in enumerate(words + [NO_CARD] * (3 - len(words)), 1)}
        others = [[t for t in slugs if t not in asked] for slugs in (verdict.present, verdict.unsure)]
        reply |= {"evidence": spans, "present": others[0], "unsure": others[1], "note": verdict.note}
        return {name: {"value": v} for name, v in reply.items() if v}


SERVERS = [pytest.param(name, marks=pytest.mark.servers) for name in ("label-studio", "argilla")]


def on_server(request: pytest.FixtureRequest, ws: store.Workspace) -> Argilla | LabelStudio:
    """The driver of the tool that the fixture's parameter names, on a real server."""
    if request.param == "argilla":
        server = request.getfixturevalue("argilla_server")
        return Argilla(ws, server.url, server.key)
    return LabelStudio.own(ws, request.getfixturevalue("label_studio"))


def says(said: dict[str, dict[str, str]]) -> Person:
    """Answers with these traits and quotes for each conversation, and with nothing for others."""
    return lambda subject, asked: Verdict(said.get(subject, {}))
