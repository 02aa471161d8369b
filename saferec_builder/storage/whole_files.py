"""A file that is written whole or not at all, and what is remembered in one."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import Any

from saferec_builder.core.errors import StoreError, whole_object
from saferec_builder.core.json_value import JsonValue
from saferec_builder.core.locks import held

_ANYBODYS, _OWN = 0o666, 0o600  # less what the umask takes


@contextmanager
def replacing(path: Path, mode: int = _ANYBODYS) -> Iterator[Path]:
    """A temporary path that becomes `path` at the end, on disk; nothing is left where the body fails.

    The file is there already, empty, with this mode. What a killed run has left goes with the next one: nobody holds
    its lock any more.
    """
    others = f"{path}: another command"
    for left in path.parent.glob(f"{escape(path.name)}.*.tmp"):
        with suppress(StoreError, OSError), held(left, others, wait=False):
            left.unlink()
    tmp = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    os.close(os.open(tmp, os.O_CREAT | os.O_WRONLY, mode))
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
    with replacing(path, _OWN) as tmp, open(os.open(tmp, os.O_CREAT | os.O_WRONLY, _OWN), "wb") as file:
        file.write(content)


def remember(path: Path, of: str, figures: Mapping[str, JsonValue]) -> None:
    """Keeps what was worked out, under a digest of all that it was made from; whoever may only look goes without."""
    with suppress(StoreError, OSError):
        write_private(path, json.dumps({"of": of, "figures": figures}).encode())


def remembered(path: Path, of: str) -> dict[str, Any] | None:
    """The figures that were kept for this digest; None where it was another, or none."""
    found = whole_object(path.read_bytes()) if path.is_file() else None
    return found["figures"] if found and found.get("of") == of else None
