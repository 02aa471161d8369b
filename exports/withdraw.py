"""Withdraws a version: marks it for everyone to see, or erases it from the history of its repository.

Each step first looks at the present state, so that the next run completes an interrupted one. Copies that others hold
cannot be called back.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from exports.card import bannered
from exports.checks import check_version
from exports.folder import CARD, versions
from exports.hub import KEPT, KIND, WITHDRAWN_SIGNATURE, client, digests_of, explained, on_main, tags_of, withdrawn
from exports.signing import WITHDRAWAL, signature
from saferec_builder.core import release_files
from saferec_builder.core.errors import HubError, ReleaseError, UsageError, line, whole_object
from saferec_builder.core.release_files import WITHDRAWN
from saferec_builder.storage.whole_files import replacing
from saferec_builder.storage.workspace import Workspace, alone

if TYPE_CHECKING:
    from huggingface_hub import GitCommitInfo, HfApi
    from huggingface_hub.hf_api import LFSFileInfo

FORGOTTEN = "it held somebody who asked to be forgotten"  # the reason of `forget`, which deletes a version's data

_KEEP = "keep-"  # branch that holds a tag's content while the tag moves


@dataclass(frozen=True)
class Withdrawn:
    """A withdrawn version, and what was done on the Hub."""

    version: str
    reason: str
    new: bool  # False if this workspace had it marked with this reason
    on_hub: list[str] | None = None  # the steps done there; None if the Hub was left alone


def withdraw(
    ws: Workspace,
    version: str,
    reason: str,
    *,
    hub: bool = False,
    repo: str | None = None,
    erase: bool = False,
    sign: Path | None = None,
) -> Withdrawn:
    """Marks a version as withdrawn: publish refuses it, and later cards give the reason.

    hub: marks it also on the card of `repo` (NAMESPACE/NAME, default [dataset] repo). erase: deletes its tag and
    history there, too, for good. sign: an SSH key that signs WITHDRAWN.json there.
    """
    name, reason = repo or ws.config.dataset.repo, line(reason).strip()  # as the marks are read back
    if not reason:
        raise UsageError("withdraw --reason is empty: say why, for it stands on the card")
    if erase and not hub:
        raise UsageError("withdraw --erase is for the Hub: say --hub, or delete the folder of the release yourself")
    if (repo or sign) and not hub:
        raise UsageError("withdraw --repo and --sign are for the mark on the Hub: say --hub, too")
    if hub and not name:
        raise UsageError("withdraw --hub: which repository? Give --repo NAMESPACE/NAME or [dataset] repo")
    if hub:
        check_version(version)
    elif version not in (existing := [*versions(ws.releases)]):
        raise ReleaseError(f"{ws.releases}: no release {version!r}; there are {', '.join(existing) or 'none'}")
    # the Hub first: it knows whether the version exists, and a mark here cannot be undone
    ours = reasons(ws.releases)
    steps = on_hub(name, version, reason, erase=erase, sign=sign, ours=ours) if hub and name else None
    return Withdrawn(version, reason, mark(ws, version, reason), steps)


def on_hub(
    repo: str,
    version: str,
    reason: str,
    *,
    erase: bool = False,
    sign: Path | None = None,
    ours: Mapping[str, str] | None = None,
) -> list[str]:
    """Marks the version on the card of main, and with `erase` deletes it from the repository; returns the steps done.

    sign: a key that signs all marks there. Raises HubError if one of them is not in `ours` (version -> reason).
    """
    api = client()
    steps: list[str] = []
    with explained(repo):
        tags = tags_of(api, repo)
        if f"v{version}" not in tags and version not in withdrawn(api, repo):
            raise HubError(f"{repo}: there is no version {version}; there are {', '.join(sorted(tags)) or 'none'}")
        if _commit(api, repo, version, reason, erase, sign, ours=ours or {}):
            steps.append("marked on the card")
        if erase:
            steps += _erase(api, repo, version)
    return steps


def _check_ours(repo: str, marks: Mapping[str, str], ours: Mapping[str, str]) -> None:
    """Raises HubError for marks that are not ours: a signature vouches for all, and others may have written some."""
    if others := [version for version, reason in marks.items() if version not in ours or ours[version] != reason]:
        raise HubError(
            f"{repo}: {WITHDRAWN} says of {', '.join(others)} what was not said here, and a signature would vouch for"
            " it: withdraw these here, too, with the reason that stands there, or take them out of it"
        )


def _commit(
    api: "HfApi", repo: str, version: str, reason: str, erase: bool, sign: Path | None, *, ours: Mapping[str, str]
) -> bool:
    """Commits the mark, its signature and the card's banner to main; to erase what main holds, deletes its files, too.
    Without a key an outdated signature is deleted. Returns False if there is nothing to change."""
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    head = api.dataset_info(repo, revision="main")
    old_marks = withdrawn(api, repo)
    if sign:
        _check_ours(repo, old_marks, {**ours, version: reason})
    manifest = on_main(api, repo, "manifest.json")
    facts = {"version": ""} if manifest is None else whole_object(manifest)
    if facts is None or "version" not in facts:  # it is unknown what would be erased
        raise HubError(f"{repo}: manifest.json is damaged: put an earlier commit of it back first")
    is_current = facts["version"] == version
    paths = {sibling.rfilename for sibling in head.siblings or ()}
    marks = _as_json(old_marks | {version: reason}).encode()
    is_unchanged = marks == on_main(api, repo, WITHDRAWN)
    new_signature = signature(marks, sign, WITHDRAWAL) if sign else None
    # some kinds of keys give another signature each time: then the mark is committed again
    is_signed = new_signature is None or new_signature == on_main(api, repo, WITHDRAWN_SIGNATURE)
    if old_marks.get(version) == reason and not (erase and is_current) and is_signed:
        return False
    card = (on_main(api, repo, CARD) or b"").decode("utf-8", "replace")
    card = bannered(card, version, reason, bare=erase and is_current)
    operations: list[CommitOperationAdd | CommitOperationDelete] = [
        CommitOperationAdd(WITHDRAWN, marks),
        CommitOperationAdd(CARD, card.encode()),
    ]
    if new_signature:
        operations.append(CommitOperationAdd(WITHDRAWN_SIGNATURE, new_signature))
    deleted = paths & {WITHDRAWN_SIGNATURE} if not (new_signature or is_unchanged) else set()
    deleted |= paths - KEPT - {CARD} if erase and is_current else set()
    operations += [CommitOperationDelete(path) for path in sorted(deleted)]
    api.create_commit(
        repo, operations, repo_type=KIND, revision="main", parent_commit=head.sha, commit_message=f"Withdraw {version}"
    )
    return True


def _erase(api: "HfApi", repo: str, version: str) -> list[str]:
    """Deletes its tags, its history, and large files that no other version needs; returns the steps done."""
    steps = []
    refs = api.list_repo_refs(repo, repo_type=KIND)
    tags = {tag.name: tag.target_commit for tag in refs.tags}
    if f"v{version}" in tags:
        api.delete_tag(repo, repo_type=KIND, tag=f"v{version}")
        steps.append(f"tag v{version} deleted")
    # tags of an interrupted run
    kept = {branch.name.removeprefix(_KEEP) for branch in refs.branches if branch.name.startswith(_KEEP)}
    for tag in sorted((set(tags) | kept) - {f"v{version}"}):
        if _holds(api, repo, _KEEP + tag if tag in kept else tags[tag], version):  # a tag of another name
            if tag in tags:
                api.delete_tag(repo, repo_type=KIND, tag=tag)
            if tag in kept:
                api.delete_branch(repo, repo_type=KIND, branch=_KEEP + tag)
            steps.append(f"tag {tag} deleted, as it held {version}")
        elif tag in kept or len(_history(api, repo, tag)) > 1:
            _move(api, repo, tag, tags, tag in kept)
            steps.append(f"{tag} moved to a commit without history")
    if len(_history(api, repo, "main")) > 1:
        api.super_squash_history(repo, repo_type=KIND, branch="main")
        steps.append("history of main squashed")
    others = [branch.name for branch in refs.branches if branch.name != "main" and not branch.name.startswith(_KEEP)]
    steps += [f"branch {name} left as it is: if {version} is in it, delete it and run this again" for name in others]
    orphans = _orphans(api, repo)
    if orphans:
        api.permanently_delete_lfs_files(repo, orphans, repo_type=KIND, rewrite_history=False)
        steps.append(f"{len(orphans)} large files deleted")
    return steps


def _holds(api: "HfApi", repo: str, revision: str, version: str) -> bool:
    manifest = on_main(api, repo, "manifest.json", revision)
    return manifest is not None and (whole_object(manifest) or {}).get("version") == version


def _history(api: "HfApi", repo: str, revision: str) -> "list[GitCommitInfo]":
    return list(api.list_repo_commits(repo, repo_type=KIND, revision=revision))


def _move(api: "HfApi", repo: str, tag: str, tags: dict[str, str], has_branch: bool) -> None:
    """Moves the tag to a commit of the same content without history. A branch holds the content meanwhile."""
    branch = _KEEP + tag
    if not has_branch:
        api.create_branch(repo, repo_type=KIND, branch=branch, revision=tags[tag])
    if len(_history(api, repo, branch)) > 1:
        api.super_squash_history(repo, repo_type=KIND, branch=branch)
    target = _history(api, repo, branch)[0].commit_id
    if tag in tags and tags[tag] != target:
        api.delete_tag(repo, repo_type=KIND, tag=tag)
    if tags.get(tag) != target:
        api.create_tag(repo, repo_type=KIND, tag=tag, revision=target)
    api.delete_branch(repo, repo_type=KIND, branch=branch)


def _orphans(api: "HfApi", repo: str) -> "list[LFSFileInfo]":
    refs = api.list_repo_refs(repo, repo_type=KIND)
    revisions = ["main", *(ref.target_commit for ref in (*refs.tags, *refs.branches))]
    needed = {digest for revision in revisions for digest in digests_of(api, repo, revision).values()}
    return [file for file in api.list_lfs_files(repo, repo_type=KIND) if file.file_oid not in needed]


def reasons(releases: Path) -> dict[str, str]:
    """Returns version -> reason of the versions that this workspace has withdrawn."""
    return release_files.withdrawn_in(releases / release_files.WITHDRAWN_HERE)


def mark(ws: Workspace, version: str, reason: str) -> bool:
    """Marks a version here; returns False if it has this mark. `withdraw` and `forget` may do so at the same time."""
    with alone(ws, "withdraw", wait=True):
        marks = reasons(ws.releases)
        if marks.get(version) == reason:
            return False
        ws.releases.mkdir(exist_ok=True)
        with replacing(ws.releases / release_files.WITHDRAWN_HERE) as tmp:
            tmp.write_text(_as_json(marks | {version: reason}), encoding="utf-8")
        return True


def _as_json(marks: Mapping[str, str]) -> str:
    return json.dumps(marks, ensure_ascii=False, indent=1) + "\n"
