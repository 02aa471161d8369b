"""Reviewing through the command line with files: its commands, and what people write into their rows."""

from collections.abc import Callable

import polars as pl
import pytest

from saferec_builder.core import taxonomy as traits
from saferec_builder.storage import tables, workspace as store
from tests.worlds import review_world
from tests.worlds.csv_rows import edit

ws = review_world.ws


@pytest.fixture
def review(cli, ws):
    """review("push", ...) on the files tool; returns the JSON that it printed."""

    command = review_world.reviewing(cli, ws)

    def run(verb: str, *words: object) -> dict:
        output = command(verb, *words, *(() if verb == "status" else ("--tool", "files")))
        assert output["in"] == output["out"] + sum(output["dropped"].values())
        assert output["out"] == output["added"] + output["skipped"]
        return output

    return run


@pytest.fixture
def adjudicate(cli, ws):
    def run() -> dict:
        result = cli("adjudicate", "-C", ws.root, "--json")
        assert result.code == 0, result.err
        return result.json

    return run


TWO = ("--reviewer", "ann", "--reviewer", "bo")


def yes(row: dict) -> dict:
    """Accepts everything proposed, and adds nothing."""
    return {"verdict": "none" if row["trait"] == "*" else "present"}


def no(row: dict) -> dict:
    return {"verdict": "none" if row["trait"] == "*" else "absent"}


def answer(ws, review, says: Callable[[dict], dict | None] = yes, who: tuple[str, ...] = ("ann", "bo"), **each) -> None:
    """These people fill in their files, all alike or `each` as given by name; then all files are pulled."""
    for name, written in (each or dict.fromkeys(who, says)).items():
        edit(ws.root / "review" / f"{name}.csv", written)
    review("pull", ws.root / "review")


def labels(ws) -> dict[tuple[str, str], tuple]:
    last = tables.last(store.read(ws, tables.LABELS), "kind", "subject", "trait")
    return {(r["subject"], r["trait"]): (r["verdict"], r["method"]) for r in last.iter_rows(named=True)}


TAXONOMY = traits.load()
SEVERE = TAXONOMY.severe


def judged(**said: dict[str, str | None]) -> pl.DataFrame:
    rows = [
        {"label": f"{c}{t}", "kind": "sensitivity", "subject": c, "trait": t, "verdict": verdict}
        for c, verdicts in said.items()
        for t, verdict in verdicts.items()
    ]
    return tables.LABELS.frame(rows)
