"""The packages in the order of the data, and which module stands in which: what tests/test_layering.py holds."""

import ast
from pathlib import Path

from tests import ROOT

PACKAGES = ("saferec_builder", "annotation", "exports", "training")
# each may import those before it, and none after it, inside functions too
ORDER = (
    *("core", "scoring", "storage", "sources", "catalog", "mining", "llm", "proposing", "annotation", "exports"),
    *(("planning", "erasure", "diagnostics"), "api", "demo", "cli"),
)
RANK = {room: n for n, rooms in enumerate(ORDER) for room in ((rooms,) if isinstance(rooms, str) else rooms)}
OF_TRAINING = {"core", "scoring", "training"}  # what training may import; nothing imports training
AT_THE_ROOT = 5  # files of saferec_builder/


def files() -> list[Path]:
    return [p for package in PACKAGES for p in sorted((ROOT / package).rglob("*.py"))]


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def mirrored(path: str) -> str:
    """The test of a module of ours: tests/annotation/test_routing.py tests annotation/routing.py."""
    folder, _, name = path.removeprefix("saferec_builder/").rpartition("/")
    if name == "__init__.py":  # the package's own file has the package's name
        name = f"{folder.rpartition('/')[2]}.py"
    return f"tests/{folder}/test_{name}" if folder else f"tests/test_{name}"


def tests_of(path: str) -> list[str]:
    """The files that the path of a module names: its test, and tests of one side of it, as test_hub_faults.py."""
    own = ROOT / mirrored(path)
    others = {mirrored(str(p.relative_to(ROOT))) for p in files()}
    sides = {str(p.relative_to(ROOT)) for p in own.parent.glob(f"{own.stem}_*.py")}
    return [str(own.relative_to(ROOT))] * own.is_file() + sorted(sides - others)


def room(module: str) -> str:
    """The package of one of our modules, as ORDER has it; a module at the root of saferec_builder is one of its own."""
    first, *rest = module.split(".")
    return rest[0] if first == "saferec_builder" and rest else first


def imports(path: Path) -> set[str]:
    """Absolute names that a file imports, wherever it does."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {a.name for a in node.names}
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {f"{node.module}.{a.name}" for a in node.names} | {str(node.module)}
    return found


def allowed(me: str, target: str) -> bool:
    here, there = room(me), room(target)
    if here == "training":
        return there in OF_TRAINING
    if there == "training":
        return False
    return here == there or RANK[there] < RANK[here]
