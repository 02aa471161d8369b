"""Builds Arrow list columns from flat values and list lengths, without a Python object per row.

Texts of sources that keep them are not shown: their lists are empty, so that the length discloses nothing.
"""

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Lengths = NDArray[np.int64]


def listed(lengths: Lengths, values: pa.Array) -> pa.Array:
    """Returns one list per row, with consecutive values of an arrow array."""
    return pa.ListArray.from_arrays(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32), values)


def flat(lists: pl.Series) -> tuple[Lengths, pl.Series]:
    """Returns (length of each list, all values)."""
    lengths = lists.list.len().fill_null(0).to_numpy().astype(np.int64)
    return lengths, lists.explode(empty_as_null=False, keep_nulls=False)


def plain(series: pl.Series, kind: pa.DataType) -> pa.Array:
    """Returns the series as one arrow array of this type."""
    array = series.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(kind)
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def structs(kind: pa.DataType, *fields: pa.Array) -> pa.Array:
    """Returns an array of structs of this type from one array per field."""
    return pa.StructArray.from_arrays(fields, fields=[kind.field(n) for n in range(kind.num_fields)])


class Names:
    """The catalog as arrow arrays: names[n] is "Title (Year)" of ids[n], always on one line, and pairs[n] is
    [title, year], both as text: the official form. An unknown year is empty."""

    def __init__(self, items: pl.DataFrame) -> None:
        title = pl.col("title").str.replace_all(r"\s+", " ").str.strip_chars()
        year = pl.col("year").cast(pl.String)
        name = title + pl.when(year.is_null()).then(pl.lit("")).otherwise(" (" + year + ")")
        rows = items.sort("item").select("item", name=name, title=title, year=year.fill_null(""))
        self.kind = pl.Enum(rows["item"])
        self.ids, self.names, self.titles, years = (plain(column, pa.string()) for column in rows)
        alternating = np.arange(2 * rows.height).reshape(2, -1).T.ravel()
        self.pairs = listed(np.full(rows.height, 2), pa.concat_arrays([self.titles, years]).take(alternating))

    def _codes(self, lists: pl.Series) -> tuple[Lengths, NDArray[np.int64]]:
        """Returns (length of each list, place in the catalog of each item)."""
        lengths, ids = flat(lists)
        return lengths, ids.cast(self.kind).to_physical().to_numpy().astype(np.int64)

    def lists(self, ids: pl.Series, of: pa.Array) -> pa.Array:
        """Returns the lists of ids with what `of`, one of the arrays, has in their place."""
        lengths, codes = self._codes(ids)
        return listed(lengths, of.take(codes))

    def lines(self, lists: pl.Series) -> pa.Array:
        """Returns one text per list of ids, "1. Title (Year)\\n2. Title (Year)"."""
        lengths, codes = self._codes(lists)
        place = np.arange(len(codes)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        numbers = pa.array([str(n + 1) for n in range(int(lengths.max(initial=0)))], pa.string())
        numbered = pc.binary_join_element_wise(numbers.take(place), self.names.take(codes), ". ")
        return pc.binary_join(listed(lengths, numbered), "\n")


def turns(turns: pl.Series, shown: pl.Series, kind: pa.DataType) -> pa.Array:
    """Returns role and text of every turn, as lists of structs of this type."""
    lengths, turn = flat(turns)
    values = structs(kind, *(plain(turn.struct.field(name), pa.string()) for name in ("role", "text")))
    visible = shown.to_numpy()
    if not visible.all():
        values = values.filter(pa.array(np.repeat(visible, lengths)))
    return listed(lengths * visible, values)


def prompts(
    turns: pl.Series, cuts: pl.Series, shown: pl.Series, kind: pa.DataType, added: pl.Series, disclosed: pl.Series
) -> pa.Array:
    """Returns the turns before each cut as chat messages that end with the user.

    Consecutive turns of one role are one message, joined by line breaks, as chat templates require. `added` is appended
    to the last message, or to the user's first if `disclosed` says so. Rows whose text is not `shown` are empty.
    """
    turn, row, user = pl.col("turn").struct, pl.col("row"), pl.col("user")
    cuts = cuts.fill_null(0) * shown.cast(cuts.dtype)
    rows = pl.DataFrame({"turn": turns, "cut": cuts, "added": added, "disclosed": disclosed}).with_row_index("row")
    heads = rows.with_columns(pl.col("turn").list.head("cut"))
    said = heads.explode("turn", empty_as_null=False, keep_nulls=False)
    said = said.with_columns(user=turn.field("role") == "seeker", text=turn.field("text").str.strip_chars())
    said = said.filter(pl.col("text") != "").with_columns(message=pl.struct("row", "user").rle_id())
    messages = said.group_by("message", maintain_order=True).agg(
        pl.first("row", "user", "added", "disclosed"), content=pl.col("text").str.join("\n")
    )
    messages = messages.filter(user | ~row.is_last_distinct())
    is_first = user & (user.cum_sum().over("row") == 1)
    is_target = pl.when(pl.col("disclosed").eq_missing("first")).then(is_first).otherwise(row.is_last_distinct())
    sentence = pl.when(is_target).then(" " + pl.col("added")).fill_null("")
    roles = messages.select(pl.when(user).then(pl.lit("user")).otherwise(pl.lit("assistant"))).to_series()
    contents = messages.select(pl.col("content") + sentence).to_series()
    values = structs(kind, plain(roles, pa.string()), plain(contents, pa.string()))
    return listed(np.bincount(messages["row"].to_numpy(), minlength=len(turns)), values)
