"""The commands linkage, diff, rebuild and withdraw, which work on finished releases."""

import json
from pathlib import Path
from typing import Annotated

import typer

from exports import diff as comparison, linkage as attack, rebuild as texts, required_version_bump, withdraw as ending
from exports.release import Release
from saferec_builder.cli.output import Folder, Json, Repo, line, say
from saferec_builder.core.counts import Counts
from saferec_builder.core.errors import plain
from saferec_builder.core.json_value import JsonValue
from saferec_builder.storage.workspace import Workspace


def linkage(
    release: Annotated[str, typer.Argument(help="Folder or version of a release, or NAMESPACE/NAME@VERSION (Hub).")],
    *,
    key: Annotated[Path | None, typer.Option(help="Its key file.", show_default="beside the folder")] = None,
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Attack a release as whoever has its source can: how many conversations are found, and by what.

    The source is what this workspace has mined of it. Nothing is written.
    """
    result = attack.linkage(Workspace.open(folder), release, key)
    lists = {"found": result.found.to_dicts(), "again": result.again.to_dicts()}
    figures: dict[str, JsonValue] = {**(lists if as_json else result.labelled)}
    figures |= {"next": result.advice} if result.advice else {}
    dropped = {attack.ELSEWHERE: result.elsewhere} if result.elsewhere else {}
    compared = result.conversations - result.elsewhere
    say(Counts("linkage", compared, dropped=dropped, figures=figures), as_json, "")


def diff(
    before: Annotated[str, typer.Argument(help="A version of this workspace, or the folder of a release.")],
    after: Annotated[str, typer.Argument(help="The later one.")],
    *,
    predictions: Annotated[
        Path | None,
        typer.Option(help="A model's answers (JSONL): the change in its SVR and Recall.", show_default=False),
    ] = None,
    card: Annotated[bool, typer.Option("--card", help="As a section of Markdown for a card.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Everything as one JSON object.")] = False,
    folder: Folder = Path("."),
) -> None:
    """Compare two releases: rows, label flips with the reviews behind them, agreement, alarms. Exit 0 either way."""
    earlier, later = (_opened(name, folder) for name in (before, after))
    difference = earlier.diff(later, predictions=predictions)
    if as_json:
        typer.echo(json.dumps({"command": "diff", **difference.as_json()}, ensure_ascii=False))
        return
    typer.echo(plain(comparison.as_text(difference)), nl=False)
    for flip in [] if card else difference.flipped[:20]:
        reviews = ", ".join(f"{r['reviewer'][:6]} ({r['role']}) {r['verdict']}" for r in flip["reviews"])
        cause = reviews or ("other reviews, not released" if flip["other_reviews"] else "no other review")
        typer.echo(line(f"  {flip['conversation']} {flip['trait']}: {flip['from']} -> {flip['to']}; {cause}"))


def _opened(name: str, folder: Path) -> Release:
    path = Path(name)
    return Release.open(path if path.is_dir() else required_version_bump.find(Workspace.open(folder).releases, name))


def rebuild(
    release: Annotated[str, typer.Argument(help="Folder of a release without texts, or NAMESPACE/NAME@VERSION (Hub).")],
    to: Annotated[Path, typer.Option(help="New folder: the release with its texts.")],
    *,
    key: Annotated[Path | None, typer.Option(help="Its key file, VERSION.key.parquet, from who published it.")] = None,
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Put withheld texts back: mine the same sources into this workspace first. For your own use, not to pass on."""
    result = texts.rebuild(Workspace.open(folder), release, to, key)
    added, skipped = (result.back, 0) if result.new else (0, result.back)
    figures: dict[str, JsonValue] = {"release": str(to)}
    if texts.OTHER in result.lost:
        figures["next"] = texts.CATALOG
    say(Counts("rebuild", added, skipped, result.lost, figures), as_json)


def withdraw(
    version: Annotated[str, typer.Argument(help="The version to take back.")],
    *,
    reason: Annotated[str, typer.Option(help="Why: it stands on the card, for everyone.")],
    hub: Annotated[bool, typer.Option("--hub", help="Also on the Hugging Face Hub.")] = False,
    repo: Repo = None,
    erase: Annotated[bool, typer.Option("--erase", help="Remove its tag and history on the Hub. No way back.")] = False,
    sign: Annotated[Path | None, typer.Option(help="SSH key that signs the mark there.", show_default=False)] = None,
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Mark a version as withdrawn: publish refuses it, later cards say why; --hub marks the published card too."""
    result = ending.withdraw(Workspace.open(folder), version, reason, hub=hub, repo=repo, erase=erase, sign=sign)
    figures = {"version": version, "reason": reason} | ({} if result.on_hub is None else {"hub": result.on_hub})
    say(Counts("withdraw", int(result.new), int(not result.new), figures=figures), as_json, "marks")
