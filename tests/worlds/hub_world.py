"""Two releases of one dataset, made once, and the clients' settings for a Hub on the loopback."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

from exports import release
from saferec_builder.storage import workspace as store
from tests.servers.hub import Hub
from tests.servers.hub_repo import Repo
from tests.worlds import release_world as world

REPO = "ann/safe"


def two_releases(root: Path) -> tuple[Path, Path]:
    """1.0.0, and 1.1.0 with one more conversation."""
    rows, labels = world.requests()
    ws = world.fill(store.Workspace.create(root), rows[:-1], labels[:-1])
    for version in ("1.0.0", "1.1.0"):
        release.release(ws, version)
        world.fill(ws, rows, labels)
    return ws.releases / "1.0.0", ws.releases / "1.1.0"


def held(repo: Repo, revision: str) -> dict[str, bytes] | None:
    """The files of a revision without the Hub's own and the marks; None where there is no such revision."""
    commit = repo.at(revision)
    ignored = (".gitattributes", "WITHDRAWN.json")
    return {p: b.content for p, b in commit.tree.items() if p not in ignored} if commit else None


def snapshot(hub: Hub) -> Callable[[], None]:
    """A function that resets the Hub to its present contents."""
    repos, large = copy.deepcopy(hub.repos), dict(hub.large)

    def restore() -> None:
        hub.repos, hub.large = copy.deepcopy(repos), dict(large)
        hub.parts, hub.strike_at, hub.seen = {}, -1, []
        hub.faults.clear()

    return restore


def quick(patch: Any) -> None:
    """Removes the client's waits between its tries."""
    import huggingface_hub.constants
    import huggingface_hub.utils
    import huggingface_hub.utils._http as http

    patch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_XET", True)  # the double speaks LFS only
    patch.setattr(http.time, "sleep", lambda _: None)
    huggingface_hub.utils.disable_progress_bars()
