"""What a logged-in person can do to a task or an answer on a real server: nothing is forged or silently lost.

Each case has its own task of ann's. All are pushed, answered, tampered with and pulled together; then ann gets back the
tasks whose answers were not accepted.
"""

import html
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import polars as pl
import pytest

from annotation.tools.argilla import NO_CARD
from annotation.tools.tasks_and_answers import Task, base_id
from saferec_builder.storage import evidence_check as evidence, tables, workspace as store
from tests.worlds import review_world
from tests.worlds.pushes import TWO
from tests.worlds.review_world import TRICKY, Verdict

pytestmark = pytest.mark.servers
QUOTE = "faint when I see blood"
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467\n\n cafe\u0301"
TEXT = "{:03}: " + TRICKY + "I faint when I see blood. Something funny?"
PLOT = "{:03}: in the end I faint when I see blood, in a village."


KEPT = ("", "not pushed", "not assigned", "skipped")  # the task does not go back to ann


@dataclass(frozen=True)
class Case:
    """`do` answers as ann and tampers; `quote`: the evidence of gore stored for her, or None if nothing is stored;
    `why`: the reason for which something is dropped."""

    do: Callable[[Any], object]
    quote: str | None = None
    why: str = ""
    item: bool = False

    @property
    def goes_back(self) -> bool:
        return self.why == "unknown trait" or (self.quote is None and self.why not in KEPT)


def changed(do: Callable[[Any], object], item: bool = False) -> Case:
    return Case(do, None, "changed there", item)


def foreign(do: Callable[[Any], object], item: bool = False) -> Case:
    return Case(do, None, "not by its author", item)


# ---- Label Studio


class OnStudio:
    """One task of ann's on Label Studio, and what people do there."""

    def __init__(self, tool: review_world.LabelStudio, task: dict[str, Any]) -> None:
        self.tool, self.id, self.data, self.asks = tool, str(task["id"]), task["data"], task["data"]["ask"]
        self.key, self.text = task["data"]["key"], next((turn["text"] for turn in task["data"]["turns"]), "")

    def card(self, word: str = "gore present") -> dict[str, Any]:
        row = {"id": "c", "from_name": "verdict_0", "to_name": "about_0", "type": "choices"}
        return row | {"value": {"choices": [word]}}

    def mark(self, quote: str = QUOTE, shift: int = 0, turn: int = 0, label: str = "gore", **more: Any) -> Any:
        """A mark as a browser makes it, `shift` letters off; `more`: other fields of its value."""
        text = self.data["turns"][turn]["text"]
        start = review_world.in_browser(text[: text.index(quote)]) + shift
        value = {"start": str(turn), "end": str(turn), "startOffset": start, "text": quote, "paragraphlabels": [label]}
        value |= {"endOffset": start + review_world.in_browser(quote)} | more
        return {"id": "r", "from_name": "evidence", "to_name": "dialogue", "type": "paragraphlabels", "value": value}

    def say(self, *rows: Any, who: str = "ann", **body: Any) -> None:
        result = [*rows] or [self.card(), self.mark()]
        self.tool.post(who, self.id, {"result": result, "lead_time": 12.3} | body)

    def data_is(self, *, say: bool = True, **data: Any) -> None:
        """ann answers, and somebody changes the task."""
        if say:
            self.say()
        self.tool.rest("PATCH", f"/api/tasks/{self.id}", {"data": self.data | data})

    def text_is(self, text: str, *rows: Any) -> None:
        """Somebody changes the text, and then ann answers what she sees."""
        turns = [self.data["turns"][0] | {"text": text}, *self.data["turns"][1:]]
        self.data_is(say=False, turns=turns)
        self.say(*rows)

    @property
    def mine(self) -> dict[str, Any]:
        self.say()
        (annotation,) = self.tool.rest("GET", f"/api/tasks/{self.id}/annotations")
        return dict(annotation)

    def bo(self, method: str, path: str, body: Any = None) -> None:
        web = self.tool.session("bo")
        headers = {"Referer": self.tool.facts["url"], "X-CSRFToken": web.cookies.get("csrftoken") or ""}
        assert web.request(method, path, json=body, headers=headers).status_code < 300

    def edited(self, by: str = "bo", **body: Any) -> None:
        path, body = f"/api/annotations/{self.mine['id']}", body or {"result": [self.card("gore absent")]}
        self.bo("PATCH", path, body) if by == "bo" else self.tool.rest("PATCH", path, body)

    def imported(self, key: str = "", genuine: bool = False) -> None:
        if genuine:
            self.say()
        answers = [{"result": [self.card("gore absent")], "completed_by": self.ann}]
        row = {"data": self.data | {"key": key or self.data["key"]}, "annotations": answers}
        self.tool.rest("POST", f"/api/projects/{self.tool.project('ann').id}/import", [row])

    @property
    def ann(self) -> int:
        users = self.tool.rest("GET", "/api/users")
        return next(user["id"] for user in users if user["email"] == self.tool.account("ann")["email"])


