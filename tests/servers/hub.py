"""A Hub on the loopback: the endpoints that huggingface_hub and datasets use for one dataset repository.

with Hub() as hub: HF_ENDPOINT=hub.url. `hub.faults` lists the faults to inject into replies (see Fault).
"""

import base64
import hashlib
import json
import re
import threading
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.servers.hub_admin import Admin
from tests.servers.hub_repo import Blob, Commit, Fault, Repo
from tests.servers.loopback import Asked, Reply, serving

WRITER, READER = "hf_writer", "hf_reader"
ATTRIBUTES = b"*.parquet filter=lfs diff=lfs merge=lfs -text\n"


class Hub:
    def __init__(self) -> None:
        self.repos: dict[str, Repo] = {}
        self.large: dict[str, bytes] = {}
        self.parts: dict[tuple[str, int], bytes] = {}
        self.faults: list[Fault] = []
        self.seen: list[str] = []  # "METHOD path", in order of arrival
        self.part_size = 1 << 20  # larger files are uploaded in parts
        self.strike_at = -1
        self.blow: Fault | None = None
        self.lock = threading.RLock()

    def __enter__(self) -> "Hub":
        self.stack = serving(lambda asked: _Request(self, asked).reply(), "HTTP/1.1")
        self.url = self.stack.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.__exit__(None, None, None)

    def strike(self) -> Fault | None:
        """Returns the fault `blow` for request number `strike_at` (from 0), which counts down."""
        self.strike_at -= 1
        return self.blow if self.strike_at == -1 else None

    def fault(self, method: str, path: str) -> Fault | None:
        for fault in self.faults:
            if fault.times > 0 and fault.method == method and re.search(fault.path, path):
                fault.times -= 1
                return fault
        return None


@dataclass
class _Reply(Exception):
    status: int
    body: Any = b""
    headers: dict[str, str] = field(default_factory=dict)


