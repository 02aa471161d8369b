"""mine: conversations from files into the workspace."""

from collections import Counter
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from saferec_builder.cli.output import Folder, Json, say
from saferec_builder.core.counts import Counts
from saferec_builder.mining.handles import AT_SIGN


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
    Source.saferec: (".json", ".jsonl", ".parquet"),
}
EXPECTED = {"same id", "removed on request"}  # of which a file may consist: it was read, and nothing is missing


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

    Add the catalog first: its titles stay where they look like names, and in Reddit's texts items are found by them.
    removals.csv in the workspace is honoured.
    """
    from saferec_builder.core.errors import UsageError
    from saferec_builder.mining import withheld
    from saferec_builder.storage import workspace as store

    ws = store.Workspace.open(folder)
    if column and source is not Source.hf:
        raise UsageError(f"mine {source}: --column is for `mine hf`, which reads files of JSON lines, too")
    how = {"engine": engine.value, "workers": workers, "address": ray_address}
    parts, figures = (
        _reddit(ws, paths, how) if source is Source.reddit else _files(ws, source, paths, column or [], split)
    )
    have, told = _standing(ws), _Told()
    for read, marks in parts:
        _kept(ws, read, marks, have, told)
    _clustered(ws)
    counts = Counts("mine", told.added, told.kept - told.added, dict(sorted(told.dropped.items())))
    say(replace(counts, figures=figures | told.figures, such=told.such), as_json, "rows")
    if unmet := withheld.unmet(ws):  # last: what was mined stays, whatever else has to be done
        raise UsageError(unmet)
    told.check(source)


@dataclass
class _Told:
    """What became of the parts so far."""

    added: int = 0
    kept: int = 0
    turns: int = 0
    crisis: int = 0
    former: int = 0  # there already, with facts beside their words that have changed since: those do not count
    older: int = 0  # there already, and followed by other words: an older export, or words that somebody took back
    dropped: Counter[str] = field(default_factory=Counter)
    such: dict[str, str] = field(default_factory=dict)
    languages: Counter[str] = field(default_factory=Counter)
    seekers: set[str] = field(default_factory=set)
    taken: set[str] = field(default_factory=set)  # files of which something was kept
    lost: dict[str, Counter[str]] = field(default_factory=dict)  # file -> why rows of it were dropped

    def check(self, source: Source) -> None:
        """Raises where a file gave nothing at all: what was read was not what the command took it for."""
        from saferec_builder.core.errors import SourceError

        if source is Source.reddit:  # a request and its comments stand in different files: all are one
            lost = {"these files": sum(self.lost.values(), Counter())} if self.lost and not self.taken else {}
        else:
            lost = {file: why for file, why in self.lost.items() if file not in self.taken}
        for file, why in lost.items():
            if why.keys() <= EXPECTED:
                continue
            (reason, n), total = why.most_common(1)[0], why.total()
            raise SourceError(
                f"mine {source}: nothing of {file} was taken: {n:,} of {total:,} rows were dropped as {reason!r}, such"
                f" as {self.such[reason]}: name the right source (`saferec-build mine --help`), or mend the file"
            )

    @property
    def figures(self) -> dict[str, Any]:
        languages = dict(self.languages.most_common(5))
        told = {"turns": self.turns, "seekers": len(self.seekers), "crisis": self.crisis, "languages": languages}
        kept = {"kept_with_former_facts": self.former, "kept_with_later_words": self.older}
        again = "the files count as they are once tables/conversations is deleted and all are mined again, oldest first"
        kept = {name: n for name, n in kept.items() if n}
        return told | kept | ({"next": again} if kept else {})


def _kept(ws: Any, read: Any, marks: Any, have: Any, told: _Told) -> None:
    """One part into the workspace: nothing of it is needed for the next."""
    from saferec_builder import sources
    from saferec_builder.mining import conversations as stage
    from saferec_builder.storage import tables, workspace as store

    rows, drops = stage.mine(read.rows, _with_turns(ws, have, read.rows), None)
    rows, marks, foreign = _languages(ws, rows, marks, read.rows)
    drops = drops.vstack(read.drops).vstack(foreign)
    told.such = sources.examples(drops) | told.such
    drops = drops.sort("place", "reason")
    # what keeps a conversation from its readers comes first: a kill in between must not show it to anybody
    store.append(ws, tables.MARKS, marks.select(list(tables.MARKS.columns)))
    store.append(ws, tables.ORIGINS, stage.origins(read.rows, rows))
    told.added += store.append(ws, tables.CONVERSATIONS, rows)
    _stated(ws, rows, read.rows)
    store.append(ws, tables.DROPS, drops)
    there = rows.with_columns(_facts()).join(have, ["conversation", "digest"])
    told.former += int((there["facts"] != there["facts_right"]).sum())
    known = have.join(there, "conversation", "semi", maintain_order="left")
    told.older += there.join(tables.last(known, "conversation"), ["conversation", "digest"], "anti").height
    told.kept += rows.height
    told.turns += int(rows["turns"].list.len().sum())
    told.crisis += int(marks["crisis"].sum())
    told.seekers.update(rows["seeker"].drop_nulls())
    told.dropped.update(sources.reasons(drops))
    told.taken.update(rows["source_file"].drop_nulls())
    for place, reason in drops.select("place", "reason").iter_rows():
        told.lost.setdefault(place.rsplit(":", 1)[0], Counter())[reason] += 1
    told.languages.update(dict(marks["language"].drop_nulls().value_counts().iter_rows()))


FACTS = ("domain", "seeker", "time", "recommended", "accepted", "seen")  # of a conversation, beside what is said in it


def _facts() -> Any:
    import polars as pl

    return pl.struct(FACTS).hash().alias("facts")


def _standing(ws: Any) -> Any:
    """(conversation, digest, facts: their hash) so far without those that removals have to change.

    A shorter text may follow these.
    """
    import polars as pl

    from saferec_builder.mining import conversations as stage
    from saferec_builder.storage import tables, workspace as store

    wishes = ws.root / "removals.csv"
    named = ["conversation", "digest", *(("source", "source_id", "seeker") if wishes.exists() else ())]
    parts = store.parts(ws, tables.CONVERSATIONS, *named, *FACTS)
    have = pl.concat(part.select(*named, _facts()) for part in (tables.CONVERSATIONS.empty, *parts))
    if len(named) > 2:
        gone = stage.gone(wishes, have, store.read(ws, tables.ORIGINS), ws.secret)
        have = have.filter(~pl.col("conversation").is_in(gone.implode()))
    return have.select("conversation", "digest", "facts")


def _with_turns(ws: Any, have: Any, rows: Any) -> Any:
    """`have` with the turns of those conversations whose text is another one now; of the others nobody needs them."""
    import polars as pl

    from saferec_builder.storage import tables, workspace as store

    changed = rows.join(have, ["conversation", "digest"], "anti").join(have, "conversation", "semi")
    if changed.is_empty():
        return have.with_columns(turns=pl.lit(None, tables.CONVERSATIONS.schema["turns"]))
    found = [part.join(changed, "conversation", "semi") for part in store.parts(ws, tables.CONVERSATIONS, "turns")]
    return have.join(pl.concat(found), ["conversation", "digest"], "left", maintain_order="left")


def _files(ws: Any, source: Source, paths: list[Path], column: list[str], split: str) -> tuple[Any, dict[str, Any]]:
    """([what the files hold, with placeholders and pseudonyms and without removals; its marks], figures)."""
    from functools import partial

    from tqdm import tqdm

    from saferec_builder import sources
    from saferec_builder.mining import conversations as stage, language, privacy, reddit
    from saferec_builder.sources import ccpe, conversations, hf, inspired, messages, redial, saferec
    from saferec_builder.storage import tables, workspace as store

    if source is Source.hf:
        reads = [hf.read(str(path), hf.columns(column), split) for path in paths]
    else:
        modules: dict[Source, Any] = {Source.redial: redial, Source.inspired: inspired, Source.ccpe: ccpe}
        modules |= {Source.messages: messages, Source.saferec: saferec}
        files = tqdm(_found(source, paths), "mine", unit="file", disable=None)
        reads = [modules[source].read(path) for path in files]
    read = sources.together(reads, conversations.SCHEMA)
    removals = stage.read_removals(ws.root / "removals.csv")
    store.append(ws, tables.HONOURED, stage.met_in(removals, read.rows, ws.secret))
    kept, gone = stage.without(read.rows, removals)
    titles = reddit.titles(_items(ws))
    clean, counts = stage.hidden(kept, partial(privacy.redact_all, titles=titles, leave=AT_SIGN.get(source, ())))
    rows = stage.speakers(clean, ws.secret)
    marks = language.marks(rows).with_columns(rows["replaced"])
    figures = {f"replaced_{kind}": n for kind, n in sorted(counts.items())}
    return [(sources.Read(rows.drop("replaced"), read.drops.vstack(gone)), marks)], figures | read.figures


def _reddit(ws: Any, paths: list[Path], how: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    from saferec_builder.core.errors import UsageError
    from saferec_builder.mining import conversations as stage, reddit
    from saferec_builder.sources import threads
    from saferec_builder.storage import parallel as engine, tables, workspace as store

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
    shards = reddit.read(_found(Source.reddit, paths), job, ws.root / "mining", engine.How(**how))
    parts, figures, seconds, met = shards
    store.append(ws, tables.HONOURED, met)
    return parts, {"cpu_seconds": {name: round(spent, 2) for name, spent in seconds.items()}} | figures


def _items(ws: Any) -> Path | None:
    """The merged catalog as a file that every worker can read; None while there is no catalog."""
    from saferec_builder import catalog
    from saferec_builder.storage import tables, workspace as store

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

    from saferec_builder.storage import tables

    marks = marks.unique(["conversation", "digest"], keep="first", maintain_order=True)
    marks = marks.join(rows, ["conversation", "digest"], "semi", maintain_order="left")
    if not ws.config.mine.languages:
        return rows, marks, tables.DROPS.empty
    wanted = pl.col("language").is_in(ws.config.mine.languages).fill_null(True)
    here = read.sort("place").unique(["conversation", "digest"], keep="first", maintain_order=True)  # as stage.mine
    foreign = marks.filter(~wanted).join(here, ["conversation", "digest"], "inner")
    drops = foreign.select(
        stage=pl.lit("mine"), source="source", place="place", reason=pl.lit("other language"), detail="language"
    )
    return rows.join(foreign, "conversation", "anti", maintain_order="left"), marks.filter(wanted), drops


def _clustered(ws: Any) -> None:
    """Near-duplicates among all requests, of which only the seeker's words are held."""
    import polars as pl

    from saferec_builder.mining import near_duplicates as duplicates
    from saferec_builder.storage import tables, workspace as store

    asked = [duplicates.requests(part) for part in store.parts(ws, tables.CONVERSATIONS, "turns")]
    if asked:
        current = tables.last(pl.concat(asked), "conversation")
        store.append(ws, tables.CLUSTERS, duplicates.clusters(current, store.read(ws, tables.CLUSTERS)))


