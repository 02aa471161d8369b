"""Keeps the open tasks of everybody who reviews on the page in memory, and stores their answers.

An answer is handled like a pulled one: its questions and its evidence come from the workspace's own records and texts,
and the same functions make rows of reviews from it. It is stored when `answer` returns.
"""

import threading
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

import polars as pl
from pydantic import BaseModel, Field

from annotation import pull, rejections, review_history, reviewer_opt_outs as opt_outs, servers
from annotation.page import links
from annotation.review_state import ReviewState, gather, queue, still_open
from annotation.tools import task_conversion
from annotation.tools.guidelines import guideline
from annotation.tools.task_conversion import Response, Sheet
from annotation.tools.tasks_and_answers import Pulled, Refused, Task, Turns, base_id, keyed_id, shown
from annotation.waiting import State, state
from saferec_builder.core.errors import ReviewError
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.storage import evidence_check as evidence, tables, workspace
from saferec_builder.storage.schema import Span
from saferec_builder.storage.workspace import Workspace

_WITHHELD = (tables.CONVERSATIONS, tables.MARKS, tables.ORIGINS, tables.FORGOTTEN)  # and removals.csv: for `withheld`
WATCHED = (tables.ASSIGNMENTS, tables.SENT, tables.DECOYS, tables.REVIEWS, *_WITHHELD)
STANDS = "An answer, or that you would rather not, is stored already, and stands: what was sent after it was not kept."
THEN = timedelta(microseconds=1)  # between an adjudicator's blind answer and the one after seeing the votes
Facts = dict[str, object]
Offset = Annotated[int, Field(ge=0, lt=2**31)]


class Place(BaseModel, strict=True, extra="forbid"):
    turn: Offset
    start: Offset
    end: Offset

    def quoted(self, texts: list[str]) -> Span:
        quote = "".join(texts[self.turn : self.turn + 1])[self.start : self.end]
        return {"turn": self.turn, "start": self.start, "end": self.end, "quote": quote}


class Verdict(BaseModel, strict=True, extra="forbid"):
    verdict: Literal["present", "absent", "unsure"]
    form: Literal["explicit", "implicit"] | None = None
    spans: Annotated[list[Place], Field(max_length=50)] = []


