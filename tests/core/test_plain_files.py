"""Endless files are not read, and packed files are recognised by their first bytes."""

import os
import zlib
from pathlib import Path

import pytest

from saferec_builder.core.plain_files import packed_as, read_plain


def test_a_pipe_or_a_device_is_refused_before_it_is_opened(tmp_path: Path) -> None:
    """Nothing writes into this pipe, and /dev/zero never ends."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(OSError, match="expected a plain file"):
            read_plain(path)


@pytest.mark.parametrize(
    ("head", "how"),
    [
        (bytes.fromhex("d0cf11e0a1b11ae1"), "Office before 2007, or with a password"),  # a workbook with a password
        (bytes.fromhex("502a4d1804000000"), "zstd"),  # pzstd begins each file with a frame to skip
        (bytes.fromhex("5f2a4d1804000000"), "zstd"),
        (bytes.fromhex("602a4d1804000000"), None),
        (bytes.fromhex("504b0506") + bytes(18), "zip"),  # an empty one
        (bytes.fromhex("504b0708504b0304"), "zip"),  # the first part of a split archive
        (zlib.compress(b"blob 3\0abc", 1), "zlib, as the history of git"),
        (b"xylophone", None),
        (bytes.fromhex("04224d1864407fc0"), "lz4"),
        (bytes.fromhex("02214c1810000000"), "lz4"),  # as `lz4 -l` writes it
        (b"PKI, a word", None),
        (b"P*M is text", None),
    ],
)
def test_what_is_packed_is_known_by_its_first_bytes(head: bytes, how: str | None) -> None:
    """Each was searched as raw bytes, without a warning that nothing can be found in packed files."""
    assert packed_as(head) == how