def cards(value: str, alias: str) -> Callable[[Any], object]:
    """Renames the card's answers before ann sees them."""
    return lambda a: (
        a.data_is(say=False, cards=[a.data["cards"][0] | {"choices": [{"value": value, "alias": alias}]}]),
        a.say(),
    )


STUDIO = {
    # marks
    "as it should be": Case(lambda a: a.say(), QUOTE),
    "behind white space, an emoji and an accent": Case(lambda a: a.say(a.card(), a.mark(FAMILY)), FAMILY),
    "over two turns": Case(
        lambda a: a.say(a.card(), a.mark("I see blood", end="1", endOffset=2)), "I see blood. Something funny?"
    ),
    "three letters off": Case(lambda a: a.say(a.card(), a.mark(shift=3)), QUOTE),
    "a short word, one letter off": Case(lambda a: a.say(a.card(), a.mark("blood", 1)), None, "quote not found"),
    "before the text": Case(lambda a: a.say(a.card(), a.mark(shift=-500)), None, "quote not found"),
    "beyond the text": Case(lambda a: a.say(a.card(), a.mark(shift=5_000)), QUOTE),
    "to no end": Case(lambda a: a.say(a.card(), a.mark(endOffset=1e300)), QUOTE),
    "at no number": Case(lambda a: a.say(a.card(), a.mark(startOffset="x")), None, "quote not found"),
    "in a turn of nobody": Case(lambda a: a.say(a.card(), a.mark(start="99", end="99")), QUOTE),
    "other words": Case(lambda a: a.say(a.card(), a.mark(text="I cheer when I see it")), None, "quote not found"),
    "without its words": Case(lambda a: a.say(a.card(), a.mark(text="")), QUOTE),
    "a recommender's": Case(lambda a: a.say(a.card(), a.mark("Ok!", turn=1)), None, "not the seeker's words"),
    "of a trait of nobody": Case(
        lambda a: a.say(a.card(), a.mark(), a.mark("blood", label="mice")), QUOTE, "unknown trait"
    ),
    # answers
    "a card left open": Case(lambda a: a.say(a.mark()), None, "not answered"),
    "a card on another trait": Case(lambda a: a.say(a.card("needles present"), a.mark()), None, "not answered"),
    "a card answered twice": Case(lambda a: a.say(a.card(), a.card("gore absent"), a.mark()), None, "not answered"),
    "a yes without words": Case(lambda a: a.say(a.card()), None, "no quote"),
    "among other things": Case(lambda a: a.say({"value": 3}, {"value": {"text": 5}}, a.card(), a.mark()), QUOTE),
    "with odd seconds": Case(lambda a: a.say(lead_time=1e308), QUOTE),
    "answered twice": Case(lambda a: (a.say(a.card(), a.mark("blood")), a.say()), QUOTE, "said again further down"),
    # the task
    "other words shown": changed(lambda a: a.text_is(a.text.replace("faint when", "cheer when"))),
    "words before": changed(lambda a: a.text_is("Hello! " + a.text)),
    "words of an emoji's length": changed(lambda a: a.text_is(a.text.replace("\U0001f631", "oh"))),
    "nothing to be seen, and a no": changed(lambda a: a.text_is("Any film?", a.card("gore absent"))),
    "turns in another order": changed(lambda a: a.data_is(turns=a.data["turns"][::-1])),
    "roles changed over": changed(lambda a: a.data_is(turns=[t | {"role": "seeker"} for t in a.data["turns"]])),
    "no turns": changed(lambda a: a.data_is(turns=[])),
    "another question": changed(lambda a: a.data_is(ask="Say no to everything.")),
    "no cards": changed(lambda a: a.data_is(cards=[])),
    "a card that says yes for no": changed(cards("No", "gore present")),
    "a card about other things": changed(lambda a: a.data_is(cards=[a.data["cards"][0] | {"about": "A nice film"}])),
    "asked of all": Case(lambda a: a.data_is(asked=["gore", "needles"]), QUOTE),
    "marked beforehand": Case(lambda a: a.data_is(shown={"gore": [{"turn": 0, "start": 0, "end": 5}]}), QUOTE),
    "another taxonomy": Case(lambda a: a.data_is(taxonomy="0" * 16), QUOTE),
    "another guideline": Case(lambda a: a.data_is(guideline="0" * 16), QUOTE),
    "of other shapes": Case(lambda a: a.data_is(asked={"gore": 1}, shown=[None], taxonomy=7, guideline=None), QUOTE),
    "the key of another task": Case(lambda a: a.data_is(key=a.other), QUOTE),
    "no key": Case(lambda a: a.data_is(key=None), QUOTE),
    # people
    "somebody writes over it": foreign(lambda a: a.edited()),
    "the owner writes over it": foreign(lambda a: a.edited("owner")),
    "somebody touches it": foreign(lambda a: a.edited(ground_truth=True)),
    "somebody answers too": Case(lambda a: (a.say(), a.say(a.card("gore absent"), who="bo")), QUOTE, "not assigned"),
    "somebody answers instead": Case(lambda a: a.say(who="bo"), None, "not assigned"),
    "somebody answers in ann's name": foreign(lambda a: a.say(who="bo", completed_by=a.ann)),
    "deleted": Case(lambda a: a.bo("DELETE", f"/api/annotations/{a.mine['id']}"), None),
    "imported with ann's key": foreign(lambda a: a.imported()),
    "imported beside hers": Case(lambda a: a.imported(genuine=True), QUOTE, "not by its author"),
    "imported under a key of nobody": Case(lambda a: a.imported(a.data["key"][:-1] + "x"), None, "not pushed"),
    "imported under an old id": Case(
        lambda a: a.imported(Task("sensitivity", a.subject, f"d-{a.subject}", "ann", "reviewer").id), None, "not pushed"
    ),
    "handed back": Case(lambda a: a.say(was_cancelled=True), None),
    # items
    "a flag": Case(lambda a: a.say(a.card(), a.mark("blood")), "blood", item=True),
    "a flag without words": Case(lambda a: a.say(a.card()), "", item=True),
    "a flag that somebody writes over": foreign(lambda a: a.edited(), item=True),
    "a flag on another plot": changed(
        lambda a: a.text_is(a.text.replace("in a village", "at sea"), a.card()), item=True
    ),
    "a flag imported": foreign(lambda a: a.imported(), item=True),
}


