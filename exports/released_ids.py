"""Names conversations in a release, and writes the key file that maps these names back to the source.

A released id is a keyed digest: without the workspace's `.secret` nobody can compute it from the source's own ids. The
key file `releases/VERSION.key.parquet` (KEY) is never published. For sources that keep their texts it also holds what
would identify a conversation there. Its schema metadata names the release that it belongs to.
"""

import io
import json
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq

from exports.folder import MANIFEST
from exports.formats import ITEMS, NAMED, Content, pseudonyms
from saferec_builder import sources
from saferec_builder.core.errors import ReleaseError, SourceError, strict_json
from saferec_builder.storage.schema import SPAN
from saferec_builder.storage.whole_files import write_private

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
    "domain": pl.String,
    "seeker": pl.String,  # pseudonym of this dataset
    "time": pl.String,  # to the second
    "cut": pl.Int32,
    "cuts": pl.List(pl.Int32),  # of the conversation's further requests
    "numbers": pl.List(pl.Int32),  # of these requests: one that could not be released leaves a gap
    **_EVIDENCE,  # with empty quotes
    **{name: _ITEMS[name] for name in NAMED},
    "lists": _LISTS,  # one per request of the conversation, named as in `grpo`
}


def renamed(rows: pl.DataFrame) -> pl.DataFrame:
    """Returns the rows with the released id in `conversation` and the workspace's id in `subject`.

    The further request n of a conversation is named `ID-n`. `made_from` is the released id of the conversation,
    `request` the name of the row; `added` and `disclosed` are null, as no sentence of ours is in these rows.
    """
    request = pl.when(pl.col("further") > 0).then(pl.format("{}-{}", "released", "further")).otherwise("released")
    nulls = dict.fromkeys(("added", "disclosed"), pl.lit(None, pl.String))
    named = rows.with_columns(made_from="released", request=request, released=request, **nulls)
    return named.rename({"conversation": "subject", "released": "conversation"})


def path_of(folder: Path) -> Path:
    """Returns the path of the key file of the release in this folder: it lies beside the folder."""
    return folder.with_name(f"{folder.name}.key.parquet")


def write(folder: Path, content: Content, starts: Starts) -> None:
    """Writes the key file of this release, readable by its owner only."""
    silent_places = content.rows.filter(pl.col("source").is_in(list(content.silent)))["place"]
    rows = content.rows.select(
        *("place", "conversation", "subject", "source", "source_id", "digest", "domain", "cut"),
        seeker=pseudonyms(content.name, content.rows["seeker"]),
        time=pl.col("time").dt.strftime("%Y-%m-%dT%H:%M:%SZ"),
    )
    further = content.more.filter(pl.col("further") > 0, pl.col("added").is_null()).sort("place", "further")
    cuts = further.group_by("place", maintain_order=True).agg(cuts="cut", numbers="further")
    rows = rows.join(cuts, on="place", how="left", maintain_order="left")
    for name, frame in (("labels", content.labels), ("reviews", content.reviews)):
        rows = rows.join(_evidence(frame, name, silent_places), on="place", how="left", maintain_order="left")
    rows = rows.join(_items(content, silent_places), on="place", how="left", maintain_order="left")
    table = rows.select(list(KEY)).to_arrow(compat_level=pl.CompatLevel.oldest())
    split_starts = json.dumps([start.isoformat() if start else None for start in starts])
    metadata = {"split_starts": split_starts, "release": f"{content.name} {folder.name}"}
    buffer = io.BytesIO()
    pq.write_table(table.replace_schema_metadata(metadata), buffer, compression="zstd")
    write_private(path_of(folder), buffer.getvalue())


def _evidence(frame: pl.DataFrame, name: str, silent_places: pl.Series) -> pl.DataFrame:
    """Returns place -> evidence (column `name`) of the conversations whose text stays with the source."""
    without_quotes = pl.col("spans").list.eval(pl.element().struct.with_fields(quote=pl.lit("")))
    fields = ("trait", "spans") if name == "labels" else ("trait", "reviewer", "role", "spans")
    rows = frame.filter(pl.col("place").is_in(silent_places.implode())).with_columns(spans=without_quotes)
    return rows.group_by("place", maintain_order=True).agg(pl.struct(fields).alias(name))


