"""mine from Python: what was left out, and of which file nothing was taken."""

import pytest

from saferec_builder.core.errors import UsageError
from saferec_builder.mining import ingest
from tests.worlds.source_lines import chat


def test_mining_from_python_says_what_was_left_out_and_of_which_file_nothing_was_taken(workspace, tmp_path):
    good, bad = tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    good.write_text(chat("a", "hi", "Heat (1995)") + "\n{")
    bad.write_text("{\n{")
    found = ingest.mine(workspace, "messages", [good, str(bad)])
    assert (found.counts.added, found.counts.dropped) == (1, {"not JSON": 3})
    assert found.drops.select("file", "reason", "rows").rows() == [
        ("good.jsonl", "not JSON", 1),
        ("bad.jsonl", "not JSON", 2),
    ]
    assert found.drops["example"][1].startswith("bad.jsonl:1: ")
    assert "nothing of bad.jsonl was taken: 2 of 2 rows" in found.fault
    assert ingest.mine(workspace, "messages", [good]).fault is None
    with pytest.raises(UsageError, match="no such source"):
        ingest.mine(workspace, "letters", [good])
    with pytest.raises(UsageError, match="OURS"):
        ingest.mine(workspace, "hf", [good], columns={"talk": "dialog"})
