"""How many requests go at once: fewer when a server is busy, more while it is not."""

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
    assert pace.limit == 1  # never none


def test_a_place_is_handed_on_in_turn_and_never_lost() -> None:
    async def work() -> list[str]:
        pace, came = llm.Pace(1), []

        async def come(name: str) -> None:
            async with pace:
                came.append(name)

        async with pace:
            waiting = {name: asyncio.create_task(come(name)) for name in "abcd"}
            await asyncio.sleep(0)
            assert came == []
            waiting["a"].cancel()
        waiting["b"].cancel()  # between being handed the place and taking it: the place is c's
        await asyncio.wait(waiting.values(), timeout=5)
        return came

    assert asyncio.run(work()) == ["c", "d"]


def test_requests_that_come_again_wait_for_a_place_too(stub: Stub) -> None:
    both, there = threading.Barrier(2, timeout=30), []

    def refuse(h: Handler) -> None:
        both.wait()  # two at once, and both are too many
        BUSY(h)

    def fine(h: Handler) -> None:
        there.append(stub.now)
        time.sleep(0.1)  # five times what the refused were told to wait
        says("fine")(h)

    stub.scripts = {text: [refuse, fine] for text in ("a", "b")}
    assert [r.content for r in ask(stub, "a", "b", concurrency=2)] == ["fine"] * 2
    assert there == [1, 1]  # one complaint of two: 2 -> 1


@pytest.mark.slow
def test_an_overloaded_server_gets_every_answer_out(stub: Stub) -> None:
    pause, crowd = random.Random(7), threading.Event()

    def crowded(h: Handler) -> None:
        # more than 6 at once is too many for this server, those that it is about to refuse included
        too_many = stub.now > 6
        if too_many:
            crowd.set()
        crowd.wait(30)  # where requests leave slowly, none is answered before the crowd is there
        time.sleep(0.03 + 0.05 * pause.random())
        (BUSY if too_many else says("fine"))(h)

    texts = [f"t{n}" for n in range(60)]
    stub.scripts = {text: [crowded] for text in texts}
    found = ask(stub, *texts, concurrency=16, retries=50, timeout=60.0)
    assert [r.content for r in found] == ["fine"] * 60
    assert len(stub.asked) > 61 and stub.most <= 16  # it did complain, and was never asked more than agreed
