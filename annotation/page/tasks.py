"""The open tasks of everybody who reviews on the page, in memory, and the one place that stores their answers.

An answer goes the way of a pull: what was asked is our own record, evidence is looked up in our own text, and it
becomes rows of reviews by the same functions. It is stored when `answer` returns.
"""

import threading
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

import polars as pl
from pydantic import BaseModel, ConfigDict, Field

from annotation import pull, rejections, review_history, reviewer_opt_outs as opt_outs, servers
from annotation.page import links
from annotation.review_history import WHO
from annotation.review_state import ReviewState, gather, queue, still_open
from annotation.tools import task_conversion as sheets
from annotation.tools.guidelines import guideline
from annotation.tools.task_conversion import Response, Sheet
from annotation.tools.tasks_and_answers import (
    UNKNOWN,
    Pulled,
    Refused,
    Task,
    Turns,
    base_id,
    keyed_id,
    mark,
    shown,
    tasks,
)
from annotation.waiting import State, state
from saferec_builder.core.errors import ReviewError
from saferec_builder.core.json_value import JsonValue
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.storage import evidence_check as evidence, tables, workspace
from saferec_builder.storage.schema import Span
from saferec_builder.storage.workspace import Workspace

AHEAD = 3  # tasks that a reader's page holds: one is read, the next are drawn without waiting
_WITHHELD = (tables.CONVERSATIONS, tables.MARKS, tables.ORIGINS, tables.FORGOTTEN)  # what says who is, with a file
WATCHED = (tables.ASSIGNMENTS, tables.SENT, tables.DECOYS, tables.REVIEWS, *_WITHHELD)
OFTEN = 1_000  # answers to one task: nobody changes their mind more often
THEN = timedelta(microseconds=1)  # after what an adjudicator said first, and changed when they saw the votes
Facts = dict[str, JsonValue]
Offset = Annotated[int, Field(ge=0, lt=2**31)]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class Place(_Strict):
    turn: Offset
    start: Offset
    end: Offset


class Verdict(_Strict):
    verdict: Literal["present", "absent", "unsure"]
    form: Literal["explicit", "implicit"] | None = None
    spans: Annotated[list[Place], Field(max_length=50)] = []


class Given(_Strict):
    """What the page sends. `n`: how many answers this person gave to this task before; `nonce` names the sending;
    `blind`: what an adjudicator said before they saw the votes, and changed then."""

    task: str
    n: Offset
    nonce: Annotated[str, Field(min_length=8, max_length=64)]
    outcome: Literal["read", "rather_not"]
    verdicts: dict[str, Verdict] = {}
    blind: dict[str, Verdict] = {}
    note: Annotated[str, Field(max_length=4_000)] = ""
    seconds: Annotated[float, Field(ge=0, lt=86_400)] | None = None


class Stale(ReviewError):
    """The task is not what the page believes: it was answered elsewhere, or is no longer this person's."""


