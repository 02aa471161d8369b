"""Hub endpoints that change a repository itself: settings, branches, tags, history, stored large files."""

from typing import Any
from urllib.parse import unquote

from tests.servers.hub_repo import Commit, Repo


class Admin:
    """Endpoints that the Hub double's handler inherits; `self` is that handler."""

    def _settings(self: Any, repo: str) -> tuple[int, Any]:
        self._writes()
        stored, settings = self._repo(repo), self._json()
        stored.gated = settings.get("gated", stored.gated)
        if "visibility" in settings:
            stored.private = settings["visibility"] == "private"
        return 200, {}

    def _branch(self: Any, repo: str, branch: str) -> tuple[int, Any]:
        self._writes()
        stored, name = self._repo(repo), unquote(branch)
        if name in stored.branches:
            return 409, {"error": "Branch reference exists already"}
        start = self._commit_at(stored, self._json().get("startingPoint") or "main")
        stored.branches[name] = [*stored.line(start), start]
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
        stored, name = self._repo(repo), unquote(rev)
        history = stored.commits if name == "main" else stored.branches[name]
        history[:] = [stored.made(self._json()["message"], "", history[-1].tree)]
        return 200, {}

    def _lfs_files(self: Any, repo: str) -> tuple[int, Any]:
        stored = self._repo(repo)
        files = {
            b.sha256: (p, b) for c in stored.ever for p, b in c.tree.items() if b.lfs and b.sha256 in self.hub.large
        }
        common = {"pushedAt": "2026-01-01T00:00:00.000Z"}
        rows = [(sha, path, len(b.content)) for sha, (path, b) in sorted(files.items())]
        return 200, [common | {"fileOid": sha, "oid": sha, "filename": path, "size": size} for sha, path, size in rows]

    def _lfs_delete(self: Any, repo: str) -> tuple[int, Any]:
        self._writes()
        self._repo(repo)
        for sha in self._json()["deletions"]["sha"]:
            self.hub.large.pop(sha, None)
        return 200, {}


def reachable(held: Repo) -> list[Commit]:
    """Returns every commit that some branch or tag still reaches."""
    commits = [*held.commits]
    for history in held.branches.values():
        commits += history
    for oid in held.tags.values():
        commit = held.at(oid)
        if commit is not None:
            commits += [*held.line(commit), commit]
    return commits
