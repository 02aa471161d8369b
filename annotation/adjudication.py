"""The `adjudicate` command: turns reviews into labels, and labels of items into warnings."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from annotation import aggregation, agreement, certificate, label_bounds
from annotation.recall_bounds import LabelBounds
from annotation.review_state import gather, reported, undone
from saferec_builder.core.counts import Counts
from saferec_builder.core.errors import UsageError
from saferec_builder.mining import withheld
from saferec_builder.storage import tables, whole_files, workspace
from saferec_builder.storage.workspace import Workspace

CERTIFICATES = "certificates.json"  # in the workspace


@dataclass(frozen=True)
class Adjudication:
    """The result of `adjudicate`; counts are of units. `labels`: LABELS rows (without ids) of every unit as it is now.
    `agreement`: kind, trait, units, alpha, low, high. `bounds`: upper bounds on missed and on wrong labels. `reported`:
    conversations that, according to their readers, reveal somebody's identity."""

    counts: Counts
    labels: pl.DataFrame
    agreement: pl.DataFrame
    bounds: LabelBounds
    reported: list[str]


@workspace.shared
def adjudicate(ws: Workspace) -> Adjudication:
    """Makes labels from the reviews, and writes their bounds to certificates.json.

    A verdict of more than half of the readers gives a label with the method `agreed`, a ruling of an adjudicator gives
    `adjudicated`, everything else is `unresolved`. Sure proposals of a trait that has a certificate become `auto`, if
    saferec.toml asks for it. Raises UsageError if there are no reviews.
    """
    # a second process reads at least the reviews of the first: an older verdict never follows a newer one
    with workspace.alone(ws, "adjudicate", wait=True):
        state = gather(ws)
        if state.reviews.is_empty():
            hint = "run `saferec-build review push` and `review pull` first"
            raise UsageError(f"{ws.place}: there are no reviews: {hint}")
        new = aggregation.changed(state.judged, state.labels)
        added = workspace.append(ws, tables.LABELS, new)
        warning_count = workspace.append(ws, tables.WARNINGS, aggregation.warnings(pl.concat([state.labels, new])))
        bounds = label_bounds.bounds(state)
        _write_certificate(ws.root / CERTIFICATES, bounds)
    counted = withheld.without(state.judged, state.withheld)
    methods = dict(counted["method"].value_counts().iter_rows())
    figures = {method: methods.get(method, 0) for method in ("agreed", "adjudicated", "auto", "unresolved")}
    apart = state.judged.filter(kind="sensitivity")["subject"].to_list()
    reasons = Counter(state.withheld[subject] for subject in apart if subject in state.withheld)
    figures |= {"withheld": reasons} if reasons else {}
    figures |= {"warnings_from_item_labels": warning_count, "reviews_left_out": state.left_out}
    figures |= {"alarms": alarms} if (alarms := undone(state)) else {}
    counts = Counts("adjudicate", added, state.judged.height - added, figures=figures)
    alphas = agreement.alphas(aggregation.by_reviewers(state.votes))
    return Adjudication(counts, state.judged, alphas, bounds, reported(state))


def _write_certificate(path: Path, bounds: LabelBounds) -> None:
    """Writes the certificate unless the file has it already: its time stamp is that of the last change."""
    text = certificate.from_bounds(bounds).model_dump_json(indent=1) + "\n"
    if path.is_file() and path.read_text(encoding="utf-8", errors="replace") == text:
        return
    with whole_files.replacing(path) as tmp:
        tmp.write_text(text, encoding="utf-8")
