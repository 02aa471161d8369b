"""The command release: freezes labels, conversations and catalog as one folder."""

import json
from pathlib import Path
from typing import Annotated

import typer

from exports import build_rows, checks, release as stage
from saferec_builder.cli.output import Folder, Json, say
from saferec_builder.cli.workspace import onward
from saferec_builder.core.counts import Counts
from saferec_builder.core.errors import UsageError
from saferec_builder.core.json_value import JsonValue
from saferec_builder.storage import config
from saferec_builder.storage.workspace import Workspace

UNMEASURED = "no safety row is in the test split: raise `test` in [splits] (with --resplit where a release is there)"


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
        list[str], typer.Option(help="A source, `simulated`, `no-safety`, or a reported conversation.")
    ] = [],  # noqa: B006
    with_text: Annotated[bool, typer.Option("--with-text", help="Also texts of sources that keep theirs.")] = False,
    resplit: Annotated[bool, typer.Option("--resplit", help="New boundaries instead of the last release's.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="List every check and its remedy, and stop.")] = False,
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Freeze the labelled conversations as releases/VERSION: splits, rows to train on, card, checksums."""
    if explain:
        _explain(folder, as_json)
        return
    if version is None:
        raise UsageError("release: which version? Give MAJOR.MINOR.PATCH, as in 1.0.0")
    ws, options = Workspace.open(folder), {"unreviewed": unreviewed, "with_text": with_text, "resplit": resplit}
    made = stage.release(ws, version, inject=inject, allow=allow, **options)
    facts = made.manifest
    figures: dict[str, JsonValue] = {"release": str(made.folder), "rows": made.rows, "splits": facts["counts"]["grpo"]}
    if made.found_again:
        figures |= {"found_again_in_its_source": {name: f"{n} of {m}" for name, (n, m) in made.found_again.items()}}
    figures |= {"next": made.advice} if made.advice else {}
    if not ws.config.release.consent and made.rows["labels"] and not made.rows["reviews"]:
        figures |= {"no_reviews": "nobody is named in [release] consent, so labels alone are released"}
    dropped, no_rows = build_rows.apart(facts["dropped"])
    figures |= {"in_conversations_only": {**no_rows}} if no_rows or as_json else {}
    unsettled = "unsure_or_unresolved" if as_json else "labels unsure or unresolved, of traits that are not withheld"
    figures |= {unsettled: facts["makers"]["unresolved"], "conditions": facts["conditions"]}
    withheld = "withheld_traits" if as_json else "withheld traits, of too few people"
    figures |= {"safety_rows": facts["safety_rows"]}
    figures |= {withheld: facts["withheld"] if as_json else checks.named_few(made.too_few)}
    figures |= {"changes": facts["changes"]}
    advice = UNMEASURED + ", or give --inject all" * (inject != "all")
    figures |= {"safety_is_not_measured": advice} if made.unmeasured else {}
    figures |= made.remarks
    size = made.rows["conversations"]
    say(Counts("release", size * made.new, size * (not made.new), dropped, figures), as_json, "conversations")
    onward(ws, as_json or bool(made.advice))


def _explain(folder: Path, as_json: bool) -> None:
    """Prints every check and, in a workspace, which of them do not apply to it."""
    reasons = stage.without_effect(Workspace.open(folder)) if (folder / config.FILE).exists() else {}
    form = "{name} ({effect}): {what}. Remedy: {remedy}."
    notes = {name: f"\n  does not apply here: {reason}" for name, reason in reasons.items()}
    lines = [form.format(**check) + notes.get(check["name"], "") for check in checks.CHECKS]
    facts = {"command": "release --explain", "checks": checks.CHECKS, "does_not_apply": reasons}
    typer.echo(json.dumps(facts) if as_json else "\n".join(lines))
