"""What a workspace holds, in counts."""

from functools import partial

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


def test_status_waits_for_people_then_for_a_ruling_before_it_names_a_release(workspace: store.Workspace) -> None:
    """Whoever had disputes was sent to release, where they are unresolved."""
    for table in (tables.TABLES[name] for name in LINE):
        store.append(workspace, table, rows(table, 1))
    step = partial(summary.next_step, workspace)
    assert step(summary.Waiting(2, 1)).startswith("2 tasks wait for people")
    assert step(summary.Waiting(0, 1)) == "1 disputes wait for a ruling: `saferec-build review push --adjudicator NAME`"
    assert "`saferec-build release" in step(summary.Waiting(0, 0))


def test_the_next_step_reads_no_table_whole_before_labels_are_there(workspace: store.Workspace, monkeypatch) -> None:
    """Every command ends with it: after 14,000 conversations that took 18 CPU seconds each."""
    for table in (tables.TABLES[name] for name in LINE[:5]):
        store.append(workspace, table, rows(table, 1))
    monkeypatch.delattr(summary, "_waiting")
    assert "`saferec-build adjudicate`" in summary.next_step(workspace)


@pytest.mark.slow
def test_status_sends_nobody_to_pull_what_people_answer_on_the_page(workspace: store.Workspace) -> None:
    """`review pull --tool page` says that there is nothing to pull."""
    for name in LINE[:4]:
        store.append(workspace, tables.TABLES[name], rows(tables.TABLES[name], 1))
    store.append(workspace, tables.SENT, rows(tables.SENT, 1).with_columns(tool=pl.lit("page")))
    assert "`saferec-build review serve`" in summary.status(workspace).next
    store.append(workspace, tables.SENT, rows(tables.SENT, 2).with_columns(tool=pl.lit("argilla")))
    assert "`saferec-build review pull`" in summary.status(workspace).next
