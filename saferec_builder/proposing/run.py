"""Runs `propose`: the rules, `learned`, a model, a cascade of them or a jury read what they have not read yet."""

from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from saferec_builder.core.counts import Counts
from saferec_builder.core.errors import UsageError
from saferec_builder.core.progress import Named, Progress, shown
from saferec_builder.llm import Budget
from saferec_builder.llm.client import RESUME
from saferec_builder.proposing import cascade, corpus, human_labels, jobs, pending, proposers, runner
from saferec_builder.proposing.jobs import Job
from saferec_builder.proposing.learned import Learned
from saferec_builder.proposing.plan import Plan, dry_run as planned, texts_to_send
from saferec_builder.proposing.proposers import Step
from saferec_builder.proposing.rules import cues
from saferec_builder.storage import tables, workspace
from saferec_builder.storage.workspace import Workspace

REMEDY = "a model (--proposer openai:MODEL), people ([review] audit), and learned, once they judged enough such texts"
FIELDS = {"sensitivity": "role and text of each turn", "item_flag": "plot"}  # what is sent of a text


@dataclass(frozen=True)
class ProposeResult:
    """counts: of all proposers together (those of each are in the figures, under its name); spent: USD of this run;
    unit: what `counts` counts; `readings` if there are several proposers."""

    counts: Counts
    spent: float
    unit: Literal["conversations", "items", "readings"]

    @property
    def resume(self) -> str:
        """What to do before `propose` goes on, if its server or the budget ended this run; else ""."""
        reasons = self.counts.dropped
        stops = (advice for end, advice in RESUME.items() if any(reason.startswith(end) for reason in reasons))
        advice = next(stops, None)
        return f"{advice}, and run `propose` again as now: it asks only for the rest; or without it, " if advice else ""


@workspace.shared
def propose(
    ws: Workspace,
    proposer: str | None = None,
    *,
    model: str | None = None,
    base_url: str | None = None,
    items: bool = False,
    allow_remote: bool = False,
    dry_run: bool = False,
    budget_usd: float | None = None,
    limit: int | None = None,
    retry_failed: bool = False,
    progress: Named | None = None,
) -> ProposeResult:
    """Proposes seekers' sensitivities (items: flags of items without a verdict), with evidence from the text.

    proposer: `rules`, `learned`, `openai:MODEL`, `batch:MODEL`, a cascade of them with commas, or `jury`; by default
    the rules and, once it is as precise, `learned`. Appends to the tables proposals, readings, asked, replies, spend
    and drops; what was read before is not read again.
    limit: texts per proposer, as in jobs.unread. budget_usd: for all runs in this workspace together; default:
    saferec.toml. A dry run sends and writes nothing: its figures are requests, tokens and price. retry_failed: ask
    again where a paid answer was unusable, three times in all. progress: shows the texts that each proposer reads,
    and the models of `learned` while it is trained.
    Raises UsageError if there is nothing to read or an option is wrong, and, without allow_remote, before text would
    leave this machine; ProposerError if a server cannot be used.
    """
    steps, is_cascade = proposers.steps(ws, proposer or "rules", model, base_url)
    steps = [proposers.retrying(step) for step in steps] if retry_failed else steps
    texts = corpus.load(ws, items=items)
    learner = Learned(texts, progress and progress("propose, training learned", "model"), keeps=not dry_run)
    steps, is_considered = _with_learned(learner, steps, by_default=proposer is None)
    budget = budget_usd if budget_usd is not None else ws.config.propose.budget_usd
    plan = Plan(texts, steps, is_cascade, budget, limit)
    proposers.check_prices(steps, budget)
    noun: Literal["conversations", "items"] = "items" if items else "conversations"
    if dry_run:
        all_jobs = planned(plan)
    else:
        servers = [step.server for step in steps if step.server]
        rows = 0 if all(server.is_loopback for server in servers) else texts_to_send(plan)
        proposers.consent(steps, allow_remote or ws.config.propose.allow_remote, rows, noun, FIELDS[texts.kind])
        # two commands at once would each spend the rest of a budget, and pay for what the other is waiting for
        with workspace.alone(ws, "propose by a model") if servers else nullcontext():
            all_jobs = _read_all(plan, learner, progress and progress("propose", noun.removesuffix("s")))
    counts = together({job.name: job.counts() for job in all_jobs})
    if is_considered and (standing := learner.known_standing) and (learner.trained or not standing.ready):
        counts = replace(counts, figures={**counts.figures, "of_learned": str(standing)})
    if all(step.way == "rules" for step in steps) and not dry_run:
        with_cues = cues.traits()  # the rules never propose another trait, whatever a text says
        if no_cues := [slug for slug in texts.taxonomy.slugs if slug not in with_cues]:
            figure = {"rules_know_no_cues_of": no_cues, "what_reads_these": REMEDY}
            counts = replace(counts, figures={**counts.figures, **figure})
    return ProposeResult(counts, sum(job.spent for job in all_jobs), "readings" if len(all_jobs) > 1 else noun)


def _with_learned(learner: Learned, steps: list[Step], *, by_default: bool) -> tuple[list[Step], bool]:
    """Returns (the steps with `learned` of this workspace, whether it was considered). By default it joins the rules
    once it is ready. It is not trained if it has read everything, or if it is known not to be ready.
    """
    texts = learner.corpus
    is_named = any(step.way == "learned" for step in steps)
    if is_named and texts.kind == "item_flag":
        raise UsageError(
            "--proposer learned reads conversations, no plots: leave --items out, or name another proposer"
        )
    if not is_named and (not by_default or texts.kind == "item_flag" or not human_labels.labels(texts).present):
        return steps, False
    if not is_named and (standing := learner.known_standing) and not standing.ready:
        return steps, True
    step = Step("learned", version=learner.examples.version, find=partial(learner.propose, whole=texts.taxonomy))
    if is_named:
        return [step if other.way == "learned" else other for other in steps], True
    unread = jobs.unread(texts, step, Budget()).todo
    return [*steps, step] if not unread or learner.standing.ready else steps, True


def _read_all(plan: Plan, learner: Learned, progress: Progress | None) -> list[Job]:
    """Runs the proposers in order; in a cascade each reads what those before it left in doubt."""
    finished = []
    for n, step in enumerate(plan.steps):
        only = cascade.doubts(plan.corpus, plan.steps[:n]) if plan.is_cascade and n else None
        job = plan.job(step, only)
        if step.way == "learned" and job.todo:
            learner.train()  # before its texts are counted: the time of the first would be that of the training
        finished.append(_read(job, progress))
    return finished


def _read(job: Job, progress: Progress | None) -> Job:
    """Reads and saves all of a job."""
    jobs.drop(job, job.unreadable)
    for part in job.parts:
        workspace.append(job.ws, tables.ASKED, pending.rows(part))
    with shown(len(job.todo), progress) as bar:
        runner.read(job, bar.update)
    return job


def together(counts: dict[str, Counts]) -> Counts:
    """Adds up the counts of several proposers; those of each are in the figures, under its name."""
    if len(counts) == 1:
        return next(iter(counts.values()))
    dropped, examples = Counter[str](), dict[str, str | list[str]]()
    for part in counts.values():
        dropped.update(part.dropped)
        examples |= part.examples
    added, skipped = (sum(getattr(part, name) for part in counts.values()) for name in ("added", "skipped"))
    by_name = {name: {"in": p.came, "added": p.added, **p.figures} for name, p in counts.items()}
    return Counts("propose", added, skipped, dict(dropped), by_name, examples)
