"""Following a review server in memory: each new answer is pulled once, even if the server stops in between."""

import os
import random
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Any

import polars as pl
import pytest

from annotation import connections, follow as follow_module, rejections, servers
from annotation.follow import follow
from annotation.pull import PullResult
from annotation.review_destinations import Files, LabelStudio
from annotation.tools.server_errors import Broken, Unsure
from saferec_builder.core.counts import Counts
from saferec_builder.core.errors import ReviewError, UsageError
from saferec_builder.storage import tables, workspace as store
from tests.worlds.pushes import ALL
from tests.worlds.review_memory import Killed, Memory
from tests.worlds.review_world import Verdict

FEW = int(os.environ.get("SAFEREC_FAULTS", "20"))
FAULTS = {"away": ReviewError("memory does not answer"), "500": Broken("memory: 500")}
FAULTS |= {"no answer": Unsure("memory"), "killed": Killed()}


def taken(ws: store.Workspace) -> Counter[str]:
    """Returns how often each conversation was read completely, according to our table."""
    return Counter(store.read(ws, tables.REVIEWS).filter(pl.col("trait") == "*")["subject"])


@pytest.mark.slow
def test_what_was_answered_since_is_pulled_once(ws, cli, memory, monkeypatch):
    assert cli("review", "push", *ALL, "-C", ws.root).code == 0
    requests = []  # the filter of each pull
    fetch = servers.fetch
    monkeypatch.setattr(
        servers, "fetch", lambda desk, server, only=None: requests.append(only) or fetch(desk, server, only)
    )
    remotes = {(name, task["subject"]): remote for remote, (_, task, name) in memory.held.items()}
    memory.answer(remotes["ann", "c3"], Verdict())
    looks = follow(ws, LabelStudio("http://memory", "t"), every=0)
    assert next(looks).counts.added == 1 and next(looks) is None  # the earlier answer, and nothing new
    memory.answer(remotes["ann", "c4"], Verdict())
    assert next(looks).counts.added == 1
    assert next(looks) is None
    (full, partial) = requests
    assert full is None and [*partial.values()] == [{remotes["ann", "c4"]}]  # no other task was asked for

    memory.down = True
    assert "does not answer" in str(next(looks)) and next(looks) is None  # said once
    memory.answers[remotes["bo", "c3"]] = Verdict()  # no look can see it, as if the server was restored from a copy
    memory.down = False
    assert next(looks).counts.added == 1  # therefore all is pulled after a fault
    memory.answer(remotes["bo", "c4"], Verdict())
    memory.unread = 1  # the answer that the look has found cannot be read
    assert isinstance(next(looks), ReviewError) and next(looks).counts.added == 1
    assert taken(ws) == {"c3": 2, "c4": 2}


@pytest.mark.slow
def test_what_is_touched_while_a_pull_is_at_work_is_pulled_next(ws, cli, memory, monkeypatch):
    assert cli("review", "push", *ALL, "-C", ws.root).code == 0
    early, late = [remote for remote, (_, task, _) in memory.held.items() if task["subject"] in ("c3", "c4")][:2]
    looks = follow(ws, LabelStudio("http://memory", "t"), every=0)
    next(looks)
    memory.answer(early, Verdict())
    responses = memory.responses

    def slowly(*words):
        yield from responses(*words)
        if late not in memory.answers:
            memory.answer(late, Verdict())

    monkeypatch.setattr(memory, "responses", slowly)
    assert next(looks).counts.added == next(looks).counts.added == 1


def test_our_own_server_may_be_stopped_and_started_meanwhile(ws, memory, monkeypatch):
    """`review down` and `up` beside it: it connects again, perhaps to another port."""
    states = iter([memory, ReviewError("not running"), ReviewError("not running"), memory])

    def connect(ws, place):
        if isinstance(state := next(states, memory), ReviewError):
            raise state
        return state

    monkeypatch.setattr(
        follow_module, "pull", lambda ws, place, only: PullResult(Counts("review pull", 1), tables.DROPS.empty)
    )
    monkeypatch.setattr(connections, "connect", connect)
    looks = follow(ws, LabelStudio(), every=0)
    assert next(looks).counts.added == 1
    memory.down = True
    assert str(next(looks)) == "memory does not answer" and str(next(looks)) == "not running" and next(looks) is None
    memory.down = False
    assert next(looks).counts.added == 1


def test_only_servers_are_followed(ws):
    with pytest.raises(UsageError, match="--follow is for review servers"):
        next(follow(ws, Files()))
    with pytest.raises(UsageError, match="no review server yet"):
        next(follow(ws, LabelStudio()))


def breaking(memory: Memory, plan: deque[str]) -> None:
    """Each request may meet a fault; a list of answers may end halfway, and a look may return an old result."""
    results: dict[str, Any] = {}

    def met(name: str, ask: Callable[..., Any]) -> Callable[..., Any]:
        def faulty(*words: Any) -> Any:
            fault = plan.popleft() if plan else ""
            if fault in FAULTS:
                raise FAULTS[fault]
            if fault == "stale" and name in results:
                return results[name]
            result = results[name] = ask(*words)
            return result

        return faulty

    def responses(*words: Any) -> Iterator[Any]:
        fault = plan.popleft() if plan else ""
        for response in real(*words):
            yield response
            if fault in FAULTS:
                raise FAULTS[fault]

    real, memory.responses = memory.responses, responses  # type: ignore[method-assign]
    for name in ("projects", "touched"):
        setattr(memory, name, met(name, getattr(memory, name)))


@pytest.mark.slow
def test_whatever_breaks_every_answer_arrives_once(ws, cli, memory, monkeypatch, injected):
    """200 faults in `make soak`: a server that is away, fails, ends halfway or repeats an old result, and kills."""
    assert cli("review", "push", *ALL, "-C", ws.root).code == 0
    remotes = {name: remote for remote, (_, task, name) in memory.held.items() if task["subject"] == "c1"}
    plan, rng, keep = deque[str](), random.Random(FEW), rejections.keep
    breaking(memory, plan)

    def keeping(*words: Any) -> None:
        if plan and plan[0] == "killed":
            plan.popleft()
            raise Killed
        keep(*words)

    monkeypatch.setattr(rejections, "keep", keeping)
    server, looks, broken, expected = LabelStudio("http://memory", "t"), iter(()), 0, Counter[tuple[str, str]]()

    def look() -> None:
        nonlocal looks
        try:
            next(looks)
        except (Killed, ReviewError, StopIteration):  # its owner starts it again
            looks = follow(ws, server, every=0)

    while broken < FEW:
        faults = [rng.choice([*FAULTS, "stale"]) for _ in range(rng.randint(1, 4))]
        broken += len(faults)
        for fault in faults:  # each fault comes after some requests without one
            plan.extend([""] * rng.randrange(7) + [fault])
        for name in ("ann", "bo"):  # both change their mind each time
            verdict = "absent" if expected[name, "present"] > expected[name, "absent"] else "present"
            memory.answer(remotes[name], Verdict({"gore": "blood"} if verdict == "present" else {}))
            expected[name, verdict] += 1
            while plan:
                look()
            for _ in "abc":
                look()
        gore = store.read(ws, tables.REVIEWS).filter(trait="gore")
        assert not plan and Counter(gore.select("reviewer", "verdict").iter_rows()) == +expected, faults
    injected("faults of a server in memory, on pull --follow", broken)
