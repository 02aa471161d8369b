"""The page of `review serve` as long as a test needs it, before the world of review_world."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2

from annotation.page import links, serving
from annotation.page.tasks import Given, Tasks
from annotation.push import push
from annotation.review_destinations import ReviewPage
from saferec_builder.storage import tables, workspace as store
from tests.worlds import review_world

NONCE = "a nonce {}".format
DRAWN = 550  # ms: for half a second after a task is drawn no key ends it


@dataclass
class Opened:
    """A page that answers browsers. `link` of a person; `browser`: what one sends that has opened it."""

    ws: store.Workspace
    served: serving.Served
    ending: ExitStack = field(default_factory=ExitStack)

    def link(self, name: str) -> str:
        return self.served.links.get(name) or links.make(self.ws, [name])[name]

    def browser(self, name: str | None = None) -> httpx2.Client:
        web = httpx2.Client(base_url=self.served.address, headers={"Origin": self.served.address}, timeout=60)
        self.ending.enter_context(web)
        if name:
            assert web.post("/session", json={"token": self.link(name).partition("#")[2]}).status_code == 204
        return web


@contextmanager
def opened(ws: store.Workspace, *names: str, practice: bool = False, **words: Any) -> Iterator[Opened]:
    """Tasks are pushed to these people; without names what was pushed before is served."""
    if names:
        push(ws, names, to=ReviewPage(), **words)
    served = serving.serve(ws, port=0, practice=practice)
    server = served.server()
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
    """Answers on the page, by its queue; as the drivers of review_world do."""

    name, push_words = "page", ("--tool", "page")

    def __init__(self, ws: store.Workspace) -> None:
        self.ws = ws

    def answer(self, who: str, person: review_world.Person) -> int:
        page, done = Tasks(self.ws), 0
        while tasks := page.first(who)["tasks"]:
            for task in tasks:
                asked = [card["trait"] for card in task["cards"]]
                said = person(review_world.subject_of(task["turns"][0]["text"]), asked) or review_world.Verdict()
                body, done = given(task, "absent", NONCE(done)), done + 1
                body["verdicts"] |= {
                    c["trait"]: body["verdicts"][c["trait"]] | {"verdict": "present", "spans": c["spans"]}
                    for c in task["cards"]
                    if c["trait"] in said.present
                }
                page.answer(who, Given.model_validate(body))
        return done


def named(tasks: list[dict[str, Any]], subject: str) -> dict[str, Any]:
    """The task on this conversation of review_world."""
    return next(t for t in tasks if t["turns"][0]["text"] == review_world.TEXTS[subject])


def given(task: dict[str, Any], verdict: str = "present", nonce: str = NONCE(1), **more: Any) -> dict[str, Any]:
    """The answer that gives every card this verdict, with the words that were proposed."""
    cards = {c["trait"]: {"verdict": verdict, "form": c["form"], "spans": c["spans"]} for c in task["cards"]}
    return {"task": task["key"], "n": 0, "nonce": nonce, "outcome": "read", "verdicts": cards, "seconds": 4.5} | more


def said(ws: store.Workspace, name: str = "ann") -> dict[tuple[str, str], tuple[Any, ...]]:
    """(conversation, trait) -> (verdict, quotes) of the last word of this person."""
    rows = tables.last(store.read(ws, tables.REVIEWS).filter(reviewer=name), "subject", "trait").to_dicts()
    return {(r["subject"], r["trait"]): (r["verdict"], [s["quote"] for s in r["spans"] or []]) for r in rows}


def tasks(ws: store.Workspace, *names: str, **words: Any) -> Tasks:
    """The queue of the page without its server, after a push to these people."""
    push(ws, names, to=ReviewPage(), **words)
    return Tasks(ws)
