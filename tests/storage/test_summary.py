"""What a workspace holds, in counts."""

from saferec_builder.storage import summary, tables, workspace as store
from tests.worlds.any_rows import rows


def test_status_counts_rows_and_what_models_were_paid(workspace: store.Workspace) -> None:
    store.append(workspace, tables.DROPS, rows(tables.DROPS, 1, 2, 3))
    store.append(workspace, tables.SPEND, rows(tables.SPEND, 1, 2))
    found = summary.status(workspace)
    assert (found.rows["drops"], found.rows["spend"], found.rows["labels"], found.releases) == (3, 2, 0, [])
    assert found.spent["requests"].sum() == store.read(workspace, tables.SPEND)["requests"].sum()
