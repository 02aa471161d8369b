"""`review pull --follow` prints each pull and each fault of its server, until Ctrl-C ends it with exit code 0."""

import json
import signal
from types import SimpleNamespace

from annotation import follow
from tests.worlds.pushes import ALL
from tests.worlds.review_world import Verdict


def test_who_follows_sees_every_pull_and_fault_until_ctrl_c(cli, ws, memory, monkeypatch):
    assert cli("review", "push", *ALL, "-C", ws.root).code == 0
    (remote, *_) = (n for n, (_, task, name) in memory.held.items() if (name, task["subject"]) == ("ann", "c3"))
    between_looks = iter(
        (
            lambda: memory.answer(remote, Verdict()),
            lambda: setattr(memory, "down", True),
            lambda: setattr(memory, "down", False),
            lambda: signal.raise_signal(signal.SIGINT),
        )
    )
    monkeypatch.setattr(follow, "time", SimpleNamespace(sleep=lambda _: next(between_looks)()))
    run = cli("review", "pull", "--follow", "--url", "http://memory", "--token", "t", "--json", "-C", ws.root)
    pulls = [json.loads(line) for line in run.out.splitlines()]
    assert (run.code, run.err) == (0, "memory does not answer: asking again\n")
    assert [pull["added"] for pull in pulls] == [0, 1] and next(between_looks, None) is None
