"""A proposer against what is known: per trait, its evidence and confidence, and what it claims without its evidence."""

from collections.abc import Callable, Sequence
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
from saferec_builder.proposing.calibration import Bin, Evidence, Rates, Row, Truth
from saferec_builder.proposing.corpus import Corpus
from saferec_builder.proposing.jobs import Job
from saferec_builder.proposing.proposers import Step
from saferec_builder.proposing.rules import matcher as rules
from saferec_builder.proposing.text_units import Subject, item_subjects
from saferec_builder.storage import tables, workspace
from saferec_builder.storage.schema import Span
from saferec_builder.storage.workspace import Workspace

Known = Callable[[Corpus], Truth]  # what is known of these texts
FOUND = (
    "of what people found, who looked where something was proposed: what nobody proposed is hardly in it; "
    "`saferec-build review status` says what is missed at most"
)


@dataclass(frozen=True)
class Deletion:
    """Right claims that were asked for again with their evidence cut out; fell: the share that is not claimed then."""

    claims: int
    answered: int
    fell: float | None


@dataclass(frozen=True)
class Score:
    """How right a proposer is. read: subjects with a known truth; open: claims that nobody judged; ece: expected
    calibration error, and before and after an isotonic fit on held-out claims of traits with 50 judged ones."""

    proposer: str
    read: int
    open: int
    all: Rates
    recall_of: dict[str, float]  # form -> recall
    traits: dict[str, Rates]
    ece: float | None
    reliability: list[Bin]
    evidence: Evidence | None
    ece_of_traits_with_50: float | None
    ece_calibrated: float | None
    deletion: Deletion | None = None
    recall_is: str | None = None  # of what, where it is not of all that is there


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
    """Precision, recall, F1, calibration and evidence of one proposer, against the labels here or another truth.

    deletion: also ask again without the evidence of each right claim; replies to that are paid for and kept, nothing
    else is written. Raises UsageError where the proposer has read nothing of which the truth is known.
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
        proposers.priced([step], budget)
    claims, read, known = claimed(corpus, step, truth(corpus))
    if not read:
        raise UsageError(
            f"{step.name} has read nothing of which the truth is known: run propose"
            " (and for labels review and adjudicate) first"
        )
    judged = [row for row in claims if known.of((row["subject"], row["trait"])) is not None]
    before, after = calibration.held_out_ece(judged, known)
    found = Score(
        proposer=step.name,
        **calibration.score(claims, read, known),
        ece_of_traits_with_50=before,
        ece_calibrated=after,
        recall_is=FOUND if truth is ground_truth.labels and known.present else None,
    )
    if not deletion:
        return found
    allowed = allow_remote or ws.config.propose.allow_remote
    proposers.consent([step], allowed, len(judged), "claims", "text of turns")
    right = [row for row in judged if (row["subject"], row["trait"]) in known.present and row["spans"]]
    with proposers.asking(ws, [step]):
        return replace(found, deletion=_deletion(corpus, step, right))


def _all_items(corpus: Corpus) -> Corpus:
    """Flags are scored also where a verdict is known by now."""
    items, _ = catalog.merge(workspace.read(corpus.ws, tables.CATALOG_ROWS))
    return replace(corpus, subjects=list(item_subjects(items)), frame=items, unknown={})


def claimed(corpus: Corpus, step: Step, truth: Truth) -> tuple[list[Row], set[str], Truth]:
    """The proposer's last word on each unit of the current texts, the subjects with a truth that it read, and what is
    there of the traits that it was asked about in them, in today's words: of others its silence misses nothing."""
    readings = corpus.rows(tables.READINGS).filter(proposer=step.name)
    learned = readings["version"].last() or ""  # the last that it learned
    version = learned if step.way == "learned" else corpus.version(step)
    mine = {"proposer": step.name, "version": version}
    left = pending.left(corpus.taxonomy, readings.filter(version=version), workspace.read(corpus.ws, tables.ASKED))
    parts = {s.subject: left(s.subject, s.digest) for s in corpus.subjects}
    unasked = {(subject, slug) for subject, part in parts.items() if part for slug in part.slugs}
    known = {subject for subject, _ in (*truth.present, *truth.absent)} | set(truth.whole)
    read = {
        name for name, part in parts.items() if part is None or len(part.slugs) < len(corpus.taxonomy.slugs)
    } & known
    rows = prompting.as_worded(corpus.rows(tables.PROPOSALS).filter(**mine), corpus.taxonomy)
    last = tables.last(rows, "subject", "trait")
    claims = last.filter(pl.col("verdict") == "present", pl.col("subject").is_in(list(read))).to_dicts()
    asked = {unit: form for unit, form in truth.present.items() if unit not in unasked}
    return (
        [row for row in claims if (row["subject"], row["trait"]) not in unasked],
        read,
        replace(truth, present=asked, absent={*truth.absent} - unasked),
    )


# ---- the deletion test


def _deletion(corpus: Corpus, step: Step, right: Sequence[Row]) -> Deletion:
    subjects = {s.subject: s for s in corpus.subjects}
    cut = [without(subjects[row["subject"]], row["spans"]) for row in right]
    still = _by_rules(corpus, cut) if step.server is None else _by_model(corpus, step, cut)
    answered = [(row["trait"], traits) for row, traits in zip(right, still, strict=True) if traits is not None]
    fell = sum(trait not in traits for trait, traits in answered)
    return Deletion(len(right), len(answered), fell / len(answered) if answered else None)


def without(subject: Subject, spans: Sequence[Span]) -> Subject:
    """The subject with these letters cut out, each once: two quotes may overlap."""
    cut = {(span["turn"], n) for span in spans for n in range(span["start"], span["end"])}
    left = (
        (role, "".join(c for n, c in enumerate(text) if (k, n) not in cut))
        for k, (role, text) in enumerate(subject.turns)
    )
    return replace(subject, turns=tuple(left))


def _by_rules(corpus: Corpus, cut: Sequence[Subject]) -> list[set[str]]:
    names = [str(n) for n in range(len(cut))]
    if corpus.kind == "item_flag":
        plots = [s.turns[0][1] if s.turns else None for s in cut]
        found = rules.flag_items(
            pl.DataFrame({"item": names, "plot": plots}, schema_overrides={"plot": pl.String}), corpus.taxonomy
        )
    else:
        turns = [[{"role": role, "text": text, "items": []} for role, text in s.turns] for s in cut]
        schema = {name: tables.CONVERSATIONS.schema[name] for name in ("conversation", "digest", "turns")}
        rows = {"conversation": names, "digest": names, "turns": turns}
        found = rules.propose(pl.DataFrame(rows, schema=schema), corpus.taxonomy)
    present = found.filter(pl.col("verdict") == "present").select("subject", "trait").rows()
    return [{trait for subject, trait in present if subject == name} for name in names]


def _by_model(corpus: Corpus, step: Step, cut: Sequence[Subject]) -> list[set[str] | None]:
    """The traits still claimed, or None where no usable answer came."""
    todo = [(n, subject, corpus.taxonomy) for n, subject in enumerate(cut)]
    budget = plan.budget(corpus.ws, step, corpus.ws.config.propose.budget_usd)
    found = runner.answers(Job(corpus, step, budget, step.name, corpus.prompt.version, todo))
    return [
        None if n not in found else {row["trait"] for row in found[n].proposals if row["verdict"] == "present"}
        for n in range(len(cut))
    ]
