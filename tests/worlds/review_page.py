"""The page of `review serve` for the length of a test, on the world of review_world."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2

from annotation.page import links, serving
from annotation.page.tasks import Given, Tasks, content
from annotation.push import push
from annotation.review_destinations import ReviewPage
from annotation.tools import task_conversion
from saferec_builder.storage import tables, workspace as store
from tests.worlds import review_world
from tests.worlds.settings import review_settings

DRAWN = 550  # ms: for half a second after a task is shown no key ends it


@dataclass
class Opened:
    """A page that answers browsers. `link`: a person's; `browser`: a client, logged in if a name is given."""

    ws: store.Workspace
    served: serving.Served
    ending: ExitStack = field(default_factory=ExitStack)

    def link(self, name: str) -> str:
        return self.served.links.get(name) or links.make(self.ws, [name])[name]

    def browser(self, name: str | None = None) -> httpx2.Client:
        web = httpx2.Client(base_url=self.served.address, headers={"Origin": self.served.address}, timeout=60)
        self.ending.enter_context(web)
        if name:
            assert web.post("/tasks", json={"token": self.link(name).partition("#")[2]}).status_code == 200
        return web


@contextmanager
def opened(ws: store.Workspace, *names: str, practice: bool = False, **words: Any) -> Iterator[Opened]:
    """Pushes tasks to these people and serves the page; without names it serves what was pushed before."""
    from annotation.page import app  # which needs the extra `page`

    if names:
        push(ws, names, to=ReviewPage(), **words)
    served = serving.serve(ws, port=0, practice=practice)
    server = app.server(served.tasks, served.address, practice)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [served.listening]}, daemon=True)
    thread.start()
    try:
        page = Opened(ws, served)
        with page.ending:
            yield page
    finally:
        server.should_exit = True
        thread.join()


class Page:
    """Answers on the page through its queue, as the drivers of review_world do. It serves until settings change."""

    name, push_words = "page", ("--tool", "page")

    def __init__(self, ws: store.Workspace) -> None:
        self.ws, self.served, self.settings, self.pulled = ws, None, "", 0

    @property
    def page(self) -> Tasks:
        settings = (self.ws.root / "saferec.toml").read_text()
        if self.served is None or settings != self.settings:
            self.served, self.settings = Tasks(store.Workspace.open(self.ws.root)), settings
        return self.served

    def pull(self) -> dict[str, int]:
        """There is nothing to pull; reviews stored since the last call count as pulled."""
        earlier, self.pulled = self.pulled, store.read(self.ws, tables.REVIEWS).height
        return {"added": self.pulled - earlier, "skipped": earlier}

    def tasks(self, who: str) -> dict[str, list[str]]:
        page = self.page
        page.first(who)
        sheets = page._open.get(who, {}).values()
        return {review_world.subject_of(sheet.turns[0]["text"]): sheet.asked for sheet in sheets}

    def answer(self, who: str, person: review_world.Person) -> int:
        """Answers the open tasks, and again those that were answered before."""
        page, done = self.page, 0
        page.first(who)
        answered = {key: sheet for key, sheet in page._answered.items() if sheet.task.reviewer == who}
        for key, sheet in (page._open.get(who, {}) | answered).items():
            subject = review_world.subject_of(sheet.turns[0]["text"])
            if (verdict := person(subject, sheet.asked)) is None:
                continue
            read, done = verdict.outcome == task_conversion.READ, done + 1
            verdicts: dict[str, Any] = {trait: {"verdict": "absent"} for trait in sheet.asked}
            verdicts |= {trait: {"verdict": "unsure"} for trait in verdict.unsure}
            for trait, quote in verdict.present.items():
                evidence = review_world.span(subject, quote)
                verdicts[trait] = {"verdict": "present", "spans": [{k: evidence[k] for k in ("turn", "start", "end")}]}
            body = {"task": key, "again": key in answered, "note": verdict.note}
            body |= {"outcome": "read" if read else "rather_not", "verdicts": verdicts if read else {}}
            page.answer(who, Given.model_validate(body))
        return done


def films(ws: store.Workspace, many: int) -> list[str]:
    """Adds so many conversations without proposals; returns their ids."""
    rows = [
        {"conversation": f"c{n}", "digest": f"d{n}", "source": "messages", "source_id": f"c{n}"}
        | {"turns": [{"role": "seeker", "text": f"Film {n}, please.", "items": []}]}
        for n in range(many)
    ]
    store.append(ws, tables.CONVERSATIONS, tables.CONVERSATIONS.frame(rows))
    review_settings(ws.root, audit=0, held_back=0)
    return sorted(row["conversation"] for row in rows)


def shown(page: Tasks, name: str) -> list[dict[str, Any]]:
    """The open tasks of this person, as the page shows one after the other."""
    page.first(name)
    return [content(sheet, page.review.taxonomy) for sheet in page._open.get(name, {}).values()]


def named(tasks: list[dict[str, Any]], subject: str) -> dict[str, Any]:
    """The task on this conversation of review_world."""
    return next(t for t in tasks if t["turns"][0]["text"] == review_world.TEXTS[subject])


def given(task: dict[str, Any], verdict: str = "present", **more: Any) -> dict[str, Any]:
    """The answer that gives every card this verdict, with the words that were proposed."""
    cards = {c["trait"]: {"verdict": verdict, "form": c["form"], "spans": c["spans"]} for c in task["cards"]}
    return {"task": task["key"], "outcome": "read", "verdicts": cards, "seconds": 4.5} | more


def said(ws: store.Workspace, name: str = "ann") -> dict[tuple[str, str], tuple[Any, ...]]:
    """(conversation, trait) -> (verdict, quotes) of this person's last review."""
    rows = tables.last(store.read(ws, tables.REVIEWS).filter(reviewer=name), "subject", "trait").to_dicts()
    return {(r["subject"], r["trait"]): (r["verdict"], [s["quote"] for s in r["spans"] or []]) for r in rows}


def tasks(ws: store.Workspace, *names: str, **words: Any) -> Tasks:
    """The queue of the page without its server, after a push to these people."""
    push(ws, names, to=ReviewPage(), **words)
    return Tasks(ws)
