"""A frame that does not fit its table is refused."""

import polars as pl
import pytest

from saferec_builder.core.errors import StoreError
from saferec_builder.storage import tables, workspace as store
from tests.worlds.any_rows import rows


def test_a_frame_that_does_not_fit_is_refused(workspace: store.Workspace) -> None:
    with pytest.raises(StoreError, match="missing \\['detail'\\]"):
        store.append(workspace, tables.DROPS, rows(tables.DROPS, 1).drop("detail"))
    with pytest.raises(StoreError, match="column detail is Int64"):
        store.append(workspace, tables.DROPS, rows(tables.DROPS, 1).with_columns(detail=pl.lit(1, pl.Int64)))
    with pytest.raises(StoreError, match="null in its key"):
        store.append(workspace, tables.DROPS, rows(tables.DROPS, 1).with_columns(reason=pl.lit(None, pl.String)))


def test_ids_stay_the_same_from_version_to_version() -> None:
    """Another digest would make every conversation, review and label of a workspace a new one."""
    assert tables.digest("messages", "a1") == "3153e30b9077580c"
    assert tables.digest(["a", {"turn": 0}], None) == "7d7b6951ce380901"
