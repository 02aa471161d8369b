"""What is in a workspace: rows per table, releases, what models were paid, and the next command."""

from dataclasses import dataclass, replace

import polars as pl

from annotation.waiting import Waiting, waiting as waits
from exports import folder
from exports.checks import check_version
from exports.withdraw import reasons
from saferec_builder.llm.requests_and_replies import UNSENT
from saferec_builder.mining import withheld
from saferec_builder.storage import tables, workspace
from saferec_builder.storage.workspace import Workspace

PUSH = "saferec-build review push --reviewer NAME --reviewer NAME"
_TOOLS = {  # where people were asked -> how their answers come
    "page": "`saferec-build review serve`, where people answer",
    "label-studio": "`saferec-build review pull`",
    "argilla": "`saferec-build review pull --tool argilla`",
    "files": "`saferec-build review pull --tool files` once the CSVs are filled in",
}
_ELSEWHERE = "`saferec-build review pull --tool files FOLDER` once the CSVs of `--to FOLDER` are filled in"
SUMS = ("requests", "tokens_in", "tokens_out", "usd")


@dataclass(frozen=True)
class Status:
    """rows of every table; versions of the releases; spent: (model, requests, tokens_in, tokens_out, usd).

    emptied: releases whose data `forget` deleted; withdrawn: version -> why it was taken back;
    unanswered: tasks that are open still (review_status has whose); next: what to do now, as a sentence.
    """

    rows: dict[str, int]
    releases: list[str]
    emptied: list[str]
    withdrawn: dict[str, str]
    spent: pl.DataFrame
    unanswered: int
    next: str


def status(ws: Workspace) -> Status:
    """Counts the workspace's rows without holding its texts; StoreError where a table is damaged."""
    bills = workspace.read(ws, tables.SPEND).group_by("model", maintain_order=True).agg(pl.col(c).sum() for c in SUMS)
    rows = {name: workspace.count(ws, table) for name, table in tables.TABLES.items()}
    waiting = waits(ws) if rows["assignments"] else Waiting(0, 0, 0, 0)
    there = _releases(ws)
    emptied = [version for version in there if not (ws.releases / version / "data").is_dir()]
    return Status(rows, there, emptied, reasons(ws.releases), bills, waiting.tasks, next_step(ws, waiting))


def next_step(ws: Workspace, waiting: Waiting | None = None, *, labels: int = 0, planned: bool = False) -> str:
    """The first step of the line that has nothing to show yet; then what waits for people, then the releases.

    labels: how many were made just now, which no release has. planned: what a release would hold was just told.
    """
    collect = _collect(ws)
    steps = {
        "catalog_rows": "add items and warnings: `saferec-build catalog add`",
        "conversations": f"{_warnings(ws)}read conversations: `saferec-build mine`",
        "readings": "look for sensitivities: `saferec-build propose`",
        "assignments": f"hand out review tasks: `{PUSH}`",
        "reviews": f"collect the answers: {collect}",
        "labels": f"when the answers are in ({collect}), make labels: `saferec-build adjudicate`",
    }
    for table, step in steps.items():
        if not workspace.count(ws, tables.TABLES[table]):
            return step
        if table == "readings" and (new := _unread(ws)):
            return f"look for sensitivities in {new:,} conversations that no proposer has read: `saferec-build propose`"
    waiting = waiting or waits(ws)
    if waiting.unsent:
        rest = next_step(ws, replace(waiting, unsent=0), labels=labels, planned=planned)
        since = f"{waiting.unsent:,} conversations are new since the last push: `{PUSH}` hands out what is to be read"
        return f"{since}; or without them: {rest}"
    if waiting.tasks:  # whoever is asked may leave them: what was answered is not held up by that
        rest = next_step(ws, replace(waiting, tasks=0), labels=labels, planned=planned)
        people = f"{waiting.tasks:,} tasks wait for people: {collect}, then `saferec-build adjudicate`"
        return f"{people}; or without them: {rest}"
    if waiting.disputed:
        return f"{waiting.disputed:,} disputes wait for a ruling: `saferec-build review push --adjudicator NAME`"
    if waiting.unlabelled:
        return f"labels of {waiting.unlabelled:,} units are not up to date: `saferec-build adjudicate`"
    there = _releases(ws)
    if not there:
        first = "" if planned else "see what a release would hold (`saferec-build plan`), and "
        return f"{first}make {'a release' if planned else 'it'}: `saferec-build release VERSION`"
    if not (ws.releases / there[-1] / "data").is_dir():
        return "make a version without those who were forgotten: `saferec-build release VERSION`"
    if labels:
        return f"make a version with {labels:,} labels that are new or changed: `saferec-build release VERSION`"
    return "look at the result: `saferec-build report`"


def _warnings(ws: Workspace) -> str:
    if workspace.count(ws, tables.WARNINGS):
        return ""
    return "add warnings, without which nothing is unsafe or clear (`saferec-build catalog add warnings FILE`), then "


def _unread(ws: Workspace) -> int:
    """Conversations whose text no proposer was asked to read; of those that nobody is given none."""
    mined = pl.concat(workspace.parts(ws, tables.CONVERSATIONS, "digest", "source", "source_id", "seeker"))
    read = pl.concat(workspace.parts(ws, tables.READINGS)).filter(kind="sensitivity")
    now = tables.last(mined, "conversation").rename({"conversation": "subject"})
    new = now.join(read, on=["subject", "digest"], how="anti").rename({"subject": "conversation"})
    if new.is_empty():
        return 0
    drops = workspace.read(ws, tables.DROPS).filter(stage="propose")
    asked = drops.filter(~pl.col("detail").str.ends_with(UNSENT))["place"]  # no answer on them was of use
    new = new.filter(~pl.col("conversation").is_in(asked.implode()))
    return new.height - len(withheld.reasons(ws, new))


def _releases(ws: Workspace) -> list[str]:
    return sorted(folder.versions(ws.releases), key=check_version)


def _collect(ws: Workspace) -> str:
    """Where answers come from: of the page of `review serve` there is nothing to pull."""
    tools = set(workspace.read(ws, tables.SENT)["tool"])
    tools |= {"files"} if any((ws.root / "review").glob("*.csv")) else set()
    return " or ".join(how for tool, how in _TOOLS.items() if tool in tools) or _ELSEWHERE
