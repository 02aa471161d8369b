"""SIGKILL while a model reads: the tables are those of an undisturbed run; only requests in flight are paid twice.

The stub is overloaded on purpose: it answers 429 to more than a few requests at once. `make soak` has the long form.
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
        began = time.monotonic()
        finish(calm, stub)
        seconds = time.monotonic() - began
        assert set(meter.billed.values()) == {1}
        meter.billed.clear()
        disturbed = prepare(tmp_path / "loud", many)
        for _ in range(kills):
            run = start(disturbed, stub)
            n_asked = len(stub.asked)
            while len(stub.asked) < n_asked + 2 and run.poll() is None:  # until it has sent requests
                time.sleep(0.01)
            time.sleep(rng.uniform(0, seconds / kills))
            run.send_signal(signal.SIGKILL)
            killed += run.wait() == -signal.SIGKILL
            assert run.stdout and run.stderr
            run.stdout.close()
            run.stderr.close()
        finish(disturbed, stub)
    twice = sum(n - 1 for n in meter.billed.values())
    print(f"{killed} kills, {twice} of {many} requests billed twice, at most {killed * AT_ONCE} were in flight")
    assert len(meter.billed) == many and killed >= kills // 2
    assert twice <= killed * AT_ONCE  # the most that a client has in flight
    tables, expected = contents(disturbed), contents(calm)
    assert [name for name, frame in tables.items() if not frame.equals(expected[name])] == []
    injected("kills while a model reads", killed)
