"""Keeps the open tasks of everybody who reviews on the page in memory, and stores their answers.

An answer is handled like a pulled one: its questions and its evidence come from the workspace's own records and texts,
and the same functions make rows of reviews from it. It is stored when `answer` returns.
"""

import threading
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

import polars as pl
from pydantic import BaseModel, ConfigDict, Field

from annotation import pull, rejections, review_history, reviewer_opt_outs as opt_outs, servers
from annotation.page import links
from annotation.review_history import WHO
from annotation.review_state import ReviewState, gather, queue, still_open
from annotation.tools import task_conversion as sheets
from annotation.tools.guidelines import guideline
from annotation.tools.task_conversion import Response, Sheet
from annotation.tools.tasks_and_answers import UNKNOWN, Pulled, Refused, Task, Turns, base_id, keyed_id, shown, warning
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
    n: Annotated[int, Field(ge=0, le=1_000)]
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
    review: ReviewState = field(init=False)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _reviews: pl.DataFrame = field(init=False)  # including answers stored since the workspace was read
    _stored: bool = False  # whether there are any
    _seen: State = field(default_factory=lambda: State({}, [], ""))  # of the workspace with these answers
    _sheets: dict[str, Sheet] = field(default_factory=dict)  # the open tasks, and those that were answered here
    _open: dict[str, list[str]] = field(default_factory=dict)  # reviewer -> keys, in the order of assignment
    _nonces: dict[str, list[str]] = field(default_factory=dict)  # key -> nonces of the answers stored here

    def __post_init__(self) -> None:
        self._refresh()

    def left(self, name: str) -> int:
        return len(self._open.get(name, []))

    def first(self, name: str) -> Facts:
        """The next tasks of this person, and how many are done and left."""
        with self._lock:
            self._refresh()
            if self._stored and not self.left(name):  # an answer may have reopened a dispute
                self._refresh(again=True)
            keys, taxonomy = self._open.get(name, [])[:AHEAD], self.review.taxonomy
            done = self._reviews.filter(pl.col("verdict").is_not_null(), reviewer=name).select("kind", "subject")
            facts: Facts = {"done": done.n_unique(), "left": self.left(name), "taxonomy": taxonomy.digest}
            return facts | {"tasks": [content(self._sheets[k], taxonomy, len(self._nonces.get(k, []))) for k in keys]}

    def answer(self, name: str, answer: Given) -> Facts:
        """Stores the answer, once per nonce, and returns what `first` does.

        Raises Stale if the task is no longer asked, Refused if a verdict or its evidence is missing; then nothing is
        stored.
        """
        with self._lock, pull.ordered(self.ws):
            self._refresh()
            sheet, nonces = self._sheet(name, answer), self._nonces.get(answer.task, [])
            if name in review_history.aside(self._reviews):  # a pull rejects these answers, too
                raise Stale("Your answers were set aside: ask whoever sent you the link.")
            if answer.nonce not in nonces:
                if answer.n != len(nonces):
                    raise Stale("This one was answered in another tab.")
                self._store(sheet, answer)
                self._nonces[answer.task] = [*nonces, answer.nonce]
                self._open[name] = [key for key in self._open.get(name, []) if key != answer.task]
                if self._disputed(sheet.task):
                    self._refresh(again=True)
            return self.first(name)

    def _sheet(self, name: str, answer: Given) -> Sheet:
        """The sheet that this person answers, for the first time or again; raises Stale if it is no longer asked."""
        review, sheet = self.review, self._sheets.get(answer.task)
        theirs = shown(review.assignments.filter(reviewer=name), review.known) if sheet is None else {}
        task = sheet.task if sheet else theirs.get(base_id(answer.task))
        if task and task.kind == "sensitivity" and task.subject in review.withheld and task.reviewer == name:
            raise Stale("This conversation was taken out: nobody reads it any more, and no answer is kept.")
        if task and task.reviewer == name:
            if sheet := sheet or self._reopened(task, answer):
                return sheet
            if self._reviews.filter(_rows_of(task), pl.col("verdict").is_not_null(), digest=task.digest).height:
                raise Stale("An answer to this one is stored already, and stands: what was sent after it was not kept.")
        raise Stale("This one has changed, or is no longer yours.")

    def _reopened(self, task: Task, answer: Given) -> Sheet | None:
        """Restores a task that this person answered before the server was restarted, so that they can change the
        answer: only if it would have the same key, and if the new answer comes after all stored ones."""
        review, is_theirs = self.review, _rows_of(task)
        times = set(self._reviews.filter(is_theirs, digest=task.digest)["time"])
        if not 1 <= sum(time is None or time - THEN not in times for time in times) <= answer.n:
            return None
        # without their answer, which may have settled a dispute
        unanswered = replace(review, standing=review.standing.filter(~is_theirs), votes=review.votes.filter(~is_theirs))
        sheet = self._open_sheets(unanswered, review.assignments.filter(is_theirs)).get(answer.task)
        if sheet:
            self._sheets[answer.task], self._nonces[answer.task] = sheet, [""] * answer.n
        return sheet

    def _disputed(self, task: Task) -> bool:
        """Whether another person has an open dispute on this text, which the answer may have settled."""
        others = (self._sheets[key].task for name, keys in self._open.items() if name != task.reviewer for key in keys)
        return any((t.role, t.kind, t.subject) == ("adjudicator", task.kind, task.subject) for t in others)

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
        versions = [(time, blind), (time + THEN, answer)] if task.role == "adjudicator" else [(time, answer)]
        for at, version in versions:  # both are stored, the last one counts
            pulled, response = Pulled(tool=links.TOOL), replace(_response(sheet, version, turns), time=at)
            sheets.take(pulled, response, task, turns, answered, stamp, review.taxonomy)
            if pulled.drops:
                raise Refused(*pulled.drops[0][3:])
            rows = pl.concat([rows, pull.new(replace(review, reviews=pl.concat([earlier, rows])), pulled)])
        had = earlier.filter(pl.col("trait").is_in([key[2] for key in pulled.answers]))
        last_texts = tables.last(had, "trait").filter(pl.col("digest") != task.digest)
        is_open = sheet.key in self._open.get(task.reviewer, [])
        if not is_open and last_texts.join(had.filter(digest=task.digest), on="trait", how="semi").height:
            raise Stale("You have answered this text since it changed, and that answer stands: change it there.")
        count = workspace.append(self.ws, tables.REVIEWS, rows, text.select(list(evidence.TEXTS)))
        rejections.keep(self.ws, pulled)
        self._reviews, self._stored = pl.concat([self._reviews, rows]), True
        newest = workspace.state(self.ws, tables.REVIEWS)
        if int(newest[name][1]) == int(self._seen.rows[name][1]) + count:  # else somebody else has written, too
            self._seen.rows.update(newest)

    def _refresh(self, again: bool = False) -> None:
        """Reads the workspace again if a push, a pull or an opt-out has changed it."""
        current = state(self.ws, *WATCHED)
        if current == self._seen and not again:
            return
        if current.taxonomy != self._seen.taxonomy:  # an old answer sent again would cover traits that were not shown
            self._nonces.clear()
        self.review = review = gather(self.ws)
        readers = review.assignments.filter(pl.col("reviewer").is_in(links.people(self.ws)))
        open_sheets = self._open_sheets(review, readers)
        self._sheets = {key: sheet for key, sheet in self._sheets.items() if key in self._nonces} | open_sheets
        self._open = {}
        for key, sheet in open_sheets.items():
            self._open.setdefault(sheet.task.reviewer, []).append(key)
        self._reviews, self._seen, self._stored = review.reviews, current, False

    def _open_sheets(self, review: ReviewState, assignments: pl.DataFrame) -> dict[str, Sheet]:
        """key -> sheet, for the open tasks of these assignments. The key differs if anything that is shown has changed,
        so that an older answer is stale."""
        due, facts = queue(review, self.ws.config.review.recheck), servers.sources(review)
        units, open_sheets = still_open(review, assignments, due, opt_outs.avoided(self.ws)), dict[str, Sheet]()
        for sheet in sheets.sheets(units, review.texts, review.taxonomy, facts, lambda base, about: base):
            base, traits, marks, _, taxonomy = sheets.record(sheet, "", review.taxonomy)
            key = keyed_id(review.ws.secret, links.TOOL, base, [taxonomy, *traits, *marks])
            open_sheets[key] = replace(sheet, key=key)
        return open_sheets


