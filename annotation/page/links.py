"""Manages the links that open the page: one per reviewer, shown once, since only its hash is stored."""

import hashlib
import secrets
from collections.abc import Iterable
from hmac import compare_digest

from pydantic import BaseModel, ConfigDict, ValidationError

from saferec_builder.core.errors import StoreError, UsageError, whole_object
from saferec_builder.core.plain_files import read_plain
from saferec_builder.storage import tables, whole_files, workspace
from saferec_builder.storage.workspace import Workspace

TOOL = "page"
FILE = ".page-links.json"


class _Links(BaseModel):
    """What the file holds. The previous version stored only the last address."""

    model_config = ConfigDict(strict=True)

    address: str = ""  # of the page when it was served last
    people: dict[str, str] = {}  # reviewer -> the hash of their link
    addresses: dict[str, str] = {}  # reviewer -> address of the page when their link was made


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
    address = address or _read(ws).address
    if names and not address:
        raise UsageError("nobody knows yet where the page is: `review serve` opens it, and makes everybody's link")
    tokens = {name: secrets.token_urlsafe(32) for name in names}
    _change(ws, {name: _hash(token) for name, token in tokens.items()}, address)
    return {name: f"{address}/#{token}" for name, token in tokens.items()}


def revoke(ws: Workspace, name: str) -> bool:
    """Invalidates a reviewer's link, even on a page that is running; returns whether there was one."""
    existed = name in addresses(ws)
    _change(ws, {name: ""})
    return existed


def addresses(ws: Workspace) -> dict[str, str]:
    """reviewer -> address of the page when their link was made."""
    links = _read(ws)
    return {name: links.addresses.get(name, links.address) for name in links.people}


def holder(ws: Workspace, token: str) -> str | None:
    """The reviewer whose link has this token, or None."""
    token_hash = _hash(token)
    return next((name for name, stored in _read(ws).people.items() if compare_digest(stored, token_hash)), None)


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()  # 256 random bits cannot be guessed: no slow hash needed


def _read(ws: Workspace) -> _Links:
    path = ws.root / FILE
    try:
        return _Links.model_validate(whole_object(read_plain(path)) if path.exists() else {})
    except ValidationError:
        raise StoreError(f"{path}: damaged: delete it, and `review serve` makes everybody a new link") from None


def _change(ws: Workspace, hashes: dict[str, str], address: str = "") -> None:
    with workspace.alone(ws, "page links", wait=True):
        links = _read(ws)
        address = address or links.address
        people = {name: digest for name, digest in (links.people | hashes).items() if digest}
        places = {
            name: place for name, place in (addresses(ws) | dict.fromkeys(hashes, address)).items() if name in people
        }
        changed = _Links(address=address, people=people, addresses=places)
        whole_files.write_private(ws.root / FILE, changed.model_dump_json().encode())
