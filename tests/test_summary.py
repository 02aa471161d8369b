"""What a workspace holds, in counts."""

import polars as pl
import pytest

from saferec_builder import summary
from saferec_builder.storage import tables, workspace as store
from tests.worlds.any_rows import rows


def test_status_counts_rows_and_what_models_were_paid(workspace: store.Workspace) -> None:
    store.append(workspace, tables.DROPS, rows(tables.DROPS, 1, 2, 3))
    store.append(workspace, tables.SPEND, rows(tables.SPEND, 1, 2))
    found = summary.status(workspace)
    assert (found.rows["drops"], found.rows["spend"], found.rows["labels"], found.releases) == (3, 2, 0, [])
    assert found.spent["requests"].sum() == store.read(workspace, tables.SPEND)["requests"].sum()


LINE = ("catalog_rows", "conversations", "readings", "assignments", "reviews", "labels")  # in the order of the data


@pytest.mark.parametrize(
    ("there", "names"),
    [
        (0, "catalog add"),
        (1, "mine"),
        (2, "propose"),
        (3, "review push"),
        (4, "review pull"),
        (5, "adjudicate"),
    ],
)
def test_status_names_the_first_step_that_has_nothing_to_show(workspace, cli, there: int, names: str) -> None:
    for table in (tables.TABLES[name] for name in LINE[:there]):
        store.append(workspace, table, rows(table, 1))
    assert f"`saferec-build {names}`" in summary.status(workspace).next
    shown = cli("status", "-C", workspace.root).out.splitlines()
    assert shown[-1].startswith("next: ") and len(shown) == there + 1  # empty tables are not listed


def test_status_waits_for_people_before_it_names_a_release() -> None:
    there = dict.fromkeys(LINE, 1)
    assert summary._next(there, 2, []).startswith("2 tasks wait for people")
    assert "`saferec-build release" in summary._next(there, 0, [])


def test_status_sends_nobody_to_pull_what_people_answer_on_the_page(workspace: store.Workspace) -> None:
    """`review pull --tool page` says that there is nothing to pull."""
    for name in LINE[:4]:
        store.append(workspace, tables.TABLES[name], rows(tables.TABLES[name], 1))
    store.append(workspace, tables.SENT, rows(tables.SENT, 1).with_columns(tool=pl.lit("page")))
    assert "`saferec-build review serve`" in summary.status(workspace).next
    store.append(workspace, tables.SENT, rows(tables.SENT, 2).with_columns(tool=pl.lit("argilla")))
    assert "`saferec-build review pull`" in summary.status(workspace).next
