"""review status: where the queue stands, per trait and per person, and what the labels still miss at most."""

from pathlib import Path
from typing import Any

import typer

from annotation.desk import gather, told_bounds
from annotation.progress import people, progress
from saferec_builder.cli.output import Folder, Json, say
from saferec_builder.core.counts import Counts


def status(folder: Folder = Path("."), as_json: Json = False) -> None:
    """Per trait: queue, agreement, what is missed at most; per reviewer: tasks, speed, gold and decoys."""
    from annotation import aggregation as adjudicate, agreement, recall_bounds as bounds

    desk = gather(folder)
    disputed = adjudicate.disputed(desk.judged)
    votes = adjudicate.by_reviewers(desk.votes)
    found = progress(desk.proposals, desk.assignments, votes, disputed)
    rows = {row.pop("trait"): row for row in found.to_dicts()}
    alphas = {r["trait"]: r for r in agreement.alphas(votes.filter(kind="sensitivity")).to_dicts()}
    told = told_bounds(desk)
    if not as_json:
        _table(rows, alphas, told)
    figures: dict[str, Any] = {"reviewers": people(desk), "left_out": desk.left_out}
    if as_json:
        figures |= {"traits": rows, "missed": {slug: bound.__dict__ for slug, bound in told.traits.items()}}
        figures |= {"missed_of_all": told.pooled.__dict__, "together": told.together}
        figures |= {"false": {slug: share.__dict__ for slug, share in told.false.items()}}
        figures |= {"false_of_all": told.false_pooled.__dict__}
    figures |= {"on_gold": told.gold} if told.gold["units_present"] or told.gold["units_absent"] else {}
    figures |= {"next": advice} if (advice := bounds.lowers_most(told)) else {}
    size = bounds.band(desk.proposals, told.pooled)
    figures |= {"worth_reading_by_score": f"{size:,} conversations: `review push --band {size}`"} if size else {}
    say(Counts("review status", skipped=desk.judged.height, figures=figures), as_json, "units reviewed")


def _table(rows: dict[str, dict[str, int]], alphas: dict[str, dict[str, Any]], told: Any) -> None:
    from annotation import precision_bounds as precision, recall_bounds as bounds

    names = list(next(iter(rows.values()), {}))
    missing = {slug: bounds.words(told.traits[slug]) if slug in told.traits else "" for slug in rows}
    wide = max(map(len, ("missed", *missing.values())))
    typer.echo(f"{'trait':<22}" + "".join(f"{name:>10}" for name in names) + f"{'alpha':>8}  {'missed':<{wide}}  false")
    for slug, row in rows.items():
        alpha = alphas.get(slug, {}).get("alpha")
        false = precision.words(told.false[slug]) if slug in told.false else ""
        numbers = "".join(f"{row[name]:>10,}" for name in names) + f"{'n/a' if alpha is None else f'{alpha:.2f}':>8}"
        typer.echo(f"{slug:<22}{numbers}  {missing[slug]:<{wide}}  {false}".rstrip())
    typer.echo(f"false of {precision.POOLED}: {precision.words(told.false_pooled)}")
    typer.echo(
        f"missed of {bounds.POOLED}: {bounds.words(told.pooled)}; certified together: {len(told.together)} traits"
    )
