"""What never ends is not read."""

import os
from pathlib import Path

import pytest

from saferec_builder.core.plain_files import read_plain


def test_a_pipe_or_a_device_is_refused_before_it_is_opened(tmp_path: Path) -> None:
    """Nobody writes into this pipe, and /dev/zero never ends."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(OSError, match="expected a plain file"):
            read_plain(path)
