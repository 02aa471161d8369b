"""Writes a file whole or not at all, and keeps computed figures in such files."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import Any

from saferec_builder.core.errors import StoreError, whole_object
from saferec_builder.core.json_value import JsonValue
from saferec_builder.core.locks import file_lock

_PUBLIC, _PRIVATE = 0o666, 0o600  # minus the umask


@contextmanager
def replacing(path: Path, mode: int = _PUBLIC) -> Iterator[Path]:
    """Yields a temporary path that becomes `path` at the end, on disk; nothing remains where the body fails.

    The temporary file already exists, empty, with this mode. Files of killed runs are deleted: nobody holds their locks
    any more.
    """
    others = f"{path}: another command"
    for leftover in path.parent.glob(f"{escape(path.name)}.*.tmp"):
        with suppress(StoreError, OSError), file_lock(leftover, others, wait=False, mode=None):
            leftover.unlink()
    tmp = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with file_lock(tmp, others, wait=True, mode=mode):
        try:
            yield tmp
            with open(tmp, "rb") as file:
                os.fsync(file.fileno())
            os.replace(tmp, path)
        finally:
            tmp.unlink(missing_ok=True)


def write_private(path: Path, content: bytes) -> None:
    """Writes a file that only its owner can read, from its first byte on."""
    with replacing(path, _PRIVATE) as tmp:
        tmp.write_bytes(content)


def remember(path: Path, digest: str, figures: Mapping[str, JsonValue]) -> None:
    """Keeps figures under a digest of all their inputs; does nothing where writing is not permitted."""
    with suppress(StoreError, OSError):
        write_private(path, json.dumps({"of": digest, "figures": figures}).encode())


def remembered(path: Path, digest: str) -> dict[str, Any] | None:
    """The figures that were kept for this digest; None where there are none, or those of another digest."""
    content = whole_object(path.read_bytes()) if path.is_file() else None
    return content["figures"] if content and content.get("of") == digest else None
