"""The demo's files."""

from pathlib import Path

from saferec_builder.demo import inputs
from tests.worlds.demo_truth import TAXONOMY


def test_the_inputs_are_the_same_every_time(tmp_path: Path) -> None:
    for name in ("a", "b"):
        inputs.write(tmp_path / name, TAXONOMY, 41)
    for file in ("conversations.jsonl", "warnings.csv", "gold.jsonl"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    assert (tmp_path / "a" / "conversations.jsonl").read_text().count("\n") == 260 + 41  # no more and no less
