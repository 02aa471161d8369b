"""The packages in the order of the data, and the package of each module: tests/test_layering.py checks them."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests import ROOT

PACKAGES = ("saferec_builder", "annotation", "exports", "training")
# a package may import those before it and none after it, inside functions too
ORDER = (
    *("core", "scoring", "storage", "sources", "catalog", "mining", "llm", "proposing", "annotation", "exports"),
    *(("summary", "planning", "erasure", "diagnostics"), "api", "demo", "cli"),
)
RANK = {room: n for n, rooms in enumerate(ORDER) for room in ((rooms,) if isinstance(rooms, str) else rooms)}
OF_TRAINING = {"core", "scoring", "training"}  # packages that training may import; nothing imports training
AT_THE_ROOT = 5  # files of saferec_builder/

PRINTED = "adjudicate browse catalog_check finished_releases forget mine propose propose_score publish release".split()
PRINTED += ["catalog", "plan", "report", "review", "screen", "workspace"]  # commands whose whole text is held
# modules without a test at their own path: another test covers them, since only there their effect is seen
ELSEWHERE = {
    "saferec_builder/__init__.py": "tests/flows/test_python_line.py",
    "saferec_builder/catalog/same_work.py": "tests/catalog/test_merging.py",
    "saferec_builder/scoring/title_evidence.py": "tests/scoring/test_mention_finder.py",
    **dict.fromkeys(
        (f"saferec_builder/cli/{name}.py" for name in PRINTED), "tests/cli/test_printed.py"
    ),  # one workspace for all
    "saferec_builder/cli/doctor.py": "tests/test_diagnostics.py",
    "saferec_builder/erasure/people.py": "tests/erasure/test_forget.py",
    "saferec_builder/mining/privacy/folding.py": "tests/mining/privacy/test_privacy.py",
    "saferec_builder/mining/privacy/names.py": "tests/mining/privacy/test_privacy.py",
    "saferec_builder/mining/privacy/numbers.py": "tests/mining/privacy/test_privacy.py",
    "saferec_builder/proposing/corpus.py": "tests/proposing/test_run.py",
    "saferec_builder/proposing/rules/grammar.py": "tests/proposing/rules/test_matcher.py",
    "saferec_builder/proposing/rules/turn_analysis.py": "tests/proposing/rules/test_matcher.py",
    "saferec_builder/scoring/list_entry_parser.py": "tests/scoring/test_answer_parser.py",
    "saferec_builder/scoring/titles_in_prose.py": "tests/scoring/test_answer_parser.py",
    "saferec_builder/sources/input_files.py": "tests/mining/test_ingest.py",
    "annotation/label_bounds.py": "tests/exports/test_review_facts.py",  # a release and its workspace state the same
    "annotation/review_destinations.py": "tests/annotation/test_pull.py",
    "annotation/tools/tasks_and_answers.py": "tests/annotation/tools/test_task_conversion.py",
    "annotation/tools/guidelines.py": "tests/annotation/tools/test_files.py",
    "exports/manifest_types.py": "tests/exports/test_verify.py",
    "exports/manifest_facts.py": "tests/exports/test_provenance.py",
    "exports/report/gather.py": "tests/exports/report/test_page.py",
    "training/commands.py": "tests/training/test_safecrs.py",
    "training/comparison.py": "tests/training/test_safecrs.py",
    "training/evaluation/predictions.py": "tests/training/evaluation/test_evaluate.py",
    "training/harness/inspect_task.py": "tests/servers/test_harness.py",  # the real packages
    "training/harness/lm_eval_task.py": "tests/servers/test_harness.py",
}


@cache
def files() -> list[Path]:
    return [p for package in PACKAGES for p in sorted((ROOT / package).rglob("*.py"))]


@cache
def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def mirrored(path: str) -> str:
    """The path of a module's test: tests/annotation/test_routing.py tests annotation/routing.py."""
    folder, _, name = path.removeprefix("saferec_builder/").rpartition("/")
    if name == "__init__.py":  # the package's own file has the package's name
        name = f"{folder.rpartition('/')[2]}.py"
    return f"tests/{folder}/test_{name}" if folder else f"tests/test_{name}"


def held_by(path: str) -> list[str]:
    """The tests of a module: the file at its path and those of one aspect of it (test_hub_faults.py), or ELSEWHERE."""
    mirror = ROOT / mirrored(path)
    variants = {str(p.relative_to(ROOT)) for p in mirror.parent.glob(f"{mirror.stem}_*.py")}
    tests = [str(mirror.relative_to(ROOT))] * mirror.is_file() + sorted(variants - _every_mirrored())
    return tests or [test for module, test in ELSEWHERE.items() if module == path]


@cache
def _every_mirrored() -> frozenset[str]:
    return frozenset(mirrored(str(path.relative_to(ROOT))) for path in files())


def room(module: str) -> str:
    """The package of one of our modules, as in ORDER; a module at the root of saferec_builder is its own package."""
    first, *rest = module.split(".")
    return rest[0] if first == "saferec_builder" and rest else first


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imports(path: Path) -> frozenset[str]:
    """Absolute names that a file imports anywhere."""
    return frozenset(name for node in statements(parsed(path)) for name in _imported(node))


def loaded_with(path: Path) -> set[str]:
    """Absolute names that are imported when a file is imported: not in functions, not for a type checker."""
    return {name for node in statements(parsed(path), late=False) for name in _imported(node)}


def statements(node: ast.AST, *, late: bool = True) -> Iterator[ast.AST]:
    """All statements in a node; without `late` only those that run when the module is imported."""
    is_late = isinstance(node, LATE) or (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    for field in ("body", "handlers", "orelse", "finalbody", "cases"):
        if not late and field == "body" and is_late:
            continue
        for child in getattr(node, field, ()):
            yield child
            yield from statements(child, late=late)


LATE = (ast.FunctionDef, ast.AsyncFunctionDef)


def above(module: str) -> list[str]:
    """The packages that contain a module, the nearest first."""
    parts = module.split(".")
    return [".".join(parts[:n]) for n in range(len(parts) - 1, 0, -1)]


def _imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (a.name for a in node.names)
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0 and node.module, f"line {node.lineno}: relative import"
        yield from (node.module, *(f"{node.module}.{a.name}" for a in node.names))


def allowed(me: str, target: str) -> bool:
    importing, imported = room(me), room(target)
    if importing == "training":
        return imported in OF_TRAINING
    if imported == "training":
        return False
    return importing == imported or RANK[imported] < RANK[importing]
