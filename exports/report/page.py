"""Renders the report: one HTML page that needs no network, from plain figures and the report.json files of runs.

Names of conversations, traits, sources and runs were written by others. Every value is escaped, and `plain` shows
invisible or direction-changing characters as �. The Content-Security-Policy only allows the page's style and script.
"""

import base64
import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from pydantic import BaseModel, Field, ValidationError

from exports.card import percent
from exports.report import PAGE, plots
from exports.report.gather import Figures, gather
from saferec_builder.core.counts import many
from saferec_builder.core.errors import ReleaseError, UsageError, fault_of, plain
from saferec_builder.core.plain_files import read_plain
from saferec_builder.scoring.intervals import LEAST
from saferec_builder.scoring.linear_text import ENOUGH
from saferec_builder.storage.whole_files import replacing
from saferec_builder.storage.workspace import Workspace, shared

HERE = Path(__file__).parent
Report = dict[str, Any]  # a checked report.json: its Runs, with the label of each and their folder
KNOWN = {
    "sft": "SFT without safety",
    "safe_sft": "Safe-SFT",
    "safe_gdpo": "Safe-SFT + GDPO",
    "student": "Student of the guard",
}
RAW = "sft"  # the baseline of the comparison
_RUNS = b'<table class="grid models">'  # only in pages with results of models
BASELINES = {  # names of training -> labels
    "guard": "Guard",
    "oracle_filter": "Oracle filter",
    "blind": "Blind (no evidence)",
    "retrieval": "Retrieval",
    "retrieval_filter": "Retrieval + filter",
    "retrieval_blind": "Retrieval, blind",
    "popularity": "Popularity",
    "popularity_filter": "Popularity + filter",
}


class Interval(BaseModel):
    """A mean over users with its 95 % interval; all null without users."""

    mean: float | None = Field(allow_inf_nan=False)
    low: float | None = Field(None, allow_inf_nan=False)
    high: float | None = Field(None, allow_inf_nan=False)
    n: int | None = None  # users that the metric applies to; None in reports of older programs


class Slice(BaseModel):
    n: int
    metrics: dict[str, Interval]


class Run(Slice):
    name: str
    split: str
    n_sensitive: int
    slices: dict[str, Slice] = {}
    everyone: Slice | None = None  # set if `metrics` are of the users in no slice
    against: str | None = None
    difference: dict[str, Interval] = {}
    same_answers: bool = False  # as the run that it is compared with
    learned_from: int | None = None  # of the guard, in reports of this program


class Named(BaseModel):
    name: str
    version: str
    digest: str | None = None  # None in reports of older programs
    rebuilt_from: str | None = None  # set if texts of the release were put back: the same release with another digest


class Runs(BaseModel):
    """The part of report.json that the page shows."""

    release: Named
    k: int = Field(ge=1)
    gold: bool
    runs: list[Run]
    chosen: str | None = None
    never_violated: int = 0  # requests with traits that no item is violated for; 0 in reports of older programs


@dataclass(frozen=True)
class ReportPage:
    """The written report: one HTML file that needs no network."""

    path: Path
    release: str | None  # the version on the page
    bytes: int
    new: bool  # False if the same page existed
    doubts: tuple[str, ...] = ()  # why not to rely on the release; shown at the top
    lost_runs: bool = False  # the page before showed results of models, and this one shows none

    @property
    def warnings(self) -> list[str]:
        """Warnings for whoever wrote the page, besides its content."""
        lost = "the page before showed results of models, this one none: give --runs again"
        return [*self.doubts, *[lost] * self.lost_runs]


@shared
def write(ws: Workspace, version: str | None = None, runs: Iterable[Path] = ()) -> ReportPage:
    """Writes report.html into the workspace. version: default the newest release. runs: folders with a report.json."""
    reports = [read_runs(path) for path in runs]
    figures = gather(ws, version)
    html = render({**figures, "runs": reports}).encode()
    path = ws.root / PAGE
    old = path.read_bytes() if path.is_file() else None
    if new := old != html:
        with replacing(path) as tmp:
            tmp.write_bytes(html)
    version = figures["release"]["version"] if figures["release"] else None
    lost = not reports and old is not None and _RUNS in old
    return ReportPage(path, version, len(html), new, tuple(figures["doubts"]), lost)


def read_runs(folder: Path) -> Report:
    """Returns the checked report.json of a folder of runs; each run has a readable `label`."""
    path = folder / "report.json" if folder.is_dir() else folder
    try:
        raw = read_plain(path)
        parsed = Runs.model_validate_json(raw)
    except FileNotFoundError:
        raise UsageError(
            f"{path}: no such file: give --runs the --output folder of `saferec-train run` or `evaluate`"
        ) from None
    except OSError as fault:
        raise UsageError(f"{path}: cannot be read: {fault.strerror}") from None
    except ValidationError as fault:
        first = fault.errors()[0]
        field = ".".join(map(str, first["loc"])) or "the file"
        raise ReleaseError(f"{path}: {field}: {first['msg']}: evaluate again, or give another --runs") from None
    if problem := fault_of(raw):
        raise ReleaseError(f"{path}: {problem}: evaluate again, or give another --runs")
    report = parsed.model_dump() | {"folder": path.parent.name}
    for run in report["runs"]:
        run["label"] = (KNOWN | BASELINES).get(run["name"], run["name"])
    return report


