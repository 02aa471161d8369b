"""Tests of the layout of tests: the path of a module names its test."""

import ast

from tests import ROOT
from tests.layers import ELSEWHERE, files, held_by, imports, mirrored, name_of, parsed, room

WRITTEN = [str(path.relative_to(ROOT)) for path in files()]
TESTS = sorted((ROOT / "tests").rglob("*.py"))
ACROSS = {"flows", "servers", "bench"}  # tests across packages, of real servers, and benchmarks


def test_no_test_imports_another() -> None:
    """What several tests share is in tests/worlds/ or in a conftest.py."""
    imported = [(path, name) for path in TESTS for name in imports(path)]
    assert [pair for pair in imported if pair[1].startswith("tests.") and ".test_" in pair[1]] == []


def test_every_module_has_its_test() -> None:
    """Except commands: they parse arguments, make one call and print; the tests of the packages call them."""
    for path in (path for path in files() if room(name_of(path)) != "cli"):
        defined = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
        if any(isinstance(node, defined) for node in parsed(path).body):
            name = str(path.relative_to(ROOT))
            assert held_by(name), f"no {mirrored(name)}: write it, or name the test in ELSEWHERE of tests/layers.py"


def test_the_list_of_exceptions_is_no_longer_than_it_must_be() -> None:
    assert {path for path in ELSEWHERE if (ROOT / mirrored(path)).is_file() or not (ROOT / path).is_file()} == set()
    assert [test for test in ELSEWHERE.values() if not (ROOT / test).is_file()] == []


def test_every_test_of_a_package_names_a_module_of_it() -> None:
    expected = {test for path in WRITTEN for test in held_by(path)}
    tests = {str(path.relative_to(ROOT)) for path in TESTS if path.name.startswith("test_")}
    inside = {path for path in tests if path.count("/") > 1 and path.split("/")[1] not in ACROSS}
    assert {path for path in inside - expected if "/test_fuzz_" not in path} == set()
