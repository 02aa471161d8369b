"""A certificate is written while `adjudicate` holds the lock."""

import os

import pytest

from annotation import adjudication as adjudicating
from saferec_builder.core.errors import StoreError
from saferec_builder.storage import workspace as store
from tests.worlds.reviewing import TWO, answer, yes


def test_a_certificate_is_written_in_its_turn(ws, review, adjudicate, monkeypatch):
    """Otherwise a run that read fewer reviews could write it last."""
    keep = adjudicating._write_certificate

    def kept(*words):
        with pytest.raises(StoreError, match="at work"), store.alone(ws, "adjudicate"):
            pass
        keep(*words)

    monkeypatch.setattr(adjudicating, "_write_certificate", kept)
    review("push", *TWO)
    answer(ws, review, ann=yes)
    adjudicate()
    bounds = ws.root / "certificates.json"
    os.utime(bounds, (0, 0))  # FileNotFoundError where there is none
    adjudicate()
    assert bounds.stat().st_mtime == 0  # nothing changed: `status` goes by this time
