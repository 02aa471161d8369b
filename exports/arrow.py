"""Builds Arrow list columns from flat values and list lengths; no row becomes a Python object on the way.

The text of a source that keeps it is not shown: such a list is empty, so that its length tells nothing.
"""

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Lengths = NDArray[np.int64]


def listed(lengths: Lengths, values: pa.Array) -> pa.Array:
    """One list per row of an arrow array's values."""
    return pa.ListArray.from_arrays(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32), values)


def flat(lists: pl.Series) -> tuple[Lengths, pl.Series]:
    """(how many each row has, all of them)."""
    lengths = lists.list.len().fill_null(0).to_numpy().astype(np.int64)
    return lengths, lists.explode(empty_as_null=False, keep_nulls=False)


def plain(series: pl.Series, kind: pa.DataType) -> pa.Array:
    """The series as one arrow array of this type."""
    made = series.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(kind)
    return made.combine_chunks() if isinstance(made, pa.ChunkedArray) else made


def structs(kind: pa.DataType, *fields: pa.Array) -> pa.Array:
    """An array of structs of this type from one array per field."""
    return pa.StructArray.from_arrays(fields, fields=[kind.field(n) for n in range(kind.num_fields)])


class Names:
    """The catalog as arrow arrays: names[n] is "Title (Year)" of ids[n], on one line whatever the source wrote."""

    def __init__(self, items: pl.DataFrame) -> None:
        title = pl.col("title").str.replace_all(r"\s+", " ").str.strip_chars()
        year = pl.col("year").cast(pl.String)
        named = title + pl.when(year.is_null()).then(pl.lit("")).otherwise(" (" + year + ")")
        rows = items.sort("item").select("item", name=named, title=title, year=year.fill_null(""))
        self.kind = pl.Enum(rows["item"])
        self.ids, self.names, self.titles, self.years = (plain(column, pa.string()) for column in rows)

    def codes(self, lists: pl.Series) -> tuple[Lengths, NDArray[np.int64]]:
        """(how many each row has, the place in the catalog of each)."""
        lengths, ids = flat(lists)
        return lengths, ids.cast(self.kind).to_physical().to_numpy().astype(np.int64)

    def items(self, lists: pl.Series) -> pa.Array:
        lengths, codes = self.codes(lists)
        return listed(lengths, self.ids.take(codes))

    def seen(self, lists: pl.Series) -> pa.Array:
        lengths, codes = self.codes(lists)
        return listed(lengths, self.titles.take(codes))

    def pairs(self, lists: pl.Series) -> pa.Array:
        """[[title, year], ...] per list of ids, both as text: the official form. A year that nobody knows is empty."""
        lengths, codes = self.codes(lists)
        both = pa.concat_arrays([self.titles.take(codes), self.years.take(codes)])
        turned = both.take(np.arange(2 * len(codes)).reshape(2, -1).T.ravel())
        return listed(lengths, listed(np.full(len(codes), 2), turned))

    def lines(self, lists: pl.Series) -> pa.Array:
        """One text per list of ids, "1. Title (Year)\\n2. Title (Year)"."""
        lengths, codes = self.codes(lists)
        place = np.arange(len(codes)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        numbers = pa.array([str(n + 1) for n in range(int(lengths.max(initial=0)))], pa.string())
        numbered = pc.binary_join_element_wise(numbers.take(place), self.names.take(codes), ". ")
        return pc.binary_join(listed(lengths, numbered), "\n")


# ---- what was said


def turns(said: pl.Series, shown: pl.Series, kind: pa.DataType) -> pa.Array:
    """Role and text of every turn, as lists of structs of this type."""
    lengths, each = flat(said)
    spoken = structs(kind, *(plain(each.struct.field(name), pa.string()) for name in ("role", "text")))
    visible = shown.to_numpy()
    if not visible.all():
        spoken = spoken.filter(pa.array(np.repeat(visible, lengths)))
    return listed(lengths * visible, spoken)


def prompts(
    said: pl.Series, cuts: pl.Series, shown: pl.Series, kind: pa.DataType, added: pl.Series, disclosed: pl.Series
) -> pa.Array:
    """The turns before each cut as chat messages that end with the user: chat templates want roles to take turns.

    Neighbours of one role become one message; nothing is added but a line break between them, and the sentence in
    `added` to the last message, or to the user's first where `disclosed` says so. Empty where the text is not `shown`.
    """
    row, asks, contents = _messages(said, cuts.fill_null(0) * shown.cast(cuts.dtype))
    early = disclosed.eq_missing("first").to_numpy()[row]
    there = pa.array(np.where(early, _first(row, asks), _last(row)))
    ours = plain(added, pa.string()).take(row)
    longer = pc.binary_join_element_wise(contents, ours, " ", null_handling="skip")
    roles = pc.if_else(pa.array(asks), "user", "assistant")
    each = structs(kind, roles, pc.if_else(there, longer, contents))
    return listed(np.bincount(row, minlength=len(said)), each)


def _messages(said: pl.Series, cuts: pl.Series) -> tuple[NDArray[np.int64], NDArray[np.bool_], pa.Array]:
    """(row, whether it is the user's, content) of each, without what stands behind the user's last."""
    before = pl.DataFrame({"said": said, "cut": cuts}).select(pl.col("said").list.head("cut"))
    lengths, turn = flat(before.to_series())
    texts = turn.struct.field("text").str.strip_chars()
    full = (texts != "").to_numpy()
    row = np.repeat(np.arange(len(said)), lengths)[full]
    asks = (turn.struct.field("role") == "seeker").to_numpy()[full]
    first = np.append(True, (row[1:] != row[:-1]) | (asks[1:] != asks[:-1]))[: len(row)]
    starts = np.flatnonzero(first)
    joined = listed(np.diff(np.append(starts, len(row))), plain(texts.filter(pl.Series(full)), pa.string()))
    kept = asks[starts] | ~_last(row[starts])
    return row[starts][kept], asks[starts][kept], pc.binary_join(joined, "\n").filter(pa.array(kept))


def _first(row: NDArray[np.int64], asks: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The user's first message of each row."""
    theirs = np.flatnonzero(asks)
    _, first = np.unique(row[theirs], return_index=True)
    return np.isin(np.arange(len(row)), theirs[first])


def _last(row: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Where the next value belongs to another row."""
    return np.append(row[1:] != row[:-1], True)[: len(row)]
