"""The command mine: reads conversations from files into the workspace."""

from pathlib import Path
from typing import Annotated

import typer

from saferec_builder.cli.output import Folder, Json, say
from saferec_builder.cli.plan import warn
from saferec_builder.cli.progress import bar
from saferec_builder.cli.workspace import onward
from saferec_builder.core.errors import SourceError
from saferec_builder.mining import ingest
from saferec_builder.sources import hf
from saferec_builder.storage.workspace import Workspace


def mine(
    source: Annotated[str, typer.Argument(help="What kind of files these are.")],
    paths: Annotated[list[Path], typer.Argument(help="Files, or folders of them.", metavar="PATH...")],
    *,
    folder: Folder = Path("."),
    column: Annotated[
        list[str] | None, typer.Option(help="hf: OURS=THEIRS, such as messages=dialog.", metavar="MAP")
    ] = None,
    split: Annotated[str | None, typer.Option(help="hf: which split; default: train.", show_default=False)] = None,
    engine: Annotated[str, typer.Option(help="reddit: where shards run, local or ray.")] = "local",
    ray_address: Annotated[str, typer.Option(help="reddit: `local`, or the address of a Ray cluster.")] = "local",
    workers: Annotated[int | None, typer.Option(help="reddit: processes.", min=1, show_default="one per core")] = None,
    as_json: Json = False,
) -> None:
    """Read conversations: people become pseudonyms, personal data placeholders; what is left out is counted.

    \b
    reddit      dumps (.zst, .gz)    mine reddit RS_2022-10.zst RC_2022-10.zst
    redial      JSON lines           mine redial train_data.jsonl
    inspired    tab-separated        mine inspired train.tsv dev.tsv test.tsv
    ccpe        its JSON, or a CSV   mine ccpe data.json
    opendialkg  its CSV, or messages mine opendialkg opendialkg.csv
    messages    JSON lines of chats  mine messages chats.jsonl
    saferec     official columns     mine saferec train.jsonl
    hf          of the Hub, a folder mine hf NS/NAME --column messages=dialog

    Add the catalog first: its titles are no names, and Reddit's items are found by them. removals.csv is honoured.
    """
    ws = Workspace.open(folder)
    result = ingest.mine(
        ws,
        source,
        paths,
        columns=hf.columns(column or []),
        split=split,
        engine=engine,
        ray_address=ray_address,
        workers=workers,
        progress=bar("mine, reading", "file"),
    )
    say(result.counts, as_json)
    if result.fault:  # at the end: what was mined stays
        raise SourceError(result.fault)
    if result.counts.added:  # else a release would hold what it would have held before
        warn(ws)
    onward(ws, as_json)
