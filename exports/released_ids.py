"""Names of conversations in a release, and the key file that leads them back to their source.

A released id is a keyed digest: without the workspace's `.secret` nobody can compute it from the source's own ids. The
key file `releases/VERSION.key.parquet` has one row a conversation. Of sources that keep their texts it also holds what
would find a conversation in the source again: day, seeker, digest, cut, items, and where evidence stands. It is
published with nothing, and its schema says of which release it is.
"""

import io
import json
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from exports.formats import ITEMS, NAMED, Content, pseudonyms
from saferec_builder import sources
from saferec_builder.core.errors import ReleaseError, SourceError, strict_json
from saferec_builder.storage.schema import SPAN, keyed_digest
from saferec_builder.storage.whole_files import write_private
from saferec_builder.storage.workspace import Workspace

Starts = tuple[datetime | None, datetime | None]

_EVIDENCE: dict[str, pl.DataType | type[pl.DataType]] = {
    "labels": pl.List(pl.Struct({"trait": pl.String, "spans": pl.List(SPAN)})),
    "reviews": pl.List(
        pl.Struct({"trait": pl.String, "reviewer": pl.String, "role": pl.String, "spans": pl.List(SPAN)})
    ),
}
_ITEMS: dict[str, pl.DataType | type[pl.DataType]] = dict.fromkeys((*ITEMS, *NAMED), pl.List(pl.String))
_ITEMS |= dict.fromkeys(("safe_refilled", "raw_refilled"), pl.Int32)
_LISTS = pl.List(pl.Struct({"row": pl.String} | {name: _ITEMS[name] for name in ITEMS}))
KEY: dict[str, pl.DataType | type[pl.DataType]] = {
    "conversation": pl.String,  # as released
    "subject": pl.String,  # in the workspace: hash(source, source id)
    "source": pl.String,
    "source_id": pl.String,
    "digest": pl.String,  # of the text that was judged
    "seeker": pl.String,  # pseudonym of this dataset
    "time": pl.String,  # to the second
    "cut": pl.Int32,
    "cuts": pl.List(pl.Int32),  # of its further requests
    "numbers": pl.List(pl.Int32),  # theirs: one that no release could hold leaves a gap
    **_EVIDENCE,  # quotes are empty
    **{name: _ITEMS[name] for name in NAMED},
    "lists": _LISTS,  # of each of its requests, named as in `grpo`
}


def released(ws: Workspace, dataset: str, conversation: str) -> str:
    """Of a conversation of the workspace, in every version of the dataset of this name."""
    return keyed_digest(ws.secret, "released", dataset, conversation)


