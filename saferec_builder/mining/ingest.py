"""mine: conversations from files into the workspace, with pseudonyms and placeholders.

reads  files of a source, removals.csv, the catalog
gives  new rows of conversations, origins, marks, clusters, stated, honoured and drops; gold/saferec.jsonl
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import polars as pl

from saferec_builder import catalog, sources
from saferec_builder.core.counts import Counts
from saferec_builder.core.errors import UsageError, near
from saferec_builder.core.json_value import JsonValue
from saferec_builder.core.progress import Progress, counted
from saferec_builder.mining import (
    clusters,
    conversations as stage,
    input_files,
    language,
    privacy,
    reddit,
    removals as wishes,
    withheld,
)
from saferec_builder.mining.at_sign_exceptions import AT_SIGN
from saferec_builder.sources import Read, conversation_rows as conversations, dumps, hf, threads
from saferec_builder.sources.conversation_rows import Source
from saferec_builder.sources.readers import READERS
from saferec_builder.storage import parallel, tables, whole_files, workspace
from saferec_builder.storage.workspace import Workspace

EXPECTED = ("same id", wishes.REMOVED)  # a file may consist of these: it was read, and nothing is missing
FACTS = ("domain", "seeker", "time", "recommended", "accepted", "seen")  # of a conversation, beside its turns
_FILE = pl.col("place").str.replace(":[^:]*$", "")  # of a row's place
SUMMARY = pl.Schema({"file": pl.String, "reason": pl.String, "rows": pl.UInt32, "example": pl.String})


@dataclass(frozen=True)
class MineResult:
    """What one run made of its files.

    counts   of conversations, with their reasons where they were dropped
    drops    (file, reason, rows, example): a summary of what was left out; each row of it is in the table `drops`
    unmet    which rows of removals.csv name nobody, so that nobody was removed by them; None where all were met
    unread   which file gave nothing at all: it is hardly of this source, or all are empty; None: all gave some
    broken   which file could not be read to its end; None where all could
    """

    counts: Counts
    drops: pl.DataFrame
    unmet: str | None
    unread: str | None
    broken: str | None = None

    @property
    def fault(self) -> str | None:
        """What somebody has to mend: what was mined stays, but the run did not do all that it was asked for."""
        return self.broken or self.unmet or self.unread


@workspace.shared
def mine(
    ws: Workspace,
    source: str,
    paths: Sequence[Path | str] | Path | str,
    *,
    columns: dict[str, str] | None = None,
    split: str = "train",
    engine: str = "local",
    ray_address: str = "local",
    workers: int | None = None,
    progress: Progress | None = None,
) -> MineResult:
    """Reads files (or folders of them) of one of `Source` and appends what is new; a rerun adds nothing.

    columns (ours -> theirs) and split are for `hf` alone; engine (local | ray), ray_address and workers (None: all
    cores) for `reddit`, whose shards can be killed and run again. UsageError: no such source, engine, file or column;
    SourceError: a file that is not of its kind. Rows that cannot be used are drops, and nothing is raised for them.
    """
    paths = [paths] if isinstance(paths, Path | str) else paths
    if source not in list(Source):
        raise UsageError(f"mine {source}: no such source: {near(source, Source)}")
    kind, how = Source(source), parallel.How(engine, workers, ray_address)
    if columns and kind is not Source.hf:
        raise UsageError(f"mine {source}: --column is for `mine hf`, which reads files of JSON lines, too")
    if kind is Source.reddit:
        parts, figures = _reddit(ws, paths, how)
        whole = not figures.get("requests")  # else a request and its comments may stand in different parts
    else:
        read, without = _read(kind, paths, columns or {}, split, progress)
        parts, figures = _files(ws, kind, read)
        figures |= {"files_without_a_row": without} if without else {}
        whole = True
    figures |= input_files.passed_by(kind, paths)
    have, noticed, tally = _known(ws), workspace.read(ws, tables.MARKS), _Tally()
    clusters.begin(ws)
    for read, marks in parts:
        _append(ws, read, marks, have, noticed, tally, whole=whole)
    clusters.compare(ws)
    if twice := clusters.twice(ws, tally.new):
        figures["there_under_another_source"] = twice
    drops = tally.summary()
    unread, broken = _unread(kind, drops, tally.taken), _broken(drops)
    if not tally.kept and drops.is_empty() and not figures.get("lines"):
        unread = f"mine {source}: no row in {', '.join(map(str, paths))}: expected conversations: nothing was mined"
    return MineResult(tally.counts(drops, figures), drops, withheld.unmet(ws), unread, broken)


@dataclass
class _Tally:
    """What became of the parts so far."""

    added: int = 0
    kept: int = 0
    turns: int = 0
    crisis: int = 0
    former: int = 0  # there already, with facts beside their words that have changed since: those do not count
    older: int = 0  # there already, and followed by other words: an older export, or words that somebody took back
    drops: list[pl.DataFrame] = field(default_factory=list)  # SUMMARY of each part
    languages: Counter[str] = field(default_factory=Counter)
    seekers: set[str] = field(default_factory=set)
    taken: set[str] = field(default_factory=set)  # files of which something was kept
    new: list[str] = field(default_factory=list)  # conversations that were not there before

    def summary(self) -> pl.DataFrame:
        each = pl.concat([pl.DataFrame(schema=SUMMARY), *self.drops]).group_by("file", "reason", maintain_order=True)
        return each.agg(pl.col("rows").sum(), pl.col("example").first())

    def counts(self, drops: pl.DataFrame, figures: dict[str, JsonValue]) -> Counts:
        languages = dict(sorted(self.languages.items(), key=lambda pair: (-pair[1], pair[0]))[:5])
        found: dict[str, JsonValue] = {"turns": self.turns, "seekers": len(self.seekers), "crisis": self.crisis}
        kept = {"kept_with_former_facts": self.former, "kept_with_later_words": self.older}
        found |= {"languages": languages} | {name: n for name, n in kept.items() if n}
        if any(kept.values()):
            again = "once tables/conversations is deleted and all are mined again, oldest first"
            found["next"] = f"the files count as they are {again}"
        reasons = drops.group_by("reason", maintain_order=True).agg(pl.col("rows").sum(), pl.col("example").first())
        dropped, examples = (dict(reasons.select("reason", name).iter_rows()) for name in ("rows", "example"))
        ordered = dict(sorted(dropped.items()))
        return Counts("mine", self.added, self.kept - self.added, ordered, figures | found, examples)


def _summary(drops: pl.DataFrame) -> pl.DataFrame:
    """SUMMARY of rows of DROPS; the example is the first: its place, and what was found there and expected."""
    example = pl.col("place") + pl.when(pl.col("detail") == "").then(pl.lit("")).otherwise(": " + pl.col("detail"))
    by = drops.group_by(_FILE.alias("file"), "reason", maintain_order=True)
    return by.agg(pl.len().alias("rows"), example.first().alias("example")).cast(SUMMARY)


def _of_taken(drops: pl.DataFrame, taken: set[str]) -> pl.DataFrame:
    """The drops of files of which something was taken, or of which nothing is missing (EXPECTED)."""
    return drops.filter(_FILE.is_in(list(taken)) | pl.col("reason").is_in(EXPECTED))


def _unread(source: Source, drops: pl.DataFrame, taken: set[str]) -> str | None:
    """Which file gave nothing at all: what was read was not what it was taken for."""
    lost = drops.filter(~pl.col("file").is_in(list(taken)))
    if source is Source.reddit:  # a request and its comments stand in different files: all are one
        read = taken or drops["reason"].is_in([*EXPECTED, *threads.FILTERED, withheld.FOREIGN]).any()
        lost = drops.clear() if read else drops.with_columns(file=pl.lit("these files"))
    for (file,), of in lost.group_by("file", maintain_order=True):
        if of["reason"].is_in(EXPECTED).all():
            continue
        reasons = of.group_by("reason", maintain_order=True).agg(pl.col("rows").sum(), pl.col("example").first())
        most = reasons.sort("rows", descending=True, maintain_order=True).row(0, named=True)
        return (
            f"mine {source}: nothing of {file} was taken: {most['rows']:,} of {of['rows'].sum():,} rows were dropped as"
            f" {most['reason']!r}, such as {most['example']}: name the right source (`saferec-build mine --help`), or"
            " mend the file"
        )
    return None


def _broken(drops: pl.DataFrame) -> str | None:
    for example in drops.filter(reason=dumps.UNREADABLE)["example"]:
        return f"mine: {example}: what came before it was mined: get this file whole, and mine it again"
    return None


def _append(
    ws: Workspace,
    read: Read,
    marks: pl.DataFrame,
    have: pl.DataFrame,
    noticed: pl.DataFrame,
    tally: _Tally,
    *,
    whole: bool,
) -> None:
    """One part into the workspace: nothing of it is needed for the next.

    whole: it holds all rows of its files, or none of them has a row to take. Of a file that gave nothing, what could
    not be read is told and not kept: it was hardly the one that was meant, and would stand in every report.
    """
    before = _with_turns(ws, have, read.rows)
    stage.refuse_other_ids(read.rows, before)
    rows, drops = stage.mine(read.rows, before)
    rows, marks, foreign = _in_our_languages(ws, rows, marks, read.rows)
    ours = drops.vstack(foreign)
    tally.drops.append(_summary(ours.vstack(read.drops)))
    # what keeps a conversation from its readers comes first: a kill in between must not show it to anybody
    workspace.append(ws, tables.MARKS, withheld.new_marks(marks, noticed))
    workspace.append(ws, tables.ORIGINS, stage.origins(read.rows, rows))
    tally.added += workspace.append(ws, tables.CONVERSATIONS, rows)
    _append_stated(ws, rows, read.rows)
    taken = set(read.rows.join(rows, ["conversation", "digest"], "semi").select(_FILE).to_series())
    unread = _of_taken(read.drops, taken) if whole else read.drops
    workspace.append(ws, tables.DROPS, ours.vstack(unread).sort("place", "reason"))
    there = rows.with_columns(_facts()).join(have, ["conversation", "digest"])
    tally.former += int((there["facts"] != there["facts_right"]).sum())
    known = have.join(there, "conversation", "semi", maintain_order="left")
    tally.older += there.join(tables.last(known, "conversation"), ["conversation", "digest"], "anti").height
    tally.kept += rows.height
    tally.new += rows.join(have, "conversation", "anti")["conversation"].to_list()
    tally.turns += int(rows["turns"].list.len().sum())
    tally.crisis += int(marks["crisis"].sum())
    tally.seekers.update(rows["seeker"].drop_nulls())
    tally.taken |= taken
    tally.languages.update(dict(marks["language"].drop_nulls().value_counts().iter_rows()))


def _facts() -> pl.Expr:
    return pl.struct(FACTS).hash().alias("facts")


def _known(ws: Workspace) -> pl.DataFrame:
    """(conversation, digest, facts: their hash) so far without those that removals have to change.

    A shorter text may follow these.
    """
    removals = wishes.asked(ws)
    named = ["conversation", "digest", *(("source", "source_id", "seeker") if removals else ())]
    parts = workspace.parts(ws, tables.CONVERSATIONS, *named, *FACTS)
    have = pl.concat(part.select(*named, _facts()) for part in (tables.CONVERSATIONS.empty, *parts))
    if len(named) > 2:
        gone = wishes.gone(removals, have, workspace.read(ws, tables.ORIGINS))
        have = have.filter(~pl.col("conversation").is_in(gone.implode()))
    return have.select("conversation", "digest", "facts")


def _with_turns(ws: Workspace, have: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """`have` with the turns of those conversations whose text is another one now; of the others nobody needs them."""
    changed = rows.join(have, ["conversation", "digest"], "anti").join(have, "conversation", "semi")
    if changed.is_empty():
        return have.with_columns(turns=pl.lit(None, tables.CONVERSATIONS.schema["turns"]))
    found = [part.join(changed, "conversation", "semi") for part in workspace.parts(ws, tables.CONVERSATIONS, "turns")]
    return have.join(pl.concat(found), ["conversation", "digest"], "left", maintain_order="left")


# ---- what the files hold: parts of conversations, each with its marks, and figures


def _read(
    source: Source, paths: Sequence[Path | str], columns: dict[str, str], split: str, progress: Progress | None
) -> tuple[Read, list[str]]:
    """(what all files hold, the files without a row)."""
    if source is Source.hf:
        reads, before = {}, conversations.SCHEMA.to_frame()
        for path in paths:  # of two files of one name, which is that of their source, too
            reads[str(path)] = read = hf.read(str(path), columns, split)
            stage.refuse_other_ids(read.rows, before.select("conversation", "digest", "turns"))
            before = before.vstack(read.rows)
    else:
        places = input_files.places(input_files.found(source, paths))
        reads = {
            str(path): input_files.placed(READERS[source](path), place) for path, place in counted(places, progress)
        }
    without = [path for path, read in reads.items() if read.rows.is_empty() and read.drops.is_empty()]
    return sources.together(reads.values(), conversations.SCHEMA), without


def _files(ws: Workspace, source: Source, read: Read) -> tuple[Iterable[reddit.Part], dict[str, JsonValue]]:
    """What was read with placeholders and pseudonyms and without removals, as one part."""
    removals = wishes.asked(ws)
    workspace.append(ws, tables.HONOURED, wishes.met_in(removals, read.rows, ws.secret))
    kept, gone = wishes.without(read.rows, removals)
    titles = reddit.titles(_items(ws))
    clean, counts = stage.hidden(kept, partial(privacy.redact_all, titles=titles, leave=AT_SIGN.get(source, ())))
    rows = stage.speakers(clean, ws.secret)
    marks = language.marks(rows).with_columns(rows["replaced"])
    figures: dict[str, JsonValue] = {f"replaced_{kind}": n for kind, n in sorted(counts.items())}
    if alike := wishes.in_other_case(removals, kept):
        remedy = "if one is the same person, add a row with this spelling, and mine again"
        figures["authors_as_in_removals_but_for_capitals"] = f"{alike}: {remedy}"
    return [(Read(rows.drop("replaced"), read.drops.vstack(gone)), marks)], {**figures, **read.figures}


def _reddit(
    ws: Workspace, paths: Sequence[Path | str], how: parallel.How
) -> tuple[Iterable[reddit.Part], dict[str, JsonValue]]:
    shared = (ws.config.store.url or "").startswith("postgresql")
    if how.engine == "ray" and how.address != "local" and not shared:
        raise UsageError(
            'mine reddit on a cluster needs [store] url = "postgresql://..." in saferec.toml: SQLite is no database'
            " for a folder that several machines share"
        )
    given = ws.config.reddit.model_dump()
    buckets = given.pop("buckets")
    rules = threads.Rules(**{name: value for name, value in given.items() if value is not None})
    removals = wishes.asked(ws)
    job = reddit.Job(rules, ws.secret, removals, buckets, _items(ws))
    parts, figures, seconds, met = reddit.read(input_files.found(Source.reddit, paths), job, ws.root / "mining", how)
    workspace.append(ws, tables.HONOURED, met)
    return parts, {"cpu_seconds": {name: round(spent, 2) for name, spent in seconds.items()}, **figures}


def _items(ws: Workspace) -> Path | None:
    """The merged catalog as a file that every worker can read; None while there is no catalog."""
    rows = workspace.read(ws, tables.CATALOG_ROWS)
    if rows.is_empty():
        return None
    items = catalog.merge(rows)[0]
    path = ws.root / "mining" / f"items-{tables.digest(items.rows())}.parquet"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        with whole_files.replacing(path) as tmp:
            items.write_parquet(tmp)
    return path


# ---- what follows from the conversations


def _in_our_languages(
    ws: Workspace, rows: pl.DataFrame, marks: pl.DataFrame, read: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """(rows in the languages of saferec.toml, their marks, drops of the others); an unknown language stays."""
    marks = marks.unique(["conversation", "digest"], keep="first", maintain_order=True)
    marks = marks.join(rows, ["conversation", "digest"], "semi", maintain_order="left")
    if not ws.config.mine.languages:
        return rows, marks, tables.DROPS.empty
    ours = pl.col("language").is_in(ws.config.mine.languages).fill_null(True)
    here = read.sort("place").unique(["conversation", "digest"], keep="first", maintain_order=True)  # as stage.mine
    foreign = marks.filter(~ours).join(here, ["conversation", "digest"], "inner")
    drops = stage.drops_of(foreign, withheld.FOREIGN, pl.col("language"))
    return rows.join(foreign, "conversation", "anti", maintain_order="left"), marks.filter(ours), drops


def _append_stated(ws: Workspace, rows: pl.DataFrame, read: pl.DataFrame) -> None:
    """Constraints of the saferec columns, by slug, into `stated` and gold/saferec.jsonl, which evaluations read."""
    named = read.filter(pl.col("stated").is_not_null()).join(rows, ["conversation", "digest"], "semi")
    if named.is_empty():
        return
    slugs = {trait.safecrs: trait.slug for trait in ws.taxonomy.traits}
    each = named.select("conversation", "source", trait="stated").explode("trait").drop_nulls("trait")
    known = each.with_columns(pl.col("trait").replace_strict(slugs, default=None, return_dtype=pl.String))
    workspace.append(ws, tables.STATED, known.drop_nulls("trait").select(list(tables.STATED.columns)))
    stated = workspace.read(ws, tables.STATED).sort("conversation", "trait")
    gold = ws.root / "gold" / "saferec.jsonl"
    gold.parent.mkdir(exist_ok=True)
    with whole_files.replacing(gold) as tmp, open(tmp, "w", encoding="utf-8") as file:
        for name, of in stated.group_by("conversation", maintain_order=True):
            file.write(json.dumps({"conversation": name[0], "traits": of["trait"].to_list()}) + "\n")
