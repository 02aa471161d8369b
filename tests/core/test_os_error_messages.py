"""An error of the operating system becomes one line that says what to do."""

import errno
import resource
import shutil
from pathlib import Path

import polars as pl
import pytest

from saferec_builder.core import os_error_messages as refusals


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "a.csv"), "a.csv: No space left on device: make room"),
        (OSError(errno.EROFS, "Read-only", "a", None, "b"), "a -> b: Read-only: let yourself write there"),
        (OSError(errno.EFBIG, "File too large"), "ulimit -f"),
        (MemoryError(), "not enough memory: give smaller files"),
        (shutil.Error([("a", "b", "[Errno 28] No space left"), ("c", "d", "[Errno 28] No space left")]), "make room"),
        (ValueError("parquet: underlying IO error: No space left on device (os error 28)"), "make room"),
        (FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']"), "make room"),
    ],
)
def test_a_refusal_says_what_to_do(fault: Exception, told: str) -> None:
    message = refusals.line(fault)
    assert message and told in message and len(message) < 200


def test_no_room_is_told_wherever_in_a_shard_it_ends(tmp_path: Path) -> None:
    """Polars gives the reason only before the shard's footer, which names every column."""
    wide = pl.DataFrame({f"column {n}": [n] for n in range(200)})
    wide.write_parquet(tmp_path / "whole.parquet")
    size, limits = (tmp_path / "whole.parquet").stat().st_size, resource.getrlimit(resource.RLIMIT_FSIZE)
    for room in range(0, size, size // 10):
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
        try:
            with pytest.raises((OSError, pl.exceptions.PolarsError)) as fault:
                wide.write_parquet(tmp_path / "cut.parquet")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert "run " in str(refusals.line(fault.value)), (room, fault.value)


def test_a_bug_is_no_refusal() -> None:
    bugs = (FileNotFoundError(errno.ENOENT, "No such file", "a"), ValueError("28"), KeyError(28))
    assert [refusals.line(bug) for bug in bugs] == [None] * 3
