"""Wishes of reviewers: opt-outs from traits, tasks handed back; and reviews that are set aside.

Only routing reads the opt-outs: they are in no table and no report.
"""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from annotation import review_history
from annotation.pull import ordered
from annotation.review_state import gather, open_units, undone
from saferec_builder.core.counts import Counts
from saferec_builder.core.errors import StoreError, UsageError, whole_object
from saferec_builder.core.json_value import JsonValue
from saferec_builder.core.plain_files import read_plain
from saferec_builder.storage import evidence_check as evidence, tables, whole_files, workspace
from saferec_builder.storage.workspace import Workspace


def opt_out(ws: Workspace, reviewer: str, traits: str | Iterable[str], *, remove: bool = False) -> Counts:
    """Keeps these traits (slugs or names) away from a reviewer, or stops that with `remove`; counts are of traits.

    Raises UsageError for a trait that is not in the taxonomy; one that has left it can still be removed.
    """
    taxonomy, old_slugs = ws.taxonomy, set(read(ws).get(reviewer, []))
    names = [traits] if isinstance(traits, str) else traits
    chosen = {slug if remove and slug in old_slugs else taxonomy[slug].slug for slug in names}
    with workspace.alone(ws, "review opt-out", wait=True):  # no wish is lost if two are written at once
        opt_outs = read(ws)
        before = set(opt_outs.get(reviewer, []))
        after = before - chosen if remove else before | chosen
        others = {name: slugs for name, slugs in opt_outs.items() if name != reviewer}
        _write(ws, {**others, reviewer: sorted(after)} if after else others)
    changed = len(before ^ after)
    figures = {"next": "run `saferec-build review push` again: open tasks with these are taken back"} if changed else {}
    if reviewer not in set(workspace.read(ws, tables.ASSIGNMENTS)["reviewer"]):
        figures["note"] = f"{reviewer} has no tasks here yet: it holds for exactly this name"
    return Counts("review opt-out", changed, len(chosen) - changed, figures=figures)


def avoided(ws: Workspace) -> frozenset[tuple[str, str]]:
    """(reviewer, trait) pairs; used only to decide who gets, and keeps, which tasks."""
    return frozenset((name, slug) for name, slugs in read(ws).items() for slug in slugs)


@workspace.shared
def hand_back(ws: Workspace, reviewer: str) -> Counts:
    """Hands back the tasks that a reviewer has not finished; their answers stay. Counts are of tasks.

    Raises UsageError if nobody of this name has tasks.
    """
    with ordered(ws):
        state = gather(ws)
        if reviewer not in (people := sorted(set(state.assignments["reviewer"]))):
            expected = ", ".join(people) or "those that a push names"
            raise UsageError(f"{reviewer} has no tasks here: expected one of {expected}")
        units = open_units(state, frozenset()).filter(reviewer=reviewer)
        rows = review_history.hand_back(units, state.reviews, state.taxonomy.digest)
        added = workspace.append(ws, tables.REVIEWS, rows)
    figures = {"note": "what was answered and not yet pulled counts once it is: nothing is lost"}
    figures["next"] = "run `saferec-build review push`, naming who is there: they get these tasks"
    return Counts("review hand-back", added, figures=figures if added else {})


@workspace.shared
def set_aside(ws: Workspace, reviewer: str, *, reason: str = "", undo: bool = False) -> Counts:
    """Takes a reviewer's work out of every label, with a reason that is stored in the rows and never released.

    Nothing is deleted: `undo` brings it back. Counts are of reviews. Raises UsageError without a reason, or if nobody
    of this name has reviews.
    """
    with ordered(ws):
        reviews = workspace.read(ws, tables.REVIEWS)
        answers = review_history.last_words(reviews).drop_nulls("verdict")  # handing back alone cannot be set aside
        if reviewer not in (people := {*answers["reviewer"], *review_history.aside(reviews)}):
            names = ", ".join(sorted(people)) or "nobody yet"
            hint = f"open tasks: `review hand-back {reviewer}`"
            raise UsageError(f"{reviewer} has no reviews here: expected one of {names} ({hint})")
        if not (reason or undo):
            raise UsageError(f"set-aside {reviewer}: give --reason, for whoever wonders later")
        if undo:
            rows = review_history.bring_back(reviews, reviewer)
        else:
            rows = review_history.set_aside(reviews, reviewer, reason)
        texts = workspace.evidenced(ws, rows)
        rows, dropped = evidence.split(rows, texts)  # drops only in a database that was edited by hand
        added = workspace.append(ws, tables.REVIEWS, rows, texts)
        workspace.append(ws, tables.DROPS, evidence.drops("review", "set-aside", dropped))
    figures: dict[str, JsonValue] = {"next": "run `saferec-build adjudicate`: labels follow"} if added else {}
    state = gather(ws)
    figures |= {"alarms": alarms} if (alarms := undone(state)) else {}
    return Counts("review set-aside", added, dropped=dict(Counter(dropped["reason"].to_list())), figures=figures)


def _place(ws: Workspace) -> Path:
    return ws.root / ".opt-outs.json"


def read(ws: Workspace) -> dict[str, list[str]]:
    path = _place(ws)
    stored = whole_object(read_plain(path)) if path.exists() else {}
    if stored is None or not all(isinstance(s, list) and all(isinstance(t, str) for t in s) for s in stored.values()):
        raise StoreError(f"{path}: damaged: put your copy of it back, or delete it and ask your reviewers again")
    return stored


def _write(ws: Workspace, opt_outs: dict[str, list[str]]) -> None:
    """Writes a file that only its owner can read; without opt-outs it deletes the file."""
    path = _place(ws)
    if not opt_outs:
        path.unlink(missing_ok=True)
        return
    whole_files.write_private(path, json.dumps(opt_outs).encode())
