"""The rules that a machine can check: who imports whom, what loads when, and how long a file may grow."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT, house
from tests.layers import AT_THE_ROOT, PACKAGES, RANK, allowed, files, imports, name_of, room


@pytest.mark.parametrize("path", files(), ids=name_of)
def test_a_package_imports_only_those_before_it(path: Path) -> None:
    me = name_of(path)
    ours = {t for t in imports(path) if t.split(".")[0] in PACKAGES}
    ours -= {"saferec_builder", "saferec_builder.__version__"}  # every package may say the version
    known = {*RANK, "training", "saferec_builder"}
    assert room(me) in known, f"{me}: a package that has no place in the order: give it one in ORDER"
    if me == "saferec_builder":
        return
    for target in sorted(ours):
        assert allowed(me, target), f"{me} imports {target}, which stands behind it"


def test_the_order_names_what_there_is() -> None:
    """A package that went, or was renamed, would leave a hole through which anything may be imported."""
    there = {room(name_of(path)) for path in files()} - {"saferec_builder", "training"}
    assert there <= RANK.keys() and RANK.keys() - there <= {"api"}


def test_few_files_stand_at_the_root() -> None:
    assert len(list((ROOT / "saferec_builder").glob("*.py"))) <= AT_THE_ROOT
    for package in ("annotation", "training"):  # their __init__ runs whenever anything of them is imported
        assert len(ast.parse((ROOT / package / "__init__.py").read_text()).body) <= 1


@pytest.mark.parametrize("path", [p for p in files() if room(name_of(p)) in ("core", "scoring")], ids=name_of)
def test_core_and_scoring_stand_on_the_standard_library_and_numpy(path: Path) -> None:
    foreign = {i.split(".")[0] for i in imports(path)} - set(sys.stdlib_module_names) - set(PACKAGES) - {"numpy"}
    assert not foreign


@pytest.mark.parametrize("path", [p for p in files() if room(name_of(p)) == "training"], ids=name_of)
def test_training_needs_nothing_of_the_data_side(path: Path) -> None:
    heavy = {"polars", "pydantic", "typer", "openai", "argilla", "label_studio_sdk", "sqlalchemy"}
    assert not {i.split(".")[0] for i in imports(path)} & heavy


@pytest.mark.parametrize("path", [p for p in files() if room(name_of(p)) != "cli"], ids=name_of)
def test_only_commands_need_typer(path: Path) -> None:
    assert "typer" not in {i.split(".")[0] for i in imports(path)}


HEAVY = "torch transformers trl datasets argilla label_studio_sdk openai polars sqlalchemy pydantic jinja2"


@pytest.mark.parametrize(
    "program",
    [
        "import saferec_builder, annotation, exports, training; assert saferec_builder.__version__",
        "from typer.testing import CliRunner; from saferec_builder.cli.app import app;"
        " assert CliRunner().invoke(app, ['--help']).exit_code == 0",
    ],
    ids=["import", "help"],
)
def test_nothing_heavy_is_loaded(program: str) -> None:
    code = f"import sys; {program}\nprint(*[m for m in {HEAVY.split()} if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert (ran.returncode, ran.stdout.strip()) == (0, ""), ran.stderr


def test_every_module_can_be_imported_first() -> None:
    """No circle: whatever a program imports first, nothing that it needs is half made."""
    names = [name_of(p) for p in files() if room(name_of(p)) != "training" and p.name != "__main__.py"]
    code = """
import sys
for name in sys.argv[1:]:
    ours = [m for m in sys.modules if m.split(".")[0] in ("saferec_builder", "annotation", "exports", "training")]
    for module in ours:
        del sys.modules[module]
    __import__(name)
"""
    ran = subprocess.run([sys.executable, "-c", code, *names], capture_output=True, text=True, cwd=ROOT)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("path", [*files(), *sorted((ROOT / "tests").rglob("*.py"))], ids=str)
def test_no_file_outgrows_a_reader(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 400


def test_every_package_is_in_the_wheel() -> None:
    import tomllib

    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    there = {".".join(p.parent.relative_to(ROOT).parts) for p in files() if p.name == "__init__.py"}
    assert listed == there


def test_the_house_in_numbers() -> None:
    """`python -m tests.house` prints them all, and the lines of product and tests, whose goals are for a release."""
    found = house.figures()
    assert found["backward_imports"] == 0 and found["root_files"] <= AT_THE_ROOT
    assert found["cli_lines"] <= 1_600 and found["command_body_worst"] <= 30
    assert not list(house.prints())
    assert found["any_share_worst"] <= 0.05 and found["any_share_training"] <= 0.08
    assert found["function_import_share_worst"] <= 0.10


def test_an_annotation_is_loose_where_any_stands_in_it_and_an_import_where_a_function_holds_it(tmp_path, monkeypatch):
    # annotations: a, the result, b, c = 4, of which Any in a (inside a dict) and c = 1/2; imports: 1 of 2 in a function
    lines = ["from typing import Any", "def f(a: dict[str, Any]) -> int:", "    import json", "    b: int = 1"]
    (tmp_path / "one.py").write_text("\n".join([*lines, "    return b", "c: Any = 1"]))
    monkeypatch.setattr(house, "inside", lambda package: [tmp_path / "one.py"])
    assert (house.any_share("x"), house.function_import_share("x")) == (0.5, 0.5)
