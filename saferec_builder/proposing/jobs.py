"""A job: what one proposer has not read yet, its results so far, and how they are saved."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import polars as pl

from saferec_builder.core.counts import Counts
from saferec_builder.core.json_value import JsonValue
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.llm import Body, Budget, Server
from saferec_builder.llm.client import NO_MONEY
from saferec_builder.llm.requests_and_replies import UNSENT
from saferec_builder.proposing import pending, prompting, text_units as subjects
from saferec_builder.proposing.corpus import Corpus
from saferec_builder.proposing.paid_answers import PaidAnswers
from saferec_builder.proposing.proposers import Step
from saferec_builder.proposing.text_units import Subject, orders
from saferec_builder.storage import tables, workspace
from saferec_builder.storage.database import Keyed
from saferec_builder.storage.workspace import Workspace

Todo = tuple[int, Subject, Taxonomy]  # row of the corpus's frame, its text, the part of the taxonomy to ask about
Fault = tuple[str, str, str]  # subject, error, raw reply


@dataclass
class Job:
    """What one proposer reads in this run, and its results so far."""

    corpus: Corpus
    step: Step
    budget: Budget
    todo: list[Todo] = field(default_factory=list)
    unreadable: list[Fault] = field(default_factory=list)  # texts not worth a request
    skipped: int = 0
    left: int = 0
    added: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    figures: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)  # as in Counts
    estimated_usd: float | None = None  # of a dry run

    def __post_init__(self) -> None:
        self.name, self.made_by = self.step.name, self.corpus.version(self.step)  # proposer, version in its rows
        self.spent_before = self.budget.spent

    @property
    def ws(self) -> Workspace:
        return self.corpus.ws

    @property
    def server(self) -> Server:
        assert self.step.server is not None, "the rules are not asked"
        return self.step.server

    @property
    def parts(self) -> list[Taxonomy]:
        """The different parts of the taxonomy that its texts are asked about."""
        return [*{part.digest: part for _, _, part in self.todo}.values()]

    def bodies(self, todo: Iterable[Todo] | None = None) -> Iterator[Body]:
        """Yields the requests for these texts, or for all texts of the job, in their order."""
        for _, subject, part in self.todo if todo is None else todo:
            yield prompting.build_request(subject, part, self.corpus.prompt)

    def paid_answers(self, replies: Keyed) -> PaidAnswers:
        return PaidAnswers(replies, self.corpus.taxonomy, retries=self.step.retries_failed)

    @cached_property
    def earlier(self) -> pl.DataFrame:
        """This proposer's proposals from before this job saved its first."""
        parts = workspace.parts(self.ws, tables.PROPOSALS, "kind", "proposer", "version")
        columns = {"kind": self.corpus.kind, "proposer": self.name, "version": self.made_by}
        return pl.concat(part.filter(**columns).select("proposal") for part in (tables.PROPOSALS.empty, *parts))

    @property
    def spent(self) -> float:
        """USD that this job has cost so far."""
        return self.budget.spent - self.spent_before

    def _within_budget(self, estimated_usd: float) -> dict[str, JsonValue]:
        """What is left of the budget, and about how many of the requests it pays for; nothing without a budget."""
        if self.budget.limit is None:
            return {}
        left = max(0.0, self.budget.limit - self.budget.spent - self.budget.aside)
        share = min(1.0, left / estimated_usd) if estimated_usd else 1.0
        pays_for = int(share * self.figures["requests"])
        return {"left_of_the_budget_usd": round(left, 4), "requests_that_it_pays_for_about": pays_for}

    def counts(self) -> Counts:
        figures: dict[str, JsonValue] = dict(self.figures)
        figures |= {"proposals_before": self.earlier.height} if self.earlier.height else {}
        if self.estimated_usd is not None:
            figures |= {"estimated_usd": self.estimated_usd, **self._within_budget(self.estimated_usd)}
        figures |= {"usd": round(self.spent, 6)} if self.budget.price else {}
        figures |= {"attempts_that_the_server_was_too_busy_for": self.budget.n_busy} if self.budget.n_busy else {}
        figures |= {"claims_rejected": dict(self.rejected)} if self.rejected else {}
        figures |= {"not_read_yet": self.left} if self.left else {}
        figures |= {"withheld": self.corpus.withheld} if self.corpus.withheld else {}
        if NO_MONEY in self.dropped:
            figures |= {"usd_of_all_runs": round(self.budget.spent, 6), "budget_usd": self.budget.limit}
        return Counts("propose", self.added, self.skipped, dict(self.dropped), figures, self.examples)


