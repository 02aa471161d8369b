"""review: sends tasks to reviewers, pulls their answers, shows the status, and runs the server that they work on."""

from pathlib import Path
from typing import Annotated

import typer

from annotation import (
    certificate,
    connections,
    follow as following,
    pull as pulling,
    push as pushing,
    reviewer_opt_outs as opt_outs,
    status_text,
)
from annotation.page import links, serving
from annotation.progress import review_status
from annotation.review_destinations import Argilla, Files, LabelStudio, Place, ReviewPage
from saferec_builder.cli import interrupts
from saferec_builder.cli.output import PLAIN, Folder, Json, line, say, working
from saferec_builder.cli.plan import warn
from saferec_builder.cli.workspace import onward
from saferec_builder.core.counts import Counts
from saferec_builder.core.errors import ReviewError, UsageError, near
from saferec_builder.core.json_value import JsonValue
from saferec_builder.storage.workspace import Workspace

app = typer.Typer(no_args_is_help=True, **PLAIN)

TOOLS = ("label-studio", "argilla", "files", "page")
Tool = Annotated[str, typer.Option("--tool", help="Where people review: page, label-studio, argilla or files (CSV).")]
Url = Annotated[str | None, typer.Option("--url", help="Your team's review server; default: the one of `review up`.")]
Token = Annotated[str | None, typer.Option("--token", envvar="SAFEREC_REVIEW_TOKEN", help="Its access token.")]
Name = Annotated[str, typer.Argument(help="The reviewer's name in this workspace.")]
SHOWN = 20  # reasons that are printed; all rows are in the table drops