# ---- Argilla


class OnArgilla:
    """One record of ann's on Argilla, and what people do there."""

    def __init__(self, tool: review_world.Argilla, record: dict[str, Any], room: Any) -> None:
        self.tool, self.record, self.room = tool, record, room
        self.id, self.key, self.asks = record["id"], record["external_id"], record["fields"]["ask"]
        self.text = self.shown = html.unescape(record["fields"]["dialogue"])

    def values(self, quote: str = QUOTE, shift: int = 0, **said: Any) -> dict[str, Any]:
        values = self.tool.values(self.shown, Verdict({"gore": quote}), ["gore"])
        for span in values["evidence"]["value"]:
            span["start"], span["end"] = span["start"] + shift, span["end"] + shift
        return {name: value for name, value in (values | said).items() if value}

    def say(self, quote: str = QUOTE, shift: int = 0, who: str = "ann", status: str = "submitted", **said: Any) -> None:
        body = {"values": self.values(quote, shift, **said), "status": status}
        self.tool.rest(self.tool.keys[who], "POST", f"/api/v1/records/{self.record['id']}/responses", body)

    def owner(self, method: str, path: str, body: Any = None) -> Any:
        return self.tool.rest(self.tool.server.token, method, path, body)

    def record_is(self, *, say: bool = True, **what: Any) -> None:
        """ann answers, and somebody changes the record."""
        if say:
            self.say()
        items = {"items": [{"id": self.record["id"]} | what]}
        self.owner("PUT", f"/api/v1/datasets/{self.room.id}/records/bulk", items)

    def text_is(self, old: str, new: str, **said: Any) -> None:
        self.shown = self.shown.replace(old, new)
        fields = self.record["fields"] | {"dialogue": html.escape(self.shown, quote=False)}
        self.record_is(say=False, fields=fields)
        self.say(**said)

    def somebody(self, quote: str = QUOTE) -> None:
        """Gives bo access, and bo answers."""
        bo = next(u["id"] for u in self.owner("GET", "/api/v1/users")["items"] if u["username"] == "bo")
        room = self.room.setup[0]
        if bo not in [u["id"] for u in self.owner("GET", f"/api/v1/workspaces/{room}/users")["items"]]:
            self.owner("POST", f"/api/v1/workspaces/{room}/users", {"user_id": bo})
        self.say(quote, who="bo")

    def copied(self, key: str) -> None:
        """Adds a copy of the record under that key, and ann answers it."""
        body = {"items": [{"external_id": key, "fields": self.record["fields"]}]}
        copy = self.owner("POST", f"/api/v1/datasets/{self.room.id}/records/bulk", body)["items"][0]
        path = f"/api/v1/records/{copy['id']}/responses"
        self.tool.rest(self.tool.keys["ann"], "POST", path, {"values": self.values(), "status": "submitted"})


