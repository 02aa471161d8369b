"""init and status: a workspace is a folder with a saferec.toml."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from saferec_builder import summary
from saferec_builder.cli.output import Folder, Json, line, say
from saferec_builder.core.counts import Counts
from saferec_builder.core.json_value import JsonValue
from saferec_builder.storage import tables, workspace


def init(
    folder: Annotated[Path, typer.Argument(help="Folder to make; one that exists is kept.")], as_json: Json = False
) -> None:
    """Make a workspace with a commented saferec.toml."""
    made = workspace.make(folder, demo=False)
    if not as_json:
        typer.echo(line(f"{folder / 'saferec.toml'}: {('there already', 'made; each setting has a comment')[made]}"))
    say(Counts("init", int(made), int(not made)), as_json, "")
    first = "" if folder.samefile(".") else f"`cd {shlex.quote(str(folder))}`, then "
    onward(workspace.Workspace.open(folder), as_json, first)


def onward(ws: workspace.Workspace, as_json: bool, first: str = "", labels: int = 0, planned: bool = False) -> None:
    """The last line of a step for people: the next one."""
    if not as_json:
        typer.echo(line(f"next: {first}{summary.next_step(ws, labels=labels, planned=planned)}"))


def status(folder: Folder = Path("."), as_json: Json = False) -> None:
    """What the workspace holds, table by table, and what to do next."""
    found = summary.status(workspace.Workspace.open(folder))
    if not as_json:
        typer.echo("\n".join(_lines(found)))
        return
    figures: dict[str, JsonValue] = {"tables": found.rows, "releases": found.releases}
    figures |= {name: of for name in ("emptied", "withdrawn") if (of := getattr(found, name))}
    figures |= {"unanswered": found.unanswered, "next": found.next}
    if found.spent.height:
        figures["spent"] = {row.pop("model"): row for row in found.spent.to_dicts()}
    say(Counts("status", skipped=sum(found.rows.values()), figures=figures), as_json)


def _lines(found: summary.Status) -> list[str]:
    wide = max(map(len, found.rows))
    lines = [
        f"{name:<{wide}}{rows:>13,}  {tables.TABLES[name].meaning.split('. ')[0].rstrip('.')}"
        for name, rows in found.rows.items()
        if rows
    ]
    for bill in found.spent.to_dicts():
        paid = f"{bill['requests']:,} requests, {bill['tokens_in']:,} tokens in, {bill['tokens_out']:,} out"
        lines.append(line(f"paid to {bill['model']}: {paid}, {bill['usd']:.2f} USD"))
    marks = {v: f" (withdrawn: {why})" for v, why in found.withdrawn.items()}
    marks |= dict.fromkeys(found.emptied, " (its data was deleted)")
    marked = (v + marks.get(v, "") for v in found.releases)
    lines += [line(f"releases: {', '.join(marked)}")] * bool(found.releases)
    return [*lines, f"next: {found.next}"]
