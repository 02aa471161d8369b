"""A push reads the workspace in its turn."""

import pytest

from annotation import review_state as desk
from saferec_builder.core.errors import StoreError
from saferec_builder.storage import workspace as store
from tests.worlds.reviewing import TWO


def test_a_push_reads_the_workspace_in_its_turn(ws, review, monkeypatch):
    """What another push hands out meanwhile would not be seen: the same task for two more people."""

    def gather(ws):
        with pytest.raises(StoreError, match="at work"), store.alone(ws, "review push"):
            pass
        return desk.gather(ws)

    monkeypatch.setattr("annotation.push.gather", gather)
    assert review("push", *TWO)["added"] == 4
