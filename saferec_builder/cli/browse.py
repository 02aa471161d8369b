"""The command browse: prints proposals or labels with their quotes, or texts that readers reported."""

from pathlib import Path
from typing import Annotated

import polars as pl
import typer

from annotation import browsing
from saferec_builder.cli.output import Folder, Json, line, say
from saferec_builder.cli.workspace import onward
from saferec_builder.core.counts import Counts
from saferec_builder.storage.workspace import Workspace

AROUND = 120  # characters of a turn on each side of a quote


def browse(
    stage: Annotated[str, typer.Argument(help="proposals, labels or reported.")] = "proposals",
    trait: Annotated[str | None, typer.Option(help="Only of this sensitivity.")] = None,
    verdict: Annotated[str, typer.Option(help="present or unsure; absent has no quote to show.")] = "present",
    limit: Annotated[int, typer.Option(help="How many to print.", min=1)] = 10,
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Read what was proposed, or labelled, beside the seeker's words, or what readers reported as personal data.

    Each quote stands between » and « in its turn; turns count from 1, in --json from 0. Texts of people in a crisis,
    and of those who asked to be removed, are not shown.
    """
    ws = Workspace.open(folder)
    claims = browsing.browse(ws, stage, trait=trait, verdict=verdict)
    rows = claims.head(limit)
    if as_json:
        return say(Counts("browse", skipped=claims.height, figures={"rows": rows.to_dicts()}), as_json)
    typer.echo("\n".join([*_lines(rows), browsing.count_line(stage, verdict, claims.height, rows.height)]))
    if claims.is_empty():
        onward(ws, as_json)


def _lines(rows: pl.DataFrame) -> list[str]:
    lines = []
    for row in rows.iter_rows(named=True):
        confidence = "" if row["confidence"] is None else f" {row['confidence']:.2f}"
        form = f"{row['form']}, " if row["form"] else ""
        head = f"{row['conversation']} turn {row['turn'] + 1}: {row['trait']}, {form}{row['by']}{confidence}"
        text, start, end = row["text"], row["start"], row["end"]
        before, after = text[max(0, start - AROUND) : start], text[end : end + AROUND]
        dots = ("..." * (start > AROUND), "..." * (len(text) > end + AROUND))
        lines += [line(head), line(f"    {dots[0]}{before}»{text[start:end]}«{after}{dots[1]}")]
    return lines
