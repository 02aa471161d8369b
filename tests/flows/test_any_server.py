"""`propose` with 31 kinds of servers: answers that were paid for are used or kept, and never paid for twice."""

import pytest

import saferec_builder as sr
from saferec_builder.storage import tables, workspace as store
from tests.servers.llm_stub import Stub
from tests.worlds.model_replies import fill, options, price
from tests.worlds.odd_servers import KINDS, PAID_FOR_NOTHING, TEXTS, UNPAID, USABLE, odd

pytestmark = pytest.mark.slow  # the whole pipeline, command by command

NAMES = list(KINDS)


def asking(ws: store.Workspace, stub: Stub, at_once: int, budget: float) -> store.Workspace:
    options(ws, f'base_url = "{stub.url}"\nconcurrency = {at_once}\nretries = 0\nbudget_usd = {budget}')
    price(ws, "small")
    return store.Workspace.open(ws.root)


@pytest.mark.parametrize("kind", NAMES)
def test_what_is_paid_for_is_used_or_kept(workspace: store.Workspace, stub: Stub, kind: str) -> None:
    ws = asking(workspace, stub, at_once=1, budget=1.4)  # reserved for five answers without a bill
    odd(stub, kind)
    fill(ws, *TEXTS)
    counts = sr.propose(ws, "openai:small").counts
    usable = len(TEXTS) if kind in NAMES[:USABLE] else 0
    assert (counts.added, counts.figures["proposals"], counts.came) == (usable, usable, len(TEXTS))
    n_asked = len(stub.asked)
    second = sr.propose(ws, "openai:small")
    if kind not in NAMES[-UNPAID:]:
        assert (second.spent, len(stub.asked)) == (0, n_asked)
    assert store.read(ws, tables.SPEND)["usd"].sum() <= 1.4


@pytest.mark.parametrize("kind", NAMES[USABLE:])
def test_a_server_that_gives_nothing_is_left_after_twenty(workspace: store.Workspace, stub: Stub, kind: str) -> None:
    ws = asking(workspace, stub, at_once=16, budget=5.0)
    odd(stub, kind)
    fill(ws, *(f"blood, film {n}" for n in range(45)))
    sr.propose(ws, "openai:small")
    # after the test request at the start; an overloaded server may have time later
    assert len(stub.asked) - 1 == (45 if kind == "is overloaded for ever" else 20)


def test_there_are_as_many_as_is_said() -> None:
    assert (len(KINDS), USABLE + PAID_FOR_NOTHING + UNPAID) == (31, 31)