def render(figures: Figures) -> str:
    """Returns the page. figures: the result of gather.gather, with `runs`."""
    policy = {"style": _hash("report_style.html", "style"), "script": _hash("report.html", "script")}
    runs = [run | {"other": _other(run["release"], figures["release"])} for run in figures["runs"]]
    return _template().render(f=figures | {"runs": runs}, policy=policy, found=finding(runs))


def _other(judged: plots.Row, current: plots.Row | None) -> str | None:
    """Says why a report is about another release than the page, so that its figures do not apply; None if it is not."""
    if not current:
        return "this workspace has no release"
    if (current["name"], current["version"]) != (judged["name"], judged["version"]):
        return "another release than the one above"
    if judged["digest"] not in (None, current["digest"]) and not judged["rebuilt_from"]:
        return "not the one above, though of the same name and version"
    return None


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: plain(value) if type(value) is str else value,
    )
    environment.filters |= {"count": "{:,}".format, "share": share, "number": number, "at": at}
    environment.globals |= {
        "plot": plots,
        "BASELINES": BASELINES,
        "ENOUGH": ENOUGH,
        "LEAST": LEAST,
        "RAW": RAW,
        "metric": plots.metric,
        "many": many,
        "slices": slices,
        "too_few": too_few,
    }
    return environment.get_template("report.html")


def _hash(template: str, tag: str) -> str:
    """Returns the CSP source that allows exactly this inline element of the template."""
    element = re.search(rf"<{tag}>(.*?)</{tag}>", (HERE / template).read_text(encoding="utf-8"), re.S)
    assert element, f"{template} has no <{tag}>"
    return "'sha256-" + base64.b64encode(hashlib.sha256(element[1].encode()).digest()).decode() + "'"


def share(part: float, whole: float) -> str:
    """Returns card.percent; a dash if `whole` is 0."""
    return percent(part / whole) if whole else "–"


def number(value: float | None, digits: int = 2) -> str:
    return "n/a" if value is None else f"{value:z.{digits}f}".replace("-", "−")


def at(value: float | None) -> str:
    """Returns a place on an axis from 0 to 1, as a percentage of its length."""
    return f"{100 * min(1.0, max(0.0, value or 0.0)):.2f}%"


def slices(runs: Sequence[plots.Run]) -> dict[str, list[plots.Row]]:
    """Returns column -> [{value, n, runs: one slice or None per run}] of slices named `column=value`."""
    by_column: dict[str, list[plots.Row]] = {}
    for name in sorted({name for run in runs for name in run["slices"]}):
        column, _, value = name.partition("=")
        parts = [run["slices"].get(name) for run in runs]
        n = next(part["n"] for part in parts if part)
        by_column.setdefault(column, []).append({"value": value, "n": n, "runs": parts})
    return by_column


def too_few(report: Report) -> list[str]:
    """Returns what is of too few users for any conclusion, with their number, as `Recall (3)`."""
    if not report["runs"]:
        return []
    first, k = report["runs"][0], report["k"]
    counts = {"all users": first["n"]}
    counts |= {word: plots.metric(first, name, k)["n"] for word, name in (("Recall", "recall"), ("SVR", "svr_upper"))}
    return [f"{word} ({n})" for word, n in counts.items() if n and n < LEAST]


def finding(reports: Sequence[Report]) -> plots.Row | None:
    """Compares the chosen run of the first report (of the page's release, if there is one) with the model without
    safety; returns None if there is nothing to compare.

    `difference` of svr_upper has its interval: a result of few people may be chance, and the page says so.
    """
    for report in sorted(reports, key=lambda report: report["other"] is not None):
        runs, k = {run["name"]: run for run in report["runs"]}, report["k"]
        before, after = runs.get(RAW), runs.get(report["chosen"])
        if before is None or after is None or before is after:
            continue
        pair, names = {"before": before, "after": after}, ("svr_upper", "recall")
        values = {word: {m: plots.metric(run, m, k)["mean"] for m in names} for word, run in pair.items()}
        if None not in [*values["before"].values(), *values["after"].values()]:
            facts = {"label": after["label"], "k": k, "of": report["release"], "other": report["other"]}
            difference = plots.metric({"metrics": after["difference"]}, "svr_upper", k)
            return facts | {"people": after["n_sensitive"], "difference": difference} | values
    return None
