"""mine: conversations from files into the workspace."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from saferec_builder.cli.say import Counts, Folder, Json, say


class Source(StrEnum):
    reddit = "reddit"
    redial = "redial"
    inspired = "inspired"
    ccpe = "ccpe"
    messages = "messages"
    saferec = "saferec"
    hf = "hf"


class Engine(StrEnum):
    local = "local"
    ray = "ray"


SUFFIXES = {  # of the files that a folder stands for
    Source.reddit: (".ndjson", ".zst"),
    Source.inspired: (".tsv",),
    Source.ccpe: (".csv",),
    Source.saferec: (".jsonl", ".parquet"),
}
# ReDial and INSPIRED workers write @ before a film
AT_SIGN = {Source.redial: {"handle"}, Source.inspired: {"handle"}}


def mine(
    source: Annotated[Source, typer.Argument(help="What kind of files these are.")],
    paths: Annotated[list[Path], typer.Argument(help="Files, or folders of them.", metavar="PATH...")],
    folder: Folder = Path("."),
    column: Annotated[
        list[str] | None, typer.Option(help="hf: OURS=THEIRS, such as messages=dialog.", metavar="MAP")
    ] = None,
    split: Annotated[str, typer.Option(help="hf: which split.")] = "train",
    engine: Annotated[Engine, typer.Option(help="reddit: where shards run.")] = Engine.local,
    ray_address: Annotated[str, typer.Option(help="reddit: `local`, or the address of a Ray cluster.")] = "local",
    workers: Annotated[int | None, typer.Option(help="reddit: processes.", min=1, show_default="all cores")] = None,
    as_json: Json = False,
) -> None:
    """Read conversations: people become pseudonyms, personal data placeholders; what is left out is counted.

    \b
    reddit    monthly dumps, .ndjson or .zst     mine reddit RS_2022-10.zst RC_2022-10.zst
    redial    JSON lines as published            mine redial train_data.jsonl
    inspired  tab-separated, as published        mine inspired train.tsv dev.tsv test.tsv
    ccpe      comma-separated utterances         mine ccpe ccpe_dialogues.csv
    messages  JSON lines of chat messages        mine messages chats.jsonl
    saferec   the official columns               mine saferec train.jsonl
    hf        a dataset of the Hub or a folder   mine hf NS/NAME --column messages=dialog

    Add the catalog before mining Reddit: items are found in the texts. removals.csv in the workspace is honoured.
    """
    from saferec_builder import mine as stage
    from saferec_builder import sources, store, tables

    ws = store.open_workspace(folder)
    how = {"engine": engine.value, "workers": workers, "address": ray_address}
    read, marks, figures = (
        _reddit(ws, paths, how) if source is Source.reddit else _files(ws, source, paths, column or [], split)
    )
    rows, drops = stage.mine(read.rows, _standing(ws), None)
    rows, marks, foreign = _languages(ws, rows, marks, read.rows)
    drops = drops.vstack(read.drops).vstack(foreign).sort("place", "reason")
    added = store.append(ws, tables.CONVERSATIONS, rows)
    _notices(ws, rows, read.rows, marks)
    store.append(ws, tables.DROPS, drops)
    figures |= {"turns": int(rows["turns"].list.len().sum()), "seekers": rows["seeker"].drop_nulls().n_unique()}
    figures |= _marked(rows, marks)
    say(Counts("mine", added, rows.height - added, sources.reasons(drops), figures | read.figures), as_json, "rows")


def _standing(ws: Any) -> Any:
    """The conversations so far without those that removals have to change: a shorter text may follow these."""
    import polars as pl

    from saferec_builder import mine as stage
    from saferec_builder import store, tables

    have = store.read(ws, tables.CONVERSATIONS)
    gone = stage.gone(ws.root / "removals.csv", have, store.read(ws, tables.ORIGINS), ws.secret)
    return have.filter(~pl.col("conversation").is_in(gone.implode()))


def _files(
    ws: Any, source: Source, paths: list[Path], column: list[str], split: str
) -> tuple[Any, Any, dict[str, Any]]:
    """(what the files hold, with placeholders and pseudonyms and without removals; its marks; figures)."""
    from functools import partial

    from tqdm import tqdm

    from saferec_builder import language, privacy, sources
    from saferec_builder import mine as stage
    from saferec_builder.cli import reddit
    from saferec_builder.sources import ccpe, conversations, hf, inspired, messages, redial, saferec

    if source is Source.hf:
        reads = [hf.read(str(path), hf.columns(column), split) for path in paths]
    else:
        modules: dict[Source, Any] = {Source.redial: redial, Source.inspired: inspired, Source.ccpe: ccpe}
        modules |= {Source.messages: messages, Source.saferec: saferec}
        files = tqdm(_found(source, paths), "mine", unit="file", disable=None)
        reads = [modules[source].read(path) for path in files]
    read = sources.together(reads, conversations.SCHEMA)
    kept, gone = stage.without(read.rows, stage.read_removals(ws.root / "removals.csv"))
    titles = reddit.titles(_items(ws))
    clean, counts = stage.hidden(kept, partial(privacy.redact_all, titles=titles, leave=AT_SIGN.get(source, ())))
    rows = stage.pseudonyms(clean, ws.secret)
    marks = language.marks(rows).with_columns(rows["replaced"])
    figures = {f"replaced_{kind}": n for kind, n in sorted(counts.items())}
    return sources.Read(rows.drop("replaced"), read.drops.vstack(gone), read.figures), marks, figures


def _reddit(ws: Any, paths: list[Path], how: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
    from saferec_builder import engine
    from saferec_builder import mine as stage
    from saferec_builder.cli import reddit
    from saferec_builder.errors import UsageError
    from saferec_builder.sources import threads

    if (
        how["engine"] == "ray"
        and how["address"] != "local"
        and not (ws.config.store.url or "").startswith("postgresql")
    ):
        raise UsageError(
            'mine reddit on a cluster needs [store] url = "postgresql://..." in saferec.toml: SQLite is no database'
            " for a folder that several machines share"
        )
    given = ws.config.reddit.model_dump()
    buckets = given.pop("buckets")
    rules = threads.Rules(**{name: value for name, value in given.items() if value is not None})
    removals = stage.read_removals(ws.root / "removals.csv")
    job = reddit.Job(rules, ws.secret, removals, buckets, _items(ws))
    read, marks, seconds = reddit.read(_found(Source.reddit, paths), job, ws.root / "mining", engine.How(**how))
    return read, marks, {"cpu_seconds": {name: round(spent, 2) for name, spent in seconds.items()}}


def _items(ws: Any) -> Path | None:
    """The merged catalog as a file that every worker can read; None while there is no catalog."""
    from saferec_builder import catalog, store, tables

    rows = store.read(ws, tables.CATALOG_ROWS)
    if rows.is_empty():
        return None
    items = catalog.merge(rows)[0]
    path: Path = ws.root / "mining" / f"items-{tables.digest(items.rows())}.parquet"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        with store.replacing(path) as tmp:
            items.write_parquet(tmp)
    return path


def _languages(ws: Any, rows: Any, marks: Any, read: Any) -> tuple[Any, Any, Any]:
    """(rows in the wanted languages, their marks, drops of the others); no known language is no reason to drop."""
    import polars as pl

    from saferec_builder import tables

    marks = marks.unique(["conversation", "digest"], keep="first", maintain_order=True)
    marks = marks.join(rows, ["conversation", "digest"], "semi", maintain_order="left")
    if not ws.config.mine.languages:
        return rows, marks, tables.DROPS.empty
    wanted = pl.col("language").is_in(ws.config.mine.languages).fill_null(True)
    foreign = marks.filter(~wanted).join(read, ["conversation", "digest"], "inner").unique(["conversation", "digest"])
    drops = foreign.select(
        stage=pl.lit("mine"), source="source", place="place", reason=pl.lit("other language"), detail="language"
    )
    return rows.join(foreign, "conversation", "anti", maintain_order="left"), marks.filter(wanted), drops


def _notices(ws: Any, rows: Any, read: Any, marks: Any) -> None:
    """Marks, origins, stated traits and clusters: each from what is there, so that a killed run is made whole."""
    from saferec_builder import duplicates, store, tables
    from saferec_builder import mine as stage

    store.append(ws, tables.MARKS, marks.select(list(tables.MARKS.columns)))
    store.append(ws, tables.ORIGINS, stage.origins(read, rows))
    _stated(ws, rows, read)
    current = tables.last(store.read(ws, tables.CONVERSATIONS), "conversation")
    store.append(ws, tables.CLUSTERS, duplicates.clusters(current, store.read(ws, tables.CLUSTERS)))


def _stated(ws: Any, rows: Any, read: Any) -> None:
    """Constraints of the saferec columns, by slug, into `stated` and gold/saferec.jsonl, which evaluations read."""
    import json

    import polars as pl

    from saferec_builder import store, tables, traits

    named = read.filter(pl.col("stated").is_not_null()).join(rows, ["conversation", "digest"], "semi")
    if named.is_empty():
        return
    path = ws.config.taxonomy.path
    slugs = {trait.safecrs: trait.slug for trait in traits.load(ws.root / path if path else None).traits}
    each = named.select("conversation", "source", trait="stated").explode("trait").drop_nulls("trait")
    known = each.with_columns(pl.col("trait").replace_strict(slugs, default=None, return_dtype=pl.String))
    store.append(ws, tables.STATED, known.drop_nulls("trait").select(list(tables.STATED.columns)))
    stated = store.read(ws, tables.STATED).sort("conversation", "trait")
    gold = ws.root / "gold" / "saferec.jsonl"
    gold.parent.mkdir(exist_ok=True)
    with store.replacing(gold) as tmp, open(tmp, "w", encoding="utf-8") as file:
        for name, of in stated.group_by("conversation", maintain_order=True):
            file.write(json.dumps({"conversation": name[0], "traits": of["trait"].to_list()}) + "\n")


def _marked(rows: Any, marks: Any) -> dict[str, Any]:
    languages = dict(marks["language"].drop_nulls().value_counts(sort=True).head(5).iter_rows())
    return {"crisis": int(marks["crisis"].sum()), "languages": languages}


def _found(source: Source, paths: list[Path]) -> list[Path]:
    """Every file once; a folder stands for its files of this source's kind."""
    from saferec_builder import sources
    from saferec_builder.errors import UsageError

    suffixes = SUFFIXES.get(source, (".jsonl",))
    files: list[Path] = []
    for path in paths:
        inside = sorted(p for p in path.iterdir() if p.suffix in suffixes) if path.is_dir() else [path]
        if not inside:
            raise UsageError(f"{path}: no {' or '.join(suffixes)} file in this folder")
        files += inside if source is Source.reddit and path.is_fifo() else map(sources.existing, inside)
    return list(dict.fromkeys(files))
