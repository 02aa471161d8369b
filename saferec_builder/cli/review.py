"""review push and pull: tasks go to people, their answers come back; up and down: the server they work on."""

from pathlib import Path
from typing import Annotated

import typer

from annotation import pull as incoming, push as handing
from annotation.desk import gather
from saferec_builder.cli import review_status as standing, reviewers as people
from saferec_builder.cli.output import PLAIN, Folder, Json, line, say
from saferec_builder.core.counts import Counts

app = typer.Typer(no_args_is_help=True, **PLAIN)

TOOLS = ("label-studio", "argilla", "files")
Tool = Annotated[
    str, typer.Option("--tool", help="Where people review: label-studio, argilla or files (one CSV per person).")
]
Url = Annotated[str | None, typer.Option("--url", help="Your team's review server; default: the one of `review up`.")]
Token = Annotated[str | None, typer.Option("--token", envvar="SAFEREC_REVIEW_TOKEN", help="Its access token.")]
SHOWN = 20  # refused rows that are printed one by one; all of them are in the table drops


@app.callback()
def _root() -> None: ...


@app.command()
def push(
    tool: Tool = TOOLS[0],
    reviewer: Annotated[
        list[str] | None, typer.Option("--reviewer", help="Who reviews; give it twice or more.")
    ] = None,
    adjudicator: Annotated[str | None, typer.Option("--adjudicator", help="Who rules on disputes.")] = None,
    audit: Annotated[float, typer.Option("--audit", min=0, max=1, help="Share of the rest, drawn blind.")] = 0.1,
    everything: Annotated[bool, typer.Option("--all", help="Every conversation goes out.")] = False,
    band: Annotated[int, typer.Option("--band", min=0, help="Of the rest, read so many by score first.")] = 0,
    gold: Annotated[
        Path | None, typer.Option("--gold", help="JSONL of known answers: everybody reads these too.")
    ] = None,
    decoys: Annotated[
        float, typer.Option("--decoys", min=0, max=0.5, help="Share of proposed tasks with a wrong suggestion planted.")
    ] = 0.0,
    recheck: Annotated[
        float, typer.Option("--recheck", min=0, max=1, help="Share of undisputed labels that the adjudicator checks.")
    ] = 0.0,
    budget: Annotated[int, typer.Option("--budget", min=0, help="Units to hand out now; default: all.")] = 0,
    minutes: Annotated[float, typer.Option("--minutes", min=0, help="The same as working time of all.")] = 0.0,
    to: Annotated[
        Path | None, typer.Option("--to", help="Folder for the files; default: review/ in the workspace.")
    ] = None,
    url: Url = None,
    token: Token = None,
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Hand out tasks: proposals to two people each, a blind share of the rest, disputes to the adjudicator."""
    from saferec_builder.storage import workspace as store

    _check_tool(tool, url, f"--to {to}" if to else "")
    who = handing.People(tuple(reviewer or ()), adjudicator)
    wish = handing.Wish(audit, everything, band, gold, decoys, recheck, budget, minutes)
    with store.alone(store.Workspace.open(folder), "review push"):
        counts = handing.hand_out(gather(folder), who, wish, handing.Place(tool, to, url, token))
    say(counts, as_json, "tasks")


def _check_tool(tool: str, url: str | None, files: str) -> None:
    """`files` is what the command names of files: a server would pass it over, as files would a server's address."""
    from saferec_builder.core.errors import UsageError

    if tool not in TOOLS:
        raise UsageError(f"--tool {tool}: there is no such review tool: wanted one of {', '.join(TOOLS)}")
    if tool != "files" and files:
        raise UsageError(f"{files}: {tool} reads and writes no files: say --tool files, or leave this out")
    if tool == "files" and url:
        raise UsageError("--url is a server's: leave it out, or say --tool label-studio or argilla")


@app.command()
def pull(
    paths: Annotated[list[Path] | None, typer.Argument(help="With --tool files: CSVs, or folders of them.")] = None,
    tool: Tool = TOOLS[0],
    url: Url = None,
    token: Token = None,
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Bring answers back; what cannot be taken is named, and can be corrected and pulled again."""
    import polars as pl

    from annotation import outbox, servers
    from saferec_builder.storage import tables, workspace as store

    _check_tool(tool, url, str(paths[0]) if paths else "")
    files = _files(paths or []) if tool == "files" else []
    with incoming.ordered(store.Workspace.open(folder)):
        desk = gather(folder)
        if tool == "files":
            desk = outbox.adopted(desk, files=files)
            pulled = incoming.of_files(desk, files)
        else:
            pulled = servers.pull(desk, servers.connect(desk.ws, tool, url, token))
        incoming.leave_out(desk, pulled)
        added = store.append(desk.ws, tables.REVIEWS, incoming.new(desk, pulled))
    drops = pl.DataFrame(pulled.drops, schema=tables.DROPS.schema, orient="row")
    store.append(desk.ws, tables.DROPS, drops)
    for _, _, place, reason, detail in pulled.drops[:SHOWN]:
        typer.echo(line(f"{place}: {reason}: {detail}"), err=True)
    if len(pulled.drops) > SHOWN:
        typer.echo(f"... and {len(pulled.drops) - SHOWN} more, in the table drops", err=True)
    dropped = dict(drops["reason"].value_counts().sort("reason").iter_rows())
    skipped = len(pulled.answers) - added + pulled.repeated
    say(Counts("review pull", added, skipped, dropped, {"not_answered_yet": pulled.empty}), as_json, "answers")


def _files(paths: list[Path]) -> list[Path]:
    """The CSVs that are named, and those in folders that are."""
    from saferec_builder.core.errors import UsageError

    if not paths:
        raise UsageError("--tool files: name the CSVs, or the folder, that came back from your reviewers")
    found = [f for path in paths for f in (sorted(path.glob("*.csv")) if path.is_dir() else [path])]
    if not found:
        raise UsageError(f"{paths[0]}: no .csv file in this folder")
    return found


@app.command()
def up(folder: Folder = Path("."), as_json: Json = False) -> None:
    """Start this workspace's own Label Studio (installed once for all workspaces) and say how to log in."""
    from annotation import servers
    from saferec_builder.storage import workspace as store

    ws = store.Workspace.open(folder)
    facts, new = servers.up(ws, lambda line: typer.echo(line, err=True))
    path = servers.home(ws) / "server.json"
    accounts = {name: made["email"] for name, made in facts["accounts"].items()}
    told = {"url": facts["url"], "login": facts["email"], "passwords": str(path), "reviewers": accounts}
    say(Counts("review up", int(new), int(not new), figures=told), as_json, "servers")


@app.command()
def down(folder: Folder = Path("."), as_json: Json = False) -> None:
    """Stop this workspace's Label Studio; its data stays."""
    from annotation import servers
    from saferec_builder.storage import workspace as store

    ws = store.Workspace.open(folder)
    stopped = servers.down(ws)
    say(Counts("review down", int(stopped), figures={"stopped": stopped}), as_json, "servers")


app.command("status")(standing.status)
app.command("opt-out")(people.opt_out)
app.command("hand-back")(people.hand_back)
app.command("set-aside")(people.set_aside)
