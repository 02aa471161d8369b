"""Tests of the rules of the code: which package imports which, what is loaded when, how long a file may be."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests import ROOT, house
from tests.layers import AT_THE_ROOT, LATE, PACKAGES, RANK, above, files, imports, loaded_with, name_of, parsed, room


def test_a_package_imports_only_those_before_it() -> None:
    rooms = {*RANK, "training", "saferec_builder"}
    for module in map(name_of, files()):
        assert room(module) in rooms, f"{module}: a package that has no place in the order: give it one in ORDER"
    assert [f"{module} imports {target}, which stands behind it" for module, target in house.backward()] == []


def test_the_order_names_what_there_is() -> None:
    """A package that was removed or renamed would leave a gap through which anything may be imported."""
    rooms = {room(name_of(path)) for path in files()} - {"saferec_builder", "training"}
    assert rooms <= RANK.keys() and RANK.keys() - rooms <= {"api"}


def test_few_files_stand_at_the_root() -> None:
    assert len(list((ROOT / "saferec_builder").glob("*.py"))) <= AT_THE_ROOT
    for package in ("annotation", "training"):  # their __init__ runs at every import from them
        assert len(ast.parse((ROOT / package / "__init__.py").read_text()).body) <= 1


OF_DATA = {"polars", "pydantic", "typer", "openai", "argilla", "label_studio_sdk", "sqlalchemy"}


def test_what_a_room_may_need() -> None:
    """core and scoring: the standard library and numpy; training: nothing of the data side; typer: only commands."""
    for path in files():
        imported, package = {name.split(".")[0] for name in imports(path)}, room(name_of(path))
        if package in ("core", "scoring"):
            assert not imported - set(sys.stdlib_module_names) - set(PACKAGES) - {"numpy"}, path
        if package == "training":
            assert not imported & OF_DATA, path
        assert package == "cli" or "typer" not in imported, path


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
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert (result.returncode, result.stdout.strip()) == (0, ""), result.stderr


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CALLED = {"pillow": "PIL", "pyyaml": "yaml", "markdown_it_py": "markdown_it"}  # packages whose modules are called so


def modules_of(requirements: Iterable[str]) -> set[str]:
    words = {word.replace("-", "_") for text in requirements for word in re.findall(r"[\w-]+", text.split(">")[0])}
    return {CALLED.get(word, word) for word in words} | {*sys.stdlib_module_names, *PACKAGES, "pydantic_core"}


def test_a_plain_install_has_what_its_modules_load() -> None:
    """`mine` loaded pyyaml, which only the extras bring: it ended in a traceback where none is installed."""
    installed = modules_of(PROJECT["dependencies"])
    of_extras = {path for path in files() if room(name_of(path)) == "training"} | {ROOT / "annotation/page/app.py"}
    for path in {*files()} - of_extras:
        assert {name.split(".")[0] for name in loaded_with(path)} <= installed, path


def test_what_is_imported_somewhere_comes_with_an_install() -> None:
    """Also inside functions: a development environment has scipy, and people's have not."""
    extras = (name for group in PROJECT["optional-dependencies"].values() for name in group)
    installed = modules_of([*PROJECT["dependencies"], *extras])
    installed |= {"httpx", "safetensors", "tokenizers"}  # of argilla and of transformers
    installed |= {"inspect_ai", "lm_eval"}  # of who runs a harness
    for path in files():
        assert {name.split(".")[0] for name in imports(path)} <= installed, path


def test_every_module_can_be_imported_first() -> None:
    """No import cycle: whatever a program imports first, nothing that it needs is half initialized.

    A package's __init__ runs before its modules: they need not import it to have it. But a module that imports a name
    that its package defines needs the __init__ to be complete.
    """
    loaded = {name_of(path): loaded_with(path) for path in files()}
    needs = {
        module: {
            needed
            for name in names
            for needed in (name, *above(name))
            if needed in loaded and (needed not in above(module) or (name not in loaded and needed == above(name)[0]))
        }
        for module, names in loaded.items()
    }
    order = TopologicalSorter({module: names - {module} for module, names in needs.items()}).static_order()
    assert len(list(order)) == len(loaded)


def test_a_circle_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "one.py"
    path.write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import a\nelse:\n    import b.c\n"
        "try:\n    from d import e\nexcept ImportError:\n    pass\ndef f():\n    import g\nclass H:\n    import i\n"
    )
    assert loaded_with(path) == {"typing", "typing.TYPE_CHECKING", "b.c", "d", "d.e", "i"}
    assert above("a.b.c") == ["a.b", "a"] and above("a") == []


def test_no_file_outgrows_a_reader() -> None:
    static = sorted((ROOT / "annotation" / "page" / "static").iterdir())
    paths = [*files(), *static, *sorted((ROOT / "tests").rglob("*.py"))]
    assert [str(path) for path in paths if len(path.read_text().splitlines()) > 400] == []
    assert [path.name for path in static if max(map(len, path.read_text().splitlines())) > 120] == []


def test_parameters_after_the_sixth_are_given_by_name() -> None:
    """But for commands, whose parameters are options."""
    for path in (path for path in files() if room(name_of(path)) != "cli"):
        for node in (node for node in ast.walk(parsed(path)) if isinstance(node, LATE)):
            names = {a.arg for a in (*node.args.posonlyargs, *node.args.args)} - {"self", "cls"}
            assert len(names) <= 6, f"{path}:{node.lineno}"


def test_every_package_is_in_the_wheel() -> None:
    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    packages = {".".join(p.parent.relative_to(ROOT).parts) for p in files() if p.name == "__init__.py"}
    assert listed == packages


def test_the_house_in_numbers() -> None:
    """`python -m tests.house` prints all figures; the goals for lines of product and tests are for a release."""
    figures = house.figures()
    assert figures["cli_lines"] <= 1_600 and figures["command_body_worst"] <= 30
    assert not list(house.prints())
    assert figures["any_share_worst"] <= 0.05 and figures["any_share_training"] <= 0.08
    assert figures["function_import_share_worst"] <= 0.10
    assert figures["vague_share_worst"] <= 0.02


def test_an_annotation_is_loose_where_any_stands_in_it_and_an_import_where_a_function_holds_it(tmp_path, monkeypatch):
    # annotations: a, the result, b, c = 4, with Any in a (inside a dict) and in c = 1/2; imports: 1 of 2 in a function
    lines = ["from typing import Any", "def f(a: dict[str, Any]) -> int:", "    import json", "    b: int = 1"]
    (tmp_path / "one.py").write_text("\n".join([*lines, "    return b", "c: Any = 1"]))
    monkeypatch.setattr(house, "inside", lambda package: [tmp_path / "one.py"])
    assert (house.any_share("x"), house.function_import_share("x")) == (0.5, 0.5)


def test_a_name_is_vague_by_itself(tmp_path, monkeypatch):
    # bound: f, found, rows, n, _told, told_twice; vague are found and _told: 2 of 6
    lines = ["def f(found):", "    rows = [n for n in found]", "    _told = told_twice = rows"]
    (tmp_path / "one.py").write_text("\n".join(lines))
    monkeypatch.setattr(house, "inside", lambda package: [tmp_path / "one.py"])
    assert house.vague_share("x") == 2 / 6
