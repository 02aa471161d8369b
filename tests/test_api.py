"""The public names of `import saferec_builder`: one list, loaded lazily, each with a docstring."""

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import saferec_builder
from saferec_builder import api
from saferec_builder.storage import workspace as store
from tests import ROOT
from tests.worlds import review_world

sr: Any = saferec_builder  # as in a notebook, which no type checker reads


def test_the_names_that_are_loaded_lazily_are_those_of_the_api() -> None:
    assert sorted(saferec_builder.API) == sorted(api.__all__)
    assert {*api.__all__} <= {*dir(saferec_builder)}
    assert saferec_builder.mine is api.mine


@pytest.mark.parametrize("name", api.__all__)
def test_each_says_what_it_does(name: str) -> None:
    doc = getattr(api, name).__doc__ or ""
    assert len(doc) > 40 and not doc.startswith(f"{name}("), f"{name}: a docstring is its contract"


def test_what_is_no_name_of_the_api_is_an_error_that_names_it() -> None:
    with pytest.raises(AttributeError, match="'minee'"):
        saferec_builder.minee  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("room", ["catalog", "proposing", "cli"])
def test_a_package_of_ours_is_found_whatever_comes_first(room: str) -> None:
    """A lazy name with the same spelling would hide the package, or import everything on the way to it."""
    code = f"import saferec_builder.{room}, sys; assert 'saferec_builder.api' not in sys.modules"
    assert room not in saferec_builder.API
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_a_function_of_it_can_be_sent_to_another_process() -> None:
    assert all(pickle.loads(pickle.dumps(getattr(api, name))) is getattr(api, name) for name in api.__all__)


def test_what_stands_for_a_workspace_a_place_or_a_path_is_taken(workspace: store.Workspace, tmp_path: Path) -> None:
    review_world.fill(workspace)
    folder = str(workspace.root)
    assert sr.push(folder, ["ann", "bo"], to="files").counts.added == 4
    review_world.Files(workspace).answer("ann", lambda subject, asked: review_world.Verdict())
    assert sr.pull(workspace.root, "files").counts.added == 4
    assert sr.status(folder).next == sr.status(workspace).next
    with pytest.raises(sr.SafeRecError, match=f"{tmp_path}/report.json: no such file"):
        sr.report(workspace, runs=str(tmp_path))


def test_a_slip_in_a_call_is_an_error_that_names_the_argument(workspace: store.Workspace) -> None:
    ws = workspace
    for call, message in (
        (lambda: sr.mine("nowhere", "messages", []), "nowhere is no workspace"),
        (lambda: sr.push(ws, ["ann"], to="file"), "file: no such place to review: did you mean files? expected one of"),
        (lambda: sr.pull(ws, "argilla"), "argilla: whose"),
        (lambda: sr.forget(ws, "ann", to="files"), "forget: to is 'files' (str): expected LabelStudio | Argilla"),
        (lambda: sr.fetch(ws, "dddd"), "fetch: no such site"),
        (lambda: sr.screen(ws, [["Alien (1979)"]]), "screen: path is [['Alien (1979)']] (list): expected str | Path"),
        (lambda: sr.report(ws, 1.0), "report: version is 1.0 (float): expected str | None"),
        (lambda: sr.check(ws, "Alien (1979)"), "check: missing a required argument: 'trait'"),
    ):
        with pytest.raises(sr.SafeRecError) as error:
            call()
        assert message in str(error.value)


@pytest.mark.parametrize("hides", ["exports/__init__.py", "annotation.py"])
def test_a_file_of_the_callers_that_hides_a_package_of_ours_is_named(tmp_path: Path, hides: str) -> None:
    """A notebook searches its own folder first: `exports` is a likely name there, and the error was `No module named
    'exports.diff'`."""
    path = tmp_path / hides
    path.parent.mkdir(exist_ok=True)
    path.touch()
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import saferec_builder as sr; sr.mine"
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 1
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith(f"ImportError: {path} has the name of a package") and "rename it" in last


@pytest.mark.slow
def test_a_release_stands_for_its_folder_and_its_version(workspace: store.Workspace, tmp_path: Path) -> None:
    """`report(ws, made)` was refused: `version is Release(...): expected str`."""
    review_world.fill(workspace)
    release = sr.release(workspace, "1.0.0", unreviewed=True, inject="gore", allow=["no-safety"])
    assert sr.report(workspace, release).release == "1.0.0"
    assert sr.withdraw(workspace, release, "a test of it").version == "1.0.0"
