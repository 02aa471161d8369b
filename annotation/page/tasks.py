"""Keeps the open tasks of everybody who reviews on the page in memory, and stores their answers.

An answer is handled like a pulled one: its questions and its evidence come from the workspace's own records and texts,
and the same functions make rows of reviews from it. It is stored when `answer` returns.
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

AHEAD = 3  # tasks that a reader's page holds: the next ones are shown without waiting
_WITHHELD = (tables.CONVERSATIONS, tables.MARKS, tables.ORIGINS, tables.FORGOTTEN)  # and removals.csv: for `withheld`
WATCHED = (tables.ASSIGNMENTS, tables.SENT, tables.DECOYS, tables.REVIEWS, *_WITHHELD)
OFTEN = 1_000  # largest number of answers to one task
THEN = timedelta(microseconds=1)  # between an adjudicator's blind answer and the one after seeing the votes
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
    """An answer as the page sends it. `n`: how many answers this person gave to this task before; `nonce` identifies
    the request; `blind`: verdicts that an adjudicator gave before they saw the votes, and changed then."""

    task: str
    n: Offset
    nonce: Annotated[str, Field(min_length=8, max_length=64)]
    outcome: Literal["read", "rather_not"]
    verdicts: dict[str, Verdict] = {}
    blind: dict[str, Verdict] = {}
    note: Annotated[str, Field(max_length=4_000)] = ""
    seconds: Annotated[float, Field(ge=0, lt=86_400)] | None = None


class Stale(ReviewError):
    """The task has changed since the page got it: it was answered elsewhere, or is no longer this person's."""


