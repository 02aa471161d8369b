"""Where tests stand: whoever changes a rule finds its test by the path alone."""

import ast
from pathlib import Path

import pytest

from tests import ROOT
from tests.layers import ELSEWHERE, files, held_by, imports, mirrored, name_of, room

WRITTEN = [str(path.relative_to(ROOT)) for path in files()]
TESTS = sorted((ROOT / "tests").rglob("*.py"))
ACROSS = {"flows", "servers", "bench"}  # what crosses packages, real servers, and the benchmarks


@pytest.mark.parametrize("path", TESTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_test_imports_another(path: Path) -> None:
    """What several need stands in tests/worlds/ or in a conftest.py."""
    assert not {name for name in imports(path) if name.startswith("tests.") and ".test_" in name}


@pytest.mark.parametrize("path", WRITTEN)
def test_every_module_has_its_test(path: str) -> None:
    body = ast.parse((ROOT / path).read_text(encoding="utf-8")).body
    if room(name_of(ROOT / path)) == "cli":
        return  # parsed arguments, one call and its result: the tests of the rooms call the commands
    if any(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) for node in body):
        assert held_by(path), f"no {mirrored(path)}: write it, or name the test in ELSEWHERE of tests/layers.py"


def test_the_list_of_exceptions_is_no_longer_than_it_must_be() -> None:
    assert {path for path in ELSEWHERE if (ROOT / mirrored(path)).is_file() or not (ROOT / path).is_file()} == set()
    assert [test for test in ELSEWHERE.values() if not (ROOT / test).is_file()] == []


def test_every_test_of_a_package_names_a_module_of_it() -> None:
    known = {test for path in WRITTEN for test in held_by(path)}
    here = {str(path.relative_to(ROOT)) for path in TESTS if path.name.startswith("test_")}
    inside = {path for path in here if path.count("/") > 1 and path.split("/")[1] not in ACROSS}
    assert {path for path in inside - known if "/test_fuzz_" not in path} == set()