class Given(BaseModel, strict=True, extra="forbid"):
    """An answer as the page sends it. `again`: it changes one that this person gave before; `blind`: verdicts that an
    adjudicator gave before they saw the votes, and changed then."""

    task: str
    again: bool = False
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
    review: ReviewState = field(init=False)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _reviews: pl.DataFrame = field(init=False)  # including answers stored since the workspace was read
    _seen: State = field(default_factory=lambda: State({}, [], ""))  # of the workspace with these answers
    # reviewer -> key -> task, in the order of assignment
    _open: dict[str, dict[str, Sheet]] = field(default_factory=dict)
    _answered: dict[str, Sheet] = field(default_factory=dict)  # key -> task that was answered here
    _sent: set[str] = field(default_factory=set)  # the answers stored here; `seconds` tells equal ones apart

    def __post_init__(self) -> None:
        self._refresh()

    def left(self, name: str) -> int:
        return len(self._open.get(name, {}))

    def first(self, name: str) -> Facts:
        """The next task of this person, and how many are done and left."""
        with self._lock:
            self._refresh()
            if not self.left(name) and self._reviews is not self.review.reviews:  # they may have reopened a dispute
                self._refresh(again=True)
            sheet, taxonomy = next(iter(self._open.get(name, {}).values()), None), self.review.taxonomy
            done = self._reviews.filter(pl.col("verdict").is_not_null(), reviewer=name).select("kind", "subject")
            facts: Facts = {"done": done.n_unique(), "left": self.left(name), "taxonomy": taxonomy.digest}
            return facts | {"task": content(sheet, taxonomy) if sheet else None}

    def answer(self, name: str, answer: Given) -> Facts:
        """Stores the answer and returns what `first` does; the same answer sent again adds nothing.

        Raises Stale if the task is no longer asked, or answered already, Refused if a verdict or its evidence is
        missing; then nothing is stored.
        """
        with pull.ordered(self.ws), self._lock:  # in this order: `first` waits for no pull
            self._refresh()
            sheet, body = self._sheet(name, answer.task), answer.model_dump_json()
            if name in review_history.aside(self._reviews):  # a pull rejects these answers, too
                raise Stale("Your answers were set aside: ask whoever sent you the link.")
            if body not in self._sent:  # else the reply was lost: another answer may have come since
                self._store(sheet, answer)
                self._sent.add(body)
            self._answered[sheet.key] = sheet
            self._open.get(name, {}).pop(sheet.key, None)
            others, text = (other.task for tasks in self._open.values() for other in tasks.values()), sheet.task
            if any((t.role, t.kind, t.subject) == ("adjudicator", text.kind, text.subject) for t in others):
                self._refresh(again=True)  # the answer may have settled another person's dispute
            return self.first(name)

    def _sheet(self, name: str, key: str) -> Sheet:
        """The sheet that this person answers, for the first time or again; raises Stale if it is no longer asked."""
        review, sheet = self.review, self._open.get(name, {}).get(key) or self._answered.get(key)
        theirs = shown(review.assignments.filter(reviewer=name), review.known) if sheet is None else {}
        task = sheet.task if sheet else theirs.get(base_id(key))
        if task and task.kind == "sensitivity" and task.subject in review.withheld and task.reviewer == name:
            raise Stale("This conversation was taken out: nobody reads it any more, and no answer is kept.")
        if task and task.reviewer == name:
            is_theirs = _rows_of(task)
            # answered before a restart: without their answer, which may have settled a dispute, it would be open again
            standing, votes = review.standing.filter(~is_theirs), review.votes.filter(~is_theirs)
            unanswered, assigned = replace(review, standing=standing, votes=votes), review.assignments.filter(is_theirs)
            if sheet := sheet or self._open_sheets(unanswered, assigned).get(key):
                return sheet
            if self._reviews.filter(is_theirs, pl.col("verdict").is_not_null(), digest=task.digest).height:
                raise Stale(STANDS)
        raise Stale("This one has changed, or is no longer yours.")

    def _store(self, sheet: Sheet, answer: Given) -> None:
        task, review, name = sheet.task, self.review, tables.REVIEWS.name
        earlier = self._reviews.filter(_rows_of(task))
        text = review.texts.filter(kind=task.kind, subject=task.subject, digest=task.digest)
        turns: Turns = (text["turns"][0].to_list() if text.height else None) or []
        answered = review_history.answered(earlier).get((task.kind, task.subject, task.reviewer, task.role), {})
        stamp = {"tool": links.TOOL, "guideline": guideline(), "simulated": False, "taxonomy": review.taxonomy.digest}
        # later than all before, even if the clock was set back: an older row would not count
        time: datetime = max([datetime.now(UTC), *earlier["time"].drop_nulls().dt.offset_by("1ms")])
        blind, rows = answer.model_copy(update={"verdicts": answer.verdicts | answer.blind}), earlier.clear()
        versions = [(time, blind), (time + THEN, answer)]  # both are stored, the last one counts
        for at, version in versions if answer.blind else versions[1:]:
            pulled, response = Pulled(tool=links.TOOL), replace(_response(sheet, version, turns), time=at)
            task_conversion.take(pulled, response, task, turns, answered, stamp, taxonomy=review.taxonomy)
            if pulled.drops:
                raise Refused(*pulled.drops[0][3:])
            rows = pl.concat([rows, pull.new(replace(review, reviews=pl.concat([earlier, rows])), pulled)])
        if sheet.key not in self._open.get(task.reviewer, {}):
            texts = review_history.texts_answered(earlier)
            if any(task.digest in [*texts.get(key, ())][:-1] for key in pulled.answers):
                raise Stale(review_history.LEFT_TEXT)
            if pull.new(replace(review, reviews=earlier), pulled).is_empty():
                return rejections.keep(self.ws, pulled)  # sent again: the reply was lost, or this step
            if not answer.again:
                raise Stale(STANDS)
        count = workspace.append(self.ws, tables.REVIEWS, rows, text.select(list(evidence.TEXTS)))
        rejections.keep(self.ws, pulled)
        self._reviews = pl.concat([self._reviews, rows])
        newest = workspace.state(self.ws, tables.REVIEWS)
        if int(newest[name][1]) == int(self._seen.rows[name][1]) + count:  # else somebody else has written, too
            self._seen.rows.update(newest)

    def _refresh(self, again: bool = False) -> None:
        """Reads the workspace again if a push, a pull or an opt-out has changed it."""
        current = state(self.ws, *WATCHED)
        if current == self._seen and not again:
            return
        if current.taxonomy != self._seen.taxonomy:  # an old answer sent again would cover traits that were not shown
            self._answered.clear()
        self.review = review = gather(self.ws)
        readers = review.assignments.filter(pl.col("reviewer").is_in(links.people(self.ws)))
        self._open = {}
        for key, sheet in self._open_sheets(review, readers).items():
            self._open.setdefault(sheet.task.reviewer, {})[key] = sheet
        self._reviews, self._seen = review.reviews, current

    def _open_sheets(self, review: ReviewState, assignments: pl.DataFrame) -> dict[str, Sheet]:
        """key -> sheet, for the open tasks of these assignments. The key differs if what is asked has changed, so that
        an older answer is stale; it does not depend on rejections, which come and go."""
        due, facts = queue(review, self.ws.config.review.recheck), servers.sources(review)
        units = still_open(review, assignments, due, opt_outs.avoided(self.ws))
        every = task_conversion.sheets(units, review.texts, review.taxonomy, facts, lambda task, _: task)
        keys = [keyed_id(review.ws.secret, links.TOOL, s.key, [review.taxonomy.digest, *s.asked]) for s in every]
        return {key: replace(sheet, key=key) for key, sheet in zip(keys, every, strict=True)}


