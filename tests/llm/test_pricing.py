"""The budget alone: its reservations, and the cost of an answer."""

import pytest

from saferec_builder import llm


@pytest.mark.slow
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


def test_a_request_costs_its_tokens_at_their_prices() -> None:
    price = llm.Price(2.0, 8.0, 0.5)
    # USD per million: (100 - 40) * 2 + 10 * 8 + 40 * 0.5 = 220
    assert price.of(100, 10, 40) == pytest.approx(220e-6) and llm.Price(2.0, 8.0).of(100, 10, 40) == 280e-6
    assert (price.times(0.5), llm.Price(2.0, 8.0).times(3)) == (llm.Price(1.0, 4.0, 0.25), llm.Price(6.0, 24.0))
    server = llm.Server("m", "http://127.0.0.1:9", sampling=(("max_tokens", 50),))
    # 400 bytes are 100 tokens, reserved 1.25 times: 125 * 2 + 50 * 8 = 650
    budget = llm.Budget(price, limit=0.001)
    assert budget.worst(server, 400) == pytest.approx(650e-6) and llm.Budget().worst(server, 400) == 0.0
    assert [budget.hold(name, server, 400) for name in ("a", "a", "b")] == [True, False, False]
    assert llm.Budget(price).hold("a", server, 10**9)  # no limit
    assert vars(budget.habit) == {"bytes_per_token": 4.0, "tokens_out": 150.0}
    exact = llm.Budget(price, limit=650e-6)
    assert exact.affords(server, 400) and not exact.affords(server, 404)


def test_a_bill_has_every_count() -> None:
    server = llm.Server("m", "http://127.0.0.1:9", sampling=(("max_tokens", 50),))
    budget = llm.Budget(llm.Price(2.0, 8.0, 0.5), limit=1.0)
    assert all(budget.hold(name, server, 400) for name in "abcd")
    budget.pay(llm.Reply("a", "m", content="fine", tokens_in=100, tokens_out=60, tokens_cached=40), 400)
    # (60 * 2 + 60 * 8 + 40 * 0.5) / 1e6; an answer longer than the limit makes the worst case larger
    assert budget.spent == pytest.approx(620e-6) and budget.longest == 60
    assert budget.worst(server, 400) == pytest.approx(730e-6)
    budget.pay(llm.Reply("b", "m", error="timeout"), 400)
    budget.pay(llm.Reply("c", "m", error="empty answer", tokens_in=10, tokens_out=0), 40, price=llm.Price(1.0, 0.0))
    counts = {"requests": 2, "tokens_in": 110, "tokens_cached": 40, "tokens_out": 60, "bytes_out": 440}
    assert budget.billed() == counts | {"usd": pytest.approx(630e-6)} and budget.billed() == {}
    assert budget.hold_as_one("d") == pytest.approx(650e-6) == budget.aside and budget.held == {}
    budget.pay(llm.Reply("d", "m", content="fine", tokens_out=1), 0, most=0.25)  # sent by another run
    budget.pay_probe(llm.Reply("p", "m", tokens_in=100, tokens_out=10, tokens_cached=40))
    budget.pay_sum(0.0)
    assert budget.billed()["usd"] == pytest.approx(0.25 + 220e-6) and budget.spent == pytest.approx(0.25085)
    for free in (llm.Budget(), budget):
        free.pay_probe(llm.Reply("p", "m"))
        free.pay_sum(0.0)
        assert free.billed() == {}
