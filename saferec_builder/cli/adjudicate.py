"""adjudicate: reviews become labels, and item labels become warnings."""

from dataclasses import replace
from pathlib import Path

import typer

from annotation import adjudication, certificate, controls, precision_bounds as precision, recall_bounds as recall
from annotation.adjudication import Adjudication
from annotation.status_text import alike
from saferec_builder.cli.output import Folder, Json, say
from saferec_builder.cli.workspace import onward
from saferec_builder.core.json_value import JsonValue
from saferec_builder.storage.workspace import Workspace


def adjudicate(folder: Folder = Path("."), as_json: Json = False) -> None:
    """Make labels: more than half alike are `agreed`, an adjudicator's word is `adjudicated`, the rest is `unresolved`.

    Sure proposals of a trait that carries a certificate are `auto`, where saferec.toml asks for it ([review] auto).
    What the labels miss and claim wrongly at most is printed and kept in certificates.json.
    """
    ws = Workspace.open(folder)
    done = adjudication.adjudicate(ws)
    counts = done.counts
    if as_json:
        counts = replace(counts, figures={**counts.figures, **_figures(done)})
    else:
        typer.echo("\n".join(f"  {line}" for line in _lines(done)))
    say(counts, as_json, "units")
    onward(ws, as_json, labels=counts.added)


def _figures(done: Adjudication) -> dict[str, JsonValue]:
    alphas: dict[str, dict[str, JsonValue]] = {"sensitivity": {}, "item_flag": {}}
    for row in done.agreement.to_dicts():
        alphas[row.pop("kind")][row.pop("trait")] = row
    found = certificate.of(done.bounds).model_dump(include=certificate.BOUNDS)
    return found | {"alpha": alphas["sensitivity"], "alpha_of_items": alphas["item_flag"]}


def _lines(done: Adjudication) -> list[str]:
    """Agreement, recall bounds, and the precision bounds of traits of which something was rechecked."""
    bounds, found = done.bounds, []
    told = done.agreement.drop_nulls("alpha")
    for trait, *alpha, kind in told.select("trait", "alpha", "low", "high", "units", "kind").iter_rows():
        found.append(f"alpha of {trait}{' (items)' * (kind == 'item_flag')}: {_alpha(*alpha)}")
    if silent := done.agreement.height - told.height:
        found.append(f"alpha of {silent} more: not to be told, where all say the same or nobody read twice")
    missed = alike([[slug, recall.words(bound)] for slug, bound in bounds.traits.items()])
    found += [f"missed share of {name}: {words}" for name, words in missed]
    found.append(f"missed share of {recall.POOLED}: {recall.words(bounds.pooled)}")
    found.append(f"missed share of what is there: {controls.words(bounds.apart, bounds.blind)}")
    found += [f"missed share of {name}: {words}" for name, words in recall.of_items(bounds.items).items()]
    rechecked = {slug: share for slug, share in bounds.false.items() if share.rechecked}
    found += [f"false share of {slug}: {precision.words(share)}" for slug, share in rechecked.items()]
    if bounds.false_pooled:
        found.append(f"false share of {precision.POOLED}: {precision.words(bounds.false_pooled)}")
    return found


def _alpha(alpha: float, low: float | None, high: float | None, units: int) -> str:
    """0.71 [0.60, 0.80] over 120."""
    spread = "" if low is None else f" [{low:.2f}, {high:.2f}]"
    return f"{alpha:.2f}{spread} (over {units})"
