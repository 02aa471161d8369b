"""release: labels, conversations and catalog become one frozen folder."""

from pathlib import Path
from typing import Annotated, Any

import typer

from saferec_builder.cli.output import Folder, Json, say
from saferec_builder.core.counts import Counts


def release(
    version: Annotated[
        str | None, typer.Argument(help="MAJOR.MINOR.PATCH, for example 1.0.0.", show_default=False)
    ] = None,
    *,
    inject: Annotated[
        str | None, typer.Option(help="Add requests with sentences of ours: `all`, or traits with commas.")
    ] = None,
    unreviewed: Annotated[bool, typer.Option("--unreviewed", help="Also lists of who was reviewed by nobody.")] = False,
    allow: Annotated[
        list[str], typer.Option(help="A source you may pass on, `simulated`, or `no-safety`. Repeatable.")
    ] = [],  # noqa: B006
    with_text: Annotated[bool, typer.Option("--with-text", help="Also texts of sources that keep theirs.")] = False,
    resplit: Annotated[bool, typer.Option("--resplit", help="New boundaries instead of the last release's.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="List every check and its remedy, and stop.")] = False,
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Freeze the labelled conversations as releases/VERSION: splits, rows to train on, card, checksums."""
    from exports import assemble as content, checks
    from saferec_builder.core.errors import UsageError
    from saferec_builder.storage import tables, workspace as store

    if explain:
        _explain(as_json)
        return
    if version is None:
        raise UsageError("release: which version? Give MAJOR.MINOR.PATCH, as in 1.0.0")
    checks.check_version(version)
    ws = store.Workspace.open(folder)
    wanted = content.Wanted(version, inject, unreviewed, frozenset(allow), with_text, resplit)
    with store.alone(ws, "release"):
        made = content.gather(ws, wanted)
        new, facts = content.build(ws, made)
        store.append(ws, tables.DROPS, made.drops)
    learned = int(made.content.rows["cut"].is_not_null().sum())
    figures: dict[str, Any] = {"release": str(ws.releases / version), "rows": _sums(facts["counts"])}
    figures |= {"splits": facts["counts"]["grpo"]} | _outgrown(facts, ws.config.splits)
    figures |= {"unresolved_labels": facts["makers"]["unresolved"], "conditions": facts["conditions"]}
    figures |= {"withheld_traits": facts["withheld"], "changes": facts["changes"]}
    if not facts["licence"]:
        figures |= {"licence": "no licence was declared by its owner: set [dataset] licence in saferec.toml"}
    counts = Counts("release", learned if new else 0, 0 if new else learned, facts["dropped"], figures)
    say(counts, as_json, "conversations")


def _outgrown(facts: dict[str, Any], shares: Any) -> dict[str, str]:
    """What is mined after a release is later than its boundaries, and takes earlier rows of seekers out of train."""
    sizes = facts["counts"]["grpo"]
    share = sizes["test"] / max(1, sum(sizes.values()))
    if not facts["parent"] or shares.test_from or share <= 2 * shares.test:
        return {}
    told = f"{share:.0%} of the requests are test, for the boundaries are those of {facts['parent']}"
    return {"next": f"{told}: --resplit, in a major version, draws new ones"}


def _sums(counts: dict[str, dict[str, int]]) -> dict[str, int]:
    return {config: sum(splits.values()) for config, splits in counts.items()}


def _explain(as_json: bool) -> None:
    import dataclasses
    import json

    from exports.checks import CHECKS

    if as_json:
        checks = [dataclasses.asdict(check) for check in CHECKS]
        typer.echo(json.dumps({"command": "release --explain", "checks": checks}))
        return
    for check in CHECKS:
        typer.echo(f"{check.name} ({check.effect}): {check.what}. Remedy: {check.remedy}.")
