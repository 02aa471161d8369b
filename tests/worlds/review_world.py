"""Four conversations and two proposals, for every test of a review tool; and what a person does in each tool."""

import html
import json
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from annotation.tools import sync, task_conversion as sheets
from annotation.tools.argilla import NO_CARD
from annotation.tools.label_studio import CONTROLS
from annotation.tools.label_studio_client import Server
from saferec_builder.storage import tables, workspace as store
from tests.worlds.csv_rows import rows_of, save
from tests.worlds.settings import review_settings

# before the words that count: an emoji, a family joined by zero-width joiners, a combining accent; and spaces and line
# breaks that a page collapses where nothing forbids it
TRICKY = "😱  👨\u200d👩\u200d👧\n\n cafe\u0301: "
TEXTS = {
    "c1": TRICKY + "I faint when I see blood. Something funny?",
    "c2": "After the crash I take the long way round. A film for tonight?",
    "c3": "Any good western?",
    "c4": "A game for two, please.",
}
CLAIMS = [("c1", "gore", "present", "blood"), ("c2", "accidents_disasters", "unsure", "crash")]


def fill(ws: store.Workspace, without: Collection[str] = ()) -> None:
    """TEXTS as conversations, but for some, and CLAIMS as proposals."""
    rows = [
        dict.fromkeys(tables.CONVERSATIONS.columns)
        | {"conversation": c, "digest": f"d-{c}", "source": "messages", "source_id": c}
        | {
            "turns": [
                {"role": "seeker", "text": text, "items": []},
                {"role": "recommender", "text": "Ok!", "items": []},
            ]
        }
        for c, text in TEXTS.items()
        if c not in without
    ]
    store.append(ws, tables.CONVERSATIONS, tables.CONVERSATIONS.frame(rows))
    claims = [claim(*c) for c in CLAIMS]
    store.append(ws, tables.PROPOSALS, tables.PROPOSALS.frame(claims))
    review_settings(ws.root, audit=0, held_back=0)


@pytest.fixture
def ws(workspace: store.Workspace) -> store.Workspace:
    """TEXTS and CLAIMS, with the settings that go with these."""
    fill(workspace)
    return store.Workspace.open(workspace.root)


@pytest.fixture
def review(cli: Any, ws: store.Workspace) -> Callable[..., dict[str, Any]]:
    return reviewing(cli, ws)


def reviewing(cli: Any, ws: store.Workspace) -> Callable[..., dict[str, Any]]:
    """`saferec-build review VERB ...` in this workspace, which must go well: what it says with --json."""

    def run(verb: str, *words: object) -> dict[str, Any]:
        ran = cli("review", verb, *words, "-C", ws.root, "--json")
        assert ran.code == 0, ran.err
        told: dict[str, Any] = ran.json
        return told

    return run


def claim(
    subject: str, trait: str, verdict: str, quote: str, kind: str = "sensitivity", text: str | None = None
) -> dict[str, Any]:
    """A row of proposals; `text`: of what is none of TEXTS."""
    row = dict.fromkeys(tables.PROPOSALS.columns)
    row |= {"proposal": f"{subject}-{trait}", "kind": kind, "subject": subject, "trait": trait, "proposer": "rules"}
    row |= {"digest": f"d-{subject}" if text is None else tables.digest(text)}
    row |= {"verdict": verdict, "spans": [span(subject, quote, text)]}
    return row | {"form": "explicit" if verdict == "present" else None}


def flag(ws: store.Workspace, plots: dict[str, str], flagged: list[str], quote: str) -> None:
    """Films with these plots (item -> plot), all read; of those in `flagged` gore is proposed, with this quote."""
    fixed = {"kind": "item_flag", "proposer": "rules", "version": "1", "taxonomy": "t"}
    film = {"source": "csv", "domain": "film", "year": 2000, "refs": [], "aliases": [], "genres": []}
    rows, read, claims = [], [], []
    for n, (item, plot) in enumerate(plots.items()):
        text = {"subject": item, "digest": tables.digest(plot)}
        rows.append(
            dict.fromkeys(tables.CATALOG_ROWS.columns)
            | film
            | {"source_id": f"{n:03}", "title": f"Film {n:03}", "plot": plot}
        )
        read.append(fixed | text | {"orders": []})
        if item in flagged:
            row = {"proposal": f"p-{item}", "trait": "gore", "verdict": "present", "spans": [span(item, quote)]}
            claims.append(dict.fromkeys(tables.PROPOSALS.columns) | fixed | text | row)
    for table, made in ((tables.CATALOG_ROWS, rows), (tables.READINGS, read), (tables.PROPOSALS, claims)):
        store.append(ws, table, pl.DataFrame(made, schema=table.schema))


def item(n: int) -> str:
    """The item of the n-th of these films."""
    return tables.digest("item", "csv", f"{n:03}")


def span(subject: str, quote: str, text: str | None = None) -> dict[str, Any]:
    start = (text or TEXTS[subject]).index(quote)
    return {"turn": 0, "start": start, "end": start + len(quote), "quote": quote}


