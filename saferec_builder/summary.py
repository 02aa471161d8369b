"""Sums up a workspace: rows per table, releases, the cost of models, and the next command."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import polars as pl

from annotation import certificate, connections
from annotation.adjudication import CERTIFICATES
from annotation.waiting import Waiting, waiting as waits
from exports import folder, removals_since_release, required_version_bump
from exports.checks import check_version
from exports.report import PAGE
from exports.verify import CERTIFICATE
from exports.withdraw import reasons
from saferec_builder.core.counts import many
from saferec_builder.core.errors import ReleaseError, line
from saferec_builder.llm.requests_and_replies import UNSENT
from saferec_builder.mining import withheld
from saferec_builder.storage import tables, workspace
from saferec_builder.storage.workspace import Workspace

PUSH = "saferec-build review push"
PEOPLE = "--reviewer NAME --reviewer NAME"
_TOOLS = {  # tool, as in SENT -> its option of `review push`, and how its answers are collected
    "page": (" --tool page", "`saferec-build review serve`, where people answer"),
    "label_studio": ("", "`saferec-build review pull`"),
    "argilla": (" --tool argilla --url URL", "`saferec-build review pull --tool argilla --url URL`"),
    "files": (" --tool files", "`saferec-build review pull --tool files` once the CSVs are filled in"),
}
_OTHER_FOLDER = (
    " --tool files --to FOLDER",
    "`saferec-build review pull --tool files FOLDER` once the CSVs of `--to FOLDER` are filled in",
)
_STOPPED_LABEL_STUDIO = ("", "`saferec-build review up`, as Label Studio is stopped, and `saferec-build review pull`")
_TEAMS_LABEL_STUDIO = (" --url URL", "`saferec-build review pull --url URL`")
_WITHOUT = "; or without them: "
SUMS = ("requests", "tokens_in", "tokens_out", "usd")


@dataclass(frozen=True, repr=False)
class Status:
    """What a workspace holds; printed, also as a notebook's result, it is the table of the command `status`.

    rows: per table; releases: their versions; spent: (model, requests, tokens_in, tokens_out, usd).

    emptied: releases whose data `forget` deleted; withdrawn: version -> why it was withdrawn;
    unanswered: number of open tasks (review_status says whose); next: what to do now, as a sentence.
    """

    rows: dict[str, int]
    releases: list[str]
    emptied: list[str]
    withdrawn: dict[str, str]
    spent: pl.DataFrame
    unanswered: int
    next: str

    def __repr__(self) -> str:
        width = max(map(len, self.rows))
        lines = [
            f"{name:<{width}}{rows:>13,}  {tables.TABLES[name].meaning.split('. ')[0].rstrip('.')}"
            for name, rows in self.rows.items()
            if rows
        ]
        for bill in self.spent.to_dicts():
            requests = many(bill["requests"], "request", "requests")
            paid = f"{requests}, {bill['tokens_in']:,} tokens in, {bill['tokens_out']:,} out"
            lines.append(line(f"paid to {bill['model']}: {paid}, {bill['usd']:.4f} USD with test questions"))
        marks = {version: f" (withdrawn: {reason})" for version, reason in self.withdrawn.items()}
        marks |= dict.fromkeys(self.emptied, " (its data was deleted)")
        marked = (version + marks.get(version, "") for version in self.releases)
        lines += [line(f"releases: {', '.join(marked)}")] * bool(self.releases)
        return "\n".join([*lines, shown(self.next)])


def shown(step: str) -> str:
    """A next step as people see it: what can be done without those that it waits for is on a line of its own."""
    return line(f"next: {step}").replace(_WITHOUT, f"\n  {_WITHOUT.removeprefix('; ')}")


def status(ws: Workspace) -> Status:
    """Counts the workspace's rows without holding its texts; StoreError where a table is damaged."""
    spent = workspace.read(ws, tables.SPEND).group_by("model", maintain_order=True).agg(pl.col(c).sum() for c in SUMS)
    rows = {name: workspace.count(ws, table) for name, table in tables.TABLES.items()}
    waiting = waits(ws) if rows["assignments"] else Waiting(0, 0, 0, 0, 0)
    releases = _releases(ws)
    emptied = [version for version in releases if not (ws.releases / version / "data").is_dir()]
    return Status(rows, releases, emptied, reasons(ws.releases), spent, waiting.tasks, next_step(ws, waiting))


