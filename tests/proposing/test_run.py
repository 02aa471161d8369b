"""`propose` from Python: counts and spending are returned, nothing is printed, an empty workspace names what to do."""

import pytest

from saferec_builder.core.errors import UsageError
from saferec_builder.proposing import evaluation
from saferec_builder.proposing.run import propose
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
    assert (planned.counts.dropped, planned.spent, stub.asked) == ({"not read in a dry run": 3}, 0.0, [])
    result = propose(ws, "openai:small,openai:large", progress=lambda name, unit: drawn(bars))
    # three texts, (7 x 10 + 3 x 100) USD per million tokens each; `large` reads the one with a maybe, and has no price
    assert (result.counts.added, result.unit, result.spent) == (4, "readings", pytest.approx(3 * 370 / 1e6))
    requests = len(stub.asked)
    empty = propose(ws, "openai:new", limit=0, progress=None).counts
    assert (empty.came, empty.figures["not_read_yet"], len(stub.asked)) == (0, 3, requests)  # and sends no request
    assert [(bar.total, bar.done) for bar in bars] == [(3, 3), (1, 1)]
    assert propose(ws, "openai:small").spent == 0 and propose(ws).unit == "conversations"
    assert capfd.readouterr() == ("", "")


def test_an_empty_workspace_names_what_to_do_first(workspace: store.Workspace) -> None:
    for items, command in ((False, "saferec-build mine"), (True, "saferec-build catalog add")):
        with pytest.raises(UsageError, match=command):
            propose(workspace, items=items)
    with pytest.raises(UsageError, match="saferec-build mine"):
        evaluation.score(workspace)
