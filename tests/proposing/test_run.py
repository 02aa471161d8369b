"""`propose` from Python: counts and spending are returned, nothing is printed, an empty workspace names what to do."""

import pytest

from saferec_builder.core.counts import Counts
from saferec_builder.core.errors import UsageError
from saferec_builder.proposing import evaluation
from saferec_builder.proposing.run import ProposeResult, propose
from saferec_builder.storage import workspace as store
from tests.worlds.bars import Bar, drawn
from tests.worlds.model_replies import TEXTS, fill, options, price, speaks


def test_counts_and_spending_come_back_and_nothing_is_printed(workspace, stub, capfd) -> None:
    fill(workspace, *TEXTS)
    options(workspace, f'base_url = "{stub.url}"')
    price(workspace, "small")
    stub.usual = speaks
    ws, bars = store.Workspace.open(workspace.root), list[Bar]()
    planned = propose(ws, "openai:small", dry_run=True)
    assert (planned.counts.dropped, planned.spent, stub.asked) == ({}, 0.0, [])
    assert planned.counts.figures["texts_to_read"] == 3
    result = propose(ws, "openai:small,openai:large", progress=lambda name, unit: drawn(bars))
    # three texts, (7 x 10 + 3 x 100) USD per million tokens each; `large` reads the one with a maybe, and has no price
    assert (result.counts.added, result.unit, result.spent) == (4, "readings", pytest.approx(3 * 370 / 1e6))
    requests = len(stub.asked)
    empty = propose(ws, "openai:new", limit=0, progress=None).counts
    assert (empty.came, empty.figures["not_read_yet"], len(stub.asked)) == (0, 3, requests)  # and sends no request
    assert [(bar.total, bar.done) for bar in bars] == [(3, 3), (1, 1)]
    assert propose(ws, "openai:small").spent == 0 and propose(ws).unit == "conversations"
    assert capfd.readouterr() == ("", "")


def test_a_run_that_ended_early_says_how_it_goes_on(workspace, stub, cli) -> None:
    """The next step was to hand out review tasks, while most of the texts were unread."""
    fill(workspace, *TEXTS)
    options(workspace, f'base_url = "{stub.url}"')
    price(workspace, "small")
    stub.usual = speaks
    command = ("propose", "-C", workspace.root, "--proposer", "openai:small")
    stopped = cli(*command, "--budget-usd", "0.0001").out
    assert "dropped, budget reached: 3" in stopped
    assert "next: raise the budget (--budget-usd, or [propose] budget_usd), and run `propose` again as now" in stopped
    assert "it asks only for the rest; or without it, " in stopped  # `propose` is a step without it, never after it
    assert "again as now" not in cli(*command, "--budget-usd", "1").out
    gone = ProposeResult(Counts("propose", dropped={"server gone": 737, "connection failed": 28}), 0.0, "conversations")
    assert gone.resume.startswith("start the server, and run `propose` again as now")


def test_an_empty_workspace_names_what_to_do_first(workspace: store.Workspace) -> None:
    for items, command in ((False, "saferec-build mine"), (True, "saferec-build catalog add")):
        with pytest.raises(UsageError, match=command):
            propose(workspace, items=items)
    with pytest.raises(UsageError, match="saferec-build mine"):
        evaluation.score(workspace)
