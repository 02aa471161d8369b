"""A frame that does not fit its table is refused."""

import polars as pl
import pytest

from saferec_builder.core.errors import StoreError
from saferec_builder.storage import schema, tables, workspace as store
from tests.worlds.any_rows import rows


def test_a_frame_that_does_not_fit_is_refused(workspace: store.Workspace) -> None:
    with pytest.raises(StoreError, match="missing \\['detail'\\]"):
        store.append(workspace, tables.DROPS, rows(tables.DROPS, 1).drop("detail"))
    with pytest.raises(StoreError, match="column detail is Int64"):
        store.append(workspace, tables.DROPS, rows(tables.DROPS, 1).with_columns(detail=pl.lit(1, pl.Int64)))
    with pytest.raises(StoreError, match=r"missing \[\], not expected \['more'\]"):
        store.append(workspace, tables.DROPS, rows(tables.DROPS, 1).with_columns(more=1))
    untyped = pl.DataFrame(schema=dict.fromkeys(reversed(tables.DROPS.columns), pl.Null))
    assert schema.check(untyped, tables.DROPS).equals(tables.DROPS.empty)  # no rows: their types are not known
    with pytest.raises(StoreError, match="null in its key"):
        store.append(workspace, tables.DROPS, rows(tables.DROPS, 1).with_columns(reason=pl.lit(None, pl.String)))


def test_ids_stay_the_same_from_version_to_version() -> None:
    """Another digest would make every conversation, review and label of a workspace a new one."""
    assert tables.digest("messages", "a1") == "3153e30b9077580c"
    assert tables.digest(["a", {"turn": 0}], None) == "7d7b6951ce380901"
    assert tables.digest("é", {"b": 1, "a": 2}) == "62073b26567bd8d6"
    assert tables.keyed_digest(b"k" * 70, "a", "b") == tables.keyed_digest(b"k" * 64, "a", "b") == "7c4efa572bddfd2b"


def test_lists_of_texts_become_columns_and_lists_again() -> None:
    given = [{"n": 1, "texts": ["a", "é"]}, {"n": None, "texts": None}, {"n": 3, "texts": []}, {"n": 4, "texts": ["b"]}]
    kinds = {"n": pl.Int32, "texts": pl.List(pl.String)}
    frame = schema.frame(given, kinds)
    assert frame.equals(pl.DataFrame(given, schema=kinds)) and frame.schema == pl.Schema(kinds)
    assert schema.lists(frame["texts"]) == [["a", "é"], [], [], ["b"]]
    assert schema.frame([], kinds).equals(pl.DataFrame(schema=kinds))
    with pytest.raises(pl.exceptions.PolarsError, match="conversion"):
        schema.frame([{"ids": ["a", "z"]}], {"ids": pl.List(pl.Enum(["a", "b"]))})
