"""review status: where the queue stands, per trait and per person, and what the labels still miss at most."""

from pathlib import Path

import typer

from annotation import precision_bounds as precision, recall_bounds as recall
from annotation.progress import ReviewStatus, review_status
from saferec_builder.cli.output import Folder, Json, say
from saferec_builder.core.counts import Counts
from saferec_builder.core.json_value import JsonValue
from saferec_builder.storage.workspace import Workspace


def status(folder: Folder = Path("."), as_json: Json = False) -> None:
    """Per trait: queue, agreement, what is missed at most; per reviewer: tasks, speed, gold and decoys."""
    found = review_status(Workspace.open(folder))
    figures: dict[str, JsonValue] = {"reviewers": found.reviewers, "left_out": found.left_out}
    if as_json:
        figures |= _bounds(found)
    else:
        _table(found)
    gold = found.bounds.gold
    figures |= {"on_gold": gold} if gold["units_present"] or gold["units_absent"] else {}
    figures |= {"next": found.next} if found.next else {}
    worth = f"{found.band:,} conversations: `review push --band {found.band}`"
    figures |= {"worth_reading_by_score": worth} if found.band else {}
    say(Counts("review status", skipped=found.units, figures=figures), as_json, "units reviewed")


def _bounds(found: ReviewStatus) -> dict[str, JsonValue]:
    bounds = found.bounds
    return {
        "traits": {row.pop("trait"): row for row in found.traits.to_dicts()},
        "missed": {slug: vars(bound) for slug, bound in bounds.traits.items()},
        "missed_of_all": vars(bounds.pooled),
        "together": bounds.together,
        "false": {slug: vars(share) for slug, share in bounds.false.items()},
        "false_of_all": vars(bounds.false_pooled),
    }


def _table(found: ReviewStatus) -> None:
    bounds, alphas = found.bounds, dict(found.agreement.select("trait", "alpha").iter_rows())
    names = [name for name in found.traits.columns if name != "trait"] if found.traits.height else []
    missed = {slug: recall.words(bound) for slug, bound in bounds.traits.items()}
    wide = max(map(len, ["missed", *(missed.get(slug, "") for slug in found.traits["trait"])]))
    typer.echo(f"{'trait':<22}" + "".join(f"{name:>10}" for name in names) + f"{'alpha':>8}  {'missed':<{wide}}  false")
    for row in found.traits.iter_rows(named=True):
        slug, alpha = row["trait"], alphas.get(row["trait"])
        false = precision.words(bounds.false[slug]) if slug in bounds.false else ""
        numbers = "".join(f"{row[name]:>10,}" for name in names) + f"{'n/a' if alpha is None else f'{alpha:.2f}':>8}"
        typer.echo(f"{slug:<22}{numbers}  {missed.get(slug, ''):<{wide}}  {false}".rstrip())
    if bounds.false_pooled:
        typer.echo(f"false of {precision.POOLED}: {precision.words(bounds.false_pooled)}")
    together = f"certified together: {len(bounds.together)} traits"
    typer.echo(f"missed of {recall.POOLED}: {recall.words(bounds.pooled)}; {together}")