def content(sheet: Sheet, taxonomy: Taxonomy, n: int = 0) -> Facts:
    """The task as the page shows it, after `n` answers to it."""
    cards = []
    for unit in sheet.units:
        _, form, spans = sheet.suggested.get(unit["trait"], (None, None, list[Span]()))
        places = [{"turn": s["turn"], "start": s["start"], "end": s["end"]} for s in spans]
        own: Facts = {"trait": unit["trait"], "own": unit["own_verdict"], "said": list[JsonValue](unit["said"] or [])}
        cards.append(own | {"form": form, "spans": places})
    severe = [taxonomy[trait].name for trait in sheet.asked if taxonomy[trait].severe]
    task: Facts = {"key": sheet.key, "n": n, "kind": sheet.task.kind, "rules": sheet.task.role == "adjudicator"}
    task |= {"head": sheet.head, "ask": sheet.ask, "warning": warning(severe, sheet.hard), "cards": cards}
    task |= {"speaker": evidence.SPEAKER[sheet.task.kind], "rejected": list[JsonValue](sheet.rejected)}
    return task | {"turns": [{"role": turn["role"], "text": turn["text"]} for turn in sheet.turns]}


def _rows_of(task: Task) -> pl.Expr:
    """Selects the rows of the task's reviewer, in its role, on its text."""
    return pl.all_horizontal(pl.col(column) == getattr(task, column) for column in ("kind", "subject", *WHO))


def _response(sheet: Sheet, answer: Given, turns: Turns) -> Response:
    """The answer in the format of all review tools; its quotes are taken from the workspace's text."""
    verdicts, texts, spans = answer.verdicts, [turn["text"] for turn in turns], dict[str, list[Span]]()
    for trait, card in verdicts.items():
        for turn, start, end in [(at.turn, at.start, at.end) for at in card.spans if card.verdict != "absent"]:
            quote = "".join(texts[turn : turn + 1])[start:end]
            spans.setdefault(trait, []).append({"turn": turn, "start": start, "end": end, "quote": quote})
    return Response(
        key=sheet.key,
        who=sheet.task.reviewer,
        place=f"page {sheet.key}",
        outcome=sheets.READ if answer.outcome == "read" else sheets.RATHER_NOT,
        asked=sheet.asked,
        verdicts={n: verdicts[trait].verdict for n, trait in enumerate(sheet.asked) if trait in verdicts},
        present=[trait for trait, card in verdicts.items() if card.verdict == "present"],
        unsure=[trait for trait, card in verdicts.items() if card.verdict == "unsure"],
        spans=spans,
        forms={trait: card.form for trait, card in verdicts.items() if card.form},
        note=answer.note.strip().replace("\0", UNKNOWN) or None,
        seconds=answer.seconds or None,
    )
