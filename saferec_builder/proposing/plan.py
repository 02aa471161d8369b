"""Plans what a run would read, send and spend: the budget of a job, a dry run, the number of texts to send."""

from collections import Counter
from dataclasses import dataclass

from saferec_builder.llm import Budget, batch_ledger
from saferec_builder.llm.pricing import Habit
from saferec_builder.proposing import jobs
from saferec_builder.proposing.corpus import Corpus
from saferec_builder.proposing.jobs import Job
from saferec_builder.proposing.proposers import Step
from saferec_builder.storage import database, tables, workspace
from saferec_builder.storage.workspace import Workspace


@dataclass(frozen=True)
class Plan:
    """Which proposers read what in one run."""

    corpus: Corpus
    steps: list[Step]
    is_cascade: bool  # each step reads what those before it left in doubt
    budget_usd: float | None  # for all runs in this workspace together
    limit: int | None  # texts per step, as in jobs.unread

    def job(self, step: Step, only: set[str] | None = None) -> Job:
        budget_of_step = budget(self.corpus.ws, step, self.budget_usd)
        return jobs.unread(self.corpus, step, budget_of_step, only=only, limit=self.limit)


def budget(ws: Workspace, step: Step, limit: float | None) -> Budget:
    """The budget of a step: the limit, what is spent, the most that open batches can cost, and means of past bills."""
    if step.server is None:
        return Budget()
    bills = workspace.read(ws, tables.SPEND)
    model_bills = bills.filter(model=step.name)
    sent, tokens, out, n = (float(model_bills[c].sum()) for c in ("bytes_out", "tokens_in", "tokens_out", "requests"))
    habit = Habit(
        sent / tokens if sent and tokens else Habit.bytes_per_token, out / n if n and out else Habit.tokens_out
    )
    spent, aside = (float(rows["usd"].sum()) for rows in (bills, batch_ledger.open_batches(ws)))
    longest = database.largest(ws.database, tables.REPLIES, "tokens_out", model=step.name)
    return Budget(step.price, limit, spent, habit, aside=aside, longest=longest)


def dry_run(plan: Plan) -> list[Job]:
    """The jobs with their requests, tokens and price; what was paid for already costs nothing.

    Each step of a cascade is planned as if it read everything: what it will be given is not known before.
    """
    planned_jobs = [plan.job(step) for step in plan.steps]
    for job in planned_jobs:
        _estimate(job)
        job.dropped.update(reason.split(":")[0] for _, reason, _ in job.unreadable)
        job.figures["texts_to_read"] = len(job.todo)
    return planned_jobs


def texts_to_send(plan: Plan) -> int:
    """The most texts that a run would send."""
    if len(plan.steps) > 1:
        return len(plan.corpus.subjects)
    return len(plan.job(plan.steps[0]).todo)


def _estimate(job: Job) -> None:
    job.figures = Counter(requests=0, already_paid=0, estimated_tokens_in=0, estimated_tokens_out=0)
    if job.step.server is None:
        return
    price, habit = job.step.price, job.budget.habit
    in_batches = int(batch_ledger.of_server(job.ws, job.server)["requests"].sum())
    if in_batches:
        job.figures["in_open_batches"] = in_batches
    noted = {name: n for n, name in enumerate(workspace.read(job.ws, tables.REQUESTS)["request"])} if in_batches else {}
    by_request: dict[str, tuple[int, int]] = {}  # when it was noted (-1: never), tokens
    with workspace.keyed(job.ws, tables.REPLIES) as replies:
        paid_answers = job.paid_answers(replies)
        for body in job.bodies():
            request = job.server.name(body)
            if request in by_request or paid_answers.get(request) is not None:
                job.figures["already_paid"] += 1
            else:
                tokens = round(len(job.server.payload(body)) / habit.bytes_per_token)
                by_request[request] = (noted.get(request, -1), tokens)
    # the open batches hold what was noted last; requests that other batches left unanswered were noted earlier
    unpaid = sorted(by_request.values())
    to_send = unpaid[: len(unpaid) - min(in_batches, sum(n >= 0 for n, _ in unpaid))]
    job.figures["requests"] = len(to_send)
    job.figures["estimated_tokens_in"] = sum(tokens for _, tokens in to_send)
    job.figures["estimated_tokens_out"] = len(to_send) * round(habit.tokens_out)
    if price:
        usd = price.of(job.figures["estimated_tokens_in"], job.figures["estimated_tokens_out"])
        job.estimated_usd = round(usd, 4)
