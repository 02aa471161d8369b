"""The command adjudicate: turns reviews into labels, and labels of items into warnings."""

from dataclasses import replace
from pathlib import Path

import typer

from annotation import adjudication, certificate, status_text
from annotation.adjudication import Adjudication
from saferec_builder.cli.output import Folder, Json, line, say
from saferec_builder.cli.workspace import onward
from saferec_builder.core.json_value import JsonValue
from saferec_builder.storage.workspace import Workspace


def adjudicate(folder: Folder = Path("."), as_json: Json = False) -> None:
    """Make labels: more than half alike are `agreed`, an adjudicator's word is `adjudicated`, the rest is `unresolved`.

    Sure proposals of a trait that carries a certificate are `auto`, where saferec.toml asks for it ([review] auto).
    What the labels miss and claim wrongly at most is printed and kept in certificates.json.
    """
    ws = Workspace.open(folder)
    result = adjudication.adjudicate(ws)
    counts = result.counts
    if as_json:
        counts = replace(counts, figures={**counts.figures, **_figures(result)})
    else:
        lines = status_text.of_labels(result.bounds) + status_text.of_reports(result.reported)
        typer.echo("\n".join(f"  {text}" for text in map(line, lines)))
    say(counts, as_json, "units")
    onward(ws, as_json, labels=counts.added)


def _figures(result: Adjudication) -> dict[str, JsonValue]:
    alphas: dict[str, dict[str, JsonValue]] = {"sensitivity": {}, "item_flag": {}}
    for row in result.agreement.to_dicts():
        alphas[row.pop("kind")][row.pop("trait")] = row
    figures = certificate.from_bounds(result.bounds).model_dump(include=certificate.BOUNDS)
    figures |= {"alpha": alphas["sensitivity"], "alpha_of_items": alphas["item_flag"]}
    return figures | {"personal_data": list[JsonValue](result.reported)}
