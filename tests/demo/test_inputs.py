"""The input files of the demo."""

from pathlib import Path

import pytest

from saferec_builder.core.errors import UsageError
from saferec_builder.demo import inputs
from tests.worlds.reviewing import TAXONOMY


def test_the_inputs_are_the_same_every_time(tmp_path: Path) -> None:
    for name in ("a", "b"):
        inputs.write(tmp_path / name, TAXONOMY, 41)
    for file in ("conversations.jsonl", "warnings.csv", "gold.jsonl"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    for generated in (0, 1, 5, 41):  # no more and no less
        assert len(inputs.all_conversations(TAXONOMY, generated)) == 260 + generated
    with pytest.raises(UsageError, match="holds a demo of 301 conversations, and --generated 50 makes 310"):
        inputs.write(tmp_path / "a", TAXONOMY, 50)  # tasks from the 41 had no truth, which was a KeyError