@dataclass
class Tasks:
    """`answer` and `first` may be called from several threads."""

    ws: Workspace
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _seen: State | None = None  # what the workspace held when it was read
    _stored: bool = False  # whether an answer was stored since
    _desk: ReviewState = field(init=False)
    _reviews: pl.DataFrame = field(init=False)  # with the answers that were stored since
    _guideline: str = ""
    _known: dict[str, list[str]] = field(default_factory=dict)  # item -> what is known of it
    _sheets: dict[str, Sheet] = field(default_factory=dict)
    _open: dict[str, list[str]] = field(default_factory=dict)  # reviewer -> keys, in the order of assignment
    _given: dict[str, list[str]] = field(default_factory=dict)  # key -> nonces of the answers that were stored here

    def __post_init__(self) -> None:
        self._refresh()

    def first(self, name: str) -> Facts:
        """The next tasks of this person, and how far they are."""
        with self._lock:
            self._refresh()
            if self._stored and not self._open.get(name):  # an answer may have reopened what was ruled on
                self._refresh(again=True)
            return self._first(name)

    def _first(self, name: str) -> Facts:
        mine = self._open.get(name, [])
        done = self._reviews.filter(pl.col("verdict").is_not_null(), reviewer=name).select("kind", "subject")
        ahead: list[JsonValue] = [self._shown(self._sheets[key]) for key in mine[:AHEAD]]
        return {"tasks": ahead, "done": done.n_unique(), "left": len(mine), "taxonomy": self.taxonomy.digest}

    def left(self, name: str) -> int:
        return len(self._open.get(name, []))

    @property
    def taxonomy(self) -> Taxonomy:
        return self._desk.taxonomy

    def answer(self, name: str, given: Given) -> Facts:
        """Stores it, once for each nonce, and gives what `first` does.

        Stale where it answers what is no longer asked; Refused where a verdict is missing or lacks its evidence. Then
        nothing is stored.
        """
        with self._lock, pull.ordered(self.ws):
            self._refresh()
            if given.task not in self._sheets:
                self._remember(name, given)
            before = self._given.get(given.task, [])
            sheet = self._sheets.get(given.task)
            if self._withheld(name, given.task):
                raise Stale("This conversation was taken out: nobody reads it any more, and no answer is kept.")
            if sheet is None or sheet.task.reviewer != name or not (before or given.task in self._open.get(name, [])):
                raise Stale(self._why(name, given.task))
            if name in review_history.aside(self._reviews):  # as a pull has it: an answered task is no way back in
                raise Stale("Your answers were set aside: ask whoever sent you the link.")
            if given.nonce not in before:
                if given.n != len(before):
                    raise Stale("This one was answered in another tab.")
                self._store(sheet, given)
                self._given.setdefault(given.task, []).append(given.nonce)
                self._open[name] = [key for key in self._open.get(name, []) if key != given.task]
                if self._disputed(sheet):
                    self._refresh(again=True)
            return self._first(name)

    def _remember(self, name: str, given: Given) -> None:
        """Makes a task known again that this person answered before the page was opened anew, so that they may change
        that answer: where it would have the same key, and what is sent comes after all that is stored."""
        mine = self._desk.assignments.filter(reviewer=name)
        task = shown(mine, self._desk.known).get(base_id(given.task))
        if task is None:
            return
        theirs = _theirs(task)
        times = set(self._reviews.filter(theirs, digest=task.digest)["time"])
        answers = sum(time is None or time - THEN not in times for time in times)
        if not 1 <= answers <= given.n <= OFTEN:
            return
        desk = self._desk  # without their answer: a dispute that it has settled is one
        asked = replace(desk, standing=desk.standing.filter(~theirs), votes=desk.votes.filter(~theirs))
        sheet = self._made(asked, mine.filter(kind=task.kind, subject=task.subject)).get(given.task)
        if sheet:
            self._sheets[given.task], self._given[given.task] = sheet, [""] * given.n

    def _disputed(self, sheet: Sheet) -> bool:
        """Whether somebody else has a dispute on its text before them, which the answer to it may have settled."""
        others = (self._sheets[key].task for name, keys in self._open.items() for key in keys)
        same = (each for each in others if (each.kind, each.subject) == (sheet.task.kind, sheet.task.subject))
        return any(each.role == "adjudicator" and each.reviewer != sheet.task.reviewer for each in same)

    def _store(self, sheet: Sheet, given: Given) -> None:
        task = sheet.task
        mine = self._reviews.filter(_theirs(task))
        text = self._desk.texts.filter(kind=task.kind, subject=task.subject, digest=task.digest)
        turns: Turns = (text["turns"][0].to_list() if text.height else None) or []
        before = review_history.answered(mine).get((task.kind, task.subject, task.reviewer, task.role), {})
        stamp = {"tool": links.TOOL, "guideline": self._guideline, "simulated": False}
        stamp["taxonomy"] = self._desk.taxonomy.digest
        first = given.model_copy(update={"verdicts": given.verdicts | given.blind})
        rows, now = mine.clear(), _later(mine["time"])
        said = [(now, first), (now + THEN, given)] if task.role == "adjudicator" else [(now, given)]
        for time, each in said:  # both are kept, the last one counts
            pulled, response = Pulled(tool=links.TOOL), replace(_response(sheet, each, turns), time=time)
            sheets.take(pulled, response, task, turns, before, stamp, self._desk.taxonomy)
            if pulled.drops:
                raise Refused(*pulled.drops[0][3:])
            rows = pl.concat([rows, pull.new(replace(self._desk, reviews=pl.concat([mine, rows])), pulled)])
        stored = workspace.append(self.ws, tables.REVIEWS, rows, text.select(list(evidence.TEXTS)))
        rejections.keep(self.ws, pulled)
        self._reviews = pl.concat([self._reviews, rows])
        self._seen, self._stored = self._with_own(stored), True

    def _withheld(self, name: str, key: str) -> bool:
        """Whether nobody is given its conversation any more; of what was answered here there is a sheet still."""
        out = pl.col("subject").is_in([*self._desk.withheld])
        mine = self._desk.assignments.filter(out, kind="sensitivity", reviewer=name)
        return base_id(key) in shown(mine, self._desk.known)

    def _why(self, name: str, key: str) -> str:
        if base_id(key) in tasks(self._reviews.filter(pl.col("verdict").is_not_null(), reviewer=name)):
            return "An answer to this one is stored already, and stands: what was sent after it was not kept."
        return "This one has changed, or is no longer yours."

    # ---- what the workspace holds

    def _with_own(self, stored: int) -> State | None:
        """What was seen, and the rows just stored. What others wrote meanwhile (an opt-out) is still to be read."""
        now, name = state(self.ws, *WATCHED), tables.REVIEWS.name
        if not self._seen or int(now.rows[name][1]) != int(self._seen.rows[name][1]) + stored:
            return self._seen
        return self._seen._replace(rows=self._seen.rows | {name: now.rows[name]})

    def _refresh(self, again: bool = False) -> None:
        """Reads the workspace again where a push, a pull or a reviewer's wish has changed it."""
        now = state(self.ws, *WATCHED)
        if now == self._seen and not again:
            return
        before = self._desk.taxonomy.digest if self._seen else None
        self._desk = desk = gather(self.ws)
        if desk.taxonomy.digest != before:  # a former answer given again would speak for traits that nobody was shown
            self._given.clear()
        self._reviews, self._guideline = desk.reviews, guideline()
        self._known = servers.sources(desk)
        keyed = self._made(desk, desk.assignments.filter(pl.col("reviewer").is_in(links.people(self.ws))))
        self._sheets = {key: sheet for key, sheet in self._sheets.items() if key in self._given} | keyed
        self._open = {}
        for key, sheet in keyed.items():
            self._open.setdefault(sheet.task.reviewer, []).append(key)
        self._seen, self._stored = now, False

    def _made(self, desk: ReviewState, given: pl.DataFrame) -> dict[str, Sheet]:
        """key -> the open tasks of these assignments."""
        due = queue(desk, self.ws.config.review.recheck)
        units = still_open(desk, given, due, opt_outs.avoided(self.ws))
        made = sheets.sheets(units, desk.texts, desk.taxonomy, {}, lambda base, about: base)
        return {(key := _key(desk, sheet)): replace(sheet, key=key) for sheet in made}

    def _shown(self, sheet: Sheet) -> Facts:
        task, taxonomy = sheet.task, self._desk.taxonomy
        known = self._known.get(task.subject, []) if sheet.why != "audit" else []
        severe = [taxonomy[trait].name for trait in sheet.asked if taxonomy[trait].severe]
        return {
            "key": sheet.key,
            "n": len(self._given.get(sheet.key, [])),
            "kind": task.kind,
            "rules": task.role == "adjudicator",
            "head": sheet.head,
            "known": list[JsonValue](known),
            "rejected": list[JsonValue](sheet.rejected),
            "speaker": evidence.SPEAKER[task.kind],
            "turns": [{"role": turn["role"], "text": turn["text"]} for turn in sheet.turns],
            "severe": list[JsonValue](severe or ["Something severe is known to be in it"] * sheet.hard),
            "cards": [_card(sheet, unit) for unit in sheet.units],
        }


