"""The budget alone: its reservations, and the cost of an answer."""

import pytest

from saferec_builder import llm


@pytest.mark.timeout(60)  # the old way took minutes: it compared each request with all before it
def test_a_budget_holds_a_whole_batch() -> None:
    server = llm.Server("m", "http://127.0.0.1:9")
    budget = llm.Budget(llm.Price(0.0, 500.0), limit=200_000.5)  # 2,000 tokens of an answer: 1 USD a request
    assert all(budget.hold(f"r{n}", server, 0) for n in range(200_000))
    assert not budget.hold("one more", server, 0)
    budget.pay(llm.Reply("r7", "m"), 0)  # costs nothing
    assert budget.hold("one more", server, 0) and not budget.hold("another", server, 0)


def test_an_answer_without_a_bill_costs_what_was_set_aside() -> None:
    """With a server that reports no tokens, or 0, a budget would buy answers without end."""
    server = llm.Server("m", "http://127.0.0.1:9")
    budget = llm.Budget(llm.Price(0.0, 500.0), limit=4.5)  # 2,000 tokens of an answer: 1 USD a request
    broken = llm.Reply("c", "m", error="broken JSON: EOF while parsing an object")  # answered, but the bill is lost
    cut = llm.Reply("b", "m", error="cut off: at the token limit")
    zero = llm.Reply("z", "m", content="fine", tokens_in=0, tokens_out=0)
    for reply in (llm.Reply("a", "m", content="fine"), cut, broken, zero):
        assert budget.hold(reply.request, server, 0)
        budget.pay(reply, 0)
    assert (budget.spent, budget.aside, budget.billed()["usd"]) == (4.0, 0.0, 4.0)
    assert not budget.hold("d", server, 0)  # 0.5 USD are left
