"""Following a review server in memory: what was answered since is pulled, once, through stops of the server."""

import os
import random
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Any

import polars as pl
import pytest

from annotation import rejections, servers
from annotation.follow import follow
from annotation.review_destinations import Files, LabelStudio
from annotation.tools.server_errors import Broken, Unsure
from saferec_builder.core.errors import ReviewError, UsageError
from saferec_builder.storage import tables, workspace as store
from tests.worlds.pushes import ALL
from tests.worlds.review_memory import Killed, Memory
from tests.worlds.review_world import Verdict

FEW = int(os.environ.get("SAFEREC_FAULTS", "20"))
FAULTS = {
    "away": ReviewError("memory does not answer"),
    "500": Broken("memory: 500"),
    "no answer": Unsure("memory"),
    "killed": Killed(),
}


def taken(ws: store.Workspace) -> Counter[str]:
    """How often each conversation was read to its end, by our table."""
    return Counter(store.read(ws, tables.REVIEWS).filter(pl.col("trait") == "*")["subject"])


@pytest.mark.slow
def test_what_was_answered_since_is_pulled_once(ws, cli, memory, monkeypatch):
    assert cli("review", "push", *ALL, "-C", ws.root).code == 0
    asked = []  # what each pull asks for
    fetch = servers.fetch
    monkeypatch.setattr(
        servers, "fetch", lambda desk, server, only=None: asked.append(only) or fetch(desk, server, only)
    )
    of = {(name, task["subject"]): remote for remote, (_, task, name) in memory.held.items()}
    memory.answer(of["ann", "c3"], Verdict())
    looks = follow(ws, LabelStudio("http://memory", "t"), every=0)
    assert next(looks).counts.added == 1 and next(looks) is None  # what was there before, and nothing new
    memory.answer(of["ann", "c4"], Verdict())
    assert next(looks).counts.added == 1
    assert next(looks) is None
    (first, second) = asked
    assert first is None and [*second.values()] == [{of["ann", "c4"]}]  # and nothing else was asked for

    memory.down = True
    assert "does not answer" in str(next(looks)) and next(looks) is None  # said once
    memory.answers[of["bo", "c3"]] = Verdict()  # no look can see it: the server was put back from a copy, say
    memory.down = False
    assert next(looks).counts.added == 1  # so after a fault all is pulled
    memory.answer(of["bo", "c4"], Verdict())
    memory.unread = 1  # what the look has found cannot be read
    assert isinstance(next(looks), ReviewError) and next(looks).counts.added == 1
    assert taken(ws) == {"c3": 2, "c4": 2}


def test_what_is_touched_while_a_pull_is_at_work_is_pulled_next(ws, cli, memory, monkeypatch):
    assert cli("review", "push", *ALL, "-C", ws.root).code == 0
    first, second = [remote for remote, (_, task, _) in memory.held.items() if task["subject"] in ("c3", "c4")][:2]
    looks = follow(ws, LabelStudio("http://memory", "t"), every=0)
    next(looks)
    memory.answer(first, Verdict())
    responses = memory.responses

    def slowly(*words):
        yield from responses(*words)
        if second not in memory.answers:
            memory.answer(second, Verdict())

    monkeypatch.setattr(memory, "responses", slowly)
    assert next(looks).counts.added == next(looks).counts.added == 1


def test_only_servers_are_followed(ws):
    with pytest.raises(UsageError, match="--follow is for review servers"):
        next(follow(ws, Files()))
    with pytest.raises(UsageError, match="no review server yet"):
        next(follow(ws, LabelStudio()))


def breaking(memory: Memory, plan: deque[str]) -> None:
    """Each request may meet a fault; a list of answers may end halfway, and a look find what it found before."""
    last: dict[str, Any] = {}

    def met(name: str, ask: Callable[..., Any]) -> Callable[..., Any]:
        def asked(*words: Any) -> Any:
            fault = plan.popleft() if plan else ""
            if fault in FAULTS:
                raise FAULTS[fault]
            if fault == "stale" and name in last:
                return last[name]
            found = last[name] = ask(*words)
            return found

        return asked

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
    """200 faults in `make soak`: a server that is away, fails, ends halfway or says what it said before, and kills."""
    assert cli("review", "push", *ALL, "-C", ws.root).code == 0
    of = {name: remote for remote, (_, task, name) in memory.held.items() if task["subject"] == "c1"}
    plan, rng, keep = deque[str](), random.Random(FEW), rejections.keep
    breaking(memory, plan)

    def keeping(*words: Any) -> None:
        if plan and plan[0] == "killed":
            plan.popleft()
            raise Killed
        keep(*words)

    monkeypatch.setattr(rejections, "keep", keeping)
    server, looks, broke, wanted = LabelStudio("http://memory", "t"), iter(()), 0, Counter[tuple[str, str]]()

    def look() -> None:
        nonlocal looks
        try:
            next(looks)
        except (Killed, ReviewError, StopIteration):  # started anew, by its owner
            looks = follow(ws, server, every=0)

    while broke < FEW:
        faults = [rng.choice([*FAULTS, "stale"]) for _ in range(rng.randint(1, 4))]
        broke += len(faults)
        for fault in faults:  # after as many requests that go well
            plan.extend([""] * rng.randrange(7) + [fault])
        for name in ("ann", "bo"):  # both change their mind each time
            verdict = "absent" if wanted[name, "present"] > wanted[name, "absent"] else "present"
            memory.answer(of[name], Verdict({"gore": "blood"} if verdict == "present" else {}))
            wanted[name, verdict] += 1
            while plan:
                look()
            for _ in "abc":
                look()
        gore = store.read(ws, tables.REVIEWS).filter(trait="gore")
        assert not plan and Counter(gore.select("reviewer", "verdict").iter_rows()) == +wanted, faults
    injected("faults of a server in memory, on pull --follow", broke)
