"""Manages the links that open the page: one per reviewer, shown once, since only its hash is stored."""

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
    """The reviewers whose tasks a push has put on the page."""
    return sorted(set(workspace.read(ws, tables.SENT).filter(tool=TOOL)["place"]))


def make(ws: Workspace, names: Iterable[str], address: str = "") -> dict[str, str]:
    """reviewer -> a new link, which replaces the previous one; `address` is stored for links that are made later.

    Raises UsageError if somebody has no tasks on the page.
    """
    names = list(names)
    if unassigned := sorted(set(names) - set(people(ws))):
        raise UsageError(
            f"{unassigned[0]} has no tasks on the page: `review push --tool page --reviewer {unassigned[0]}` gives some"
        )
    address = address or _read(ws)["address"]
    if names and not address:
        raise UsageError("nobody knows yet where the page is: `review serve` opens it, and makes everybody's link")
    tokens = {name: secrets.token_urlsafe(32) for name in names}
    _change(ws, {name: _hash(token) for name, token in tokens.items()}, address)
    return {name: f"{address}/#{token}" for name, token in tokens.items()}


def revoke(ws: Workspace, name: str) -> bool:
    """Invalidates a reviewer's link, even on a page that is running; returns whether there was one."""
    existed = name in holders(ws)
    _change(ws, {name: None})
    return existed


def holders(ws: Workspace) -> dict[str, str]:
    """reviewer -> the hash of their link."""
    return dict(_read(ws)["people"])


def addresses(ws: Workspace) -> dict[str, str]:
    """reviewer -> address of the page when their link was made; the previous version stored only the last address."""
    record = _read(ws)
    return {name: record["addresses"].get(name, record["address"]) for name in record["people"]}


def holder(ws: Workspace, token: str) -> str | None:
    """The reviewer whose link has this token, or None."""
    token_hash = _hash(token)
    return next((name for name, stored in holders(ws).items() if compare_digest(stored, token_hash)), None)


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()  # 256 random bits cannot be guessed: no slow hash needed


def _path(ws: Workspace) -> Path:
    return ws.root / ".page-links.json"


def _read(ws: Workspace) -> dict[str, Any]:
    path = _path(ws)
    stored = whole_object(read_plain(path)) if path.exists() else {"address": "", "people": {}}
    record: dict[str, Any] = {"addresses": {}} | (stored or {})
    if any(not isinstance(record.get(n), k) for n, k in (("people", dict), ("address", str), ("addresses", dict))):
        raise StoreError(f"{path}: damaged: delete it, and `review serve` makes everybody a new link")
    return record


def _change(ws: Workspace, hashes: dict[str, str | None], address: str = "") -> None:
    with workspace.alone(ws, "page links", wait=True):
        record = _read(ws)
        people = {name: digest for name, digest in (record["people"] | hashes).items() if digest}
        url = address or record["address"]
        urls = {name: url if name in hashes else record["addresses"].get(name, record["address"]) for name in people}
        changed = {"address": url, "people": people, "addresses": urls}
        whole_files.write_private(_path(ws), json.dumps(changed).encode())
