"""adjudicate: reviews become labels, and item labels become warnings."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from annotation.desk import gather, told_bounds
from saferec_builder.cli.output import Folder, Json, say
from saferec_builder.core.counts import Counts

if TYPE_CHECKING:
    from annotation.recall_bounds import Told

CERTIFICATES = "certificates.json"  # in the workspace


def adjudicate(folder: Folder = Path("."), as_json: Json = False) -> None:
    """Make labels: two alike are `agreed`, an adjudicator's word is `adjudicated`, the rest is `unresolved`.

    Sure proposals of a trait that carries a certificate are `auto`, where saferec.toml asks for it ([review] auto).
    What the labels miss and claim wrongly at most is printed and kept in certificates.json.
    """
    import polars as pl

    from annotation import aggregation as stage, agreement, recall_bounds as bounds
    from saferec_builder.core.errors import UsageError
    from saferec_builder.storage import tables, workspace as store

    # whoever comes second has read at least the reviews of the first: an older verdict never follows a newer one
    with store.alone(store.Workspace.open(folder), "adjudicate", wait=True):
        desk = gather(folder)
        if desk.reviews.is_empty():
            raise UsageError(f"{folder}: there are no reviews: run `saferec-build review push` and `review pull` first")
        new = stage.changed(desk.judged, desk.labels)
        added = store.append(desk.ws, tables.LABELS, new)
        said = store.append(desk.ws, tables.WARNINGS, stage.warnings(pl.concat([desk.labels, new])))
        missed = told_bounds(desk)
        _keep(desk.ws.root / CERTIFICATES, bounds.certificate(missed))
    methods = dict(desk.judged["method"].value_counts().iter_rows())
    figures = {method: methods.get(method, 0) for method in ("agreed", "adjudicated", "auto", "unresolved")}
    figures |= {"warnings_from_item_labels": said, "reviews_left_out": desk.left_out}
    told = agreement.alphas(stage.by_reviewers(desk.votes)).to_dicts()
    if as_json:
        figures |= {"missed": {slug: bound.__dict__ for slug, bound in missed.traits.items()}}
        figures |= {"missed_of_all": missed.pooled.__dict__, "certified_together": missed.together}
        figures |= {"false": {slug: share.__dict__ for slug, share in missed.false.items()}}
        figures |= {"alpha": _alphas(told, "sensitivity"), "alpha_of_items": _alphas(told, "item_flag")}
    for row in [] if as_json else told:
        typer.echo(f"  alpha of {row['trait']}{' (items)' * (row['kind'] == 'item_flag')}: {_words(row)}")
    for slug, bound in () if as_json else missed.traits.items():
        typer.echo(f"  missed share of {slug}: {bounds.words(bound)}")
    if not as_json:
        typer.echo(f"  missed share of {bounds.POOLED}: {bounds.words(missed.pooled)}")
        _say_false(missed)
    say(Counts("adjudicate", added, desk.judged.height - added, figures=figures), as_json, "units")


def _keep(path: Path, certificate: dict[str, Any]) -> None:
    import json

    from saferec_builder.storage import workspace as store

    with store.replacing(path) as tmp:
        tmp.write_text(json.dumps(certificate, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def _say_false(told: "Told") -> None:
    """Only where something was rechecked: without a draw there is nothing to say of any trait."""
    from annotation import precision_bounds as precision

    for slug, share in told.false.items():
        if share.rechecked:
            typer.echo(f"  false share of {slug}: {precision.words(share)}")
    if told.false_pooled:
        typer.echo(f"  false share of {precision.POOLED}: {precision.words(told.false_pooled)}")


def _alphas(told: list[dict[str, Any]], kind: str) -> dict[str, dict[str, Any]]:
    return {
        row["trait"]: {name: row[name] for name in ("alpha", "low", "high", "units")}
        for row in told
        if row["kind"] == kind
    }


def _words(row: dict[str, Any]) -> str:
    """0.71 [0.60, 0.80] over 120; never a number where agreement cannot be told."""
    if row["alpha"] is None:
        return f"n/a (over {row['units']})"
    spread = "" if row["low"] is None else f" [{row['low']:.2f}, {row['high']:.2f}]"
    return f"{row['alpha']:.2f}{spread} (over {row['units']})"
