"""The public Python API: what `import saferec_builder` gives, in the order of the data.

    ws = Workspace.create("my-dataset")
    add_catalog(ws, "csv", ["items.csv"])      # items; with "warnings", their content warnings
    mine(ws, "messages", ["chats.jsonl"])      # conversations
    propose(ws)                                # sensitivities that seekers imply, as claims with evidence
    push(ws, ["ann", "bo"], to=Files())        # people review ...
    pull(ws, Files())
    adjudicate(ws)                             # ... and their reviews become labels
    release(ws, "1.0.0").verify()              # a frozen folder

Each step is a function of its package, and each command of `saferec-build` calls one of them. Only here are arguments
checked first (core/arguments.py), because no type checker sees what people write in a notebook. Steps return frozen
dataclasses with counts and tables, and print nothing. docs/python.md shows all steps.
"""

from inspect import isfunction
from pathlib import Path

from annotation.adjudication import Adjudication, adjudicate
from annotation.browsing import browse
from annotation.follow import follow
from annotation.page.serving import Served, serve
from annotation.progress import ReviewStatus, review_status
from annotation.pull import PullResult, pull
from annotation.push import PushResult, push
from annotation.review_destinations import Argilla, Files, LabelStudio, ReviewPage, place
from annotation.reviewer_opt_outs import hand_back, opt_out, set_aside
from exports.diff import Difference
from exports.linkage import Linkage, linkage
from exports.publish import Published
from exports.rebuild import Rebuilt, rebuild
from exports.release import Release, release
from exports.report.page import ReportPage, write as report
from exports.verify import Verified
from exports.withdraw import Withdrawn, withdraw
from saferec_builder.catalog.adding import FetchResult, add_catalog
from saferec_builder.catalog.checker import Checker, checker
from saferec_builder.catalog.explain import Explained, Verdict
from saferec_builder.catalog.lookup import Gaps, Merges, check, gaps, merges, show
from saferec_builder.catalog.rulings import join_rows, keep_apart
from saferec_builder.catalog.screening import Screening, screen
from saferec_builder.core.arguments import Named, Parts, checked
from saferec_builder.core.counts import Counts
from saferec_builder.core.errors import SafeRecError
from saferec_builder.diagnostics import Examination, examine
from saferec_builder.erasure.forget import Forgotten, forget
from saferec_builder.mining.ingest import MineResult, mine
from saferec_builder.planning import Plan, fetch, plan
from saferec_builder.proposing.evaluation import Score, score
from saferec_builder.proposing.run import ProposeResult, propose
from saferec_builder.storage.workspace import Workspace
from saferec_builder.summary import Status, status

__all__ = ["Counts", "Examination", "Plan", "SafeRecError", "Status", "Workspace", "examine", "plan", "status"]
__all__ += ["FetchResult", "add_catalog", "fetch", "join_rows", "keep_apart"]  # catalog
__all__ += ["Explained", "Gaps", "Merges", "Screening", "Verdict", "check", "gaps", "merges", "screen", "show"]
__all__ += ["Checker", "checker"]
__all__ += ["MineResult", "ProposeResult", "Score", "mine", "propose", "score"]
__all__ += ["Argilla", "Files", "LabelStudio", "ReviewPage"]
__all__ += ["PushResult", "Served", "browse", "push", "serve"]
__all__ += ["PullResult", "ReviewStatus", "follow", "hand_back", "opt_out", "pull", "review_status", "set_aside"]
__all__ += ["Adjudication", "adjudicate"]  # the last step of review
__all__ += ["Difference", "Linkage", "Published", "Rebuilt", "Release", "ReportPage", "Verified", "Withdrawn"]
__all__ += ["linkage", "rebuild", "release", "report", "withdraw"]
__all__ += ["Forgotten", "forget"]

_NAMED: Named = {Workspace: Workspace.open, LabelStudio: place}
_PARTS: Parts = {Release: {Path: lambda release: release.folder, str: lambda release: release.version}}
for _name in __all__:
    if isfunction(globals()[_name]):
        globals()[_name] = checked(_name, globals()[_name], _NAMED, _PARTS)
