"""Manages the links that open the page: one per reviewer, shown once, since only its hash is stored."""

import hashlib
import secrets
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from hmac import compare_digest

from pydantic import BaseModel, ValidationError

from saferec_builder.core.errors import StoreError, UsageError, whole_object
from saferec_builder.core.plain_files import read_plain
from saferec_builder.storage import tables, whole_files, workspace
from saferec_builder.storage.workspace import Workspace

TOOL = "page"
FILE = ".page-links.json"


class _Links(BaseModel, strict=True):
    """What the file holds."""

    address: str = ""  # of the page when it was served last
    people: dict[str, str] = {}  # reviewer -> the hash of their link


def people(ws: Workspace) -> list[str]:
    """The reviewers whose tasks a push has put on the page."""
    return sorted(set(workspace.read(ws, tables.SENT).filter(tool=TOOL)["place"]))


def make(ws: Workspace, names: Collection[str], address: str = "") -> dict[str, str]:
    """reviewer -> a new link, which replaces the previous one; `address` is stored for links that are made later.

    Raises UsageError if somebody has no tasks on the page.
    """
    for name in sorted(set(names) - set(people(ws))):
        raise UsageError(f"{name} has no tasks on the page: `review push --tool page --reviewer {name}` gives some")
    tokens = {name: secrets.token_urlsafe(32) for name in names}
    with _changed(ws) as links:
        links.address = address or links.address
        if names and not links.address:
            raise UsageError("nobody knows yet where the page is: `review serve` opens it, and makes everybody's link")
        links.people |= {name: _hash(token) for name, token in tokens.items()}
    return {name: f"{links.address}/#{token}" for name, token in tokens.items()}


def revoke(ws: Workspace, name: str) -> bool:
    """Invalidates a reviewer's link, even on a page that is running; returns whether there was one."""
    with _changed(ws) as links:
        return links.people.pop(name, None) is not None


def holders(ws: Workspace) -> set[str]:
    """The reviewers who have a link."""
    return {*_read(ws).people}


def holder(ws: Workspace, token: str) -> str | None:
    """The reviewer whose link has this token, or None."""
    hashed = _hash(token)
    return next((name for name, stored in _read(ws).people.items() if compare_digest(stored, hashed)), None)


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()  # 256 random bits cannot be guessed: no slow hash needed


def _read(ws: Workspace) -> _Links:
    path = ws.root / FILE
    try:
        return _Links.model_validate(whole_object(read_plain(path)) if path.exists() else {})
    except ValidationError:
        raise StoreError(f"{path}: damaged: delete it, and `review serve` makes everybody a new link") from None


@contextmanager
def _changed(ws: Workspace) -> Iterator[_Links]:
    """The links, which are stored once the block has changed them."""
    with workspace.alone(ws, "page links", wait=True):
        links = _read(ws)
        yield links
        whole_files.write_private(ws.root / FILE, links.model_dump_json().encode())
