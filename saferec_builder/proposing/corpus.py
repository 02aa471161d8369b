"""The texts that proposers read (conversations, or items without a verdict), and the instructions for reading them."""

from dataclasses import dataclass, field
from typing import Literal

import polars as pl

from saferec_builder import catalog
from saferec_builder.core import oracle as violations
from saferec_builder.core.errors import UsageError
from saferec_builder.core.taxonomy import Taxonomy
from saferec_builder.mining import withheld
from saferec_builder.proposing import prompting, text_units as subjects
from saferec_builder.proposing.proposers import Step
from saferec_builder.proposing.rules import matcher as rules
from saferec_builder.storage import tables, workspace
from saferec_builder.storage.workspace import Workspace

Unknown = dict[str, frozenset[str]]  # item -> traits without a verdict
SURELY = 0.8  # language score; one of 10,380 English texts (ReDial, OpenDialKG, Reddit) reached it for another language


@dataclass(frozen=True)
class Corpus:
    """What all proposers of a run read, and the instructions for reading it."""

    ws: Workspace
    taxonomy: Taxonomy
    kind: Literal["sensitivity", "item_flag"]
    prompt: prompting.Prompt
    subjects: list[subjects.Subject]
    frame: pl.DataFrame  # rows of conversations or items, in the same order
    unknown: Unknown = field(default_factory=dict)
    withheld: int = 0  # conversations that nobody may read
    foreign: frozenset[str] = frozenset()  # surely not in English: the rules and `learned` cannot read them

    def version(self, step: Step) -> str:
        """The version that readings of this proposer carry."""
        return self.prompt.version if step.server else step.version or rules.VERSION

    def rows(self, table: tables.Table) -> pl.DataFrame:
        """The rows of a table on the current texts, without those on older versions of a text."""
        texts = [(s.subject, s.digest) for s in self.subjects]
        current = pl.DataFrame(texts, {"subject": pl.String, "digest": pl.String}, orient="row")
        return workspace.read(self.ws, table).filter(kind=self.kind).join(current, on=["subject", "digest"], how="semi")


def load(ws: Workspace, *, items: bool = False) -> Corpus:
    """Loads all conversations that are not withheld, or the items with a trait on which the catalog has no verdict.

    Raises UsageError if nothing was mined (items: if the catalog is empty), or if the prompt cannot be used.
    """
    path = ws.config.propose.prompt
    prompt = prompting.prompt(ws.root / path) if path else prompting.prompt()
    if items:
        frame, unknown = unknown_traits(ws)
        if frame.is_empty():
            raise UsageError(f"{ws.place}: no items yet: run `saferec-build catalog add SOURCE PATH` first")
        frame = frame.filter([bool(unknown[item]) for item in frame["item"]])
        return Corpus(ws, ws.taxonomy, "item_flag", prompt, list(subjects.item_subjects(frame)), frame, unknown)
    frame = tables.last(workspace.read(ws, tables.CONVERSATIONS), "conversation")
    if frame.is_empty():
        raise UsageError(f"{ws.place}: no conversations yet: run `saferec-build mine SOURCE PATH` first")
    reasons = withheld.reasons(ws, frame)
    frame = frame.filter(~frame["conversation"].is_in(list(reasons)))
    texts = list(subjects.conversation_subjects(frame))
    foreign = _foreign(ws, frame)
    return Corpus(ws, ws.taxonomy, "sensitivity", prompt, texts, frame, withheld=len(reasons), foreign=foreign)


def _foreign(ws: Workspace, frame: pl.DataFrame) -> frozenset[str]:
    """The conversations whose seeker surely does not write English; those without a mark are not among them."""
    marks = tables.last(workspace.read(ws, tables.MARKS), "conversation", "digest")
    is_foreign = (pl.col("language") != "en") & (pl.col("language_score") >= SURELY)
    return frozenset(marks.filter(is_foreign).join(frame, on=["conversation", "digest"], how="semi")["conversation"])


def unknown_traits(ws: Workspace, *, reviews: bool = True) -> tuple[pl.DataFrame, Unknown]:
    """All items, and for each the traits without a verdict; reviews: whether reviewers' findings in items count."""
    items, links = catalog.merge(workspace.read(ws, tables.CATALOG_ROWS))
    warnings = workspace.read(ws, tables.WARNINGS).filter(pl.lit(reviews) | (pl.col("kind") != "review"))
    oracle, _ = catalog.risks(items, links, warnings, ws.taxonomy, ws.config.rule)
    codes = oracle.codes == violations.UNKNOWN
    rows = {item: codes[oracle.row(item)] for item in items["item"]}
    return items, {i: frozenset(t for t, n in oracle.traits.items() if row[n]) for i, row in rows.items()}
