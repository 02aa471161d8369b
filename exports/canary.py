"""The canary of a dataset: a GUID in its rows, by which a corpus or the answers of a model can be searched.

It is the same in all versions, a keyed digest of the dataset's name: who lacks the workspace's secret cannot plant it.
"""

import re
from pathlib import Path
from uuid import UUID

from exports.manifest_types import Facts
from saferec_builder.core.errors import ReleaseError, UsageError
from saferec_builder.core.plain_files import PARQUET, packed_as
from saferec_builder.sources import opened
from saferec_builder.storage.schema import keyed_digest
from saferec_builder.storage.workspace import Workspace

_GUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_CHUNK = 1 << 20  # bytes


def guid(ws: Workspace, dataset: str) -> str:
    """Of the dataset of this name."""
    halves = (keyed_digest(ws.secret, "canary", dataset, half) for half in "12")
    return str(UUID("".join(halves), version=4))


def sentence(guid: str) -> str:
    """What stands beside the texts."""
    return f"Benchmark data: it should never appear in what a language model is pretrained on. canary GUID {guid}"


def of(manifest: Facts, release: Path | str) -> str:
    """The canary that a release names; ReleaseError where it names none."""
    found = manifest.get("canary")
    if not isinstance(found, str) or not _GUID.fullmatch(found):
        raise ReleaseError(f"{release}: it has no canary, as releases of earlier versions: make a new version of it")
    return found


def found(guid: str, file: Path) -> bool:
    """Does this text, or text in gzip, hold the GUID? UsageError where it is packed in another way."""
    marks = [guid.encode(code) for code in ("utf-8", "utf-16-le", "utf-16-be")]
    with opened(file) as text:
        before = b""
        while chunk := text.read(_CHUNK):
            if not before and (packed := "parquet" if chunk.startswith(PARQUET) else packed_as(chunk)):
                raise UsageError(f"{file}: packed ({packed}), which nobody can search: give its text, plain or gzipped")
            here = (before + chunk).lower()
            if any(mark in here for mark in marks):
                return True
            before = here[-100:]  # more than a GUID has
    return False
