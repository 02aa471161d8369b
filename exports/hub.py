"""Uploads a release to the Hugging Face Hub as one commit and a tag with exactly the files of the manifest.

Rerunning completes an interrupted run; a version that exists with other content is never touched.
"""

import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from exports.card import bannered
from exports.checks import VERSION, refuse_older
from exports.folder import CARD, MANIFEST, SIGNATURE, facts_of
from exports.manifest_types import Facts
from saferec_builder.core.errors import HubError, ReleaseError, UsageError, plain, whole_object
from saferec_builder.core.release_files import WITHDRAWN, sha256

if TYPE_CHECKING:
    from huggingface_hub import DatasetInfo, HfApi

KIND = "dataset"
WITHDRAWN_SIGNATURE = f"{WITHDRAWN}.sig"
KEPT = {".gitattributes", WITHDRAWN, WITHDRAWN_SIGNATURE}  # files that are not part of a release, but stay
BESIDE = {*KEPT, ".cache", ".git"}  # left in a folder by `hf download --local-dir` or `git clone`, too
LARGE = 10_000_000  # bytes: files of this size or more are sent one after the other


@dataclass(frozen=True)
class Published:
    repo: str
    tag: str
    commit: str
    url: str
    added: int  # files
    skipped: int
    deleted: int


def publish(folder: Path, repo: str, *, public: bool = False, gated: bool = True, dry: bool = False) -> Published:
    """Commits the (verified) release `folder` to `repo` and tags the commit vVERSION. A new repository is private.

    gated: readers must first agree to share their name. dry: changes nothing and returns what would be done.
    The token comes from HF_TOKEN or the Hub's own login; HF_ENDPOINT is honoured.
    """
    facts = facts_of(folder)
    refuse(facts)
    api, tag, local = client(), f"v{facts['version']}", _files(folder)
    with explained(repo):
        info = _repository(api, repo, public, dry)
        head = str(info.sha) if info else ""
        commit = _tagged(api, repo, tag, folder) if info else None
        if info and not commit:
            _refuse_other(api, repo, head, facts["name"])
        if gated and info and not info.gated and not dry:  # before anything is sent
            api.update_repo_settings(repo, repo_type=KIND, gated="auto")
        added, stale = ([], []) if commit else _changes(api, repo, head, local)
        if not (dry or commit):
            commit = _commit(api, repo, folder, head, tag, added, stale=stale) if added or stale else head
            _compare(api, repo, commit, folder, f"{repo} does not hold what was sent: nothing was tagged, run it again")
            _tag(api, repo, tag, commit)
        if not dry:
            _mark_withdrawn(api, repo)
    url = f"{api.endpoint}/datasets/{repo}/tree/{tag}"
    return Published(repo, tag, commit or "none yet", url, len(added), len(local) - len(added), len(stale))


def _repository(api: "HfApi", repo: str, public: bool, dry: bool) -> "DatasetInfo | None":
    """Returns what the Hub says of the repository; creates it, private unless asked, but not in a dry run (None).
    Raises HubError if it is public without `public`: an existing one keeps its visibility."""
    if not api.repo_exists(repo, repo_type=KIND):
        if dry:
            return None
        api.create_repo(repo, repo_type=KIND, private=not public, exist_ok=True)
    info = api.dataset_info(repo)
    if not public and not info.private:
        raise HubError(f"{repo} is public: make it private in its settings, or say --public")
    return info


def _refuse_other(api: "HfApi", repo: str, head: str, name: str) -> None:
    """Raises HubError if main has files that are no release of this dataset: they would be deleted from it."""
    manifest = on_main(api, repo, MANIFEST, head)
    held = None if manifest is None else (whole_object(manifest) or {}).get("name")
    if held != name and digests_of(api, repo, head).keys() - KEPT - {CARD}:
        content = f"the dataset {held!r}" if held else "something else"
        raise HubError(f"{repo}: holds {content}, not {name!r}: give another --repo")


def _changes(api: "HfApi", repo: str, revision: str, local: dict[str, Path]) -> tuple[list[str], list[str]]:
    """Returns (paths to send, paths to delete)."""
    remote = digests_of(api, repo, revision) if revision else {}
    same = [path for path, digest in remote.items() if path in local and digest == _as_there(local[path], digest)]
    return [path for path in local if path not in same], sorted(set(remote) - set(local) - KEPT)


def refuse(facts: Facts) -> None:
    """Raises ReleaseError for items of the demo, simulated reviews and texts that were put back."""
    faults = {"simulated": "simulated reviews", "demo": "items of the demo", "put_back": "texts that were put back"}
    for fault, reason in faults.items():
        if facts.get(fault):
            raise ReleaseError(
                f"release {facts['version']} of {facts['name']} rests on {reason}: it is not for the Hub;"
                " `publish --to DIR` writes it to a folder"
            )


def client() -> "HfApi":
    try:
        from huggingface_hub import HfApi
    except ImportError:
        raise UsageError("the Hub needs an extra: pip install 'saferec-builder[hub]'") from None
    return HfApi(endpoint=os.environ.get("HF_ENDPOINT") or None, library_name="saferec-builder")


