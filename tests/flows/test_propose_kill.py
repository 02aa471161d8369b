"""SIGKILL while a model reads: the tables of an undisturbed run, and paid twice only what was in flight.

The stub is overloaded on purpose: above a few requests at once it says 429. The long form is in `make soak`.
"""

import random
import signal
import time
from pathlib import Path

import pytest

from tests.conftest import Injected
from tests.servers.llm_stub import running
from tests.worlds.metered import AT_ONCE, Meter, contents, finish, prepare, start


@pytest.mark.slow
@pytest.mark.parametrize(("many", "kills"), [(300, 3), pytest.param(5_000, 20, marks=pytest.mark.soak)])
def test_kills_cost_what_was_in_flight_and_no_more(tmp_path: Path, many: int, kills: int, injected: Injected) -> None:
    rng, killed = random.Random(3), 0
    with running() as stub:
        stub.usual = meter = Meter()
        calm = prepare(tmp_path / "calm", many)
        before = time.monotonic()
        finish(calm, stub)
        whole = time.monotonic() - before
        assert set(meter.billed.values()) == {1}
        meter.billed.clear()
        loud = prepare(tmp_path / "loud", many)
        for _ in range(kills):
            run = start(loud, stub)
            asked = len(stub.asked)
            while len(stub.asked) < asked + 2 and run.poll() is None:  # it has begun to ask
                time.sleep(0.01)
            time.sleep(rng.uniform(0, whole / kills))
            run.send_signal(signal.SIGKILL)
            killed += run.wait() == -signal.SIGKILL
            assert run.stdout and run.stderr
            run.stdout.close()
            run.stderr.close()
        finish(loud, stub)
    twice = sum(n - 1 for n in meter.billed.values())
    print(f"{killed} kills, {twice} of {many} requests billed twice, at most {killed * AT_ONCE} were in flight")
    assert len(meter.billed) == many and killed >= kills // 2
    assert twice <= killed * AT_ONCE  # what a client may have in flight
    ours, theirs = contents(loud), contents(calm)
    assert [name for name, frame in ours.items() if not frame.equals(theirs[name])] == []
    injected("kills while a model reads", killed)
