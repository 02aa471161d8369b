"""adjudicate: reviews become labels, and item labels become warnings."""

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from annotation import aggregation, agreement, certificate
from annotation.recall_bounds import LabelBounds
from annotation.review_state import gather, label_bounds, reported, undone
from saferec_builder.core.counts import Counts
from saferec_builder.core.errors import UsageError
from saferec_builder.storage import tables, whole_files, workspace
from saferec_builder.storage.workspace import Workspace

CERTIFICATES = "certificates.json"  # in the workspace


@dataclass(frozen=True)
class Adjudication:
    """Counts are of units. `labels`: LABELS rows (without ids) of every unit as it stands now. `agreement`: kind,
    trait, units, alpha, low, high. `bounds`: what the labels miss and claim wrongly at most. `reported`: conversations
    whose readers say that they tell who somebody is."""

    counts: Counts
    labels: pl.DataFrame
    agreement: pl.DataFrame
    bounds: LabelBounds
    reported: list[str]


@workspace.shared
def adjudicate(ws: Workspace) -> Adjudication:
    """Makes labels of the reviews, and keeps their bounds in certificates.json.

    More than half of the readers alike are `agreed`, an adjudicator's word is `adjudicated`, the rest is `unresolved`;
    sure proposals of a trait that carries a certificate are `auto`, where saferec.toml asks for it. UsageError where
    there are no reviews.
    """
    # whoever comes second has read at least the reviews of the first: an older verdict never follows a newer one
    with workspace.alone(ws, "adjudicate", wait=True):
        desk = gather(ws)
        if desk.reviews.is_empty():
            hint = "run `saferec-build review push` and `review pull` first"
            raise UsageError(f"{ws.root}: there are no reviews: {hint}")
        new = aggregation.changed(desk.judged, desk.labels)
        added = workspace.append(ws, tables.LABELS, new)
        warned = workspace.append(ws, tables.WARNINGS, aggregation.warnings(pl.concat([desk.labels, new])))
        bounds = label_bounds(desk)
        _keep(ws.root / CERTIFICATES, bounds)
    methods = dict(desk.judged["method"].value_counts().iter_rows())
    figures = {method: methods.get(method, 0) for method in ("agreed", "adjudicated", "auto", "unresolved")}
    figures |= {"warnings_from_item_labels": warned, "reviews_left_out": desk.left_out}
    figures |= {"alarms": alarms} if (alarms := undone(desk)) else {}
    counts = Counts("adjudicate", added, desk.judged.height - added, figures=figures)
    alphas = agreement.alphas(aggregation.by_reviewers(desk.votes))
    return Adjudication(counts, desk.judged, alphas, bounds, reported(desk))


def _keep(path: Path, bounds: LabelBounds) -> None:
    """Writes nothing that stands there already: the time of the file is that of the last change."""
    text = certificate.of(bounds).model_dump_json(indent=1) + "\n"
    if path.is_file() and path.read_text(encoding="utf-8", errors="replace") == text:
        return
    with whole_files.replacing(path) as tmp:
        tmp.write_text(text, encoding="utf-8")