def content(sheet: Sheet, taxonomy: Taxonomy) -> Facts:
    """The task as the page shows it."""
    cards = []
    for unit in sheet.units:
        _, form, spans = sheet.suggested.get(unit["trait"], (None, None, list[Span]()))
        places = [{"turn": s["turn"], "start": s["start"], "end": s["end"]} for s in spans]
        own = {"trait": unit["trait"], "own": unit["own_verdict"], "said": unit["said"] or []}
        cards.append(own | {"form": form, "spans": places})
    task: Facts = {"key": sheet.key, "text": sheet.task.id, "kind": sheet.task.kind, "turns": sheet.turns}
    task |= {"rules": sheet.task.role == "adjudicator", "speaker": evidence.SPEAKER[sheet.task.kind], "cards": cards}
    task |= {"warning": task_conversion.warned(sheet.units, taxonomy, sheet.hard), "rejected": sheet.rejected}
    return task | {"head": sheet.head, "ask": sheet.ask}


def _rows_of(task: Task) -> pl.Expr:
    """Selects the rows of the task's reviewer, in its role, on its text."""
    return pl.all_horizontal(pl.col(column) == getattr(task, column) for column in tables.ASSIGNMENTS.key)


def _response(sheet: Sheet, answer: Given, turns: Turns) -> Response:
    """The answer in the format of all review tools; its quotes are taken from the workspace's text."""
    verdicts, texts = answer.verdicts, [turn["text"] for turn in turns]
    claimed = {trait: card for trait, card in verdicts.items() if card.verdict != "absent"}
    return Response(
        key=sheet.key,
        who=sheet.task.reviewer,
        place=f"page {sheet.key}",
        outcome=task_conversion.READ if answer.outcome == "read" else task_conversion.RATHER_NOT,
        asked=sheet.asked,
        verdicts={n: verdicts[trait].verdict for n, trait in enumerate(sheet.asked) if trait in verdicts},
        present=[trait for trait, card in claimed.items() if card.verdict == "present"],
        unsure=[trait for trait, card in claimed.items() if card.verdict == "unsure"],
        spans={trait: [at.quoted(texts) for at in card.spans] for trait, card in claimed.items()},
        forms={trait: card.form for trait, card in verdicts.items() if card.form},
        note=answer.note.strip() or None,
        seconds=answer.seconds or None,
    )
