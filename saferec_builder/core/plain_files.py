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
