"""Who may open the page: one link per reviewer, of which only a hash is kept, so that it is shown once."""

import hashlib
import json
import secrets
from collections.abc import Iterable
from hmac import compare_digest
from pathlib import Path
from typing import Any

from saferec_builder.core.errors import StoreError, UsageError, whole_object
from saferec_builder.core.plain_files import read_plain
from saferec_builder.storage import tables, whole_files, workspace
from saferec_builder.storage.workspace import Workspace

TOOL = "page"


def people(ws: Workspace) -> list[str]:
    """Those whose tasks a push has put on the page."""
    return sorted(set(workspace.read(ws, tables.SENT).filter(tool=TOOL)["place"]))


def make(ws: Workspace, names: Iterable[str], address: str = "") -> dict[str, str]:
    """reviewer -> a new link, which replaces the one before; `address` is kept for links that are made later.

    UsageError for somebody who has no tasks on the page.
    """
    names = list(names)
    if strangers := sorted(set(names) - set(people(ws))):
        raise UsageError(
            f"{strangers[0]} has no tasks on the page: `review push --tool page --reviewer {strangers[0]}` gives some"
        )
    address = address or _read(ws)["address"]
    if names and not address:
        raise UsageError("nobody knows yet where the page is: `review serve` opens it, and makes everybody's link")
    made = {name: secrets.token_urlsafe(32) for name in names}
    _change(ws, {name: _hash(token) for name, token in made.items()}, address)
    return {name: f"{address}/#{token}" for name, token in made.items()}


def revoke(ws: Workspace, name: str) -> bool:
    """Whether there was a link: from now on it opens nothing, also where the page is open."""
    known = name in holders(ws)
    _change(ws, {name: None})
    return known


def holders(ws: Workspace) -> dict[str, str]:
    """reviewer -> the hash of their link."""
    return dict(_read(ws)["people"])


def addresses(ws: Workspace) -> dict[str, str]:
    """reviewer -> where the page was when their link was made; the version before kept the last one alone."""
    found = _read(ws)
    return {name: found["addresses"].get(name, found["address"]) for name in found["people"]}


def holder(ws: Workspace, token: str) -> str | None:
    """Whose link this is."""
    told = _hash(token)
    return next((name for name, known in holders(ws).items() if compare_digest(known, told)), None)


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()  # of 256 random bits: nothing to be guessed, so no slow hash


def _place(ws: Workspace) -> Path:
    return ws.root / ".page-links.json"


def _read(ws: Workspace) -> dict[str, Any]:
    path = _place(ws)
    kept = whole_object(read_plain(path)) if path.exists() else {"address": "", "people": {}}
    found: dict[str, Any] = {"addresses": {}} | (kept or {})
    if any(not isinstance(found.get(n), k) for n, k in (("people", dict), ("address", str), ("addresses", dict))):
        raise StoreError(f"{path}: damaged: delete it, and `review serve` makes everybody a new link")
    return found


def _change(ws: Workspace, hashes: dict[str, str | None], address: str = "") -> None:
    with workspace.alone(ws, "page links", wait=True):
        found = _read(ws)
        kept = {name: known for name, known in (found["people"] | hashes).items() if known}
        now = address or found["address"]
        of = {name: now if name in hashes else found["addresses"].get(name, found["address"]) for name in kept}
        made = {"address": now, "people": kept, "addresses": of}
        whole_files.write_private(_place(ws), json.dumps(made).encode())