def _theirs(task: Task) -> pl.Expr:
    """Rows of this person, in this role, on the text of the task."""
    return pl.all_horizontal(pl.col(each) == getattr(task, each) for each in ("kind", "subject", *WHO))


def _key(desk: ReviewState, sheet: Sheet) -> str:
    """Another one where anything that is shown has changed: an answer to what was shown before is stale."""
    marks = [mark(trait, span) for trait, (_, _, spans) in sheet.suggested.items() for span in spans]
    about = [desk.taxonomy.digest, *sheet.asked, *marks]
    return keyed_id(desk.ws.secret, links.TOOL, sheet.key, about)


def _card(sheet: Sheet, unit: dict[str, Any]) -> Facts:
    _, form, spans = sheet.suggested.get(unit["trait"], (None, None, list[Span]()))
    places: list[JsonValue] = [{"turn": s["turn"], "start": s["start"], "end": s["end"]} for s in spans]
    card: Facts = {"trait": unit["trait"], "form": form, "spans": places}
    return card | {"own": unit["own_verdict"], "said": list(unit["said"] or [])}


def _response(sheet: Sheet, given: Given, turns: Turns) -> Response:
    """`given` in the words of all review tools; the quotes are those of our own text."""
    said = given.verdicts
    missing = [trait for trait in sheet.asked if trait not in said] if given.outcome == "read" else []
    if missing:
        raise Refused("no verdict", f"{missing[0]}: answer every card")
    marked = {trait: each.spans for trait, each in said.items() if each.spans and each.verdict != "absent"}
    return Response(
        key=sheet.key,
        who=sheet.task.reviewer,
        place=f"page {sheet.key}",
        outcome=sheets.READ if given.outcome == "read" else sheets.RATHER_NOT,
        asked=sheet.asked,
        present=[trait for trait, each in said.items() if each.verdict == "present"],
        unsure=[trait for trait, each in said.items() if each.verdict == "unsure"],
        spans={trait: _spans(places, turns) for trait, places in marked.items()},
        forms={trait: each.form for trait, each in said.items() if each.form},
        note=given.note.strip().replace("\0", UNKNOWN) or None,
        seconds=given.seconds or None,
    )


def _later(times: pl.Series) -> datetime:
    """Now; but later than all of these, whatever a clock that was set back says: what looks older is no last word."""
    later: list[datetime] = times.drop_nulls().dt.offset_by("1ms").to_list()
    return max([datetime.now(UTC), *later])


def _spans(places: list[Place], turns: Turns) -> list[Span]:
    texts = {n: turn["text"] for n, turn in enumerate(turns)}
    return [
        {"turn": p.turn, "start": p.start, "end": p.end, "quote": texts.get(p.turn, "")[p.start : p.end]}
        for p in places
    ]
