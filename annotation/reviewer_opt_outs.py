"""What reviewers ask for: opt-outs from traits, tasks handed back; and reviews that are set aside.

The traits that somebody would rather not see are read by routing alone: they are in no table and no report.
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
    """Keeps these traits (slugs or names) away from a reviewer, or forgets that with `remove`; counts are of traits.

    UsageError for a trait that is not in the taxonomy; one that left it can still be forgotten.
    """
    taxonomy, held = ws.taxonomy, set(read(ws).get(reviewer, []))
    given = [traits] if isinstance(traits, str) else traits
    named = {slug if remove and slug in held else taxonomy[slug].slug for slug in given}
    with workspace.alone(ws, "review opt-out", wait=True):  # nobody's wish is lost where two are written down at once
        known = read(ws)
        before = set(known.get(reviewer, []))
        now = before - named if remove else before | named
        others = {name: slugs for name, slugs in known.items() if name != reviewer}
        _write(ws, {**others, reviewer: sorted(now)} if now else others)
    changed = len(before ^ now)
    figures = {"next": "run `saferec-build review push` again: open tasks with these are taken back"} if changed else {}
    if reviewer not in set(workspace.read(ws, tables.ASSIGNMENTS)["reviewer"]):
        figures["note"] = f"{reviewer} has no tasks here yet: it holds for exactly this name"
    return Counts("review opt-out", changed, len(named) - changed, figures=figures)


def avoided(ws: Workspace) -> frozenset[tuple[str, str]]:
    """(reviewer, trait) pairs; nobody but the routing of `review push` asks."""
    return frozenset((name, slug) for name, slugs in read(ws).items() for slug in slugs)


@workspace.shared
def hand_back(ws: Workspace, reviewer: str) -> Counts:
    """Gives back the tasks that a reviewer has not finished; what they answered stays. Counts are of tasks.

    UsageError where nobody of this name has tasks.
    """
    with ordered(ws):
        desk = gather(ws)
        if reviewer not in (people := sorted(set(desk.assignments["reviewer"]))):
            known = ", ".join(people) or "those that a push names"
            raise UsageError(f"{reviewer} has no tasks here: expected one of {known}")
        units = open_units(desk, frozenset()).filter(reviewer=reviewer)
        rows = review_history.hand_back(units, desk.reviews, desk.taxonomy.digest)
        added = workspace.append(ws, tables.REVIEWS, rows)
    figures = {"note": "what was answered and not yet pulled counts once it is: nothing is lost"}
    figures["next"] = "run `saferec-build review push`, naming who is there: they get these tasks"
    return Counts("review hand-back", added, figures=figures if added else {})


@workspace.shared
def set_aside(ws: Workspace, reviewer: str, *, reason: str = "", undo: bool = False) -> Counts:
    """Takes a reviewer's work out of every label, with a reason that is kept with the rows and never released.

    Nothing is deleted: `undo` brings it back. Counts are of reviews. UsageError without a reason, or where nobody of
    this name has reviews.
    """
    with ordered(ws):
        reviews = workspace.read(ws, tables.REVIEWS)
        if reviewer not in set(reviews["reviewer"]):
            people = ", ".join(sorted(set(reviews["reviewer"])))
            hint = f"open tasks: `review hand-back {reviewer}`"
            raise UsageError(f"{reviewer} has no reviews here: expected one of {people} ({hint})")
        if not (reason or undo):
            raise UsageError(f"set-aside {reviewer}: give --reason, for whoever wonders later")
        if undo:
            rows = review_history.bring_back(reviews, reviewer)
        else:
            rows = review_history.set_aside(reviews, reviewer, reason)
        texts = workspace.evidenced(ws, rows)
        rows, gone = evidence.split(rows, texts)  # in a database that somebody edited by hand
        added = workspace.append(ws, tables.REVIEWS, rows, texts)
        workspace.append(ws, tables.DROPS, evidence.drops("review", "set-aside", gone))
    figures: dict[str, JsonValue] = {"next": "run `saferec-build adjudicate`: labels follow"} if added else {}
    desk = gather(ws)
    figures |= {"alarms": alarms} if (alarms := undone(desk)) else {}
    return Counts("review set-aside", added, dropped=dict(Counter(gone["reason"].to_list())), figures=figures)


def _place(ws: Workspace) -> Path:
    return ws.root / ".opt-outs.json"


def read(ws: Workspace) -> dict[str, list[str]]:
    path = _place(ws)
    found = whole_object(read_plain(path)) if path.exists() else {}
    if found is None or not all(isinstance(s, list) and all(isinstance(t, str) for t in s) for s in found.values()):
        raise StoreError(f"{path}: damaged: put your copy of it back, or delete it and ask your reviewers again")
    return found


def _write(ws: Workspace, known: dict[str, list[str]]) -> None:
    """Readable by its owner only; an empty one leaves no file."""
    path = _place(ws)
    if not known:
        path.unlink(missing_ok=True)
        return
    whole_files.write_private(path, json.dumps(known).encode())