@dataclass
class Verdict:
    """What a person says of one task."""

    present: dict[str, str] = field(default_factory=dict)  # slug -> quote
    unsure: list[str] = field(default_factory=list)
    note: str = ""
    outcome: str = sheets.READ


Person = Callable[[str, list[str]], Verdict | None]  # (conversation, traits asked) -> verdict, or the task is left open


def subject_of(text: str) -> str:
    return next(c for c, known in TEXTS.items() if known in text)


def rest(url: str, who: dict[str, str], method: str, path: str, body: Any = None, params: Any = None) -> Any:
    """One plain request: what people and other programs do to a server has nothing to do with how we speak to it."""
    import httpx2

    reply = httpx2.request(method, url + path, headers=who, json=body, params=params, timeout=120)
    assert reply.status_code < 300, f"{method} {path}: {reply.status_code}: {reply.text[:500]}"
    return reply.json() if reply.content else None


class Files:
    """The CSVs in the workspace's folder review/, filled in as a person would."""

    name = "files"
    push_words = pull_words = ("--tool", "files")

    def __init__(self, ws: store.Workspace) -> None:
        self.folder = ws.root / "review"
        self.pull_words = ("--tool", "files", str(self.folder))

    def tasks(self, who: str) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for row in self._rows(who):
            asked = found.setdefault(subject_of(row["text"]), [])
            if row["trait"] != "*":
                asked.append(row["trait"])
        return found

    def answer(self, who: str, person: Person) -> int:
        rows, tasks, done = self._rows(who), self.tasks(who), 0
        said = {subject: person(subject, asked) for subject, asked in tasks.items()}
        for row in rows:
            subject = subject_of(row["text"])
            verdict = said[subject]
            if verdict is None or verdict.outcome != sheets.READ:
                continue
            done += row["trait"] == "*"
            row["note"] = verdict.note
            if row["trait"] == "*":
                more = {t: q for t, q in verdict.present.items() if t not in tasks[subject]}
                row["verdict"], row["quote"] = " ".join(more) or "none", " | ".join(more.values())
            elif row["trait"] in verdict.present:
                row["verdict"], row["quote"] = "present", verdict.present[row["trait"]]
            else:
                row["verdict"] = "unsure" if row["trait"] in verdict.unsure else "absent"
        self._write(who, rows)
        return done

    def _rows(self, who: str) -> list[dict[str, str]]:
        path = self.folder / f"{who}.csv"
        return rows_of(path) if path.exists() else []

    def _write(self, who: str, rows: list[dict[str, str]]) -> None:
        save(self.folder / f"{who}.csv", rows, encoding="utf-8-sig")


class LabelStudio:
    """Answers through the API of a real server, each person with their own account."""

    name = "label-studio"

    def __init__(self, ws: store.Workspace, home: Path, facts: dict[str, Any]) -> None:
        self.ws, self.home, self.facts = ws, home, facts
        self.push_words = ("--tool", "label-studio")
        self.pull_words = self.push_words
        self.server = Server(facts["url"], facts["token"])
        self.sessions: dict[str, Any] = {}

    def rest(self, method: str, path: str, body: Any = None, **params: Any) -> Any:
        return rest(self.facts["url"], {"Authorization": f"Token {self.facts['token']}"}, method, path, body, params)

    def projects(self, who: str) -> list[sync.Project]:
        from annotation.servers import _mark

        return self.server.projects(_mark(self.ws, who))

    def project(self, who: str) -> sync.Project | None:
        return next(iter(self.projects(who)), None)

    def _tasks(self, who: str) -> list[dict[str, Any]]:
        asked = {"page_size": 500, "fields": "all"}
        return [
            task
            for project in self.projects(who)
            for task in self.rest("GET", "/api/tasks", project=project.id, **asked)["tasks"]
        ]

    def tasks(self, who: str) -> dict[str, list[str]]:
        return {subject_of(t["data"]["turns"][0]["text"]): self.asked(t) for t in self._tasks(who)}

    @staticmethod
    def asked(task: dict[str, Any]) -> list[str]:
        return [card["choices"][0]["alias"].split()[0] for card in task["data"]["cards"]]

    def session(self, who: str) -> Any:
        """Logged in as that person, as their browser is."""
        import httpx2

        if who not in self.sessions:
            from annotation.tools import local_label_studio as managed

            account = (managed.state(self.home) or {})["accounts"][who]
            web = httpx2.Client(
                base_url=self.facts["url"],
                timeout=120,
                follow_redirects=True,
                limits=httpx2.Limits(max_keepalive_connections=0),
            )
            page = web.get("/user/login/").text
            token = page.split('name="csrfmiddlewaretoken" value="', 1)[1].split('"', 1)[0]
            web.post(
                "/user/login/", data=account | {"csrfmiddlewaretoken": token}, headers={"Referer": self.facts["url"]}
            )
            self.sessions[who] = web
        return self.sessions[who]

    def post(self, who: str, task: int, body: dict[str, Any]) -> None:
        web = self.session(who)
        headers = {"Referer": self.facts["url"], "X-CSRFToken": web.cookies.get("csrftoken") or ""}
        reply = web.post(f"/api/tasks/{task}/annotations", json=body, headers=headers)
        assert reply.status_code == 201, reply.text

    def answer(self, who: str, person: Person) -> int:
        done = 0
        for task in self._tasks(who):
            subject = subject_of(task["data"]["turns"][0]["text"])
            asked = self.asked(task)
            verdict = person(subject, asked)
            if verdict is not None and not (task["total_annotations"] and verdict.outcome != sheets.READ):
                body = {"result": self.result(subject, verdict, asked), "lead_time": 12.3}
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
            at = span(subject, quote)
            before = len(TEXTS[subject][: at["start"]].encode("utf-16-le")) // 2  # what a browser counts
            place = {"start": "0", "end": "0", "startOffset": before, "text": quote}
            place["endOffset"] = before + len(quote.encode("utf-16-le")) // 2
            rows.append(row("evidence", place | {"paragraphlabels": [trait]}, f"r-{trait}"))
        other = [trait for trait in verdict.unsure if trait not in asked]
        rows += [row("unsure", {"choices": other}, "u")] * bool(other)
        rows += [row("note", {"text": [verdict.note]}, "n")] * bool(verdict.note)
        return rows


