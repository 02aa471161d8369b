"""The pipeline from Python: the code blocks of docs/python.md run as they are printed there."""

import ast
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import saferec_builder as sr
from saferec_builder.core import taxonomy
from saferec_builder.demo import inputs, people as simulated
from tests.doc_pages import DOCS, FENCE

pytestmark = pytest.mark.slow  # the whole pipeline, command by command

PAGE = DOCS / "python.md"
MOST = 15  # statements from a new workspace to the report


def blocks() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yields (code, people who answer before it) for each Python block of the page, in order."""
    for fence in FENCE.finditer(PAGE.read_text(encoding="utf-8")):
        if fence["info"].strip() == "python":
            yield fence["body"], tuple(fence["said"].split()) if fence["mark"] == "people" else ()


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Any]]:
    """The variables that the statements of the page define."""
    folder = tmp_path_factory.mktemp("python")
    truth = inputs.write(folder / "sample" / "input", taxonomy.load(), 300)
    names: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for code, people in blocks():
            if people:
                simulated.answer(names["ws"], truth, people)
            exec(compile(code, PAGE.name, "exec"), names)
        yield names


def test_the_line_takes_few_statements() -> None:
    line = [code for code, _ in blocks()][:3]
    assert sum(len(ast.parse(code).body) for code in line) <= MOST
    calls = re.findall(r"sr\.(\w+)\(|release\.(\w+)\(", "".join(line))
    steps = [function or method for function, method in calls if (function or method) != "Files"]
    expected = "add_catalog add_catalog mine propose push pull push pull adjudicate release verify report"
    assert steps == expected.split() and "Workspace.create(" in line[0]


def test_what_comes_in_is_counted(ran: Mapping[str, Any]) -> None:
    mined, proposed = ran["mined"], ran["proposed"]
    assert isinstance(mined, sr.MineResult) and isinstance(proposed, sr.ProposeResult)
    # 260 written by hand and 300 generated; the demo has one to drop for each reason
    assert mined.counts.came == 560 == mined.counts.added + sum(mined.counts.dropped.values())
    assert mined.drops.columns == ["file", "reason", "rows", "example"]
    assert mined.drops["rows"].sum() == sum(mined.counts.dropped.values()) and mined.fault is None
    assert (proposed.counts.came, proposed.spent) == (mined.counts.added, 0.0)


def test_labels_come_with_agreement_and_a_bound(ran: Mapping[str, Any]) -> None:
    result = ran["made"]
    assert isinstance(result, sr.Adjudication)
    methods = dict(result.labels["method"].value_counts().iter_rows())
    assert methods == {name: result.counts.figures[name] for name in methods}
    assert result.counts.added == result.labels.height == ran["ws"].table("labels").height
    assert set(result.labels.filter(verdict="present")["method"]) == {"agreed", "adjudicated"}
    assert {"trait", "alpha", "units"} <= {*result.agreement.columns}
    assert set(result.bounds.traits) == set(ran["ws"].taxonomy.slugs)
    assert 0 < result.bounds.pooled.share <= 1


def test_a_release_is_an_object(ran: Mapping[str, Any], tmp_path: Path) -> None:
    release, page = ran["release"], ran["page"]
    assert isinstance(release, sr.Release) and release.new and release.version == "1.0.0"
    frame = pl.read_parquet(release.folder / "data" / "conversations" / "*.parquet")
    assert frame.height == release.rows["conversations"] > 100
    assert release.verify().rows == sum(release.rows.values())
    assert page.release == "1.0.0" and page.path.stat().st_size == page.bytes > 10_000
    reopened = sr.Release.open(release.folder)
    assert not reopened.new and reopened.rows == release.rows and reopened.manifest["files"]
    assert not any(any(counts.values()) for counts in release.diff(reopened).rows.values())
    shutil.copytree(release.folder, tmp_path / "copy")
    with next((tmp_path / "copy" / "data" / "sft").glob("*.parquet")).open("ab") as file:
        file.write(b"x")
    with pytest.raises(sr.SafeRecError, match="sha256 is"):
        sr.Release.open(tmp_path / "copy").verify()
