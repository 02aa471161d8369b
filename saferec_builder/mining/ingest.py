"""Reads conversations from files into the workspace, with pseudonyms for people and placeholders for personal data.

reads  files of a source, removals.csv, the catalog
gives  new rows of conversations, origins, marks, clusters, stated, honoured and drops; gold/saferec.jsonl
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import polars as pl

from saferec_builder import catalog, sources
from saferec_builder.core.counts import Counts
from saferec_builder.core.errors import StoreError, UsageError, near
from saferec_builder.core.json_value import JsonValue
from saferec_builder.core.progress import Progress, counted
from saferec_builder.mining import (
    clusters,
    conversations as stage,
    language,
    privacy,
    reddit,
    removals as wishes,
    withheld,
)
from saferec_builder.sources import Read, conversation_rows as conversations, dumps, hf, input_files, threads
from saferec_builder.sources.conversation_rows import Source
from saferec_builder.sources.readers import READERS
from saferec_builder.storage import parallel, tables, whole_files, workspace
from saferec_builder.storage.workspace import Workspace

EXPECTED = ("same id", wishes.REMOVED)  # a file with no other drops was read: nothing is missing
FACTS = ("domain", "seeker", "time", "recommended", "accepted", "seen")  # columns of a conversation, besides its turns
_FILE = pl.col("place").str.replace(":[^:]*$", "")  # the file in a row's place
SUMMARY = pl.Schema({"file": pl.String, "reason": pl.String, "rows": pl.UInt32, "example": pl.String})


@dataclass(frozen=True)
class MineResult:
    """The result of one run over its files.

    counts   of conversations, with the reasons of the dropped ones
    drops    (file, reason, rows, example): a summary of what was left out; the table `drops` has the rows
    fault    the first problem to fix, as the run did not do all that it was asked for (what was mined stays): a file
             that could not be read to its end, rows of removals.csv that name nobody, a file that gave nothing; or None
    """

    counts: Counts
    drops: pl.DataFrame
    fault: str | None


def mine(
    ws: Workspace,
    source: str,
    paths: Sequence[Path | str] | Path | str,
    *,
    columns: dict[str, str] | None = None,
    split: str | None = None,
    engine: str = "local",
    ray_address: str = "local",
    workers: int | None = None,
    progress: Progress | None = None,
) -> MineResult:
    """Reads files (or folders of files) of one `Source` and appends what is new; a rerun adds nothing.

    columns (ours -> theirs) and split (None: train) are for `hf` alone; engine (local | ray), ray_address and workers
    (None: one per core that this process may use, and one alone for small files) for `reddit`, whose shards can be
    killed and run again. Raises UsageError if there is no such source, engine, file or column, or for what its source
    would ignore, and SourceError for a file of another kind. Rows that cannot be used are drops and raise nothing.
    """
    paths = [paths] if isinstance(paths, Path | str) else paths
    if source not in (allowed := [Source.messages] if ws.config.demo else list(Source)):
        raise UsageError(f"mine {source}: no such source{workspace.IN_DEMO * ws.config.demo}: {near(source, allowed)}")
    kind, how = Source(source), parallel.How(engine, workers, ray_address)
    if (columns or split) and kind is not Source.hf:
        raise UsageError(f"mine {source}: --column and --split are for `mine hf`, which reads JSON lines, too")
    if how != parallel.How() and kind is not Source.reddit:
        raise UsageError(f"mine {source}: --engine, --ray-address and --workers are for `mine reddit`: leave them out")
    result = _mine(ws, kind, paths, how, partial(hf.read, columns=columns or {}, split=split or "train"), progress)
    if kind is Source.reddit:
        with suppress(StoreError), workspace.undisturbed(ws):  # another command may read them: then the next run can
            reddit.remove_outdated(ws.root / "mining")
    return result


@workspace.shared
def _mine(
    ws: Workspace,
    source: Source,
    paths: Sequence[Path | str],
    how: parallel.How,
    read_hf: Callable[[str], Read],
    progress: Progress | None,
) -> MineResult:
    if source is Source.reddit:
        parts, figures = _reddit(ws, paths, how)
        complete = not figures.get("requests")  # else a request and its comments may be in different parts
    else:
        read, empty_files = _read(source, paths, read_hf, progress)
        parts, figures = _prepared(ws, source, read)
        figures |= {"files_without_a_row": empty_files} if empty_files else {}
        complete = True
    figures |= input_files.unread_files(source, paths)
    stored, tally = _stored(ws), _Tally()
    clusters.begin(ws)
    for read, marks in parts:
        _append(ws, read, marks, stored, tally, complete=complete)
    clusters.compare(ws)
    if warning := clusters.doubled_source_warning(ws, tally.new):
        figures["there_under_another_source"] = warning
    drops = tally.summary()
    broken = drops.filter(reason=dumps.UNREADABLE)["example"].head(1)
    faults = [f"mine: {file}: what came before it was mined: get this file whole, and mine it again" for file in broken]
    faults += filter(None, (withheld.unmatched_removals(ws), _unread(source, drops, tally.taken)))
    if not tally.kept and drops.is_empty() and not figures.get("lines"):
        faults += [f"mine {source}: no row in {', '.join(map(str, paths))}: expected conversations: nothing was mined"]
    return MineResult(tally.counts(drops, figures), drops, next(iter(faults), None))


@dataclass
class _Tally:
    """The totals over the parts so far."""

    added: int = 0
    kept: int = 0
    turns: int = 0
    crisis: int = 0
    stale_facts: int = 0  # stored already, with other FACTS than now: the stored ones stay
    older_text: int = 0  # stored already, and followed by a revision: an older export, or text that somebody restored
    drops: list[pl.DataFrame] = field(default_factory=list)  # SUMMARY of each part
    languages: Counter[str] = field(default_factory=Counter)
    seekers: set[str] = field(default_factory=set)
    taken: set[str] = field(default_factory=set)  # files from which a conversation was kept
    new: list[str] = field(default_factory=list)  # conversations that were not stored before

    def summary(self) -> pl.DataFrame:
        groups = pl.concat([pl.DataFrame(schema=SUMMARY), *self.drops]).group_by("file", "reason", maintain_order=True)
        return groups.agg(pl.col("rows").sum(), pl.col("example").first())

    def counts(self, drops: pl.DataFrame, figures: dict[str, JsonValue]) -> Counts:
        ranked = sorted(self.languages.items(), key=lambda pair: (-pair[1], pair[0]))
        rest = {"other": sum(n for _, n in ranked[5:]), "unknown": self.kept - self.languages.total()}
        languages = dict(ranked[:5]) | {name: n for name, n in rest.items() if n}
        totals: dict[str, JsonValue] = {"turns": self.turns, "seekers": len(self.seekers), "crisis": self.crisis}
        outdated = {"kept_with_former_facts": self.stale_facts, "kept_with_later_words": self.older_text}
        totals |= {"languages": languages} | {name: n for name, n in outdated.items() if n}
        if any(outdated.values()):
            condition = "once tables/conversations is deleted and all are mined again, oldest first"
            totals["next"] = f"the files count as they are {condition}"
        by_reason = drops.group_by("reason").agg(pl.col("rows").sum(), pl.col("example").first()).sort("reason")
        dropped, examples = (dict(by_reason.select("reason", name).iter_rows()) for name in ("rows", "example"))
        return Counts("mine", self.added, self.kept - self.added, dropped, figures | totals, examples)


def _unread(source: Source, drops: pl.DataFrame, taken: set[str]) -> str | None:
    """A message about the first file that gave nothing, probably because it is of another source; else None."""
    unused = drops.filter(~pl.col("file").is_in(list(taken)))
    if source is Source.reddit:  # a request and its comments are in different files, so all count as one
        read = taken or drops["reason"].is_in([*EXPECTED, *threads.FILTERED, withheld.FOREIGN]).any()
        unused = drops.clear() if read else drops.with_columns(file=pl.lit("these files"))
    for (file,), part in unused.group_by("file", maintain_order=True):
        if part["reason"].is_in(EXPECTED).all():
            continue
        reasons = part.group_by("reason", maintain_order=True).agg(pl.col("rows").sum(), pl.col("example").first())
        top = reasons.sort("rows", descending=True, maintain_order=True).row(0, named=True)
        return (
            f"mine {source}: nothing of {file} was taken: {top['rows']:,} of {part['rows'].sum():,} rows were dropped"
            f" as {top['reason']!r}, such as {top['example']}: name the right source (`saferec-build mine --help`), or"
            " mend the file"
        )
    return None


def _append(
    ws: Workspace, read: Read, marks: pl.DataFrame, before: "_Stored", tally: _Tally, *, complete: bool
) -> None:
    """Appends one part to the workspace; parts do not depend on each other.

    complete: the part holds all rows of its files, or none of the files has a row to take. Then the drops of a file
    that gave nothing are reported but not stored, but for EXPECTED reasons: it was probably the wrong file, and would
    be in every report.
    """
    stored, read, marks = before.facts, replace(read, rows=before.returned(read.rows)), before.returned(marks)
    earlier = _with_turns(ws, stored, read.rows)
    stage.refuse_other_ids(read.rows, earlier)
    rows, drops = stage.mine(read.rows, earlier)
    rows, marks, foreign = _in_our_languages(ws, rows, marks, read.rows)
    row_drops = drops.vstack(foreign)
    reports = row_drops.vstack(read.drops)
    example = pl.col("place") + pl.when(pl.col("detail") == "").then(pl.lit("")).otherwise(": " + pl.col("detail"))
    groups = reports.group_by(_FILE.alias("file"), "reason", maintain_order=True)
    tally.drops.append(groups.agg(rows=pl.len(), example=example.first()).cast(SUMMARY))
    # first what withholds a conversation: a kill in between must not show it to anybody
    workspace.append(ws, tables.MARKS, withheld.new_marks(marks, before.marks))
    workspace.append(ws, tables.ORIGINS, stage.origins(read.rows, rows))
    tally.added += workspace.append(ws, tables.CONVERSATIONS, rows)
    _append_stated(ws, rows, read.rows)
    taken = set(read.rows.join(rows, ["conversation", "digest"], "semi").select(_FILE).to_series())
    keeps = _FILE.is_in(list(taken)) | pl.col("reason").is_in(EXPECTED) | pl.lit(not complete)
    workspace.append(ws, tables.DROPS, row_drops.vstack(read.drops.filter(keeps)).sort("place", "reason"))
    repeated = rows.with_columns(_facts_hash()).join(stored, ["conversation", "digest"])
    tally.stale_facts += int((repeated["facts"] != repeated["facts_right"]).sum())
    revisions = stored.join(repeated, "conversation", "semi", maintain_order="left")
    tally.older_text += repeated.join(tables.last(revisions, "conversation"), ["conversation", "digest"], "anti").height
    tally.kept += rows.height
    tally.new += rows.join(stored, "conversation", "anti")["conversation"].to_list()
    tally.turns += int(rows["turns"].list.len().sum())
    tally.crisis += int(marks["crisis"].sum())
    tally.seekers.update(rows["seeker"].drop_nulls())
    tally.taken |= taken
    tally.languages.update(dict(marks["language"].drop_nulls().value_counts().iter_rows()))


def _facts_hash() -> pl.Expr:
    return pl.struct(FACTS).hash().alias("facts")


@dataclass(frozen=True)
class _Stored:
    """What the workspace holds before a run.

    facts      (conversation, digest, facts: a hash) of its revisions, without those of conversations that removals have
               to change: a shorter text may replace these
    removed    these conversations
    theirs     (conversation, digest) of the texts in which somebody speaks who is to be removed
    revisions  (conversation, digest) of all texts of removed conversations, and of others with several texts
    """

    facts: pl.DataFrame
    marks: pl.DataFrame
    removed: frozenset[str]
    theirs: frozenset[tuple[str, str]]
    revisions: frozenset[tuple[str, str]]

    def returned(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Gives texts that are stored, and were followed by one that removals have to change, another digest: a table
        has each digest once, and they are to follow that text."""
        if not self.revisions:
            return rows
        digests = [self._digest(*text) for text in rows.select("conversation", "digest").iter_rows()]
        return rows.with_columns(digest=pl.Series(digests, dtype=pl.String))

    def _digest(self, conversation: str, digest: str) -> str:
        while (conversation, digest) in self.revisions and (conversation, digest) not in self.theirs:
            again = tables.digest("again", digest)
            if conversation not in self.removed and (conversation, again) not in self.revisions:
                break
            digest = again
        return digest