NO = {"verdict_1": {"value": "No"}, "evidence": None}
ARGILLA = {
    "as it should be": Case(lambda a: a.say(), QUOTE),
    "behind white space, an emoji and an accent": Case(lambda a: a.say(FAMILY), FAMILY),
    "three letters off": Case(lambda a: a.say(shift=2), "int when I see blood."),
    "in a role's name": Case(lambda a: a.say(a.shown[8:11], -8), None, "quote not found"),
    "a recommender's": Case(lambda a: a.say("Ok!"), None, "not the seeker's words"),
    "a yes without words": Case(lambda a: a.say(evidence=None), None, "no quote"),
    "a card left open": Case(lambda a: a.say(verdict_1={"value": NO_CARD}), None, "not answered"),
    "a card of nothing answered": Case(lambda a: a.say(verdict_2={"value": "No"}), QUOTE),
    "yes, and ticked as unsure": Case(lambda a: a.say(unsure={"value": ["gore"]}), QUOTE),
    "a draft": Case(lambda a: a.say(status="draft"), None),
    "handed back": Case(lambda a: a.say(status="discarded"), None),
    "other words shown": changed(lambda a: a.text_is("faint when", "cheer when", quote="I see blood")),
    "words before": changed(lambda a: a.text_is("seeker: ", "seeker: Hello! ")),
    "words of an emoji's length": changed(lambda a: a.text_is("\U0001f631", "oh")),
    "nothing to be seen, and a no": changed(
        lambda a: a.text_is("faint when I see blood", "like films", quote="films", **NO)
    ),
    "another question": changed(lambda a: a.record_is(fields=a.record["fields"] | {"ask": "Say no."})),
    "another key": Case(lambda a: a.record_is(external_id="task-0"), QUOTE),
    "somebody answers too": Case(lambda a: (a.say(), a.somebody("I see blood")), QUOTE, "not assigned"),
    "somebody answers instead": Case(lambda a: a.somebody(), None, "not assigned"),
    "under a key of nobody": Case(lambda a: a.copied(a.record["external_id"][:-1] + "x"), None, "not pushed"),
    "deleted": Case(lambda a: (a.say(), a.owner("DELETE", f"/api/v1/records/{a.record['id']}")), None),
    "a flag": Case(lambda a: a.say("blood"), "blood", item=True),
    "a flag without words": Case(lambda a: a.say("blood", evidence=None), "", item=True),
    "a flag on another plot": changed(lambda a: a.text_is("in a village", "at sea", quote="blood"), item=True),
    "a flag by somebody": Case(lambda a: a.somebody("blood"), None, "not assigned", item=True),
}


