"""The texts that proposers read (conversations, or items without a verdict), and the instructions they read them by."""

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
SURELY = 0.8  # of a language's score: one of 10,380 English texts (ReDial, OpenDialKG, Reddit) came to it as another


@dataclass(frozen=True)
class Corpus:
    """What all proposers of a run read, and by which instructions."""

    ws: Workspace
    taxonomy: Taxonomy
    kind: Literal["sensitivity", "item_flag"]
    prompt: prompting.Prompt
    subjects: list[subjects.Subject]
    frame: pl.DataFrame  # rows of conversations or items, in the same order
    unknown: Unknown = field(default_factory=dict)
    withheld: int = 0  # conversations that nobody is given
    foreign: frozenset[str] = frozenset()  # surely not in English: what the rules and `learned` say of them is nothing

    def version(self, step: Step) -> str:
        """What a reading of this proposer carries as its version."""
        return self.prompt.version if step.server else step.version or rules.VERSION

    def rows(self, table: tables.Table) -> pl.DataFrame:
        """A table's rows on these texts as they are now; of an older text they say nothing."""
        now = pl.DataFrame(
            [(s.subject, s.digest) for s in self.subjects],
            schema={"subject": pl.String, "digest": pl.String},
            orient="row",
        )
        return workspace.read(self.ws, table).filter(kind=self.kind).join(now, on=["subject", "digest"], how="semi")


def load(ws: Workspace, *, items: bool = False) -> Corpus:
    """All conversations but the withheld, or the items with a trait on which the catalog has no verdict.

    Raises UsageError where nothing was mined (items: where the catalog is empty), or the prompt cannot be used.
    """
    path = ws.config.propose.prompt
    prompt = prompting.prompt(ws.root / path) if path else prompting.prompt()
    if items:
        frame, unknown = unknown_traits(ws, ws.taxonomy)
        if frame.is_empty():
            raise UsageError(f"{ws.root}: no items yet: run `saferec-build catalog add SOURCE PATH` first")
        frame = frame.filter([bool(unknown[item]) for item in frame["item"]])
        return Corpus(ws, ws.taxonomy, "item_flag", prompt, list(subjects.item_subjects(frame)), frame, unknown)
    frame = tables.last(workspace.read(ws, tables.CONVERSATIONS), "conversation")
    if frame.is_empty():
        raise UsageError(f"{ws.root}: no conversations yet: run `saferec-build mine SOURCE PATH` first")
    held = withheld.reasons(ws, frame)
    frame = frame.filter(~frame["conversation"].is_in(list(held)))
    texts = list(subjects.conversation_subjects(frame))
    foreign = _foreign(ws, frame)
    return Corpus(ws, ws.taxonomy, "sensitivity", prompt, texts, frame, withheld=len(held), foreign=foreign)


def _foreign(ws: Workspace, frame: pl.DataFrame) -> frozenset[str]:
    """The conversations whose seeker surely writes another language than English; what nobody marked is none."""
    marks = tables.last(workspace.read(ws, tables.MARKS), "conversation", "digest")
    apart = (pl.col("language") != "en") & (pl.col("language_score") >= SURELY)
    return frozenset(marks.filter(apart).join(frame, on=["conversation", "digest"], how="semi")["conversation"])


def unknown_traits(ws: Workspace, taxonomy: Taxonomy, *, reviews: bool = True) -> tuple[pl.DataFrame, Unknown]:
    """All items, and for each the traits without a verdict; `reviews`: what reviewers found in items counts too."""
    items, links = catalog.merge(workspace.read(ws, tables.CATALOG_ROWS))
    warnings = workspace.read(ws, tables.WARNINGS).filter(pl.lit(reviews) | (pl.col("kind") != "review"))
    oracle, _ = catalog.risks(items, links, warnings, taxonomy, ws.config.rule)
    codes = oracle.codes == violations.UNKNOWN
    rows = {item: codes[oracle.row(item)] for item in items["item"]}
    return items, {i: frozenset(t for t, n in oracle.traits.items() if row[n]) for i, row in rows.items()}
