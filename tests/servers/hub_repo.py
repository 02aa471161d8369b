"""The data of a Hub: repositories of commits of blobs, and the faults that a test injects."""

import hashlib
from dataclasses import dataclass, field


@dataclass
class Fault:
    """The next `times` requests that match METHOD PATH (a regex) get `status`; None cuts the connection.

    after: the request takes effect first, and only its reply is lost.
    """

    method: str
    path: str
    status: int | None
    after: bool = False
    times: int = 1


@dataclass(frozen=True)
class Blob:
    content: bytes
    lfs: bool

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    @property
    def oid(self) -> str:
        """git's object id: of the content, or of the pointer file of a large file."""
        raw = self.content
        if self.lfs:
            size = len(self.content)
            raw = f"version https://git-lfs.github.com/spec/v1\noid sha256:{self.sha256}\nsize {size}\n".encode()
        return hashlib.sha1(b"blob %d\0" % len(raw) + raw).hexdigest()


@dataclass(frozen=True)
class Commit:
    oid: str
    title: str
    message: str
    tree: dict[str, Blob]


@dataclass
class Repo:
    private: bool
    commits: list[Commit] = field(default_factory=list)  # of main, oldest first
    tags: dict[str, str] = field(default_factory=dict)
    branches: dict[str, list[Commit]] = field(default_factory=dict)  # all but main
    gated: str | bool = False
    ever: list[Commit] = field(default_factory=list)
    before: dict[str, list[Commit]] = field(default_factory=dict)  # oid -> the commits before it

    def add(self, title: str, message: str, tree: dict[str, Blob]) -> Commit:
        commit = self.made(title, message, tree, self.commits)
        self.commits.append(commit)
        return commit

    def made(self, title: str, message: str, tree: dict[str, Blob], on: list[Commit] | None = None) -> Commit:
        oid = hashlib.sha1(f"{len(self.ever)}{title}{message}{sorted(tree)}".encode()).hexdigest()
        commit = Commit(oid, title, message, tree)
        self.ever.append(commit)
        self.before[oid] = list(on or [])
        return commit

    def line(self, commit: Commit) -> list[Commit]:
        """Returns the commits before this one, oldest first."""
        return self.before[commit.oid]

    def at(self, revision: str) -> Commit | None:
        name = self.tags.get(revision, revision)
        if name == "main":
            return self.commits[-1]
        if name in self.branches:
            return self.branches[name][-1]
        return next((c for c in self.ever if c.oid == name), None)