def next_step(ws: Workspace, waiting: Waiting | None = None, *, labels: int = 0, planned: bool = False) -> str:
    """Returns the first step of the workflow without results; after these, what waits for people, then the releases. An
    erasure that was broken off comes before all.

    labels: the number of labels just made, which no release has. planned: the user was just shown the `plan`.
    """
    if (ws.root / workspace.FORGETTING).exists():
        return "end the erasure that was begun: `saferec-build forget` (unless it is at work just now)"
    tools = _review_tools(ws)
    collect = " or ".join(how for _, how in tools)
    push = PUSH + (tools[0][0] if tools else "" if _own_label_studio(ws) else " --tool page")
    steps = {
        "catalog_rows": "add items and warnings: `saferec-build catalog add SOURCE PATH`",
        "conversations": f"{_warnings(ws)}read conversations: `saferec-build mine SOURCE PATH`",
        "readings": "look for sensitivities: `saferec-build propose`",
        "assignments": f"hand out review tasks: `{push} {PEOPLE}`",
        "reviews": f"collect the answers: {collect}",
    }
    for table, step in steps.items():
        if not workspace.count(ws, tables.TABLES[table]):
            return _redial(ws) + step if table == "readings" else step
        if table == "readings" and (new := _unread(ws)):
            texts = f"{many(new, 'conversation', 'conversations')} that no proposer has read for all traits"
            return f"{_redial(ws)}look for sensitivities in {texts}: `saferec-build propose`"
    waiting = waiting or waits(ws)
    return _of_people(ws, waiting, push, labels, planned) or _of_releases(ws, labels, planned)


def _of_people(ws: Workspace, waiting: Waiting, push: str, labels: int, planned: bool) -> str | None:
    """What waits for people, and what can be done without them; None if nothing waits."""
    then = partial(next_step, ws, labels=labels, planned=planned)
    if n := waiting.capped:  # no push hands these out today: they are never the first step
        today = then(replace(waiting, unsent=waiting.unsent - n, put_off=waiting.put_off - n, capped=0))
        texts = f"{many(n, 'more conversation', 'more conversations')} ([review] severe_a_day)"
        return f"{today}; and tomorrow `{push} {PEOPLE}` hands out {texts}"
    if new := waiting.unsent - waiting.put_off:
        texts = many(new, "conversation is", "conversations are")
        rest = then(replace(waiting, unsent=waiting.put_off))
        return f"{texts} new since the last push: `{push} {PEOPLE}` hands out what is to be read{_WITHOUT}{rest}"
    if waiting.tasks:  # people may leave tasks unanswered: the answers that exist need not wait for them
        collect = " or ".join(how for _, how in _review_tools(ws, waiting.tools))
        rest = then(replace(waiting, tasks=0))
        people = f"{many(waiting.tasks, 'task waits', 'tasks wait')} for people: {collect}, then `saferec-build"
        n = waiting.rejected
        refused = f" ({many(n, 'answer was', 'answers were')} rejected: `{push} --reviewer NAME` says why)" if n else ""
        return f"{people} adjudicate`{refused}{_WITHOUT}{rest}"
    if waiting.put_off:
        texts = many(waiting.put_off, "conversation waits", "conversations wait")
        rest = then(replace(waiting, unsent=0, put_off=0))
        why = "for readers (proposed since the last push, or left out by its budget or for lack of readers)"
        return f"{texts} {why}: `{push} {PEOPLE}` hands out what is to be read{_WITHOUT}{rest}"
    if waiting.short:
        texts = many(waiting.short, "conversation lacks", "conversations lack")
        rest = then(replace(waiting, short=0))
        why = f"a reader, of {ws.config.review.readers} each (a task was handed back, or nobody else was named)"
        who = f"`{push} --reviewer NAME` gives them to somebody who has not had them"
        return f"{texts} {why}: {who}{_WITHOUT}{rest}"
    if waiting.disputed:
        disputes = many(waiting.disputed, "dispute waits", "disputes wait")
        return f"{disputes} for a ruling: `{push} --adjudicator NAME`"
    if waiting.unlabelled or not workspace.count(ws, tables.LABELS):
        return f"make labels of what people said ({waiting.unlabelled:,} new or changed): `saferec-build adjudicate`"
    return None


