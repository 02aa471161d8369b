"""A push reads the workspace while it holds the lock; a task keeps its warning after its quote left the text."""

import pytest

from annotation import push, review_state as desk
from annotation.review_destinations import Files
from saferec_builder.core.errors import StoreError
from saferec_builder.storage import tables, workspace as store
from tests.worlds import review_world
from tests.worlds.reviewing import TWO


def test_a_push_reads_the_workspace_in_its_turn(ws, review, monkeypatch):
    """Otherwise a push would not see what another one assigns meanwhile: two more people would get the same task."""

    def gather(ws):
        with pytest.raises(StoreError, match="at work"), store.alone(ws, "review push"):
            pass
        return desk.gather(ws)

    monkeypatch.setattr("annotation.push.gather", gather)
    assert review("push", *TWO)["added"] == 4


def test_a_pull_reads_the_workspace_once(ws, review, monkeypatch):
    """Regression: one that left some rows of a file unanswered read everything twice, ten seconds in a large one."""
    review("push", "--tool", "files", *TWO)
    review_world.Files(ws).answer("ann", lambda *_: review_world.Verdict())
    reads = []
    monkeypatch.setattr("annotation.pull.gather", lambda ws: reads.append(ws) or desk.gather(ws))
    assert review("pull", ws.root / "review")["not_answered_yet"] == 4 and len(reads) == 1


def test_a_task_keeps_its_warning_where_the_severe_quote_left_the_text(workspace):
    """A better redaction removed the quote, and with its card the warning; the text may be as hard to read."""
    review_world.fill(workspace)
    claim = review_world.claim("c3", "torture", "present", "western")
    store.append(workspace, tables.PROPOSALS, tables.PROPOSALS.frame([claim]))
    push.push(workspace, ["ann", "bo"], to=Files())
    turns = [{"role": "seeker", "text": "Any good [name]?", "items": []}]
    row = {"conversation": "c3", "digest": "d-c3b", "turns": turns}
    row |= {"source": "messages", "source_id": "c3"}
    store.append(workspace, tables.CONVERSATIONS, tables.CONVERSATIONS.frame([row]))
    state = desk.gather(workspace)
    units = desk.still_open(state, state.assignments, desk.queue(state), frozenset()).filter(subject="c3")
    assert units.select("trait", "hard").unique().rows() == [("*", True)]