def renamed(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows with `conversation` as released, and `subject` for its id in the workspace.

    A further request n of a conversation is `ID-n`; `made_from` is the conversation, `request` the row itself, with no
    sentence of ours `added`.
    """
    name = pl.when(pl.col("further") > 0).then(pl.format("{}-{}", "released", "further")).otherwise("released")
    none = dict.fromkeys(("added", "disclosed"), pl.lit(None, pl.String))
    named = rows.with_columns(made_from="released", request=name, released=name, **none)
    return named.rename({"conversation": "subject", "released": "conversation"})


def path_of(home: Path) -> Path:
    """Where the key file of the release in this folder lies: beside it."""
    return home.with_name(f"{home.name}.key.parquet")


# ---- write and read


def write(home: Path, content: Content, starts: Starts) -> Path:
    """Writes the key file of this release, readable by its owner only."""
    quiet = content.rows.filter(pl.col("source").is_in(list(content.silent)))["place"]
    rows = content.rows.select(
        *("place", "conversation", "subject", "source", "source_id", "digest", "cut"),
        seeker=pseudonyms(content.name, content.rows["seeker"]),
        time=pl.col("time").dt.strftime("%Y-%m-%dT%H:%M:%SZ"),
    )
    further = content.more.filter(pl.col("further") > 0, pl.col("added").is_null()).sort("place", "further")
    cuts = further.group_by("place", maintain_order=True).agg(cuts="cut", numbers="further")
    rows = rows.join(cuts, on="place", how="left", maintain_order="left")
    for name, frame in (("labels", content.labels), ("reviews", content.reviews)):
        rows = rows.join(_evidence(frame, name, quiet), on="place", how="left", maintain_order="left")
    rows = rows.join(_items(content, quiet), on="place", how="left", maintain_order="left")
    table = rows.select(list(KEY)).to_arrow(compat_level=pl.CompatLevel.oldest())
    exact = json.dumps([start.isoformat() if start else None for start in starts])
    about = {"split_starts": exact, "release": f"{content.name} {home.name}"}
    buffer = io.BytesIO()
    pq.write_table(table.replace_schema_metadata(about), buffer, compression="zstd")
    write_private(path_of(home), buffer.getvalue())
    return path_of(home)


def _evidence(frame: pl.DataFrame, name: str, quiet: pl.Series) -> pl.DataFrame:
    """place -> its evidence, of conversations whose text stays with the source."""
    bare = pl.col("spans").list.eval(pl.element().struct.with_fields(quote=pl.lit("")))
    fields = ("trait", "spans") if name == "labels" else ("trait", "reviewer", "role", "spans")
    silent = frame.filter(pl.col("place").is_in(quiet.implode())).with_columns(spans=bare)
    return silent.group_by("place", maintain_order=True).agg(pl.struct(fields).alias(name))


def _items(content: Content, quiet: pl.Series) -> pl.DataFrame:
    """place -> the items of its conversation and of each of its requests, where its text stays with the source."""
    every = [frame for frame in (content.rows, content.more) if frame.width]
    rows = pl.concat(frame.select("place", *_ITEMS, row="conversation").cast(pl.Schema(_ITEMS)) for frame in every)
    quiet_ones = rows.filter(pl.col("place").is_in(quiet.implode())).group_by("place", maintain_order=True)
    return quiet_ones.agg(pl.first(*NAMED), lists=pl.struct("row", *ITEMS))


def read(path: Path, of: str | None = None) -> pl.DataFrame:
    """KEY of a key file; ReleaseError where it is none, or says that it is of another release than this `NAME VERSION`
    (one of an older program says nothing)."""
    try:
        found = pl.read_parquet(sources.bounded_parquet(path), glob=False)
        said = (pq.read_schema(path).metadata or {}).get(b"release", b"").decode("utf-8", "replace")
        if of and said not in ("", of):
            raise ReleaseError(
                f"{path}: the key file of {said}, expected that of {of}: give its own VERSION.key.parquet"
            )
        missing = {"cuts", "numbers", "seeker", *NAMED, "lists"} - {*found.columns}  # of an earlier version
        found = found.with_columns(pl.lit(None).alias(name) for name in missing)
        return found.select(pl.col(name).cast(kind) for name, kind in KEY.items())
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException, SourceError) as fault:
        raise ReleaseError(
            f"{path}: not a key file ({str(fault).splitlines()[0]}): give the file VERSION.key.parquet that whoever"
            " published the release keeps beside it"
        ) from None


def erase(path: Path, names: list[str], revisions: list[tuple[str, str]]) -> None:
    """The key file without these conversations of the workspace and these seekers of the release, and without these
    revisions (conversation, digest). ReleaseError where it is none."""
    pairs = (pl.col("subject") + pl.col("digest")).is_in([one + digest for one, digest in revisions])
    theirs = pl.any_horizontal(pl.col("subject", "seeker").is_in(names), pairs).fill_null(False)
    gone = read(path).select(theirs=theirs)["theirs"]
    if gone.any():
        buffer = io.BytesIO()
        pq.write_table(pq.read_table(path).filter((~gone).to_arrow()), buffer, compression="zstd")
        write_private(path, buffer.getvalue())


def starts(home: Path, stated: list[str | None]) -> Starts:
    """The first instants of validation and test: exact from the key file, else the days that the manifest names."""
    path = path_of(home)
    if path.exists():
        try:
            stated = strict_json((pq.read_schema(path).metadata or {})[b"split_starts"])
        except (OSError, pa.ArrowInvalid, KeyError, ValueError):
            raise ReleaseError(f"{path}: not a key file: put your copy of it back, or move it away") from None
    first, second = (datetime.fromisoformat(text) if text else None for text in stated)
    return _utc(first), _utc(second)


def _utc(time: datetime | None) -> datetime | None:
    return time.replace(tzinfo=UTC) if time and time.tzinfo is None else time
