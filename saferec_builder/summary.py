"""What is in a workspace: rows per table, releases, what models were paid, and the next command."""

from dataclasses import dataclass

import polars as pl

from annotation import review_state, reviewer_opt_outs as opt_outs
from saferec_builder.storage import tables, workspace
from saferec_builder.storage.workspace import Workspace

SUMS = ("requests", "tokens_in", "tokens_out", "usd")


@dataclass(frozen=True)
class Status:
    """rows of every table; versions of the releases; spent: (model, requests, tokens_in, tokens_out, usd).

    unanswered: tasks that are open still (review_status has whose); next: what to do now, as a sentence.
    """

    rows: dict[str, int]
    releases: list[str]
    spent: pl.DataFrame
    unanswered: int
    next: str


def status(ws: Workspace) -> Status:
    """Counts the workspace's rows without holding its texts; StoreError where a table is damaged."""
    releases = sorted(manifest.parent.name for manifest in ws.releases.glob("*/manifest.json"))
    bills = workspace.read(ws, tables.SPEND).group_by("model", maintain_order=True).agg(pl.col(c).sum() for c in SUMS)
    rows = {name: _rows(ws, table) for name, table in tables.TABLES.items()}
    unanswered = _unanswered(ws) if rows["assignments"] else 0
    return Status(rows, releases, bills, unanswered, _next(rows, unanswered, releases, on_page=_on_page(ws)))


def _unanswered(ws: Workspace) -> int:
    units = review_state.open_units(review_state.gather(ws), opt_outs.avoided(ws))
    return units.select("kind", "subject", "reviewer").n_unique()


def _on_page(ws: Workspace) -> bool:
    """People answer on the page of `review serve` and nowhere else: there is nothing to pull."""
    return set(workspace.read(ws, tables.SENT)["tool"]) == {"page"} and not any((ws.root / "review").glob("*.csv"))


def _next(rows: dict[str, int], unanswered: int, releases: list[str], *, on_page: bool = False) -> str:
    """The first step of the line that has nothing to show yet."""
    collect = "`saferec-build review pull`, with the `--tool` of the push"
    collect = "`saferec-build review serve`, where people answer" if on_page else collect
    steps = {
        "catalog_rows": "add items and warnings: `saferec-build catalog add`",
        "conversations": "read conversations: `saferec-build mine`",
        "readings": "look for sensitivities: `saferec-build propose`",
        "assignments": "hand out review tasks: `saferec-build review push`",
        "reviews": f"collect the answers: {collect}",
        "labels": "make labels of the answers: `saferec-build adjudicate`",
    }
    for table, step in steps.items():
        if not rows[table]:
            return step
    if unanswered:
        return f"{unanswered:,} tasks wait for people: {collect}, then `saferec-build adjudicate`"
    if not releases:
        return "see what a release would hold: `saferec-build release --explain`"
    return "look at the result: `saferec-build report`"


def _rows(ws: Workspace, table: tables.Table) -> int:
    if table.place == "db":
        return workspace.read(ws, table).height
    return sum(part.height for part in workspace.parts(ws, table, *table.key))