def unread(
    corpus: Corpus, step: Step, budget: Budget, *, only: set[str] | None = None, limit: int | None = None
) -> Job:
    """The job of what this proposer has not read yet, of all subjects or of `only` these.

    Texts that an earlier run dropped come last: in front they would end every run if a server refuses enough of them.
    limit: how many texts to pay for; those that are paid for again take their places before new ones do. Texts with a
    final unusable answer do not count.
    """
    job = Job(corpus, step, budget)
    read = workspace.read(corpus.ws, tables.READINGS).filter(kind=corpus.kind, proposer=job.name, version=job.made_by)
    part_of = pending.unread_part(corpus.taxonomy, read, workspace.read(corpus.ws, tables.ASKED))
    longest = subjects.LONGEST if step.server else None
    dropped_before = _dropped_before(job) if step.server else set()
    fresh: list[Todo] = []
    retried: list[Todo] = []
    for n, subject in enumerate(corpus.subjects):
        if only is not None and subject.subject not in only:
            continue
        part = part_of(subject.subject, subject.digest)
        if part is None or not _open_traits(corpus, subject, part):
            job.skipped += 1
        elif reason := subjects.cannot_ask(subject, longest):
            job.unreadable.append((subject.subject, reason, ""))
        elif step.server is None and subject.subject in corpus.foreign:
            job.unreadable.append((subject.subject, f"not in English: {step.name} reads no other language", ""))
        else:
            (retried if subject.subject in dropped_before else fresh).append((n, subject, part))
    if limit is None:
        job.todo = fresh + retried
    else:
        paid, again = _with_answer(job, retried) if retried else ([], [])
        places = {n for n, _, _ in paid + again}
        unpaid = again + fresh + [entry for entry in retried if entry[0] not in places]
        new_first = sorted(unpaid[:limit], key=lambda entry: entry[1].subject in dropped_before)
        job.todo, job.left = new_first + paid, len(unpaid[limit:])
    return job


def _open_traits(corpus: Corpus, subject: Subject, part: Taxonomy) -> list[str]:
    """The traits of a part that are decided by reading this text: of an item those without a verdict. The others stay
    unread, and are read once their verdict is gone."""
    return [slug for slug in part.slugs if not corpus.unknown or slug in corpus.unknown[subject.subject]]


def _dropped_before(job: Job) -> set[str]:
    """Subjects that were sent to this proposer and ended as a row of tables.DROPS."""
    drops = (part.filter(stage="propose", source=job.name) for part in workspace.parts(job.ws, tables.DROPS, "detail"))
    return {place for part in drops for place in part.filter(~pl.col("detail").str.ends_with(UNSENT))["place"]}


def _with_answer(job: Job, todo: Sequence[Todo]) -> tuple[list[Todo], list[Todo]]:
    """Of the texts with a stored answer: those for which nothing is sent, and those that are paid for again."""
    final: list[Todo] = []
    again: list[Todo] = []
    with workspace.keyed(job.ws, tables.REPLIES) as replies:
        answers = job.paid_answers(replies)
        for entry, body in zip(todo, job.bodies(todo), strict=True):
            request = job.server.name(body)
            if replies.get(request) is not None:
                (again if answers.get(request) is None else final).append(entry)
    return final, again


def save(job: Job, proposals: pl.DataFrame, read: Sequence[tuple[Subject, Taxonomy]]) -> None:
    """Saves the proposals, then the readings: after a kill between them, the same chunk is only read again."""
    proposals, rejected, texts = prompting.with_evidence(proposals, [subject for subject, _ in read])
    job.rejected += rejected
    new_verdicts = proposals.join(job.earlier, "proposal", "anti")["verdict"]
    job.figures["proposals"] += workspace.append(job.ws, tables.PROPOSALS, proposals, texts=texts)
    job.figures.update({f"of_these_{verdict}": n for verdict, n in new_verdicts.value_counts().iter_rows()})
    decided = [(s, pending.part_of(part, _open_traits(job.corpus, s, part))) for s, part in read]
    if job.corpus.unknown:
        asked = [pending.rows(part) for part in {part.digest: part for _, part in decided}.values()]
        workspace.append(job.ws, tables.ASKED, pl.concat([tables.ASKED.empty, *asked]))
    rows = [(s.kind, s.subject, s.digest, job.name, job.made_by, part.digest, orders(s)) for s, part in decided]
    job.added += workspace.append(job.ws, tables.READINGS, tables.READINGS.frame(rows))


def drop(job: Job, faults: Iterable[Fault]) -> None:
    """Counts texts without a usable answer and keeps them in tables.DROPS; the next run asks for them again."""
    last = {place: (error, raw) for place, error, raw in faults}
    rows = [
        ("propose", job.name, place, error.split(":")[0], f"{error}; {raw[:2_000]}" if raw else error)
        for place, (error, raw) in last.items()
    ]
    job.dropped.update(row[3] for row in rows)
    for place, (error, _) in last.items():
        if error.startswith("off schema: "):  # our own words; a server's may repeat what the seeker wrote
            job.examples.setdefault("off schema", f"{place}: {error.removeprefix('off schema: ')}")
    workspace.append(job.ws, tables.DROPS, tables.DROPS.frame(rows))