class _Request(Admin):
    def __init__(self, hub: Hub, asked: Asked) -> None:
        url = urlsplit(asked.path)
        self.hub, self.method, self.path, self.query = hub, asked.method, url.path, parse_qs(url.query)
        self.headers, self.body = asked.headers, asked.body

    def reply(self) -> Reply | None:
        with self.hub.lock:
            self.hub.seen.append(f"{self.method} {self.path}")
            fault = self.hub.fault(self.method, self.path) or self.hub.strike()
            try:
                if fault is None or fault.after:
                    reply = self._route()
                if fault and fault.status is None:
                    return None
                if fault:
                    reply = _Reply(fault.status, {"error": "injected"})
            except _Reply as early:
                reply = early
        body = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
        return Reply(reply.status, body, tuple({"Content-Type": "application/json", **reply.headers}.items()))

    # ---- authorisation

    def _token(self) -> str | None:
        token = self.headers.get("Authorization", "").removeprefix("Bearer ") or None
        if token not in (None, WRITER, READER):
            raise _Reply(401, {"error": "Invalid credentials"})
        return token

    def _writes(self) -> None:
        token = self._token()
        if token is None:
            raise _Reply(401, {"error": "Invalid username or password."})
        if token == READER:
            raise _Reply(403, {"error": "You need a write token"})

    def _repo(self, name: str) -> Repo:
        repo = self.hub.repos.get(name)
        if repo is None or (repo.private and self._token() is None):
            raise _Reply(
                401 if self._token() is None else 404,
                {"error": "Repository not found"},
                {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"},
            )
        return repo

    def _commit_at(self, repo: Repo, revision: str) -> Commit:
        commit = repo.at(unquote(revision))
        if commit is None:
            raise _Reply(404, {"error": "Invalid rev id"}, {"X-Error-Code": "RevisionNotFound"})
        return commit

    # ---- routes

    def _route(self) -> _Reply:
        name = r"(?P<repo>[^/]+/[^/]+)"
        routes = {
            ("POST", r"/api/repos/create"): self._create,
            ("POST", r"/api/validate-yaml"): self._yaml,
            ("GET", rf"/api/datasets/{name}(/revision/(?P<rev>[^/]+))?"): self._info,
            ("GET", rf"/api/datasets/{name}/refs"): self._refs,
            ("GET", rf"/api/datasets/{name}/commits/(?P<rev>[^/]+)"): self._commits,
            ("GET", rf"/api/datasets/{name}/tree/(?P<rev>[^/]+)(/(?P<path>.+))?"): self._tree,
            ("POST", rf"/api/datasets/{name}/preupload/(?P<rev>[^/]+)"): self._preupload,
            ("POST", rf"/datasets/{name}\.git/info/lfs/objects/batch"): self._batch,
            ("PUT", r"/large/(?P<sha>[0-9a-f]+)(/(?P<part>\d+))?"): self._put,
            ("POST", r"/complete/(?P<sha>[0-9a-f]+)"): self._complete,
            ("POST", r"/check/(?P<sha>[0-9a-f]+)"): self._check,
            ("POST", rf"/api/datasets/{name}/commit/(?P<rev>[^/]+)"): self._commit,
            ("POST", rf"/api/datasets/{name}/tag/(?P<rev>[^/]+)"): self._tag,
            ("GET", rf"/datasets/{name}/resolve/(?P<rev>[^/]+)/(?P<path>.+)"): self._resolve,
            ("GET", r"/stored/(?P<sha>[0-9a-f]+)"): self._stored,
            ("PUT", rf"/api/datasets/{name}/settings"): self._settings,
            ("POST", rf"/api/datasets/{name}/branch/(?P<branch>[^/]+)"): self._branch,
            ("DELETE", rf"/api/datasets/{name}/branch/(?P<branch>[^/]+)"): self._unbranch,
            ("DELETE", rf"/api/datasets/{name}/tag/(?P<rev>[^/]+)"): self._untag,
            ("POST", rf"/api/datasets/{name}/super-squash/(?P<rev>[^/]+)"): self._squash,
            ("GET", rf"/api/datasets/{name}/lfs-files"): self._lfs_files,
            ("POST", rf"/api/datasets/{name}/lfs-files/batch"): self._lfs_delete,
        }
        method = "GET" if self.method == "HEAD" else self.method
        for (verb, pattern), answer in routes.items():
            if verb == method and (match := re.fullmatch(pattern, self.path)):
                reply = answer(**{k: v for k, v in match.groupdict().items() if v is not None})
                return reply if isinstance(reply, _Reply) else _Reply(*reply)
        return _Reply(404, {"error": f"no such endpoint: {self.path}"})

    def _json(self) -> Any:
        return json.loads(self.body)

    def _create(self) -> _Reply:
        self._writes()
        settings = self._json()
        name = f"{settings['organization'] or 'ann'}/{settings['name']}"
        if name in self.hub.repos:
            return _Reply(409, {"error": "You already created it", "url": f"{self.hub.url}/datasets/{name}"})
        private = settings.get("visibility") == "private" or bool(settings.get("private"))
        repo = self.hub.repos[name] = Repo(private)
        repo.add("initial commit", "", {".gitattributes": Blob(ATTRIBUTES, False)})
        return _Reply(200, {"url": f"{self.hub.url}/datasets/{name}", "name": name})

    def _yaml(self) -> _Reply:
        import yaml

        head = re.match(r"---\n(.*?)\n---\n", self._json()["content"], re.S)
        try:
            valid = isinstance(yaml.safe_load(head[1]), dict) if head else False
        except yaml.YAMLError:
            valid = False
        return _Reply(200 if valid else 400, {"errors": [] if valid else [{"message": "bad YAML"}], "warnings": []})

    def _info(self, repo: str, rev: str = "main") -> _Reply:
        stored = self._repo(repo)
        commit = self._commit_at(stored, rev)
        files = [{"rfilename": path} for path in sorted(commit.tree)]
        facts = {"_id": "0" * 24, "id": repo, "private": stored.private, "sha": commit.oid, "siblings": files}
        return _Reply(200, facts | {"tags": [], "downloads": 0, "likes": 0, "disabled": False, "gated": stored.gated})

    def _refs(self, repo: str) -> _Reply:
        stored = self._repo(repo)
        tags = [{"name": t, "ref": f"refs/tags/{t}", "targetCommit": oid} for t, oid in stored.tags.items()]
        branches = {"main": stored.commits, **stored.branches}
        rows = [
            {"name": n, "ref": f"refs/heads/{n}", "targetCommit": commits[-1].oid} for n, commits in branches.items()
        ]
        return _Reply(200, {"branches": rows, "converts": [], "tags": tags})

    def _commits(self, repo: str, rev: str) -> _Reply:
        stored = self._repo(repo)
        commit = self._commit_at(stored, rev)
        history = [*stored.line(commit), commit]
        keys = ("id", "title", "message", "date", "authors")
        rows = [(c.oid, c.title, c.message, "2026-01-01T00:00:00.000Z", []) for c in history[::-1]]
        return _Reply(200, [dict(zip(keys, row, strict=True)) for row in rows])

    def _entry(self, path: str, blob: Blob) -> dict[str, Any]:
        entry: dict[str, Any] = {"type": "file", "oid": blob.oid, "size": len(blob.content), "path": path}
        if blob.lfs:
            entry["lfs"] = {"oid": blob.sha256, "size": len(blob.content), "pointerSize": 130}
        return entry

    def _tree(self, repo: str, rev: str, path: str = "") -> _Reply:
        commit = self._commit_at(self._repo(repo), rev)
        prefix = unquote(path).rstrip("/") + "/" if path else ""
        inside = {p: b for p, b in sorted(commit.tree.items()) if p.startswith(prefix)}
        if prefix and not inside:
            return _Reply(404, {"error": "not found"}, {"X-Error-Code": "EntryNotFound"})
        recursive = self.query.get("recursive", [""])[0].lower() == "true"
        folders = {str(f) for p in inside for f in PurePosixPath(p).parents if f"{f}/" != prefix and str(f) != "."}
        folders = {f for f in folders if f.startswith(prefix)}
        if not recursive:
            folders = {f for f in folders if "/" not in f[len(prefix) :]}
            inside = {p: b for p, b in inside.items() if "/" not in p[len(prefix) :]}
        rows = [{"type": "directory", "oid": "0" * 40, "size": 0, "path": f} for f in sorted(folders)]
        rows += [self._entry(p, b) for p, b in inside.items()]
        start, page = int(self.query.get("cursor", ["0"])[0]), 5  # small pages, to catch a client that reads only one
        headers = {}
        if start + page < len(rows):
            more = f"{self.hub.url}{self.path}?recursive={recursive}&cursor={start + page}"
            headers["Link"] = f'<{more}>; rel="next"'
        return _Reply(200, rows[start : start + page], headers)

    # ---- upload

    def _preupload(self, repo: str, rev: str) -> _Reply:
        self._writes()
        tree = self._commit_at(self._repo(repo), rev).tree
        files = []
        for path in (file["path"] for file in self._json()["files"]):
            mode, blob = "lfs" if path.endswith(".parquet") else "regular", tree.get(path)
            files.append({"path": path, "uploadMode": mode, "shouldIgnore": False, "oid": blob.oid if blob else None})
        return _Reply(200, {"files": files})

    def _batch(self, repo: str) -> _Reply:
        self._writes()
        self._repo(repo)
        objects = []
        for requested in self._json()["objects"]:
            sha, size = requested["oid"], requested["size"]
            entry: dict[str, Any] = {"oid": sha, "size": size}
            if sha not in self.hub.large:
                upload: dict[str, Any] = {"href": f"{self.hub.url}/large/{sha}"}
                if size > self.hub.part_size:
                    count = -(-size // self.hub.part_size)
                    parts = {str(n): f"{self.hub.url}/large/{sha}/{n}" for n in range(1, count + 1)}
                    upload = {"href": f"{self.hub.url}/complete/{sha}"}
                    upload["header"] = {"chunk_size": str(self.hub.part_size)} | parts
                entry["actions"] = {"upload": upload, "verify": {"href": f"{self.hub.url}/check/{sha}"}}
            objects.append(entry)
        return _Reply(200, {"transfer": "basic", "objects": objects})

    def _put(self, sha: str, part: str = "") -> _Reply:
        if part:
            self.hub.parts[sha, int(part)] = self.body
        elif hashlib.sha256(self.body).hexdigest() == sha:
            self.hub.large[sha] = self.body
        else:
            return _Reply(400, {"error": "sha256 does not fit"})
        return _Reply(200, b"", {"ETag": f'"{hashlib.md5(self.body).hexdigest()}"'})

    def _complete(self, sha: str) -> _Reply:
        numbers = [part["partNumber"] for part in self._json()["parts"]]
        content = b"".join(self.hub.parts.pop((sha, n)) for n in numbers)
        if hashlib.sha256(content).hexdigest() != sha:
            return _Reply(400, {"error": "sha256 does not fit"})
        self.hub.large[sha] = content
        return _Reply(200, {})

    def _check(self, sha: str) -> _Reply:
        self._writes()
        fits = len(self.hub.large.get(sha, b"")) == self._json()["size"]
        return _Reply(200 if sha in self.hub.large and fits else 404, {})

    def _commit(self, repo: str, rev: str) -> _Reply:
        self._writes()
        stored = self._repo(repo)
        head = self._commit_at(stored, rev)
        lines = [json.loads(line) for line in self.body.splitlines() if line]
        header = lines[0]["value"]
        if header.get("parentCommit") not in (None, head.oid):
            return _Reply(412, {"error": "A commit has happened since. Please refresh and try again."})
        tree = dict(head.tree)
        for line in lines[1:]:
            value = line["value"]
            if line["key"] == "file":
                tree[value["path"]] = Blob(base64.b64decode(value["content"]), False)
            elif line["key"] == "lfsFile":
                if value["oid"] not in self.hub.large:
                    return _Reply(400, {"error": f"{value['path']}: its content was never uploaded"})
                tree[value["path"]] = Blob(self.hub.large[value["oid"]], True)
            elif line["key"] == "deletedFile":
                del tree[value["path"]]
            else:
                tree = {p: b for p, b in tree.items() if not p.startswith(value["path"].rstrip("/") + "/")}
        commit = stored.add(header["summary"], header.get("description", ""), tree)
        url = f"{self.hub.url}/datasets/{repo}/commit/{commit.oid}"
        return _Reply(200, {"success": True, "commitOid": commit.oid, "commitUrl": url, "hookOutput": ""})

    def _tag(self, repo: str, rev: str) -> _Reply:
        self._writes()
        stored, tag = self._repo(repo), self._json()["tag"]
        if tag in stored.tags:
            return _Reply(409, {"error": "Tag reference exists already"})
        stored.tags[tag] = self._commit_at(stored, rev).oid
        return _Reply(200, {})

    # ---- download

    def _resolve(self, repo: str, rev: str, path: str) -> _Reply:
        commit = self._commit_at(self._repo(repo), rev)
        blob = commit.tree.get(unquote(path))
        if blob is None:
            return _Reply(404, b"", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": commit.oid})
        headers = {"X-Repo-Commit": commit.oid, "ETag": f'"{blob.oid}"', "Accept-Ranges": "bytes"}
        if not blob.lfs:
            return self._bytes(blob.content, headers)
        linked = {"X-Linked-ETag": f'"{blob.sha256}"', "X-Linked-Size": str(len(blob.content))}
        linked["Location"] = f"{self.hub.url}/stored/{blob.sha256}?commit={commit.oid}"
        return _Reply(302, b"", headers | linked)

    def _stored(self, sha: str) -> _Reply:
        headers = {"X-Repo-Commit": self.query.get("commit", [""])[0], "ETag": f'"{sha}"', "Accept-Ranges": "bytes"}
        return self._bytes(self.hub.large[sha], headers)

    def _bytes(self, content: bytes, headers: dict[str, str]) -> _Reply:
        headers["Content-Type"] = "application/octet-stream"
        span = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if span:
            end = min(int(span[2] or len(content) - 1), len(content) - 1)
            headers["Content-Range"] = f"bytes {span[1]}-{end}/{len(content)}"
            return _Reply(206, content[int(span[1]) : end + 1], headers)
        return _Reply(200, content, headers)
