"""The number of concurrent requests: fewer when a server is busy, more while it is not."""

import asyncio
import random
import threading
import time

import pytest

from saferec_builder import llm
from tests.servers.llm_stub import Handler, Stub, says
from tests.worlds.llm_client import BUSY, ask


def test_pace_halves_once_a_second_and_climbs_one_a_round() -> None:
    now = 0.0
    pace = llm.Pace(64, clock=lambda: now)
    for _ in range(64):  # one burst, one complaint: 64 -> 32
        pace.slow()
    assert pace.limit == 32
    now = 1.5
    pace.slow()
    assert pace.limit == 16
    for _ in range(16):  # sixteen good replies at about 1/16 each: one more (a little less, as the limit grows)
        pace.ok()
    assert 16.9 < pace.limit < 17
    for _ in range(10_000):
        pace.ok()
    assert pace.limit == 64  # never above what the user set
    for n in range(20):
        now = 10.0 + 2 * n
        pace.slow()
    assert pace.limit == 1  # never zero


def test_a_place_is_handed_on_in_turn_and_never_lost() -> None:
    async def work() -> list[str]:
        pace, entered = llm.Pace(1), []

        async def enter(name: str) -> None:
            async with pace:
                entered.append(name)

        async with pace:
            waiting = {name: asyncio.create_task(enter(name)) for name in "abcd"}
            await asyncio.sleep(0)
            assert entered == []
            waiting["a"].cancel()
        waiting["b"].cancel()  # cancelled after it got the place and before it took it: the place goes to c
        await asyncio.wait(waiting.values(), timeout=5)
        return entered

    assert asyncio.run(work()) == ["c", "d"]


def test_requests_that_come_again_wait_for_a_place_too(stub: Stub) -> None:
    barrier, concurrent = threading.Barrier(2, timeout=30), []

    def refuse(h: Handler) -> None:
        barrier.wait()  # two at once, both refused
        BUSY(h)

    def fine(h: Handler) -> None:
        concurrent.append(stub.now)
        time.sleep(0.1)  # five times the wait that the refused were given
        says("fine")(h)

    stub.scripts = {text: [refuse, fine] for text in ("a", "b")}
    assert [r.content for r in ask(stub, "a", "b", concurrency=2)] == ["fine"] * 2
    assert concurrent == [1, 1]  # one complaint of two: 2 -> 1


@pytest.mark.slow
def test_an_overloaded_server_gets_every_answer_out(stub: Stub) -> None:
    pause, crowd = random.Random(7), threading.Event()

    def crowded(h: Handler) -> None:
        # more than 6 at once is too many for this server, including those it is about to refuse
        too_many = stub.now > 6
        if too_many:
            crowd.set()
        crowd.wait(30)  # if requests leave slowly, none is answered before there are too many
        time.sleep(0.03 + 0.05 * pause.random())
        (BUSY if too_many else says("fine"))(h)

    texts = [f"t{n}" for n in range(60)]
    stub.scripts = {text: [crowded] for text in texts}
    replies = ask(stub, *texts, concurrency=16, retries=50, timeout=60.0)
    assert [r.content for r in replies] == ["fine"] * 60
    assert len(stub.asked) > 61 and stub.most <= 16  # it did refuse some, and never got more than agreed