@dataclass
class Tasks:
    """The tasks of the page. `answer` and `first` may be called from several threads."""

    ws: Workspace
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _seen: State | None = None  # state of the workspace when it was last read
    _stored: bool = False  # whether an answer was stored since then
    _review_state: ReviewState = field(init=False)
    _reviews: pl.DataFrame = field(init=False)  # including answers stored since then
    _guideline: str = ""
    _facts: dict[str, list[str]] = field(default_factory=dict)  # item -> known facts
    _sheets: dict[str, Sheet] = field(default_factory=dict)
    _open: dict[str, list[str]] = field(default_factory=dict)  # reviewer -> keys, in the order of assignment
    _nonces: dict[str, list[str]] = field(default_factory=dict)  # key -> nonces of the answers stored here

    def __post_init__(self) -> None:
        self._refresh()

    def first(self, name: str) -> Facts:
        """The next tasks of this person, and how many are done and left."""
        with self._lock:
            self._refresh()
            if self._stored and not self._open.get(name):  # an answer may have reopened a dispute
                self._refresh(again=True)
            return self._first(name)

    def _first(self, name: str) -> Facts:
        keys = self._open.get(name, [])
        done = self._reviews.filter(pl.col("verdict").is_not_null(), reviewer=name).select("kind", "subject")
        contents: list[JsonValue] = [self._content(self._sheets[key]) for key in keys[:AHEAD]]
        return {"tasks": contents, "done": done.n_unique(), "left": len(keys), "taxonomy": self.taxonomy.digest}

    def left(self, name: str) -> int:
        return len(self._open.get(name, []))

    @property
    def taxonomy(self) -> Taxonomy:
        return self._review_state.taxonomy

    def answer(self, name: str, answer: Given) -> Facts:
        """Stores the answer, once per nonce, and returns what `first` does.

        Raises Stale if the task is no longer asked, Refused if a verdict or its evidence is missing; then nothing is
        stored.
        """
        with self._lock, pull.ordered(self.ws):
            self._refresh()
            if answer.task not in self._sheets:
                self._reopen(name, answer)
            nonces = self._nonces.get(answer.task, [])
            sheet = self._sheets.get(answer.task)
            if self._withheld(name, answer.task):
                raise Stale("This conversation was taken out: nobody reads it any more, and no answer is kept.")
            if sheet is None or sheet.task.reviewer != name or not (nonces or answer.task in self._open.get(name, [])):
                raise Stale(self._stale_reason(name, answer.task))
            if name in review_history.aside(self._reviews):  # a pull rejects these answers, too
                raise Stale("Your answers were set aside: ask whoever sent you the link.")
            if answer.nonce not in nonces:
                if answer.n != len(nonces):
                    raise Stale("This one was answered in another tab.")
                self._store(sheet, answer)
                self._nonces.setdefault(answer.task, []).append(answer.nonce)
                self._open[name] = [key for key in self._open.get(name, []) if key != answer.task]
                if self._disputed(sheet):
                    self._refresh(again=True)
            return self._first(name)

    def _reopen(self, name: str, answer: Given) -> None:
        """Restores a task that this person answered before the server was restarted, so that they can change the
        answer: only if it would have the same key, and if the new answer comes after all stored ones."""
        assignments = self._review_state.assignments.filter(reviewer=name)
        task = shown(assignments, self._review_state.known).get(base_id(answer.task))
        if task is None:
            return
        is_theirs = _rows_of(task)
        times = set(self._reviews.filter(is_theirs, digest=task.digest)["time"])
        count = sum(time is None or time - THEN not in times for time in times)
        if not 1 <= count <= answer.n <= OFTEN:
            return
        review = self._review_state  # used without their answer, which may have settled a dispute
        unanswered = replace(review, standing=review.standing.filter(~is_theirs), votes=review.votes.filter(~is_theirs))
        sheet = self._open_sheets(unanswered, assignments.filter(kind=task.kind, subject=task.subject)).get(answer.task)
        if sheet:
            self._sheets[answer.task], self._nonces[answer.task] = sheet, [""] * answer.n

    def _disputed(self, sheet: Sheet) -> bool:
        """Whether another person has an open dispute on this text, which the answer may have settled."""
        others = (self._sheets[key].task for name, keys in self._open.items() for key in keys)
        on_text = (task for task in others if (task.kind, task.subject) == (sheet.task.kind, sheet.task.subject))
        return any(task.role == "adjudicator" and task.reviewer != sheet.task.reviewer for task in on_text)

    def _store(self, sheet: Sheet, answer: Given) -> None:
        task = sheet.task
        earlier = self._reviews.filter(_rows_of(task))
        text = self._review_state.texts.filter(kind=task.kind, subject=task.subject, digest=task.digest)
        turns: Turns = (text["turns"][0].to_list() if text.height else None) or []
        answered = review_history.answered(earlier).get((task.kind, task.subject, task.reviewer, task.role), {})
        stamp = {"tool": links.TOOL, "guideline": self._guideline, "simulated": False}
        stamp["taxonomy"] = self._review_state.taxonomy.digest
        blind = answer.model_copy(update={"verdicts": answer.verdicts | answer.blind})
        rows, time = earlier.clear(), _next_time(earlier["time"])
        versions = [(time, blind), (time + THEN, answer)] if task.role == "adjudicator" else [(time, answer)]
        for at, version in versions:  # both are stored, the last one counts
            pulled, response = Pulled(tool=links.TOOL), replace(_response(sheet, version, turns), time=at)
            sheets.take(pulled, response, task, turns, answered, stamp, self._review_state.taxonomy)
            if pulled.drops:
                raise Refused(*pulled.drops[0][3:])
            rows = pl.concat([rows, pull.new(replace(self._review_state, reviews=pl.concat([earlier, rows])), pulled)])
        last_texts = tables.last(earlier, "trait").filter(pl.col("trait").is_in([key[2] for key in pulled.answers]))
        if task.digest in {*earlier["digest"]} and (last_texts["digest"] != task.digest).any():
            raise Stale("You have answered this text since it changed, and that answer stands: change it there.")
        count = workspace.append(self.ws, tables.REVIEWS, rows, text.select(list(evidence.TEXTS)))
        rejections.keep(self.ws, pulled)
        self._reviews = pl.concat([self._reviews, rows])
        self._seen, self._stored = self._seen_after(count), True

    def _withheld(self, name: str, key: str) -> bool:
        """Whether the task's conversation is withheld by now; an answered task still has a sheet here."""
        is_withheld = pl.col("subject").is_in([*self._review_state.withheld])
        assignments = self._review_state.assignments.filter(is_withheld, kind="sensitivity", reviewer=name)
        return base_id(key) in shown(assignments, self._review_state.known)

    def _stale_reason(self, name: str, key: str) -> str:
        if base_id(key) in tasks(self._reviews.filter(pl.col("verdict").is_not_null(), reviewer=name)):
            return "An answer to this one is stored already, and stands: what was sent after it was not kept."
        return "This one has changed, or is no longer yours."

    # ---- what the workspace holds

    def _seen_after(self, count: int) -> State | None:
        """`_seen` with the `count` rows just stored; what others wrote meanwhile (an opt-out) is still to be read."""
        current, name = state(self.ws, *WATCHED), tables.REVIEWS.name
        if not self._seen or int(current.rows[name][1]) != int(self._seen.rows[name][1]) + count:
            return self._seen
        return self._seen._replace(rows=self._seen.rows | {name: current.rows[name]})

    def _refresh(self, again: bool = False) -> None:
        """Reads the workspace again if a push, a pull or an opt-out has changed it."""
        current = state(self.ws, *WATCHED)
        if current == self._seen and not again:
            return
        digest = self._review_state.taxonomy.digest if self._seen else None
        self._review_state = review = gather(self.ws)
        if review.taxonomy.digest != digest:  # an old answer sent again would cover traits that were not shown
            self._nonces.clear()
        self._reviews, self._guideline = review.reviews, guideline()
        self._facts = servers.sources(review)
        open_sheets = self._open_sheets(
            review, review.assignments.filter(pl.col("reviewer").is_in(links.people(self.ws)))
        )
        self._sheets = {key: sheet for key, sheet in self._sheets.items() if key in self._nonces} | open_sheets
        self._open = {}
        for key, sheet in open_sheets.items():
            self._open.setdefault(sheet.task.reviewer, []).append(key)
        self._seen, self._stored = current, False

    def _open_sheets(self, review: ReviewState, assignments: pl.DataFrame) -> dict[str, Sheet]:
        """key -> sheet, for the open tasks of these assignments."""
        due = queue(review, self.ws.config.review.recheck)
        units = still_open(review, assignments, due, opt_outs.avoided(self.ws))
        current = sheets.sheets(units, review.texts, review.taxonomy, {}, lambda base, about: base)
        return {(key := _key(review, sheet)): replace(sheet, key=key) for sheet in current}

    def _content(self, sheet: Sheet) -> Facts:
        task, taxonomy = sheet.task, self._review_state.taxonomy
        facts = self._facts.get(task.subject, []) if sheet.why != "audit" else []
        severe = [taxonomy[trait].name for trait in sheet.asked if taxonomy[trait].severe]
        return {
            "key": sheet.key,
            "n": len(self._nonces.get(sheet.key, [])),
            "kind": task.kind,
            "rules": task.role == "adjudicator",
            "head": sheet.head,
            "known": list[JsonValue](facts),
            "rejected": list[JsonValue](sheet.rejected),
            "speaker": evidence.SPEAKER[task.kind],
            "turns": [{"role": turn["role"], "text": turn["text"]} for turn in sheet.turns],
            "severe": list[JsonValue](severe or ["Something severe is known to be in it"] * sheet.hard),
            "cards": [_card(sheet, unit) for unit in sheet.units],
        }


