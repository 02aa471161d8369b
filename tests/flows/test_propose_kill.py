"""SIGKILL or Ctrl-C while a model reads: the tables are those of an undisturbed run; only requests in flight are paid
twice.

The stub is overloaded on purpose: it answers 429 to more than a few requests at once. `make soak` has the long form.
"""

import random
import signal
import time
from pathlib import Path

import pytest

from tests.conftest import Injected
from tests.servers.llm_stub import running
from tests.worlds import calm as world
from tests.worlds.metered import AT_ONCE, Meter, contents, finish, prepare, start

LONG = [(signal.SIGKILL, 5_000, 20), (signal.SIGINT, 150, 24)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ends", "many", "times"),
    [(signal.SIGKILL, 300, 3), (signal.SIGINT, 150, 2), *(pytest.param(*row, marks=pytest.mark.soak) for row in LONG)],
)
def test_what_ends_a_run_costs_what_was_in_flight_and_no_more(
    tmp_path: Path, ends: signal.Signals, many: int, times: int, injected: Injected
) -> None:
    rng, hits = random.Random(3), 0
    with running() as stub:
        stub.usual = meter = Meter()
        calm = prepare(tmp_path / "calm", many)
        began = time.monotonic()
        finish(calm, stub)
        seconds = time.monotonic() - began
        assert set(meter.billed.values()) == {1}
        meter.billed.clear()
        disturbed = prepare(tmp_path / "loud", many)
        for _ in range(times):
            run, n_asked = start(disturbed, stub), len(stub.asked)
            while len(stub.asked) < n_asked + 2 and run.poll() is None:  # until it has sent requests
                time.sleep(0.01)
            time.sleep(rng.uniform(0, seconds / times))
            run.send_signal(ends)
            ended = world.end(run)
            assert ended.code in (0, 128 + ends) and len(ended.lines) <= 1, ended
            hits += ended.code == 128 + ends
        finish(disturbed, stub)
    twice = sum(n - 1 for n in meter.billed.values())
    print(f"{hits} times, {twice} of {many} requests billed twice, at most {hits * AT_ONCE} were in flight")
    assert len(meter.billed) == many and hits >= times // 2
    assert twice <= hits * AT_ONCE  # the most that a client has in flight
    tables, expected = contents(disturbed), contents(calm)
    assert [name for name, frame in tables.items() if not frame.equals(expected[name])] == []
    injected(f"{'kills' if ends == signal.SIGKILL else 'Ctrl-C'} while a model reads", hits)
