"""Reads whole files but no pipes or devices, and tells packed files by their first bytes."""

import errno
import stat
from pathlib import Path


def read_plain(path: Path) -> bytes:
    """The bytes of a file; OSError also where it is a pipe or a device, which may never end."""
    kind = path.stat().st_mode
    if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):  # for a folder, opening it raises the error
        raise OSError(errno.ESPIPE, "a pipe or device, expected a plain file", str(path))
    return path.read_bytes()


# ---- files whose bytes are not text

PARQUET = b"PAR1"
_PACKED = {
    b"PK\x03\x04": "zip",  # also the files of spreadsheets and word processors
    b"PK\x05\x06": "zip",  # empty
    b"PK\x07\x08": "zip",  # first part of a divided one
    b"\x04\x22\x4d\x18": "lz4",
    b"\x02\x21\x4c\x18": "lz4",  # the older format
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zX": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    **{bytes([first]) + b"*M\x18": "zstd" for first in range(0x50, 0x60)},  # skippable frame first, as in pzstd files
    **dict.fromkeys((b"x\x01", b"x\x9c", b"x\xda", b"PACK\0\0\0"), "zlib, as the history of git"),
    **{b"Obj\x01": "avro", b"ARROW1\0\0": "arrow", b"\x89HDF": "HDF5", b"LZIP": "lzip", b"\x1f\x9d": "compress"},
    b"7z\xbc\xaf": "7z",
    b"Rar!": "rar",
    b"%PDF": "pdf",
    b"\xd0\xcf\x11\xe0": "Office before 2007, or with a password",
}


def packed_as(head: bytes) -> str | None:
    """The packed format of a file with this beginning; None where its bytes can be searched, or are parquet."""
    return next((name for magic, name in _PACKED.items() if head.startswith(magic)), None)