def tasks_of(tool: Any) -> list[Any]:
    """Returns all tasks of ann's."""
    if tool.name == "label-studio":
        return [OnStudio(tool, task) for task in tool._tasks("ann")]
    (room,) = tool.projects("ann")
    return [OnArgilla(tool, record, room) for record in tool._records("ann")]


# ---- both


@pytest.fixture(params=["label-studio", "argilla"])
def tool(request, workspace):
    return review_world.on_server(request, workspace)


def test_nothing_forged_and_nothing_lost_without_a_word(tool, workspace, cli, monkeypatch):
    cases = STUDIO if tool.name == "label-studio" else ARGILLA
    assert len(cases) == (56 if tool.name == "label-studio" else 25)  # as docs/security.md says
    items = [name for name, case in cases.items() if case.item]
    subjects = {name: f"c{n:03}" for n, name in enumerate(cases)}
    subjects |= {name: review_world.item(n) for n, name in enumerate(items)}
    texts = {subjects[name]: (PLOT if case.item else TEXT).format(n) for n, (name, case) in enumerate(cases.items())}
    plots = {subjects[name]: texts[subjects[name]] for name in items}
    monkeypatch.setattr(review_world, "TEXTS", texts)
    monkeypatch.setattr(review_world, "CLAIMS", [(c, "gore", "present", "blood") for c in texts if c not in plots])
    review_world.fill(workspace, without=plots)
    review_world.flag(workspace, plots, [*plots], "blood")
    run = review_world.reviewing(cli, workspace)
    run("push", *TWO, *tool.push_words)
    tasks = {review_world.subject_of(task.text): task for task in tasks_of(tool)}
    assert tasks.keys() == texts.keys()
    for n, (name, case) in enumerate(cases.items()):
        task = tasks[subjects[name]]
        task.subject, task.other = subjects[name], tasks[subjects[[*cases][n - 1]]].key
        case.do(task)

    pulled = run("pull", *tool.pull_words)
    failures, stored, reasons = {}, gore(workspace, texts, plots), dropped(workspace, tasks)
    for name, case in cases.items():
        expected = None if case.quote is None else ("ann", "present", *[case.quote] * bool(case.quote))
        as_dropped = {*reasons[subjects[name]]} == {case.why} - {"", "not pushed"}
        if stored.get(subjects[name]) != expected or not as_dropped:
            failures[name] = (stored.get(subjects[name]), reasons[subjects[name]])
    assert not failures, failures
    assert pulled["dropped"]["not pushed"] == sum(case.why == "not pushed" for case in cases.values())

    run("push", *TWO, *tool.push_words)
    returned = {review_world.subject_of(t.text) for t in tasks_of(tool) if "last answer could not be taken" in t.asks}
    assert returned == {subjects[name] for name, case in cases.items() if case.goes_back}
    run("pull", *tool.pull_words)  # a second pull does not take over what somebody put there
    assert gore(workspace, texts, plots) == stored


def gore(ws: store.Workspace, texts: dict[str, str], plots: dict[str, str]) -> dict[str, tuple[str, ...]]:
    """Returns subject -> (reader, verdict, quotes) as stored; checks that every quote is in our text."""
    reviews = store.read(ws, tables.REVIEWS).filter(pl.col("verdict").is_not_null(), role="reviewer")
    for row in reviews.iter_rows(named=True):
        kind, role = ("item_flag", "plot") if row["subject"] in plots else ("sensitivity", "seeker")
        turns = [{"role": role, "text": texts[row["subject"]]}, {"role": "recommender", "text": "Ok!"}]
        assert evidence.first_fault(row["spans"] or [], turns, kind) is None, row
    rows = reviews.filter(trait="gore").to_dicts()
    return {r["subject"]: (r["reviewer"], r["verdict"], *(s["quote"] for s in r["spans"])) for r in rows}


def dropped(ws: store.Workspace, tasks: dict[str, Any]) -> dict[str, set[str]]:
    """Returns subject -> the reasons why answers to its task were dropped."""
    places = store.read(ws, tables.DROPS).select("place", "reason").rows()
    rejected = store.read(ws, tables.REJECTED).select("task", "reason").rows()
    return {
        subject: {reason for place, reason in places if f"task {task.id} " in place or f"record {task.id}" in place}
        | {reason for task_key, reason in rejected if task_key == base_id(task.key)}
        for subject, task in tasks.items()
    }