def _of_releases(ws: Workspace, labels: int, planned: bool) -> str:
    releases = _releases(ws)
    if not releases:
        first = "" if planned else "see what a release would hold (`saferec-build plan`), and "
        return f"{first}make {'a release' if planned else 'it'}: `saferec-build release VERSION`"
    newest = ws.releases / releases[-1]
    without = f"`saferec-build release {required_version_bump.next_free(newest, 'major')}`"  # as rows are gone
    if not (newest / "data").is_dir():
        return f"make a version without those who were forgotten: {without}"
    if _holds_removed(ws, newest):
        return f"make a version without those who asked to be removed: {without}"
    if releases[-1] in reasons(ws.releases):
        return f"make a version in place of {releases[-1]}, which was withdrawn: `saferec-build release VERSION`"
    if labels:
        changes = many(labels, "label that is", "labels that are")
        return f"make a version with {changes} new or changed: `saferec-build release VERSION`"
    # a copied workspace has other file times, and `adjudicate` may have changed nothing since the release
    if _is_newer(last := ws.root / CERTIFICATES, newest) and not certificate.alike(newest / CERTIFICATE, last):
        return "make a version with what `adjudicate` changed since: `saferec-build release VERSION`"
    if _is_newer(ws.root / PAGE, newest):
        train = f"`saferec-train run --release {shlex.quote(str(newest))} --model tiny --output runs`"
        option = "--to FOLDER" if ws.config.demo else "--hub --repo NAMESPACE/NAME"  # which refuses invented data
        return f"train on it ({train}), or share it: `saferec-build publish {releases[-1]} {option}`"
    return "look at the result: `saferec-build report`"


def _holds_removed(ws: Workspace, release: Path) -> bool:
    try:
        return bool(removals_since_release.still_in(ws, release))
    except (ReleaseError, OSError, pl.exceptions.PolarsError):
        return False  # a damaged release: `verify` reports it, and it must not stop other commands


def _is_newer(path: Path, release: Path) -> bool:
    """Whether the file was written after the release was made."""
    return path.is_file() and path.stat().st_mtime >= (release / folder.MANIFEST).stat().st_mtime


def _warnings(ws: Workspace) -> str:
    if workspace.count(ws, tables.WARNINGS):
        return ""
    return "add warnings, without which nothing is unsafe or clear (`saferec-build catalog add warnings FILE`), then "


def _redial(ws: Workspace) -> str:
    """ReDial's dialogues name films by ids of their own, which no other source of items has."""
    if (workspace.read(ws, tables.CATALOG_ROWS)["source"] == "redial").any():
        return ""
    if not any((part["source"] == "redial").any() for part in workspace.parts(ws, tables.CONVERSATIONS, "source")):
        return ""
    return "make items of ReDial's ids (`saferec-build catalog add redial FILE`, the files that you mined), then "


def _unread(ws: Workspace) -> int:
    """The number of conversations not yet read for every trait in its present wording, without withheld ones and those
    with an unusable answer."""
    mined = pl.concat(workspace.parts(ws, tables.CONVERSATIONS, "digest", "source", "source_id", "seeker"))
    traits = [trait.wording for trait in ws.taxonomy.traits]
    asked = workspace.read(ws, tables.ASKED).filter(pl.col("wording").is_in(traits))
    readings = pl.concat(workspace.parts(ws, tables.READINGS)).filter(kind="sensitivity")
    counts = readings.join(asked, "taxonomy").group_by("subject", "digest").agg(pl.col("wording").n_unique())
    complete = counts.filter(wording=len(traits))
    newest = tables.last(mined, "conversation").rename({"conversation": "subject"})
    new = newest.join(complete, on=["subject", "digest"], how="anti").rename({"subject": "conversation"})
    if new.is_empty():
        return 0
    drops = workspace.read(ws, tables.DROPS).filter(stage="propose")
    unusable = drops.filter(~pl.col("detail").str.ends_with(UNSENT))["place"]  # conversations with unusable answers
    new = new.filter(~pl.col("conversation").is_in(unusable.implode()))
    return new.height - len(withheld.reasons(ws, new))


def _releases(ws: Workspace) -> list[str]:
    return sorted(folder.versions(ws.releases), key=check_version)


def _review_tools(ws: Workspace, only: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Values of _TOOLS for the tools that tasks were sent with so far, or for `only` these; answers on the page need no
    `review pull`."""
    tools = set(workspace.read(ws, tables.SENT)["tool"])
    tools |= {"files"} if any((ws.root / "review").glob("*.[cC][sS][vV]")) else set()
    hows = dict(_TOOLS)
    if not _own_label_studio(ws):
        hows["label_studio"] = _TEAMS_LABEL_STUDIO
    elif connections.is_stopped(ws):
        hows["label_studio"] = _STOPPED_LABEL_STUDIO
    used = [texts for tool, texts in hows.items() if tool in tools.intersection(only or tools)]
    return used or [_OTHER_FOLDER] * bool(workspace.count(ws, tables.ASSIGNMENTS))


def _own_label_studio(ws: Workspace) -> bool:
    """Whether the workspace has a Label Studio of its own: `review up` writes the file."""
    return (connections.server_folder(ws) / "server.json").exists()
