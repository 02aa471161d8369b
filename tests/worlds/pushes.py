"""Who was assigned and shown what after a push that broke off."""

from saferec_builder.storage import tables, workspace as store
from tests.worlds import review_world
from tests.worlds.review_world import CLAIMS

TWO = ("--reviewer", "ann", "--reviewer", "bo")
ALL = (*TWO, "--all")
FILES = ("--tool", "files")


def given(ws: store.Workspace) -> set[tuple[str, str]]:
    return set(store.read(ws, tables.ASSIGNMENTS).select("reviewer", "subject").iter_rows())


def planted(ws: store.Workspace) -> set[tuple[str, str, str]]:
    return set(store.read(ws, tables.DECOYS).select("reviewer", "subject", "trait").iter_rows())


def nothing_is_left(ws: store.Workspace) -> bool:
    return not (ws.root / ".outbox.json").exists()


def in_files(ws: store.Workspace) -> set[tuple[str, str]]:
    return {(who, subject) for who in ("ann", "bo", "di") for subject in review_world.Files(ws).tasks(who)}


def shown_in_files(ws: store.Workspace) -> set[tuple[str, str, str]]:
    """(reviewer, conversation, trait) of suggestions that nobody proposed."""
    tasks = {who: review_world.Files(ws).tasks(who) for who in ("ann", "bo", "di")}
    claimed = {(subject, trait) for subject, trait, *_ in CLAIMS}
    return {(w, s, t) for w, of in tasks.items() for s, traits in of.items() for t in traits if (s, t) not in claimed}
