"""After any fault of the Hub at any request the old release is there or the new one, and a rerun completes the rest."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from exports import hub as stage, withdraw
from saferec_builder.core.errors import HubError
from tests.servers.hub import Hub
from tests.servers.hub_repo import Fault
from tests.worlds.hub_world import REPO, held, snapshot, two_releases
from tests.worlds.release_world import tree

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:Use 'content=<...>':DeprecationWarning")]
BLOWS = {
    "500": Fault("", "", 500),
    "500, done all the same": Fault("", "", 500, after=True),
    "line cut": Fault("", "", None),
    "line cut, done all the same": Fault("", "", None, after=True),
    "429": Fault("", "", 429),
    "409": Fault("", "", 409),
    "412": Fault("", "", 412),
    "403": Fault("", "", 403),
}

SOAK = bool(os.environ.get("SAFEREC_SOAK"))  # every fault at every request; otherwise they take turns


def blows(number: int, many: int, names: list[str]) -> list[str]:
    """The faults for this request: `many` of them, different from those of the neighbouring requests."""
    return names if SOAK else [names[(number + step * 5) % len(names)] for step in range(many)]


def disturbed(hub: Hub, run, back, number: int, blow: Fault) -> bool:
    """Runs with a fault at request `number`; returns whether the run noticed it."""
    back()
    hub.strike_at, hub.blow = number, blow
    try:
        run()
    except HubError:
        return True
    finally:
        hub.strike_at = -1
    return False


def campaign(hub: Hub, run, many: int, names: list[str]) -> Iterator[tuple[str, bool]]:
    """Yields (description, whether the run noticed) for each request of a run and `many` of these faults."""
    back = snapshot(hub)
    back()
    run()
    for number in range(len(hub.seen)):
        for name in blows(number, many, names):
            yield f"request {number}, {name}", disturbed(hub, run, back, number, BLOWS[name])


def test_every_request_of_a_publish_may_fail_in_every_way(hub, tmp_path, monkeypatch, injected):
    first, second = two_releases(tmp_path / "ws")
    old, new = tree(first), tree(second)
    monkeypatch.setattr(stage, "LARGE", sorted(map(len, new.values()))[-2])  # two files are sent one after the other
    stage.publish(first, REPO)
    noticed = []
    for case, failed in campaign(hub, lambda: stage.publish(second, REPO), 3, list(BLOWS)):
        noticed.append(failed)
        repo = hub.repos[REPO]
        assert held(repo, "main") in (old, new), case
        assert held(repo, "v1.0.0") == old and held(repo, "v1.1.0") in (None, new), case
        assert failed or held(repo, "v1.1.0") == new, case
        stage.publish(second, REPO)
        assert held(repo, "main") == held(repo, "v1.1.0") == new, case
        assert [c.title for c in repo.commits].count("Release 1.1.0") == 1, case
    assert len(noticed) >= 100 and sum(noticed) >= 20
    injected("failed requests of a publish to the Hub", len(noticed))


def test_every_request_of_an_erasure_may_fail_and_the_next_run_completes_it(hub, tmp_path, injected):
    first, second = two_releases(tmp_path / "ws")
    old, new = tree(first), tree(second)
    stage.publish(first, REPO)
    stage.publish(second, REPO)

    def run():
        withdraw.on_hub(REPO, "1.0.0", "labels were wrong", erase=True)

    count = 0
    for case, _ in campaign(hub, run, 1, ["500", "500, done all the same", "line cut"]):
        count += 1
        repo = hub.repos[REPO]
        # the remaining version is always there: under its tag, or on the branch that holds it temporarily
        assert new in (held(repo, "v1.1.0"), held(repo, "keep-v1.1.0")), case
        assert held(repo, "v1.0.0") in (None, old), case
        run()
        assert held(repo, "v1.0.0") is None and held(repo, "v1.1.0") == new, case
        assert not repo.branches and len(repo.commits) == 1, case
    assert count >= 20
    injected("failed requests of an erasure on the Hub", count)


@pytest.mark.parametrize("share", [0.5, 0.85])
def test_a_killed_publish_leaves_old_or_new(hub, tmp_path, share, injected):
    first, second = two_releases(tmp_path / "ws")
    old, new = tree(first), tree(second)
    stage.publish(first, REPO)
    code = "import sys, huggingface_hub.constants as c; c.HF_HUB_DISABLE_XET = True; from pathlib import Path;"
    code += "from exports import hub; hub.publish(Path(sys.argv[1]), sys.argv[2])"
    command = [sys.executable, "-W", "ignore", "-c", code, str(second), REPO]
    start = len(hub.seen)
    back = snapshot(hub)
    assert subprocess.run(command, env=os.environ, timeout=120, check=False).returncode == 0
    target = int(share * (len(hub.seen) - start))
    back()
    process = subprocess.Popen(command, env=os.environ)
    while len(hub.seen) < target and process.poll() is None:
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    injected("kills of a publish to the Hub", process.wait() == -signal.SIGKILL)
    repo = hub.repos[REPO]
    assert held(repo, "main") in (old, new) and held(repo, "v1.1.0") in (None, new)
    stage.publish(second, REPO)
    assert held(repo, "main") == held(repo, "v1.1.0") == new and held(repo, "v1.0.0") == old