def _files(folder: Path) -> dict[str, Path]:
    return {p.relative_to(folder).as_posix(): p for p in sorted(folder.rglob("*")) if p.is_file()}


def digests_of(api: "HfApi", repo: str, revision: str) -> dict[str, str]:
    """Returns path -> sha256 of a large file, git's blob id of a small one."""
    from huggingface_hub.hf_api import RepoFile

    tree = api.list_repo_tree(repo, repo_type=KIND, revision=revision, recursive=True)
    return {f.path: f.lfs.sha256 if f.lfs else f.blob_id for f in tree if isinstance(f, RepoFile)}


def _as_there(path: Path, digest: str) -> str:
    """The file's sha256 or git's blob id, whichever kind `digest` is."""
    if len(digest) == 64:
        return sha256(path)
    head = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: head).hexdigest()


def tags_of(api: "HfApi", repo: str) -> dict[str, str]:
    return {tag.name: tag.target_commit for tag in api.list_repo_refs(repo, repo_type=KIND).tags}


def _tagged(api: "HfApi", repo: str, tag: str, folder: Path) -> str | None:
    """Returns the commit that holds this version already, if any; raises HubError if it holds other content, if the
    version was withdrawn, or if there is a newer one."""
    version, withdrawals, tags = tag.removeprefix("v"), withdrawn(api, repo), tags_of(api, repo)
    if version in withdrawals:
        raise HubError(f"{repo}: {tag} was withdrawn there: {withdrawals[version]}; publish another version")
    commit = tags.get(tag)
    if not commit:  # `main` must not go back to an older version
        existing = [name[1:] for name in tags if name.startswith("v") and VERSION.fullmatch(name[1:])]
        refuse_older(version, [v for v in existing if v not in withdrawals], repo)
    else:
        problem = f"{tag} of {repo} holds other content: choose a higher version"
        _compare(api, repo, commit, folder, problem, but=SIGNATURE)  # some keys give another signature each time
        if (folder / SIGNATURE).exists() and SIGNATURE not in digests_of(api, repo, commit):
            raise HubError(
                f"{tag} of {repo} is there without a signature, and a tag never moves: sign the next version"
            )
    return commit


def _compare(api: "HfApi", repo: str, commit: str, folder: Path, otherwise: str, but: str = "") -> None:
    added, stale = _changes(api, repo, commit, _files(folder))
    if different := [path for path in (*added, *stale) if path != but]:
        raise HubError(f"{otherwise} (commit {commit[:8]}, first {different[0]})")


def _commit(api: "HfApi", repo: str, folder: Path, parent: str, tag: str, added: list[str], *, stale: list[str]) -> str:
    """Commits and returns the oid; if the reply was lost, looks in the repository whether the commit arrived."""
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    description = f"SHA256SUMS {sha256(folder / 'SHA256SUMS')}"
    additions = [CommitOperationAdd(path, folder / path) for path in added]
    try:
        for addition in additions:
            if (folder / addition.path_in_repo).stat().st_size >= LARGE:  # data shared by two configs is then sent once
                api.preupload_lfs_files(repo, [addition], repo_type=KIND, revision="main", free_memory=False)
        return str(
            api.create_commit(
                repo,
                [*additions, *(CommitOperationDelete(path) for path in stale)],
                repo_type=KIND,
                revision="main",
                parent_commit=parent,
                commit_message=f"Release {tag.removeprefix('v')}",
                commit_description=description,
            ).oid
        )
    except _broken() as fault:
        landed = _arrived(api, repo, parent, description, fault)
        if landed is None:
            raise
        return landed
    except (RuntimeError, ValueError) as fault:  # raised by the client for a failed upload and a refused card
        raise HubError(f"{repo}: {_first_line(fault)}; nothing was published, run it again") from None


def _arrived(api: "HfApi", repo: str, parent: str, description: str, fault: Exception) -> str | None:
    """Returns the oid of our commit if it is above `parent`; None if it is not, or if the Hub plainly refused."""
    status = getattr(getattr(fault, "response", None), "status_code", None)
    if status is not None and status < 500:
        return None
    for commit in api.list_repo_commits(repo, repo_type=KIND, revision="main"):
        if commit.commit_id == parent:
            break
        if description in commit.message:
            return str(commit.commit_id)
    return None


def _tag(api: "HfApi", repo: str, tag: str, commit: str) -> None:
    try:
        api.create_tag(repo, repo_type=KIND, tag=tag, revision=commit)
    except _broken():
        if tag not in tags_of(api, repo):  # else the reply was lost or someone was faster: the target decides
            raise
    target = tags_of(api, repo).get(tag)
    if target != commit:
        raise HubError(f"{repo}: tag {tag} points to {str(target)[:8]}, expected {commit[:8]}: choose a higher version")


