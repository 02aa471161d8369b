"""The five rules that a machine can check: who imports whom, what loads when, and how long a file may grow."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("saferec_builder", "annotation", "exports", "training")
# B*: standard library and numpy only
STAR = {"errors", "traits", "titles", "violations", "cues", "grammar", "turns", "locks"}
BASE = STAR | {"columns", "tables", "evidence", "agreement", "certificates", "versions", "dealing"}
STAGES = {
    "mine",
    "privacy",
    "duplicates",
    "language",
    "catalog",
    "propose",
    "rules",
    "route",
    "adjudicate",
    "probes",
    "ranking",
    "bounds",
    "precision",
    "release",
    "checks",
    "inject",
    "splits",
    "targets",
    "figures",
    "examples",
    "asked",
    "votes",
    "workload",
    "calibration",
}
EDGES = {"llm", "store", "engine", "fetch", "config"}


def files() -> list[Path]:
    return [p for package in PACKAGES for p in sorted((ROOT / package).rglob("*.py"))]


def layer(module: str) -> str:
    """B*, B, S, E or D of one of our modules."""
    parts = module.split(".")
    if parts[0] == "training":
        return "T"
    if parts[0] in ("annotation", "exports"):
        return "E"
    room = parts[1] if len(parts) > 1 else ""
    if room in ("cli", "demo"):
        return "D"
    if room in STAR or not room:
        return "B*"
    if room in BASE:
        return "B"
    if room in EDGES:
        return "E"
    assert room in STAGES or room == "sources", f"{module}: new room: say in tests/test_layering.py which layer it is"
    return "S"


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imports(path: Path, *, everywhere: bool = True) -> set[str]:
    """Absolute names that a file imports; only at its top where `everywhere` is false."""
    tree = ast.parse(path.read_text())
    found: set[str] = set()
    for node in ast.walk(tree) if everywhere else tree.body:
        if isinstance(node, ast.Import):
            found |= {a.name for a in node.names}
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {f"{node.module}.{a.name}" for a in node.names} | {str(node.module)}
    return found


MAY = {  # layer -> layers that it may import
    "B*": {"B*"},
    "B": {"B*", "B"},
    "S": {"B*", "B"},
    "E": {"B*", "B"},
    "D": {"B*", "B", "S", "E", "D"},
    "T": {"B*", "T"},
}


@pytest.mark.parametrize("path", files(), ids=name_of)
def test_arrows_point_forward(path: Path) -> None:
    me = name_of(path)
    for target in imports(path):
        if target.split(".")[0] not in PACKAGES or target == "saferec_builder.__version__":
            continue
        room = ".".join(target.split(".")[:2])
        same_room = room == ".".join(me.split(".")[:2])
        store_uses_config = me == "saferec_builder.storage.workspace" and target.startswith(
            "saferec_builder.storage.config"
        )
        card_of_rows = me.startswith("exports.") and target.startswith("exports")
        tool_of_sheets = me.startswith("annotation.") and target.startswith("annotation")
        if same_room or store_uses_config or card_of_rows or tool_of_sheets:
            continue
        assert layer(target) in MAY[layer(me)], f"{me} ({layer(me)}) imports {target} ({layer(target)})"


@pytest.mark.parametrize("path", [p for p in files() if layer(name_of(p)) in ("B*", "T")], ids=name_of)
def test_training_stands_on_the_standard_library_and_numpy(path: Path) -> None:
    heavy = {"polars", "pydantic", "typer", "openai", "argilla", "label_studio_sdk", "sqlalchemy"}
    assert not {i.split(".")[0] for i in imports(path)} & heavy
    if layer(name_of(path)) == "B*":
        foreign = {i.split(".")[0] for i in imports(path)} - set(sys.stdlib_module_names) - set(PACKAGES) - {"numpy"}
        assert not foreign


def test_help_loads_nothing_heavy() -> None:
    code = """
import sys
from typer.testing import CliRunner
from saferec_builder.cli.app import app
assert CliRunner().invoke(app, ["--help"]).exit_code == 0
heavy = "torch transformers trl datasets argilla label_studio_sdk openai polars sqlalchemy pydantic jinja2".split()
print(*[m for m in heavy if m in sys.modules])
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert (ran.returncode, ran.stdout.strip()) == (0, ""), ran.stderr


@pytest.mark.parametrize("path", [*files(), *sorted((ROOT / "tests").rglob("*.py"))], ids=lambda p: p.name)
def test_no_file_outgrows_a_reader(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 400


def test_every_package_is_in_the_wheel() -> None:
    import tomllib

    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    there = {".".join(p.parent.relative_to(ROOT).parts) for p in files() if p.name == "__init__.py"}
    assert listed == there


def test_every_file_that_a_package_holds_is_in_the_wheel() -> None:
    import tomllib

    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    kept = {
        path
        for package, globs in listed.items()
        for glob in globs
        for path in ROOT.glob(f"{package.replace('.', '/')}/{glob}")
    }
    there = {
        p for package in PACKAGES for p in (ROOT / package).rglob("*") if p.is_file() and "__pycache__" not in p.parts
    }
    assert {p for p in there if p.suffix != ".py"} == kept
