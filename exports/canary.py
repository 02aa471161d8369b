"""The canary of a dataset: a GUID in its rows, for which a corpus or a model's answers can be searched.

It is the same in all versions: a keyed digest of the dataset's name, which nobody can make without the secret.
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
    """Returns the GUID of the dataset of this name."""
    halves = (keyed_digest(ws.secret, "canary", dataset, half) for half in "12")
    return str(UUID("".join(halves), version=4))


def sentence(guid: str) -> str:
    """Returns the sentence that is released with the texts."""
    return f"Benchmark data: it should never appear in what a language model is pretrained on. canary GUID {guid}"


def of_manifest(manifest: Facts, release: Path | str) -> str:
    """Returns the GUID in the manifest of a release; raises ReleaseError if there is none."""
    guid = manifest["canary"]
    if not guid or not _GUID.fullmatch(guid):
        raise ReleaseError(f"{release}: it has no canary, as releases of earlier versions: make a new version of it")
    return guid


def is_in(guid: str, file: Path) -> bool:
    """Whether this text, or gzipped text, holds the GUID; raises UsageError if it is packed in another way."""
    marks = [guid.encode(code) for code in ("utf-8", "utf-16-le", "utf-16-be")]
    with opened(file) as text:
        tail = b""
        while chunk := text.read(_CHUNK):
            if not tail and (packed := "parquet" if chunk.startswith(PARQUET) else packed_as(chunk)):
                raise UsageError(f"{file}: packed ({packed}), which nobody can search: give its text, plain or gzipped")
            window = (tail + chunk).lower()
            if any(mark in window for mark in marks):
                return True
            tail = window[-100:]  # longer than a GUID
    return False
