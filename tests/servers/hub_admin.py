"""What changes a repository rather than its files: settings, branches, tags, history, large files for good."""

from typing import Any
from urllib.parse import unquote

from tests.servers.hub_repo import Commit, Repo


class Admin:
    """Endpoints of the double's handler; `self` is that handler."""

    def _settings(self: Any, repo: str) -> tuple[int, Any]:
        self._writes()
        held, asked = self._repo(repo), self._json()
        held.gated = asked.get("gated", held.gated)
        if "visibility" in asked:
            held.private = asked["visibility"] == "private"
        return 200, {}

    def _branch(self: Any, repo: str, branch: str) -> tuple[int, Any]:
        self._writes()
        held, name = self._repo(repo), unquote(branch)
        if name in held.branches:
            return 409, {"error": "Branch reference exists already"}
        at = self._commit_at(held, self._json().get("startingPoint") or "main")
        held.branches[name] = [*held.line(at), at]
        return 200, {}

    def _unbranch(self: Any, repo: str, branch: str) -> tuple[int, Any]:
        self._writes()
        del self._repo(repo).branches[unquote(branch)]
        return 200, {}

    def _untag(self: Any, repo: str, rev: str) -> tuple[int, Any]:
        self._writes()
        self._repo(repo).tags.pop(unquote(rev))
        return 200, {}

    def _squash(self: Any, repo: str, rev: str) -> tuple[int, Any]:
        self._writes()
        held, name = self._repo(repo), unquote(rev)
        line = held.commits if name == "main" else held.branches[name]
        line[:] = [held.made(self._json()["message"], "", line[-1].tree)]
        return 200, {}

    def _lfs_files(self: Any, repo: str) -> tuple[int, Any]:
        held = self._repo(repo)
        seen = {b.sha256: (p, b) for c in held.ever for p, b in c.tree.items() if b.lfs and b.sha256 in self.hub.large}
        facts = {"pushedAt": "2026-01-01T00:00:00.000Z"}
        rows = [(sha, path, len(b.content)) for sha, (path, b) in sorted(seen.items())]
        return 200, [facts | {"fileOid": sha, "oid": sha, "filename": path, "size": size} for sha, path, size in rows]

    def _lfs_delete(self: Any, repo: str) -> tuple[int, Any]:
        self._writes()
        self._repo(repo)
        for sha in self._json()["deletions"]["sha"]:
            self.hub.large.pop(sha, None)
        return 200, {}


def reachable(held: Repo) -> list[Commit]:
    """Every commit that some branch or tag still leads to."""
    found = [*held.commits]
    for line in held.branches.values():
        found += line
    for oid in held.tags.values():
        at = held.at(oid)
        if at is not None:
            found += [*held.line(at), at]
    return found