def _stated(ws: Any, rows: Any, read: Any) -> None:
    """Constraints of the saferec columns, by slug, into `stated` and gold/saferec.jsonl, which evaluations read."""
    import json

    import polars as pl

    from saferec_builder.storage import tables, workspace as store

    named = read.filter(pl.col("stated").is_not_null()).join(rows, ["conversation", "digest"], "semi")
    if named.is_empty():
        return
    slugs = {trait.safecrs: trait.slug for trait in ws.taxonomy.traits}
    each = named.select("conversation", "source", trait="stated").explode("trait").drop_nulls("trait")
    known = each.with_columns(pl.col("trait").replace_strict(slugs, default=None, return_dtype=pl.String))
    store.append(ws, tables.STATED, known.drop_nulls("trait").select(list(tables.STATED.columns)))
    stated = store.read(ws, tables.STATED).sort("conversation", "trait")
    gold = ws.root / "gold" / "saferec.jsonl"
    gold.parent.mkdir(exist_ok=True)
    with store.replacing(gold) as tmp, open(tmp, "w", encoding="utf-8") as file:
        for name, of in stated.group_by("conversation", maintain_order=True):
            file.write(json.dumps({"conversation": name[0], "traits": of["trait"].to_list()}) + "\n")


def _found(source: Source, paths: list[Path]) -> list[Path]:
    """Every file once; a folder stands for its files of this source's kind."""
    from saferec_builder import sources
    from saferec_builder.core.errors import UsageError

    suffixes = SUFFIXES.get(source, (".jsonl",))
    files: list[Path] = []
    for path in paths:
        inside = sorted(p for p in path.iterdir() if p.suffix in suffixes) if path.is_dir() else [path]
        if not inside:
            raise UsageError(f"{path}: no {' or '.join(suffixes)} file in this folder")
        files += inside if source is Source.reddit and path.is_fifo() else map(sources.existing, inside)
    return list(dict.fromkeys(files))
