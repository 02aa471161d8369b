"""Keeps conversation texts on disk, in the order of a release, so that memory holds only what is looked at."""

import io
import tempfile
import weakref
from contextlib import suppress
from pathlib import Path
from typing import IO

import polars as pl

from saferec_builder.storage import tables, workspace
from saferec_builder.storage.workspace import Workspace

BLOCK = 10_000  # rows that are read back together
TEXT_COLUMNS = ("turns", "recommended", "accepted", "seen")


class Spool:
    """Rows by their place, in a temporary file without a name: nothing of it remains, even if the process is killed."""

    def __init__(self, folder: Path) -> None:
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 closed with this
        weakref.finalize(self, _close, self._file)
        self._pieces: dict[int, list[tuple[int, int]]] = {}  # block -> start and length of its pieces

    def add(self, rows: pl.DataFrame) -> None:
        """Adds rows with `place`, in any order; each place from 0 on is added once."""
        for (block,), piece in _by_block(rows).items():
            buffer = io.BytesIO()
            piece.write_ipc_stream(buffer, compression="lz4", compat_level=pl.CompatLevel.oldest())
            start = self._file.seek(0, io.SEEK_END)
            self._file.write(buffer.getbuffer())
            self._pieces.setdefault(block, []).append((start, buffer.tell()))

    def rows(self, places: pl.Series, *columns: str) -> pl.DataFrame:
        """These columns (or all) of the rows at `places`, which must be ascending."""
        by_block = _by_block(places.to_frame("place"))
        return pl.concat(
            self._block(block, columns)[part["place"] - block * BLOCK] for (block,), part in by_block.items()
        )

    def turns(self, places: pl.Series) -> pl.Series:
        return self.rows(places, "turns")["turns"]

    def _block(self, block: int, columns: tuple[str, ...]) -> pl.DataFrame:
        parts = []
        for start, length in self._pieces[block]:
            self._file.seek(start)
            parts.append(pl.read_ipc_stream(self._file.read(length), columns=["place", *(columns or TEXT_COLUMNS)]))
        # two runs at once may have mined the same revision
        return pl.concat(parts).unique("place", keep="first").sort("place").drop("place")


def _close(file: IO[bytes]) -> None:
    """Closes the file; ignores that a full disk has no room for its last bytes, which nobody needs."""
    with suppress(OSError):
        file.close()


def _by_block(rows: pl.DataFrame) -> dict[tuple[int], pl.DataFrame]:
    block = (pl.col("place") // BLOCK).alias("block")
    return rows.with_columns(block).partition_by("block", include_key=False, as_dict=True, maintain_order=True)


def narrow(ws: Workspace) -> pl.DataFrame:
    """All revisions of all conversations, without TEXT_COLUMNS."""
    columns = [c for c in tables.CONVERSATIONS.columns if c not in TEXT_COLUMNS]
    return pl.concat([tables.CONVERSATIONS.empty.select(columns), *workspace.parts(ws, tables.CONVERSATIONS, *columns)])


def turns(ws: Workspace, subjects: pl.Series) -> pl.DataFrame:
    """Returns (subject, digest, turns) of all revisions of these conversations."""
    parts = [] if subjects.is_empty() else workspace.parts(ws, tables.CONVERSATIONS, "turns")
    is_subject = pl.col("conversation").is_in(subjects.implode())
    shards = (tables.CONVERSATIONS.empty, *parts)  # there may be no shard
    return pl.concat([part.filter(is_subject).select("digest", "turns", subject="conversation") for part in shards])


def refs(conversations: pl.DataFrame, *keys: str) -> pl.DataFrame:
    """Returns (keys, ref) with every ref that a conversation names, in its turns or its lists, once."""
    in_turns = pl.col("turns").list.eval(pl.element().struct.field("items").list.explode(empty_as_null=True))
    lists = [conversations.select(*keys, ref=column) for column in (in_turns, "recommended", "accepted", "seen")]
    return pl.concat(lists).explode("ref").drop_nulls().unique(maintain_order=True)
