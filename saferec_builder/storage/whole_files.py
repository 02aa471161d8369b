"""A file that is written whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path

from saferec_builder.core.errors import StoreError
from saferec_builder.storage.locks import held


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path that becomes `path` at the end, on disk; nothing is left where the body fails.

    What a killed run has left goes with the next one: nobody holds its lock any more.
    """
    others = f"{path}: another command"
    for left in path.parent.glob(f"{escape(path.name)}.*.tmp"):
        with suppress(StoreError, OSError), held(left, others, wait=False):
            left.unlink()
    tmp = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with held(tmp, others, wait=True):
        try:
            yield tmp
            with open(tmp, "rb") as file:
                os.fsync(file.fileno())
            os.replace(tmp, path)
        finally:
            tmp.unlink(missing_ok=True)


def write_private(path: Path, content: bytes) -> None:
    """Written so that nobody but its owner could ever read it."""
    with replacing(path) as tmp:
        tmp.unlink()  # it was anybody's to open
        with open(os.open(tmp, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            file.write(content)
