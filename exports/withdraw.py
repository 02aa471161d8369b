"""Taking a version back: a mark that everyone sees, or an erasure of it from the repository's history.

Every step looks at what is there first, so that a run that was cut off is completed by the next one. Copies that
others hold cannot be called back.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from exports.card import bannered
from exports.folder import CARD, versions
from exports.hub import KEPT, KIND, WITHDRAWN_SIGNATURE, client, explained, on_main, tags_of, withdrawn
from exports.signing import WITHDRAWAL, signature
from saferec_builder.core import release_files
from saferec_builder.core.errors import HubError, ReleaseError, UsageError, whole_object
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
    """A version that was taken back, and what was done for it on the Hub."""

    version: str
    reason: str
    new: bool  # False where this workspace had it marked with this reason
    on_hub: list[str] | None = None  # what was done there; None where it was left alone


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
    """Marks a version: publish refuses it, and later cards say why.

    hub: also on the card of `repo` (NAMESPACE/NAME, default [dataset] repo). erase: its tag and history there go too,
    and nothing brings them back. sign: an SSH key that signs WITHDRAWN.json there.
    """
    name = repo or ws.config.dataset.repo
    if not reason.strip():
        raise UsageError("withdraw --reason is empty: say why, for it stands on the card")
    if erase and not hub:
        raise UsageError("withdraw --erase is for the Hub: say --hub, or delete the folder of the release yourself")
    if sign and not hub:
        raise UsageError("withdraw --sign signs the mark on the Hub: say --hub, too")
    if hub and not name:
        raise UsageError("withdraw --hub: which repository? Give --repo NAMESPACE/NAME or [dataset] repo")
    if not hub and version not in versions(ws.releases):
        there = ", ".join(versions(ws.releases)) or "none"
        raise ReleaseError(f"{ws.releases}: no release {version!r}; there are {there}")
    # the Hub first: it knows whether there is such a version, and a mark here has no way back
    ours = reasons(ws.releases)
    done = on_hub(name, version, reason, erase=erase, sign=sign, ours=ours) if hub and name else None
    with alone(ws, "withdraw", wait=True):
        return Withdrawn(version, reason, mark(ws.releases, version, reason), done)


def on_hub(
    repo: str,
    version: str,
    reason: str,
    *,
    erase: bool = False,
    sign: Path | None = None,
    ours: Mapping[str, str] | None = None,
) -> list[str]:
    """What was done: the version is marked on the card of main, and with `erase` gone from the repository.

    sign: a key for all marks there; HubError where one of them is not among `ours`, version -> reason.
    """
    api = client()
    done: list[str] = []
    with explained(repo):
        tags = tags_of(api, repo)
        if f"v{version}" not in tags and version not in withdrawn(api, repo):
            raise HubError(f"{repo}: there is no version {version}; there are {', '.join(sorted(tags)) or 'none'}")
        if _commit(api, repo, version, reason, erase, sign, ours or {}):
            done.append("marked on the card")
        if erase:
            done += _erase(api, repo, version)
    return done


def _check_ours(repo: str, there: Mapping[str, str], ours: Mapping[str, str]) -> None:
    """A signature vouches for every mark: whoever can write there could have put one beside ours."""
    if others := [version for version, why in there.items() if version not in ours or ours[version] != why]:
        raise HubError(
            f"{repo}: {WITHDRAWN} says of {', '.join(others)} what was not said here, and a signature would vouch for"
            " it: withdraw these here, too, with the reason that stands there, or take them out of it"
        )


def _commit(
    api: "HfApi", repo: str, version: str, reason: str, erase: bool, sign: Path | None, ours: Mapping[str, str]
) -> bool:
    """One commit on main: the mark, its signature, the card's banner and, to erase what main holds, its files taken
    away. Without a key the signature goes that is of other marks."""
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    head = api.dataset_info(repo, revision="main")
    known = withdrawn(api, repo)
    if sign:
        _check_ours(repo, known, {**ours, version: reason})
    manifest = on_main(api, repo, "manifest.json")
    facts = {"version": ""} if manifest is None else whole_object(manifest)
    if facts is None or "version" not in facts:  # nobody can tell what is to be erased
        raise HubError(f"{repo}: manifest.json is damaged: put an earlier commit of it back first")
    holds = facts["version"] == version
    there = {s.rfilename for s in head.siblings or ()}
    marks = (json.dumps(known | {version: reason}, ensure_ascii=False, indent=1) + "\n").encode()
    same = marks == on_main(api, repo, WITHDRAWN)
    made = signature(marks, sign, WITHDRAWAL) if sign else None
    # some kinds of keys sign otherwise each time: then the mark is made anew
    signed = made is None or made == on_main(api, repo, WITHDRAWN_SIGNATURE)
    if known.get(version) == reason and not (erase and holds) and signed:
        return False
    card = (on_main(api, repo, CARD) or b"").decode("utf-8", "replace")
    card = bannered(card, version, reason, bare=erase and holds)
    operations: list[CommitOperationAdd | CommitOperationDelete] = [
        CommitOperationAdd(WITHDRAWN, marks),
        CommitOperationAdd(CARD, card.encode()),
    ]
    if made:
        operations.append(CommitOperationAdd(WITHDRAWN_SIGNATURE, made))
    gone = there & {WITHDRAWN_SIGNATURE} if not (made or same) else set()
    gone |= there - KEPT - {CARD} if erase and holds else set()
    operations += [CommitOperationDelete(path) for path in sorted(gone)]
    api.create_commit(
        repo, operations, repo_type=KIND, revision="main", parent_commit=head.sha, commit_message=f"Withdraw {version}"
    )
    return True


def _erase(api: "HfApi", repo: str, version: str) -> list[str]:
    """Its tags, the history that leads to it, and large files that no other version needs."""
    done = []
    refs = api.list_repo_refs(repo, repo_type=KIND)
    tags = {tag.name: tag.target_commit for tag in refs.tags}
    if f"v{version}" in tags:
        api.delete_tag(repo, repo_type=KIND, tag=f"v{version}")
        done.append(f"tag v{version} deleted")
    held = {b.name.removeprefix(_KEEP) for b in refs.branches if b.name.startswith(_KEEP)}  # of a run that was cut off
    for tag in sorted((set(tags) | held) - {f"v{version}"}):
        if _holds(api, repo, _KEEP + tag if tag in held else tags[tag], version):  # whatever somebody called it
            if tag in tags:
                api.delete_tag(repo, repo_type=KIND, tag=tag)
            if tag in held:
                api.delete_branch(repo, repo_type=KIND, branch=_KEEP + tag)
            done.append(f"tag {tag} deleted, as it held {version}")
        elif tag in held or len(_history(api, repo, tag)) > 1:
            _move(api, repo, tag, tags, tag in held)
            done.append(f"{tag} moved to a commit without history")
    if len(_history(api, repo, "main")) > 1:
        api.super_squash_history(repo, repo_type=KIND, branch="main")
        done.append("history of main squashed")
    others = [one.name for one in refs.branches if one.name != "main" and not one.name.startswith(_KEEP)]
    done += [f"branch {name} left as it is: if {version} is in it, delete it and run this again" for name in others]
    gone = _orphans(api, repo)
    if gone:
        api.permanently_delete_lfs_files(repo, gone, repo_type=KIND, rewrite_history=False)
        done.append(f"{len(gone)} large files deleted")
    return done


def _holds(api: "HfApi", repo: str, revision: str, version: str) -> bool:
    manifest = on_main(api, repo, "manifest.json", revision)
    return manifest is not None and (whole_object(manifest) or {}).get("version") == version


def _history(api: "HfApi", repo: str, revision: str) -> "list[GitCommitInfo]":
    return list(api.list_repo_commits(repo, repo_type=KIND, revision=revision))


def _move(api: "HfApi", repo: str, tag: str, tags: dict[str, str], held: bool) -> None:
    """The tag on a commit of the same content that has no past. The branch holds it meanwhile."""
    branch = _KEEP + tag
    if not held:
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
    from huggingface_hub.hf_api import RepoFile

    refs = api.list_repo_refs(repo, repo_type=KIND)
    needed = set()
    for revision in ["main", *(ref.target_commit for ref in (*refs.tags, *refs.branches))]:
        tree = api.list_repo_tree(repo, repo_type=KIND, revision=revision, recursive=True)
        needed |= {f.lfs.sha256 for f in tree if isinstance(f, RepoFile) and f.lfs}
    return [file for file in api.list_lfs_files(repo, repo_type=KIND) if file.file_oid not in needed]


def reasons(releases: Path) -> dict[str, str]:
    """version -> why it was withdrawn, as this workspace knows."""
    return release_files.withdrawn_in(releases / release_files.WITHDRAWN_HERE)


def mark(releases: Path, version: str, reason: str) -> bool:
    known = reasons(releases)
    if known.get(version) == reason:
        return False
    releases.mkdir(exist_ok=True)
    with replacing(releases / release_files.WITHDRAWN_HERE) as tmp:
        tmp.write_text(json.dumps(known | {version: reason}, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return True
