"""Taking a version back: a mark that everyone sees, or an erasure of it from the repository's history.

Every step looks at what is there first, so that a run that was cut off is completed by the next one. Copies that
others hold cannot be called back.
"""

import json
from pathlib import Path
from typing import Any

from exports.hub import KIND, WITHDRAWN, client, explained, on_main, withdrawn
from saferec_builder.core.errors import HubError, whole_object

FILE = "withdrawn.json"

CARD = "README.md"
_KEEP = "keep-"  # branch that holds a tag's content while the tag moves


def on_hub(repo: str, version: str, reason: str, *, erase: bool = False) -> list[str]:
    """What was done: the version is marked on the card of main, and with `erase` gone from the repository."""
    api = client()
    done: list[str] = []
    with explained(repo):
        refs = {tag.name: tag.target_commit for tag in api.list_repo_refs(repo, repo_type=KIND).tags}
        if f"v{version}" not in refs and version not in withdrawn(api, repo):
            raise HubError(f"{repo}: there is no version {version}; there are {', '.join(sorted(refs)) or 'none'}")
        if _commit(api, repo, version, reason, erase):
            done.append("marked on the card")
        if erase:
            done += _erase(api, repo, version)
    return done


def _commit(api: Any, repo: str, version: str, reason: str, erase: bool) -> bool:
    """One commit on main: the mark, the card's banner and, to erase what main holds, its files taken away."""
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    head = api.repo_info(repo, repo_type=KIND, revision="main")
    known = withdrawn(api, repo)
    manifest = on_main(api, repo, "manifest.json")
    facts = {"version": ""} if manifest is None else whole_object(manifest)
    if facts is None or "version" not in facts:  # nobody can tell what is to be erased
        raise HubError(f"{repo}: manifest.json is damaged: put an earlier commit of it back first")
    holds = facts["version"] == version
    if known.get(version) == reason and not (erase and holds):
        return False
    marks = json.dumps(known | {version: reason}, ensure_ascii=False, indent=1) + "\n"
    card = (on_main(api, repo, CARD) or b"").decode("utf-8", "replace")
    card = bannered(card, version, reason, bare=erase and holds)
    operations: list[Any] = [CommitOperationAdd(WITHDRAWN, marks.encode()), CommitOperationAdd(CARD, card.encode())]
    if erase and holds:
        kept = {WITHDRAWN, CARD, ".gitattributes"}
        operations += [CommitOperationDelete(s.rfilename) for s in head.siblings if s.rfilename not in kept]
    api.create_commit(
        repo,
        operations,
        repo_type=KIND,
        revision="main",
        parent_commit=head.sha,
        commit_message=f"Withdraw {version}",
    )
    return True


def bannered(card: str, version: str, reason: str, *, bare: bool) -> str:
    """The card with the mark below its header; `bare`: nothing else, where the data is gone."""
    from exports.card import escape

    said = f"**{version} was withdrawn: {escape(reason)}. Do not use it.**\n"
    head, mark, body = card.removeprefix("---\n").partition("\n---\n")
    if bare or not mark:
        head, body = "tags: [withdrawn]", "" if bare else card
    old = "\n".join(line for line in body.split("\n") if not line.startswith(f"**{version} was withdrawn"))
    return f"---\n{head}\n---\n{said}\n{old.lstrip()}"


def _erase(api: Any, repo: str, version: str) -> list[str]:
    """Its tag, the history that leads to it, and large files that no other version needs."""
    done = []
    refs = api.list_repo_refs(repo, repo_type=KIND)
    tags = {tag.name: tag.target_commit for tag in refs.tags}
    if f"v{version}" in tags:
        api.delete_tag(repo, repo_type=KIND, tag=f"v{version}")
        done.append(f"tag v{version} deleted")
    held = {b.name.removeprefix(_KEEP) for b in refs.branches if b.name.startswith(_KEEP)}  # of a run that was cut off
    for tag in sorted((set(tags) | held) - {f"v{version}"}):
        if tag in held or len(_history(api, repo, tag)) > 1:
            _move(api, repo, tag, tags, tag in held)
            done.append(f"{tag} moved to a commit without history")
    if len(_history(api, repo, "main")) > 1:
        api.super_squash_history(repo, repo_type=KIND, branch="main")
        done.append("history of main squashed")
    gone = _orphans(api, repo)
    if gone:
        api.permanently_delete_lfs_files(repo, gone, repo_type=KIND, rewrite_history=False)
        done.append(f"{len(gone)} large files deleted")
    return done


def _history(api: Any, repo: str, revision: str) -> list[Any]:
    return list(api.list_repo_commits(repo, repo_type=KIND, revision=revision))


def _move(api: Any, repo: str, tag: str, tags: dict[str, str], held: bool) -> None:
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


def _orphans(api: Any, repo: str) -> list[Any]:
    refs = api.list_repo_refs(repo, repo_type=KIND)
    needed = set()
    for revision in ["main", *(tag.target_commit for tag in refs.tags)]:
        tree = api.list_repo_tree(repo, repo_type=KIND, revision=revision, recursive=True)
        needed |= {f.lfs.sha256 for f in tree if getattr(f, "lfs", None)}
    return [file for file in api.list_lfs_files(repo, repo_type=KIND) if file.file_oid not in needed]


def reasons(releases: Path) -> dict[str, str]:
    """version -> why it was withdrawn, as this workspace knows."""
    from saferec_builder.core.errors import StoreError, whole_object

    path = releases / FILE
    found = whole_object(path.read_bytes()) if path.exists() else {}
    if found is None:
        raise StoreError(f"{path}: damaged: put your copy of it back, or delete it and run `withdraw` again")
    return {str(version): str(reason) for version, reason in found.items()}


def mark(releases: Path, version: str, reason: str) -> bool:
    from saferec_builder.storage.workspace import replacing

    known = reasons(releases)
    if known.get(version) == reason:
        return False
    releases.mkdir(exist_ok=True)
    with replacing(releases / FILE) as tmp:
        tmp.write_text(json.dumps(known | {version: reason}, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return True