def _items(content: Content, silent_places: pl.Series) -> pl.DataFrame:
    """Returns place -> the items of a conversation and of each of its requests, if its text stays with the source."""
    columns = [pl.col("place"), pl.col("conversation").alias("row"), *(pl.col(n).cast(k) for n, k in _ITEMS.items())]
    rows = pl.concat([content.rows.select(columns), content.more.select(columns)])
    grouped = rows.filter(pl.col("place").is_in(silent_places.implode())).group_by("place", maintain_order=True)
    return grouped.agg(pl.first(*NAMED), lists=pl.struct("row", *ITEMS))


def read(path: Path, of: str | None = None) -> pl.DataFrame:
    """Returns the KEY columns of a key file; raises ReleaseError if it is none, or names another release than `of`, a
    `NAME VERSION` (a key file of an older program names none)."""
    try:
        rows = pl.read_parquet(sources.bounded_parquet(path), glob=False)
        release = (pq.read_schema(path).metadata or {}).get(b"release", b"").decode("utf-8", "replace")
        if of and release not in ("", of):
            raise ReleaseError(
                f"{path}: the key file of {release}, expected that of {of}: give its own VERSION.key.parquet"
            )
        missing = {"cuts", "numbers", "domain", "seeker", *NAMED, "lists"} - {*rows.columns}  # of an earlier version
        rows = rows.with_columns(pl.lit(None).alias(name) for name in missing)
        rows = rows.select(pl.col(name).cast(kind) for name, kind in KEY.items())
        if any(rows[name].drop_nulls().is_duplicated().any() for name in ("conversation", "subject")):
            raise ReleaseError(f"{path}: not a key file (a conversation comes twice): ask for it again")
        return rows
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException, SourceError) as fault:
        raise ReleaseError(
            f"{path}: not a key file ({str(fault).splitlines()[0]}): give the file VERSION.key.parquet that whoever"
            " published the release keeps beside it"
        ) from None


def erase(path: Path, names: list[str], revisions: list[tuple[str, str]]) -> None:
    """Deletes rows from a key file: conversations of the workspace and seekers of the release by `names`, and these
    revisions (conversation, digest). No split starts at their second any more. Raises ReleaseError if the file is no
    key file."""
    is_revision = (pl.col("subject") + pl.col("digest")).is_in([name + digest for name, digest in revisions])
    is_erased = pl.any_horizontal(pl.col("subject", "seeker").is_in(names), is_revision).fill_null(False)
    rows = read(path)
    erased = rows.select(theirs=is_erased)["theirs"]
    table = pq.read_table(path)
    metadata, times = {**(table.schema.metadata or {})}, rows.filter(~erased)["time"].drop_nulls()
    with suppress(KeyError, TypeError, ValueError, RecursionError):  # `starts` reports these
        texts = strict_json(metadata[b"split_starts"])
        metadata[b"split_starts"] = json.dumps([text and _remaining_start(text, times) for text in texts]).encode()
    if erased.any() or metadata != table.schema.metadata:
        buffer = io.BytesIO()
        rest = table.filter((~erased).to_arrow()).replace_schema_metadata(metadata)
        pq.write_table(rest, buffer, compression="zstd")
        write_private(path, buffer.getvalue())


def _remaining_start(text: str, times: pl.Series) -> str:
    """Returns the start of a split. If none of these times is in that second, it was that of somebody who was erased:
    then the next of them, or the next midnight, so that nobody changes the split. A day may stay, as manifests have it.
    """
    start = datetime.fromisoformat(text)
    second, midnight = f"{start:%Y-%m-%dT%H:%M:%SZ}", f"{start + timedelta(days=1):%Y-%m-%dT00:00:00Z}"
    later = str(times.filter(times >= second).min() or midnight)
    return text if later == second or second.endswith("T00:00:00Z") else later


def starts(folder: Path, stated: list[str | None]) -> Starts:
    """Returns the first instants of validation and test: from the key file, else the days that the manifest states."""
    path, kind, remedy = path_of(folder), "key file", "put your copy of it back, or move it away"
    try:
        if path.exists():
            stated = strict_json((pq.read_schema(path).metadata or {})[b"split_starts"])
        else:
            path, kind, remedy = folder / MANIFEST, "manifest", "put your copy of the release back, or give --resplit"
        first, second = (datetime.fromisoformat(text) if text else None for text in stated)
    except (OSError, KeyError, TypeError, ValueError, RecursionError):
        raise ReleaseError(f"{path}: not a {kind} (no two days or times where its splits start): {remedy}") from None
    return _utc(first), _utc(second)


def _utc(time: datetime | None) -> datetime | None:
    return time.replace(tzinfo=UTC) if time and time.tzinfo is None else time
