"""Files that are read whole."""

import errno
import stat
from pathlib import Path


def read_plain(path: Path) -> bytes:
    """The bytes of a file; OSError also where it is a pipe or a device, which may never end."""
    kind = path.stat().st_mode
    if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):  # what a folder is, opening it says
        raise OSError(errno.ESPIPE, "a pipe or device, expected a plain file", str(path))
    return path.read_bytes()


# ---- files whose bytes are no text

PARQUET = b"PAR1"
_PACKED = {
    b"PK\x03\x04": "zip",  # and what spreadsheets and word processors save
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zX": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    **{bytes([first]) + b"*M\x18": "zstd" for first in range(0x50, 0x60)},  # with a frame to skip, as pzstd writes it
    b"7z\xbc\xaf": "7z",
    b"Rar!": "rar",
    b"%PDF": "pdf",
    b"\xd0\xcf\x11\xe0": "Office before 2007, or with a password",
}


def packed_as(head: bytes) -> str | None:
    """How a file that begins so is packed; None where its bytes can be searched, or are parquet."""
    return next((name for mark, name in _PACKED.items() if head.startswith(mark)), None)
