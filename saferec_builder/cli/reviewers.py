"""What reviewers asked for, and what became of their work: opt-outs that only routing reads, work set aside."""

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from annotation.opt_outs import read, write
from annotation.pull import ordered
from saferec_builder.cli.output import Folder, Json, say
from saferec_builder.core.counts import Counts

Name = Annotated[str, typer.Argument(help="The reviewer's name in this workspace.")]


def opt_out(
    name: Name,
    trait: Annotated[list[str], typer.Argument(help="Slugs that this person would rather not see.")],
    remove: Annotated[bool, typer.Option("--remove", help="Forget these instead.")] = False,
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Keep sensitivities away from a reviewer: no reason asked, in no table, no report; --remove deletes it."""
    from saferec_builder.storage import tables, workspace as store

    ws = store.Workspace.open(folder)
    taxonomy = ws.taxonomy
    held = set(read(ws).get(name, []))  # a wish outlives its trait, and can be forgotten
    wanted = {slug if remove and slug in held else taxonomy[slug].slug for slug in trait}
    with store.alone(ws, "review opt-out", wait=True):  # nobody's wish is lost where two are written down at once
        known = read(ws)
        mine = set(known.get(name, []))
        new = mine - wanted if remove else mine | wanted
        write(ws, {**known, name: sorted(new)} if new else {k: v for k, v in known.items() if k != name})
    changed = len(mine ^ new)
    told = {"next": "run `saferec-build review push` again: open tasks with these are taken back"} if changed else {}
    if name not in set(store.read(ws, tables.ASSIGNMENTS)["reviewer"]):
        told["note"] = f"{name} has no tasks here yet: it holds for exactly this name"
    say(Counts("review opt-out", changed, len(wanted) - changed, figures=told), as_json, "traits")


def hand_back(name: Name, folder: Folder = Path("."), as_json: Json = False) -> None:
    """Give back what a reviewer has not finished (a holiday, a mistyped name); what they answered stays."""
    from annotation import aggregation as adjudicate
    from saferec_builder.core.errors import UsageError
    from saferec_builder.storage import tables, workspace as store

    ws = store.Workspace.open(folder)
    taxonomy = ws.taxonomy
    with ordered(ws):
        given = store.read(ws, tables.ASSIGNMENTS)
        if name not in (people := sorted(set(given["reviewer"]))):
            raise UsageError(
                f"{name} has no tasks here: wanted one of {', '.join(people) or 'those that a push names'}"
            )
        rows = adjudicate.hand_back(given.filter(reviewer=name), store.read(ws, tables.REVIEWS), taxonomy.digest)
        added = store.append(ws, tables.REVIEWS, rows)
    told: dict[str, Any] = {"note": "what was answered and not yet pulled counts once it is: nothing is lost"}
    told["next"] = "run `saferec-build review push`, naming who is there: they get these tasks"
    say(Counts("review hand-back", added, figures=told if added else {}), as_json, "tasks")


def set_aside(
    name: Name,
    reason: Annotated[str, typer.Option("--reason", help="Why; kept with the rows, never released.")] = "",
    undo: Annotated[bool, typer.Option("--undo", help="Let it count again.")] = False,
    folder: Folder = Path("."),
    as_json: Json = False,
) -> None:
    """Take a reviewer's work out of every label, with a reason; nothing is deleted, and --undo brings it back."""
    from annotation import aggregation as adjudicate
    from saferec_builder.core.errors import UsageError
    from saferec_builder.storage import evidence, tables, workspace as store

    ws = store.Workspace.open(folder)
    with ordered(ws):
        reviews = store.read(ws, tables.REVIEWS)
        if name not in set(reviews["reviewer"]):
            people = ", ".join(sorted(set(reviews["reviewer"])))
            raise UsageError(
                f"{name} has no reviews here: wanted one of {people} (open tasks: `review hand-back {name}`)"
            )
        if not (reason or undo):
            raise UsageError(f"set-aside {name}: give --reason, for whoever wonders later")
        rows = adjudicate.bring_back(reviews, name) if undo else adjudicate.set_aside(reviews, name, reason)
        texts = store.evidenced(ws, rows)
        rows, gone = evidence.split(rows, texts)  # in a database that somebody edited by hand
        added = store.append(ws, tables.REVIEWS, rows, texts)
        store.append(ws, tables.DROPS, evidence.drops("review", "set-aside", gone))
    told: dict[str, Any] = {"next": "run `saferec-build adjudicate`: labels follow"} if added else {}
    dropped = Counter(gone["reason"].to_list())
    say(Counts("review set-aside", added, dropped=dict(dropped), figures=told), as_json, "reviews")
