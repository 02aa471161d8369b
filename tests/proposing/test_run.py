"""`propose` from Python: counts and spending come back, nothing is printed, and an empty workspace names what to do."""

from typing import Any

import pytest

from saferec_builder.core.errors import UsageError
from saferec_builder.proposing import evaluation, workers as shards
from saferec_builder.proposing.run import propose
from saferec_builder.storage import parallel, tables, workspace as store
from tests.servers.llm_stub import Stub
from tests.worlds.bars import Bar, drawn
from tests.worlds.model_replies import TEXTS, fill, options, price, speaks


def priced(workspace: store.Workspace, stub: Stub) -> store.Workspace:
    """Three texts, and a model whose tokens have a price."""
    fill(workspace, *TEXTS)
    options(workspace, f'base_url = "{stub.url}"')
    price(workspace, "small")
    stub.usual = speaks
    return store.Workspace.open(workspace.root)


def test_counts_and_spending_come_back_and_nothing_is_printed(workspace, stub, capfd) -> None:
    ws, bars = priced(workspace, stub), list[Bar]()
    planned = propose(ws, "openai:small", dry_run=True)
    assert (planned.counts.dropped, planned.spent, stub.asked) == ({"dry run": 3}, 0.0, [])
    made = propose(ws, "openai:small", samples=2, progress=drawn(bars))
    # three texts, and the one with a maybe twice more: (7 x 10 + 3 x 100) USD per million tokens each
    assert (made.counts.added, made.unit, made.spent) == (4, "readings", pytest.approx(5 * 370 / 1e6))
    assert [(bar.total, bar.done) for bar in bars] == [(3, 3), (2, 2)]
    assert propose(ws, "openai:small").spent == 0 and propose(ws).unit == "conversations"
    assert capfd.readouterr() == ("", "")


def test_an_empty_workspace_names_what_to_do_first(workspace: store.Workspace) -> None:
    for items, first in ((False, "saferec-build mine"), (True, "saferec-build catalog add")):
        with pytest.raises(UsageError, match=first):
            propose(workspace, items=items)
    with pytest.raises(UsageError, match="saferec-build mine"):
        evaluation.score(workspace)


def test_a_shard_that_is_read_here_is_billed_once(workspace: store.Workspace, stub: Stub, monkeypatch) -> None:
    monkeypatch.setattr(shards, "plan", lambda *_: shards.How(parallel.How("local", 1), 2))
    ws = priced(workspace, stub)
    made: Any = propose(ws, "openai:small")
    assert made.counts.figures["usd"] == pytest.approx(made.spent) == pytest.approx(3 * 370 / 1e6)
    assert store.read(ws, tables.SPEND)["usd"].sum() == pytest.approx(made.spent)