def _stored(ws: Workspace) -> _Stored:
    removals = wishes.of_workspace(ws)
    columns = ["conversation", "digest", *(("source", "source_id", "seeker") if removals else ())]
    parts = workspace.parts(ws, tables.CONVERSATIONS, *columns, *FACTS)
    stored = pl.concat(part.select(*columns, _facts_hash()) for part in (tables.CONVERSATIONS.empty, *parts))
    theirs = stored.clear()
    if removals:
        theirs = wishes.removed(removals, wishes.standing(stored, workspace.read(ws, tables.ORIGINS)))
    newest = tables.last(stored, "conversation")
    removed = newest.join(theirs, ["conversation", "digest"], "semi")["conversation"]
    is_removed = pl.col("conversation").is_in(removed.implode())
    repeated = stored.filter(is_removed | pl.col("conversation").is_duplicated())
    texts = [frozenset(rows.select("conversation", "digest").iter_rows()) for rows in (theirs, repeated)]
    facts = stored.filter(~is_removed).select("conversation", "digest", "facts")
    return _Stored(facts, workspace.read(ws, tables.MARKS), frozenset(removed), *texts)


def _with_turns(ws: Workspace, stored: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """Adds the turns to `stored`, only for the conversations whose text has changed: no others are needed."""
    changed = rows.join(stored, ["conversation", "digest"], "anti").join(stored, "conversation", "semi")
    if changed.is_empty():
        return stored.with_columns(turns=pl.lit(None, tables.CONVERSATIONS.schema["turns"]))
    turns = [part.join(changed, "conversation", "semi") for part in workspace.parts(ws, tables.CONVERSATIONS, "turns")]
    return stored.join(pl.concat(turns), ["conversation", "digest"], "left", maintain_order="left")


# ---- reading files: parts of conversations, each with its marks, and figures


def _read(
    source: Source, paths: Sequence[Path | str], read_hf: Callable[[str], Read], progress: Progress | None
) -> tuple[Read, list[str]]:
    """(the rows and drops of all files, the files without any)."""
    if source is Source.hf:
        reads, earlier = {}, conversations.SCHEMA.to_frame()
        # files of one name count as one source, so their ids are compared, too
        for path, place in input_files.places([*map(Path, paths)]):
            reads[str(path)] = read = input_files.placed(read_hf(str(path)), place)
            stage.refuse_other_ids(read.rows, earlier.select("conversation", "digest", "turns"))
            earlier = earlier.vstack(read.rows)
    else:
        places = input_files.places(input_files.files_of(source, paths))
        reads = {
            str(path): input_files.placed(READERS[source](path), place) for path, place in counted(places, progress)
        }
    empty_files = [path for path, read in reads.items() if read.rows.is_empty() and read.drops.is_empty()]
    return sources.together(reads.values(), conversations.SCHEMA), empty_files


def _prepared(ws: Workspace, source: Source, read: Read) -> tuple[Iterable[reddit.Part], dict[str, JsonValue]]:
    """One part: what was read, with placeholders and pseudonyms and without removals; and its figures."""
    removals = wishes.of_workspace(ws)
    workspace.append(ws, tables.HONOURED, wishes.met_in(removals, read.rows, ws.secret))
    permitted, removed = wishes.without(read.rows, removals)
    catalog_rows = workspace.read(ws, tables.CATALOG_ROWS)
    titles = None if catalog_rows.is_empty() else catalog.spans(lambda: catalog.finder(catalog.merge(catalog_rows)[0]))
    leave, own = stage.AT_SIGN.get(source, ()), stage.own_titles(permitted)
    clean, counts = stage.hidden(permitted, partial(privacy.redact_all, titles=titles, leave=leave, own=own))
    rows = stage.speakers(clean, ws.secret)
    marks = language.marks(rows).with_columns(rows["replaced"])
    figures: dict[str, JsonValue] = {f"replaced_{kind}": n for kind, n in sorted(counts.items())}
    if similar := wishes.in_other_case(removals, permitted):
        remedy = "if one is the same person, add a row with this spelling, and mine again"
        figures["authors_as_in_removals_but_for_capitals"] = f"{similar}: {remedy}"
    return [(Read(rows.drop("replaced"), read.drops.vstack(removed)), marks)], {**figures, **read.figures}


def _reddit(
    ws: Workspace, paths: Sequence[Path | str], how: parallel.How
) -> tuple[Iterable[reddit.Part], dict[str, JsonValue]]:
    is_shared = (ws.config.store.url or "").startswith("postgresql")
    if how.engine == "ray" and how.address != "local" and not is_shared:
        raise UsageError(
            'mine reddit on a cluster needs [store] url = "postgresql://..." in saferec.toml: SQLite is no database'
            " for a folder that several machines share"
        )
    settings = ws.config.reddit.model_dump()
    buckets = settings.pop("buckets")
    if settings["request"]:  # who gives a pattern of their own means it for all forums
        settings["asking"] = ()
    rules = threads.Rules(**{name: value for name, value in settings.items() if value is not None})
    removals = wishes.of_workspace(ws)
    job = reddit.Job(rules, ws.secret, removals, buckets, _items(ws))
    parts, figures, seconds, met = reddit.read(input_files.files_of(Source.reddit, paths), job, ws.root / "mining", how)
    workspace.append(ws, tables.HONOURED, met)
    return parts, {"cpu_seconds": {name: round(cpu, 2) for name, cpu in seconds.items()}, **figures}


def _items(ws: Workspace) -> Path | None:
    """The merged catalog as a file that every worker can read; None without a catalog."""
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


# ---- languages and stated constraints


def _in_our_languages(
    ws: Workspace, rows: pl.DataFrame, marks: pl.DataFrame, read: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """(rows in the languages of saferec.toml, their marks, drops of the others). Rows of unknown language stay."""
    marks = marks.unique(["conversation", "digest"], keep="first", maintain_order=True)
    marks = marks.join(rows, ["conversation", "digest"], "semi", maintain_order="left")
    if not ws.config.mine.languages:
        return rows, marks, tables.DROPS.empty
    is_ours = pl.col("language").is_in(ws.config.mine.languages).fill_null(True)
    first = read.sort("place").unique(["conversation", "digest"], keep="first", maintain_order=True)  # as stage.mine
    foreign = marks.filter(~is_ours).join(first, ["conversation", "digest"], "inner")
    drops = stage.drops_of(foreign, withheld.FOREIGN, pl.col("language"))
    return rows.join(foreign, "conversation", "anti", maintain_order="left"), marks.filter(is_ours), drops


def _append_stated(ws: Workspace, rows: pl.DataFrame, read: pl.DataFrame) -> None:
    """Appends the constraints of saferec columns, as slugs, to `stated` and gold/saferec.jsonl, for evaluations."""
    with_stated = read.filter(pl.col("stated").is_not_null()).join(rows, ["conversation", "digest"], "semi")
    if with_stated.is_empty():
        return
    slugs = {trait.safecrs: trait.slug for trait in ws.taxonomy.traits}
    pairs = with_stated.select("conversation", "source", trait="stated").explode("trait").drop_nulls("trait")
    by_slug = pairs.with_columns(pl.col("trait").replace_strict(slugs, default=None, return_dtype=pl.String))
    workspace.append(ws, tables.STATED, by_slug.drop_nulls("trait").select(list(tables.STATED.columns)))
    stated = workspace.read(ws, tables.STATED).sort("conversation", "trait")
    gold = ws.root / "gold" / "saferec.jsonl"
    gold.parent.mkdir(exist_ok=True)
    with whole_files.replacing(gold) as tmp, open(tmp, "w", encoding="utf-8") as file:
        for (name,), group in stated.group_by("conversation", maintain_order=True):
            conversation = ws.released_id(str(name))  # `evaluate --gold` compares it with a release
            file.write(json.dumps({"conversation": conversation, "traits": group["trait"].to_list()}) + "\n")
