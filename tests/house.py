"""Measures the structure of the code: `python -m tests.house [--json]`."""

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from saferec_builder.cli.app import COMMANDS
from tests import ROOT
from tests.layers import LATE, PACKAGES, allowed, files, imports, name_of, parsed, room, statements

# of variables, parameters and functions
VAGUE = frozenset("asked desk found gone handed heard held here known made said shown such there told wanted".split())


def main() -> None:
    values = figures()
    if "--json" in sys.argv[1:]:
        print(json.dumps(values))
        return
    for name, value in values.items():
        print(f"{name:<32}{value:>10.3f}" if isinstance(value, float) else f"{name:<32}{value:>10,}")
    for package in packages():
        loose, late = any_share(package), function_import_share(package)
        print(f"  {package:<28} Any {loose:.3f}   imports in functions {late:.3f}   vague {vague_share(package):.3f}")


def figures() -> dict[str, int | float]:
    """A share is that of the package where it is largest; the functions below say what each counts."""
    of_data = [package for package in packages() if package != "training"]
    return {
        "backward_imports": sum(1 for _ in backward()),
        "root_files": len(list((ROOT / "saferec_builder").glob("*.py"))),
        "cli_lines": lines(inside("cli")),
        "command_body_worst": max(bodies().values()),
        "prints_below_cli": sum(1 for _ in prints()),
        "any_share_worst": max(map(any_share, of_data)),
        "any_share_training": any_share("training"),
        "function_import_share_worst": max(map(function_import_share, packages())),
        "vague_share_worst": max(map(vague_share, packages())),
        "product_lines": lines(files()),
        "test_lines": lines(sorted((ROOT / "tests").rglob("*.py"))),
    }


def backward() -> Iterator[tuple[str, str]]:
    """Yields (importing module, imported name) for each import that the order forbids."""
    for path in files():
        module = name_of(path)
        ours = {name for name in imports(path) if name.split(".")[0] in PACKAGES}
        for target in sorted(ours - {"saferec_builder", "saferec_builder.__version__"}):
            if module != "saferec_builder" and not allowed(module, target):
                yield module, target


def packages() -> list[str]:
    """Packages with more than one module: a share of a few annotations says little."""
    rooms = [room(name_of(path)) for path in files()]
    return sorted({name for name in rooms if rooms.count(name) > 1})


def inside(package: str) -> list[Path]:
    return [path for path in files() if room(name_of(path)) == package]


def lines(paths: list[Path]) -> int:
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def bodies() -> dict[str, int]:
    """Returns module.function -> lines of its body, without signature and docstring, for the files of commands."""
    sizes = {}
    modules = {command.module for command in COMMANDS.values()}
    for path in (path for path in inside("cli") if path.stem in modules):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.FunctionDef):
                steps = node.body[1:] if ast.get_docstring(node) else node.body
                sizes[f"{name_of(path)}.{node.name}"] = steps[-1].end_lineno - steps[0].lineno + 1 if steps else 0
    return sizes


def prints() -> Iterator[str]:
    """Yields the places where code prints instead of returning, except cli/ and training, which has its own command."""
    for path in files():
        if room(name_of(path)) in ("cli", "training"):
            continue
        for node in ast.walk(parsed(path)):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name | ast.Attribute):
                continue
            if (node.func.id if isinstance(node.func, ast.Name) else node.func.attr) in ("print", "echo"):
                yield f"{path.relative_to(ROOT)}:{node.lineno}"


def any_share(package: str) -> float:
    """The share of annotations (of arguments, results and variables) that contain `Any`."""
    nodes = [node for path in inside(package) for node in annotations(parsed(path))]
    with_any = sum("Any" in {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} for node in nodes)
    return with_any / len(nodes) if nodes else 0.0


def annotations(tree: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
            yield node.annotation
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is not None:
            yield node.returns


def function_import_share(package: str) -> float:
    total = in_functions = 0
    for path in inside(package):
        tree = parsed(path)
        functions = [function for function in statements(tree) if isinstance(function, LATE)]
        inner = {id(node) for function in functions for node in statements(function)}
        nodes = [node for node in statements(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
        total, in_functions = total + len(nodes), in_functions + sum(id(node) in inner for node in nodes)
    return in_functions / total if total else 0.0


def vague_share(package: str) -> float:
    names = [name for path in inside(package) for name in bound(parsed(path))]
    return sum(name.strip("_") in VAGUE for name in names) / len(names) if names else 0.0


def bound(tree: ast.AST) -> Iterator[str]:
    """Yields the names of assignments, loops, parameters, functions and classes, once for each binding."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name


if __name__ == "__main__":
    main()