@app.command()
@working("review push")
def push(
    *,
    tool: Tool = TOOLS[0],
    reviewer: Annotated[list[str] | None, typer.Option("--reviewer", help="Who reviews; once for each.")] = None,
    adjudicator: Annotated[str | None, typer.Option("--adjudicator", help="Who rules on disputes.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every conversation is assigned.")] = False,
    band: Annotated[
        int, typer.Option("--band", min=0, help="Of the rest, read so many conversations by score first.")
    ] = 0,
    budget: Annotated[int | None, typer.Option(help="At most so many traits of texts now.", show_default="all")] = None,
    minutes: Annotated[
        float | None, typer.Option(help="The same as working time of all together.", show_default="all")
    ] = None,
    to: Annotated[Path | None, typer.Option(help="Folder for the files; default: review/ in the workspace.")] = None,
    url: Url = None,
    token: Token = None,
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Assign tasks to reviewers: what is new since the last push.

    In your first hour take `--tool page`, then `review serve`: nothing to install, no accounts.

    Proposals go to several people each, disputes to the adjudicator. Blind share and checks: [review] in saferec.toml.
    """
    ws = Workspace.open(folder)
    done = pushing.push(
        ws,
        reviewer or (),
        to=_place(tool, url, token, f"--to {to}" if to else "", Files(to)),
        adjudicator=adjudicator,
        everything=everything,
        band=band,
        budget=budget,
        minutes=minutes,
    )
    say(done.counts, as_json, "tasks")
    warn(ws)
    onward(ws, as_json)


@app.command()
def pull(
    *,
    paths: Annotated[
        list[Path] | None, typer.Argument(help="With --tool files: CSVs, or folders of them; default: review/.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Look every two seconds; Ctrl-C ends it.")] = False,
    tool: Tool = TOOLS[0],
    url: Url = None,
    token: Token = None,
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Bring answers back into the workspace. What cannot be taken is named; it can be corrected and pulled again."""
    chosen = tuple(paths or ())
    place = _place(tool, url, token, str(chosen[0]) if chosen else "", Files(paths=chosen))
    ws = Workspace.open(folder)
    if not follow:
        _report(pulling.pull(ws, place), as_json)
        onward(ws, as_json)
        return
    with interrupts.ending() as pressed:
        for result in following.follow(ws, place):
            if isinstance(result, ReviewError):
                typer.echo(line(f"{str(result).removesuffix(': run the command again')}: asking again"), err=True)
            elif result:
                _report(result, as_json)
            if pressed():
                break


def _report(result: pulling.PullResult, as_json: bool) -> None:
    for reason in (reasons := result.whys())[:SHOWN]:
        typer.echo(line(reason), err=True)
    if len(reasons) > SHOWN:
        typer.echo(f"... and {len(reasons) - SHOWN:,} more reasons, in the table drops", err=True)
    say(result.counts, as_json, "answers")


def _place(tool: str, url: str | None, token: str | None, file_option: str, files: Files) -> Place:
    """Raises UsageError for options that the tool would ignore; `file_option`: what names files, if any."""
    if tool not in TOOLS:
        raise UsageError(f"--tool {tool}: there is no such review tool: {near(tool, TOOLS)}")
    if tool != "files" and file_option:
        raise UsageError(f"{file_option}: {tool} reads and writes no files: say --tool files, or leave this out")
    if tool in ("files", "page") and url:
        raise UsageError("--url is a server's: leave it out, or say --tool label-studio or argilla")
    places: dict[str, Place] = {"files": files, "page": ReviewPage(), "argilla": Argilla(url or "", token or "")}
    return places.get(tool, LabelStudio(url, token))


@app.command()
def up(folder: Folder = Path("."), as_json: Json = False) -> None:
    """Start this workspace's own Label Studio.

    The first time installs it, once for all workspaces. It says how to log in. Argilla: docs/how-to/team-server.md.
    """
    say(connections.start(Workspace.open(folder), lambda text: typer.echo(text, err=True)), as_json, "")


@app.command()
def down(folder: Folder = Path("."), as_json: Json = False) -> None:
    """Stop this workspace's Label Studio; its data stays."""
    say(connections.stop(Workspace.open(folder)), as_json, "")


@app.command()
def serve(
    host: Annotated[str, typer.Option("--host", help="Where it listens.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: any that is free.")] = 8765,
    url: Annotated[str | None, typer.Option("--url", help="The address that reviewers open, if another.")] = None,
    practice: Annotated[bool, typer.Option("--practice", help="First five invented tasks, with feedback.")] = False,
    folder: Folder = Path("."),
) -> None:
    """Open the page for reviewers and print their links.

    It shows the tasks of `review push --tool page`. Ctrl-C ends it.
    """
    served = serving.serve(Workspace.open(folder), host=host, port=port, url=url, practice=practice)
    for name, count in served.people.items():
        typer.echo(line(f"{name} ({count:,} open): {served.way(name)}"))
    typer.echo(f"The page is open at {served.address}: answers are stored as they are given. Ctrl-C ends it.")
    served.run()


@app.command()
def link(
    name: Name, revoke: Annotated[bool, typer.Option("--revoke", help="Make none.")] = False, folder: Folder = Path(".")
) -> None:
    """Make a new link to the page for a reviewer. The one before opens nothing from now on."""
    ws = Workspace.open(folder)
    outcome = "the link opens nothing any more" if links.revoke(ws, name) else "there was no link"
    typer.echo(line(f"{name}: {outcome if revoke else links.make(ws, [name])[name]}"))


@app.command()
def status(folder: Folder = Path("."), as_json: Json = False) -> None:
    """What is open, how people agree, what labels may miss.

    Per trait: queue, agreement, bounds. Per reviewer: tasks, speed, gold and decoys.
    """
    report = review_status(Workspace.open(folder))
    bounds, figures = report.bounds, dict[str, JsonValue]()
    if as_json:
        figures |= {"reviewers": report.reviewers, "left_out": report.left_out}
        figures |= {"traits": {row.pop("trait"): row for row in report.traits.to_dicts()}}
        figures |= {"personal_data": list[JsonValue](report.reported)}
        figures |= {"on_gold": bounds.gold} if bounds.gold["units_present"] or bounds.gold["units_absent"] else {}
        figures |= certificate.from_bounds(bounds).model_dump(include=certificate.BOUNDS)
    else:
        typer.echo("\n".join(map(line, [*status_text.lines(report), *status_text.of_reports(report.reported)])))
        figures |= {"reviews_left_out": report.left_out} if report.left_out else {}
    figures |= {"alarms": report.alarms} if report.alarms else {}
    figures |= {"next": report.next} if report.next else {}
    advice = f"`review push --band {report.band}`, with `audit = 0` until that is read"
    figures |= {"worth_reading_by_score": advice} if report.band else {}
    say(Counts("review status", skipped=report.units, figures=figures), as_json, "")


@app.command("opt-out")
def opt_out(
    name: Name,
    trait: Annotated[list[str], typer.Argument(help="Slugs that this person would rather not see.")],
    remove: Annotated[bool, typer.Option("--remove", help="Forget these instead.")] = False,
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Keep sensitivities away from a reviewer; no reason asked.

    It stands in no table and no report; --remove deletes it.
    """
    say(opt_outs.opt_out(Workspace.open(folder), name, trait, remove=remove), as_json, "traits")


@app.command("hand-back")
def hand_back(name: Name, folder: Folder = Path("."), as_json: Json = False) -> None:
    """Give back what a reviewer has not finished. For a holiday, or a mistyped name. What they answered stays."""
    say(opt_outs.hand_back(Workspace.open(folder), name), as_json, "tasks")


@app.command("set-aside")
def set_aside(
    name: Name,
    reason: Annotated[str, typer.Option("--reason", help="Why; kept with the rows, never released.")] = "",
    undo: Annotated[bool, typer.Option("--undo", help="Let it count again.")] = False,
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Take a reviewer's work out of every label, with a reason. Nothing is deleted, and --undo brings it back."""
    say(opt_outs.set_aside(Workspace.open(folder), name, reason=reason, undo=undo), as_json, "reviews")