class Argilla:
    """Answers through the API of a real server, each person with their own key; offsets as a browser counts them."""

    name = "argilla"

    def __init__(self, ws: store.Workspace, url: str, key: str) -> None:
        from annotation.tools.argilla_client import Server

        self.ws, self.server, self.keys = ws, Server(url, key), dict[str, str]()
        self.push_words = self.pull_words = ("--tool", "argilla", "--url", url, "--token", key)
        known = {u["username"]: u for u in self.rest(key, "GET", "/api/v1/users")["items"]}
        for who in ("ann", "bo", "cy"):
            body = {"first_name": who, "username": who, "password": "password-1234", "role": "annotator"}
            made = known.get(who) or self.rest(key, "POST", "/api/v1/users", body)
            self.keys[who] = made["api_key"]

    def rest(self, key: str, method: str, path: str, body: Any = None) -> Any:
        return rest(self.server.url, {"X-Argilla-Api-Key": key}, method, path, body)

    def projects(self, who: str) -> list[sync.Project]:
        from annotation.servers import _mark

        return self.server.projects(_mark(self.ws, who))

    def _records(self, who: str) -> list[dict[str, Any]]:
        found = self.projects(who)
        return list(self.server.records(found[-1].id)) if found else []  # the newest, if traits were added meanwhile

    def tasks(self, who: str) -> dict[str, list[str]]:
        return {
            subject_of(r["fields"]["dialogue"]): json.loads(r["metadata"]["saferec"])["asked"]
            for r in self._records(who)
        }

    def answer(self, who: str, person: Person) -> int:
        done = 0
        for record in self._records(who):
            subject = subject_of(record["fields"]["dialogue"])
            asked = json.loads(record["metadata"]["saferec"])["asked"]
            verdict = person(subject, asked)
            if verdict is None:
                continue
            shown = html.unescape(record["fields"]["dialogue"])  # the page takes it for HTML
            body = {"values": self.values(shown, verdict, asked), "status": "submitted"}
            if verdict.outcome == sheets.RATHER_NOT:
                body["status"] = "discarded"
            mine = record.get("responses") or []
            if mine:
                self.rest(self.keys[who], "PUT", f"/api/v1/responses/{mine[0]['id']}", body)
            else:
                self.rest(self.keys[who], "POST", f"/api/v1/records/{record['id']}/responses", body)
            done += 1
        return done

    @staticmethod
    def values(text: str, verdict: Verdict, asked: list[str]) -> dict[str, Any]:
        spans = []
        for trait, quote in verdict.present.items():
            start = len(text[: text.index(quote)].encode("utf-16-le")) // 2
            end = start + len(quote.encode("utf-16-le")) // 2
            spans.append({"start": start, "end": end, "label": trait})
        words = ["Yes" if t in verdict.present else "Unsure" if t in verdict.unsure else "No" for t in asked]
        said: dict[str, Any] = {f"verdict_{n}": word for n, word in enumerate(words + [NO_CARD] * (3 - len(words)), 1)}
        other = [[t for t in found if t not in asked] for found in (verdict.present, verdict.unsure)]
        said |= {"evidence": spans, "present": other[0], "unsure": other[1], "note": verdict.note}
        return {name: {"value": v} for name, v in said.items() if v}


def taxonomy(ws: store.Workspace, **definitions: str) -> None:
    """The workspace's taxonomy is these traits from now on."""
    name = f"{len(list(ws.root.glob('traits-*.toml')))}"
    rows = [
        f'[[trait]]\nslug = "{slug}"\nname = "{slug}"\ndefinition = "{words}"\ntopics = ["{slug}"]\n'
        for slug, words in definitions.items()
    ]
    (ws.root / f"traits-{name}.toml").write_text("\n".join(rows))
    toml = ws.root / "saferec.toml"
    text = re.sub(r'\[taxonomy\]\n(path = ".*"\n)?', f'[taxonomy]\npath = "traits-{name}.toml"\n', toml.read_text())
    toml.write_text(text)
