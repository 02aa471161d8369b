"""Scores a proposer against known labels: per trait, its evidence and confidence, and its claims without evidence."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

import polars as pl

from saferec_builder import catalog
from saferec_builder.core.errors import UsageError
from saferec_builder.proposing import (
    calibration,
    corpus as corpora,
    human_labels as ground_truth,
    pending,
    plan,
    prompting,
    proposers,
    runner,
)
from saferec_builder.proposing.calibration import Truth
from saferec_builder.proposing.corpus import Corpus
from saferec_builder.proposing.jobs import Job
from saferec_builder.proposing.proposers import Step
from saferec_builder.proposing.rules import matcher as rules
from saferec_builder.proposing.text_units import Proposal, Subject, item_subjects
from saferec_builder.storage import tables, workspace
from saferec_builder.storage.schema import Span
from saferec_builder.storage.workspace import Workspace

Known = Callable[[Corpus], Truth]  # returns the truth about these texts
RECALL_OF_LABELS = (
    "of what people found, who looked where something was proposed: what nobody proposed is hardly in it; "
    "`saferec-build review status` says what is missed at most"
)


@dataclass(frozen=True)
class Deletion:
    """Right claims, asked for again with their evidence cut out; fell: the share that is then no longer claimed."""

    claims: int
    answered: int
    fell: float | None


@dataclass(frozen=True)
class Score(calibration.Figures):
    """The scores of a proposer. The last two ece are before and after an isotonic fit, on held-out claims of traits
    with 50 judged."""

    proposer: str
    ece_of_traits_with_50: float | None
    ece_calibrated: float | None
    deletion: Deletion | None = None
    recall_is: str | None = None  # what the recall is a share of, if not of all that is there


@workspace.shared
def score(
    ws: Workspace,
    proposer: str = "rules",
    *,
    items: bool = False,
    truth: Known = ground_truth.labels,
    deletion: bool = False,
    allow_remote: bool = False,
) -> Score:
    """Precision, recall, F1, calibration and evidence of one proposer, against the workspace's labels or another truth.

    deletion: also ask again without the evidence of each right claim; the replies are paid for and stored, nothing
    else is written. Raises UsageError if the proposer has read no text with a known truth.
    """
    corpus = corpora.load(ws, items=items)
    corpus = _all_items(corpus) if items else corpus
    step, *others = proposers.steps(ws, proposer, None, None)[0]
    if others:
        raise UsageError(f"--proposer {proposer}: one is scored at a time: {step.name}, then {others[0].name}")
    if deletion and step.way == "learned":
        raise UsageError(
            "--deletion asks again without the evidence: `learned` would have to be trained again for that"
        )
    budget = ws.config.propose.budget_usd
    if deletion:
        proposers.check_prices([step], budget)
    claims, read, reference = claimed(corpus, step, truth(corpus))
    if not read:
        raise UsageError(
            f"{step.name} has read nothing of which the truth is known: run propose"
            " (and for labels review and adjudicate) first"
        )
    judged = [row for row in claims if reference.of((row["subject"], row["trait"])) is not None]
    raw_ece, calibrated_ece = calibration.held_out_ece(judged, reference)
    result = Score(
        proposer=step.name,
        **vars(calibration.score(claims, read, reference)),
        ece_of_traits_with_50=raw_ece,
        ece_calibrated=calibrated_ece,
        recall_is=RECALL_OF_LABELS if truth is ground_truth.labels and reference.present else None,
    )
    if not deletion:
        return result
    allowed = allow_remote or ws.config.propose.allow_remote
    proposers.consent([step], allowed, len(judged), "claims", "text of turns")
    right = [row for row in judged if (row["subject"], row["trait"]) in reference.present and row["spans"]]
    with workspace.alone(ws, "propose by a model") if step.server else nullcontext():
        return replace(result, deletion=_deletion_test(corpus, step, right))


def _all_items(corpus: Corpus) -> Corpus:
    """The corpus with all items: flags are also scored on traits that already have a verdict."""
    items, _ = catalog.merge(workspace.read(corpus.ws, tables.CATALOG_ROWS))
    return replace(corpus, subjects=list(item_subjects(items)), frame=items, unknown={})


def claimed(corpus: Corpus, step: Step, truth: Truth) -> tuple[list[Proposal], set[str], Truth]:
    """Returns the proposer's last claims on the current texts, the subjects with a truth that it has read, and the
    truth about the traits that it was asked about there, in their current wording: on others it can miss nothing."""
    readings = corpus.rows(tables.READINGS).filter(proposer=step.name)
    learned = readings["version"].last() or ""  # the version that was learned last
    version = learned if step.way == "learned" else corpus.version(step)
    columns = {"proposer": step.name, "version": version}
    open_part = pending.unread_part(
        corpus.taxonomy, readings.filter(version=version), workspace.read(corpus.ws, tables.ASKED)
    )
    parts = {s.subject: open_part(s.subject, s.digest) for s in corpus.subjects}
    unasked = {(subject, slug) for subject, part in parts.items() if part for slug in part.slugs}
    with_truth = {subject for subject, _ in (*truth.present, *truth.absent)} | set(truth.whole)
    read = {
        subject for subject, part in parts.items() if part is None or len(part.slugs) < len(corpus.taxonomy.slugs)
    } & with_truth
    rows = prompting.in_current_wording(corpus.rows(tables.PROPOSALS).filter(**columns), corpus.taxonomy)
    latest = tables.last(rows, "subject", "trait")
    claims = latest.filter(pl.col("verdict") == "present", pl.col("subject").is_in(list(read))).to_dicts()
    present = {unit: form for unit, form in truth.present.items() if unit not in unasked}
    return (
        [row for row in claims if (row["subject"], row["trait"]) not in unasked],
        read,
        replace(truth, present=present, absent={*truth.absent} - unasked),
    )


# ---- the deletion test


def _deletion_test(corpus: Corpus, step: Step, right: Sequence[Proposal]) -> Deletion:
    subjects = {s.subject: s for s in corpus.subjects}
    cut = [without(subjects[row["subject"]], row["spans"]) for row in right]
    claims = _claims_by_rules(corpus, cut) if step.server is None else _claims_by_model(corpus, step, cut)
    answered = [(row["trait"], traits) for row, traits in zip(right, claims, strict=True) if traits is not None]
    n_fell = sum(trait not in traits for trait, traits in answered)
    return Deletion(len(right), len(answered), n_fell / len(answered) if answered else None)


def without(subject: Subject, spans: Sequence[Span]) -> Subject:
    """The subject with the characters of these spans cut out, each once: two quotes may overlap."""
    cut = {(span["turn"], n) for span in spans for n in range(span["start"], span["end"])}
    turns = (
        (role, "".join(c for n, c in enumerate(text) if (k, n) not in cut))
        for k, (role, text) in enumerate(subject.turns)
    )
    return replace(subject, turns=tuple(turns))


def _claims_by_rules(corpus: Corpus, cut: Sequence[Subject]) -> list[set[str]]:
    if corpus.kind == "item_flag":
        hits = [[*rules.read_plot(s.turns[0][1])] if s.turns else [] for s in cut]
    else:
        hits = [[hit for _, _, hit in rules.in_turns(s.turns)] for s in cut]
    return [{hit.trait for hit in of_text if hit.verdict == "present"} for of_text in hits]


def _claims_by_model(corpus: Corpus, step: Step, cut: Sequence[Subject]) -> list[set[str] | None]:
    """The traits that are still claimed of each subject; None if no usable answer came."""
    todo = [(n, subject, corpus.taxonomy) for n, subject in enumerate(cut)]
    budget = plan.budget(corpus.ws, step, corpus.ws.config.propose.budget_usd)
    answers = runner.answers(Job(corpus, step, budget, todo))
    return [
        None if n not in answers else {row["trait"] for row in answers[n].proposals if row["verdict"] == "present"}
        for n in range(len(cut))
    ]
