"""All commands from mining to the report on a small demo, for tests that disturb them."""

import sys
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from saferec_builder.demo import world
from saferec_builder.demo.people import ADJUDICATOR, REVIEWERS
from saferec_builder.storage import tables, workspace as store

TOOL = str(Path(sys.executable).with_name("saferec-build"))
PUSH = "review push --tool files --reviewer ann --reviewer bo --adjudicator cy --all".split()
Step = list[str] | tuple[str, ...]  # a command, or names of simulated people who now answer their files


def steps(folder: Path) -> Iterator[Step]:
    """Lists are commands; a tuple names reviewers whose files are to be filled in before the next command."""
    review = [str(folder / "review" / f"{name}.csv") for name in REVIEWERS]
    yield ["mine", "messages", str(folder / "input" / "conversations.jsonl")]
    yield ["catalog", "add", "demo", str(world.FOLDER / "films.jsonl"), str(world.FOLDER / "games.jsonl")]
    yield ["catalog", "add", "warnings", str(folder / "input" / "warnings.csv")]
    yield ["propose"]
    yield ["propose", "--items"]
    yield PUSH
    yield REVIEWERS
    yield ["review", "pull", "--tool", "files", *review]
    yield PUSH
    yield (ADJUDICATOR,)
    yield ["review", "pull", "--tool", "files", str(folder / "review" / f"{ADJUDICATOR}.csv")]
    yield ["adjudicate"]
    yield ["release", "1.0.0"]
    yield ["publish", "1.0.0", "--to", str(folder / "published")]
    yield ["report"]


def contents(folder: Path) -> dict[str, pl.DataFrame]:
    """Every table, its rows in the order of its key: two runs must agree on these."""
    ws = store.Workspace.open(folder)
    return {name: store.read(ws, table).sort(table.key) for name, table in tables.TABLES.items()}
