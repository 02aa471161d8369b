"""The commands of `catalog` that add items and warnings; those that show and check them are in cli/catalog_check.py."""

from pathlib import Path
from typing import Annotated

import typer

from saferec_builder import planning
from saferec_builder.catalog import adding, rulings
from saferec_builder.cli import catalog_check as oracle
from saferec_builder.cli.output import PLAIN, Folder, Json, say, working
from saferec_builder.cli.progress import bar
from saferec_builder.cli.workspace import onward
from saferec_builder.core.errors import SourceError
from saferec_builder.sources import doesthedogdie_api as ddd_api
from saferec_builder.storage.workspace import Workspace

app = typer.Typer(no_args_is_help=True, **PLAIN)


@app.command()
def add(
    source: Annotated[str, typer.Argument(help="What kind of files these are.")],
    paths: Annotated[list[Path], typer.Argument(help="Files; a folder for movielens or ddd.", metavar="PATH...")],
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Add items, or statements on them, from files.

    Items: movielens, redial (its dialogues), imdb, demo, csv (domain, title, year, imdb or ids, aliases, plot, genres).
    Both: ddd, esrb.
    Statements, on items by imdb, or title and year: warnings (topic, yes, no), parent-guide (sex, violence, profanity,
    drugs, frightening), rating-reasons (rating, reason), keywords (keywords; also by tmdb). Tables may be gzipped.
    Rows that cannot be read are counted and kept; a file of nothing else is an error. What is there is left as it is.
    """
    ws = Workspace.open(folder)
    counts = adding.add_catalog(ws, source, paths, progress=bar("catalog", "step"))
    say(counts, as_json, adding.noun(source))
    onward(ws, as_json, "mine again, as said above, and then " * ("mined_before_the_catalog" in counts.figures))


@app.command()
def apart(
    row: Annotated[str, typer.Argument(help="A row as `catalog merges` names it, such as redial:135508.")],
    undo: Annotated[bool, typer.Option("--undo", help="Let the row merge again.")] = False,
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Keep a row of a source out of every merge. The item that it was wrongly part of is told from it."""
    say(rulings.keep_apart(Workspace.open(folder), row, undo=undo), as_json)


@app.command()
def join(
    row: Annotated[str, typer.Argument(help="A row as `catalog merges` names it, such as redial:135508.")],
    other: Annotated[str, typer.Argument(help="The row that it is the same work as.")],
    undo: Annotated[bool, typer.Option("--undo", help="Take it back.")] = False,
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Make one item of two rows that were kept apart."""
    say(rulings.join_rows(Workspace.open(folder), row, other, undo=undo), as_json)


@app.command()
def fetch(
    site: Annotated[str, typer.Argument(help="Whose API to ask: ddd.")],
    limit: Annotated[int, typer.Option(help="How many items to ask for.", min=1)] = 100,
    pause: Annotated[float, typer.Option(help="Seconds between two requests.", min=0)] = 1.0,
    base: Annotated[str | None, typer.Option(help="Address of the API.", show_default="the site's own")] = None,
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Ask DoesTheDogDie for the items that matter most.

    Those that `catalog gaps` lists, in the order of `plan`, with your key in DDD_API_KEY. Each answer is kept in
    fetched/ddd before the next is asked, and added to the catalog; run it again to go on.
    """
    ws = Workspace.open(folder)
    api = ddd_api.named(site, base, pause)
    fetched = planning.fetch(ws, api, limit=limit, progress=bar("fetch", "item"))
    say(fetched.counts, as_json, adding.noun(site))
    if fetched.fault:
        raise SourceError(fetched.fault)


for command in (oracle.check, oracle.show, oracle.gaps, oracle.merges):
    app.command()(working(f"catalog {command.__name__}")(command))
