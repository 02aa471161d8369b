"""Traits that a reviewer would rather not see: read by routing alone, in no table, no report."""

import json
from pathlib import Path

from saferec_builder.core.errors import StoreError, whole_object
from saferec_builder.storage import workspace as store
from saferec_builder.storage.workspace import Workspace


def avoided(ws: Workspace) -> frozenset[tuple[str, str]]:
    """(reviewer, trait) pairs; nobody but the routing of `review push` asks."""
    return frozenset((name, slug) for name, slugs in read(ws).items() for slug in slugs)


def _place(ws: Workspace) -> Path:
    return ws.root / ".opt-outs.json"


def read(ws: Workspace) -> dict[str, list[str]]:
    path = _place(ws)
    found = whole_object(path.read_bytes()) if path.exists() else {}
    if found is None or not all(isinstance(s, list) and all(isinstance(t, str) for t in s) for s in found.values()):
        raise StoreError(f"{path}: damaged: put your copy of it back, or delete it and ask your reviewers again")
    return found


def write(ws: Workspace, known: dict[str, list[str]]) -> None:
    """Readable by its owner only; an empty one leaves no file."""
    path = _place(ws)
    if not known:
        path.unlink(missing_ok=True)
        return
    store.write_private(path, json.dumps(known).encode())