def _mark_withdrawn(api: "HfApi", repo: str) -> None:
    """Adds withdrawals to the card of main, as a release made before them, or elsewhere, does not mention them."""
    from huggingface_hub import CommitOperationAdd

    if not (withdrawals := withdrawn(api, repo)):
        return
    head = str(api.repo_info(repo, repo_type=KIND, revision="main").sha)
    card = old = (on_main(api, repo, CARD, head) or b"").decode("utf-8", "replace")
    for version, reason in withdrawals.items():
        if f"**{version} was withdrawn" not in card:
            card = bannered(card, version, reason, bare=False)
    if card != old:
        marks = [CommitOperationAdd(CARD, card.encode())]
        message = f"Say that {', '.join(withdrawals)} was withdrawn"
        api.create_commit(repo, marks, repo_type=KIND, revision="main", parent_commit=head, commit_message=message)


def fetch(repo: str, version: str, folder: Path) -> None:
    """Downloads the release `version` of `repo` into `folder`, with the withdrawals of main beside it. By its tag and
    into a folder, as the cache of `load_dataset` can hold another version's rows."""
    api = client()
    from huggingface_hub.errors import RevisionNotFoundError

    with explained(repo):
        # without a network this fails at once, where a download tries again for half a minute, and logs each time
        api.repo_info(repo, repo_type=KIND, timeout=10)
        reason = withdrawn(api, repo).get(version)
        try:
            api.snapshot_download(repo, repo_type=KIND, revision=f"v{version}", local_dir=folder)
        except RevisionNotFoundError:
            explanation = "" if reason is None else f", it was withdrawn: {reason}"
            raise HubError(f"{repo}: there is no version {version}{explanation}") from None
        shutil.rmtree(folder / ".cache", ignore_errors=True)
        for path in KEPT:
            (folder / path).unlink(missing_ok=True)
        for path in (WITHDRAWN, WITHDRAWN_SIGNATURE):
            if (content := on_main(api, repo, path)) is not None:
                (folder / path).write_bytes(content)


def withdrawn(api: "HfApi", repo: str) -> dict[str, str]:
    """Returns version -> reason of its withdrawal."""
    text = on_main(api, repo, WITHDRAWN)
    reasons = {} if text is None else whole_object(text)
    if reasons is None:  # it is unknown what was withdrawn
        raise HubError(f"{repo}: {WITHDRAWN} is damaged: an earlier commit of it must be put back first")
    return {plain(str(version)): plain(str(reason)) for version, reason in reasons.items()}


def on_main(api: "HfApi", repo: str, path: str, revision: str = "main") -> bytes | None:
    """Returns the content of a path on main (or `revision`), None if there is none; raises without a connection."""
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    with tempfile.TemporaryDirectory() as folder:
        try:
            downloaded = api.hf_hub_download(repo, path, repo_type=KIND, revision=revision, local_dir=folder)
            return Path(downloaded).read_bytes()
        except LocalEntryNotFoundError:  # an EntryNotFoundError, although only the Hub was out of reach
            raise
        except EntryNotFoundError:
            return None


def _network() -> tuple[type[Exception], ...]:
    from huggingface_hub.errors import LocalEntryNotFoundError  # the Hub was out of reach

    # the client uses httpx or httpx2, by version; it is loaded by now
    clients = [sys.modules[name] for name in ("httpx", "httpx2") if name in sys.modules]
    transport = (client.TransportError for client in clients)
    return (*transport, LocalEntryNotFoundError, TimeoutError, ConnectionError)


def _broken() -> tuple[type[Exception], ...]:
    """Returns the exceptions after which the Hub may or may not have completed the request."""
    from huggingface_hub.errors import HfHubHTTPError

    return (HfHubHTTPError, *_network())


@contextmanager
def explained(repo: str) -> Iterator[None]:
    """Turns the Hub's exceptions into one line that says what to do; the token is never part of it."""
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalTokenNotFoundError

    try:
        yield
    except LocalTokenNotFoundError:
        raise HubError("no token for the Hub: run `hf auth login`, or set HF_TOKEN") from None
    except HFValidationError:
        raise UsageError(f"--repo {repo!r}: expected NAMESPACE/NAME, as the Hub spells it") from None
    except HfHubHTTPError as fault:
        raise HubError(_refusal(repo, fault.response.status_code if fault.response is not None else 0)) from None
    except _network() as fault:
        raise HubError(f"the Hub cannot be reached ({type(fault).__name__}): run it again later") from None


def _refusal(repo: str, status: int) -> str:
    messages: dict[int, str] = {
        401: "the Hub does not know the token: run `hf auth login`, or set HF_TOKEN",
        403: f"the token may not write to {repo} (use one with write access), or read it (agree to its terms there)",
        404: f"{repo} is not there, or the token may not see it: check --repo and the token",
        409: f"{repo} is being changed by someone else: run it again",
        412: f"{repo} was changed by someone else meanwhile: nothing was published, run it again",
        429: "the Hub asks to wait (429): run it again in some minutes",
    }
    return messages.get(status, f"the Hub answered {status or 'nothing usable'} for {repo}: run it again later")


def _first_line(fault: Exception) -> str:
    from huggingface_hub import get_token

    parts = [str(fault) or type(fault).__name__] + ([str(fault.__cause__)] if fault.__cause__ else [])
    text = " ".join(": ".join(parts).split())
    token = get_token()
    return (text.replace(token, "***") if token else text)[:200]