def _rows_of(task: Task) -> pl.Expr:
    """Selects the rows of the task's reviewer, in its role, on its text."""
    return pl.all_horizontal(pl.col(column) == getattr(task, column) for column in ("kind", "subject", *WHO))


def _key(review: ReviewState, sheet: Sheet) -> str:
    """The key of a sheet; it differs if anything that is shown has changed, so that an older answer is stale."""
    marks = [mark(trait, span) for trait, (_, _, spans) in sheet.suggested.items() for span in spans]
    about = [review.taxonomy.digest, *sheet.asked, *marks]
    return keyed_id(review.ws.secret, links.TOOL, sheet.key, about)


def _card(sheet: Sheet, unit: dict[str, Any]) -> Facts:
    _, form, spans = sheet.suggested.get(unit["trait"], (None, None, list[Span]()))
    places: list[JsonValue] = [{"turn": s["turn"], "start": s["start"], "end": s["end"]} for s in spans]
    card: Facts = {"trait": unit["trait"], "form": form, "spans": places}
    return card | {"own": unit["own_verdict"], "said": list(unit["said"] or [])}


def _response(sheet: Sheet, answer: Given, turns: Turns) -> Response:
    """The answer in the format of all review tools; its quotes are taken from the workspace's text."""
    verdicts = answer.verdicts
    missing = [trait for trait in sheet.asked if trait not in verdicts] if answer.outcome == "read" else []
    if missing:
        raise Refused("no verdict", f"{missing[0]}: answer every card")
    marked = {trait: card.spans for trait, card in verdicts.items() if card.spans and card.verdict != "absent"}
    return Response(
        key=sheet.key,
        who=sheet.task.reviewer,
        place=f"page {sheet.key}",
        outcome=sheets.READ if answer.outcome == "read" else sheets.RATHER_NOT,
        asked=sheet.asked,
        present=[trait for trait, card in verdicts.items() if card.verdict == "present"],
        unsure=[trait for trait, card in verdicts.items() if card.verdict == "unsure"],
        spans={trait: _spans(places, turns) for trait, places in marked.items()},
        forms={trait: card.form for trait, card in verdicts.items() if card.form},
        note=answer.note.strip().replace("\0", UNKNOWN) or None,
        seconds=answer.seconds or None,
    )


def _next_time(times: pl.Series) -> datetime:
    """The current time, but later than all of these even if the clock was set back: an older row would not count."""
    times_after: list[datetime] = times.drop_nulls().dt.offset_by("1ms").to_list()
    return max([datetime.now(UTC), *times_after])


def _spans(places: list[Place], turns: Turns) -> list[Span]:
    texts = {n: turn["text"] for n, turn in enumerate(turns)}
    return [
        {"turn": p.turn, "start": p.start, "end": p.end, "quote": texts.get(p.turn, "")[p.start : p.end]}
        for p in places
    ]
