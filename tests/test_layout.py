"""Where tests stand: whoever changes a rule finds its test by the path alone."""

import ast

from tests import ROOT
from tests.layers import ELSEWHERE, files, held_by, imports, mirrored, name_of, parsed, room

WRITTEN = [str(path.relative_to(ROOT)) for path in files()]
TESTS = sorted((ROOT / "tests").rglob("*.py"))
ACROSS = {"flows", "servers", "bench"}  # what crosses packages, real servers, and the benchmarks


def test_no_test_imports_another() -> None:
    """What several need stands in tests/worlds/ or in a conftest.py."""
    found = [(path, name) for path in TESTS for name in imports(path)]
    assert [one for one in found if one[1].startswith("tests.") and ".test_" in one[1]] == []


def test_every_module_has_its_test() -> None:
    """But for the commands: parsed arguments, one call and its result; the tests of the rooms call them."""
    for path in (path for path in files() if room(name_of(path)) != "cli"):
        defined = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
        if any(isinstance(node, defined) for node in parsed(path).body):
            name = str(path.relative_to(ROOT))
            assert held_by(name), f"no {mirrored(name)}: write it, or name the test in ELSEWHERE of tests/layers.py"


def test_the_list_of_exceptions_is_no_longer_than_it_must_be() -> None:
    assert {path for path in ELSEWHERE if (ROOT / mirrored(path)).is_file() or not (ROOT / path).is_file()} == set()
    assert [test for test in ELSEWHERE.values() if not (ROOT / test).is_file()] == []


def test_every_test_of_a_package_names_a_module_of_it() -> None:
    known = {test for path in WRITTEN for test in held_by(path)}
    here = {str(path.relative_to(ROOT)) for path in TESTS if path.name.startswith("test_")}
    inside = {path for path in here if path.count("/") > 1 and path.split("/")[1] not in ACROSS}
    assert {path for path in inside - known if "/test_fuzz_" not in path} == set()
