"""`python -m tests.mutation [NAME...]`: counts the small faults in the rules and bounds that their own tests see.

mutmut changes the bodies of functions, one place at a time, and runs the tests that reach it. This file changes what
mutmut leaves out: numbers and signs in constants, defaults, properties and cached functions, with a full run of the
file's tests for each. A fault without any visible effect counts as missed like any other.
Everything happens in a copy under build/mutation; the faults that no test saw are in its survivors.txt.
`python -m tests.mutation nearest` samples the whole product instead: tests/nearest.py.
"""

import ast
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests import ROOT
from tests.layers import mirrored

GOAL = 0.85
FILES = {
    "oracle": "saferec_builder/core/oracle.py",
    "rewards": "training/evaluation/rewards.py",
    "metrics": "saferec_builder/scoring/metrics.py",
    "confidence_bounds": "annotation/confidence_bounds.py",
}
COPIED = ("saferec_builder", "training", "annotation", "exports", "tests", "pyproject.toml")
CALM = ["-p", "no:cacheprovider", "--hypothesis-profile=ci"]  # no deadline: a busy machine is no fault that was seen
PATIENCE = 5  # a fault that makes the tests take this many times longer makes them run forever, and counts as seen
# swapped both ways
PAIRS = [(ast.Add, ast.Sub), (ast.Mult, ast.Div), (ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.And, ast.Or)]
SWAPS: dict[type[ast.AST], type[ast.AST]] = {one: other for pair in PAIRS for one, other in (pair, pair[::-1])}
SWAPS |= {ast.LShift: ast.RShift, ast.BitAnd: ast.BitOr, ast.Eq: ast.NotEq, ast.IsNot: ast.Is}


def main(names: list[str]) -> int:
    print(f"{'file':<34}{'faults':>7}{'seen':>7}{'score':>8}")
    low = False
    for name in names or list(FILES):
        folder = _copy(name)
        seen, missed = _bodies(folder, name)
        more, others = _rest(folder, name)
        seen, missed = seen + more, missed + others
        (folder / "survivors.txt").write_text("\n".join(missed) + "\n")
        score = seen / (seen + len(missed))
        low |= score < GOAL
        print(f"{FILES[name]:<34}{seen + len(missed):>7}{seen:>7}{score:>8.1%}", flush=True)
    return int(low)


def _copy(name: str) -> Path:
    folder = ROOT / "build" / "mutation" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for part in COPIED:
        source = ROOT / part
        (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / part)
    settings = {
        "source_paths": ["saferec_builder", "training"],
        "also_copy": ["annotation", "exports"],
        "only_mutate": [FILES[name]],
        "timeout_multiplier": [str(PATIENCE / 2)],  # mutmut doubles it
        "pytest_add_cli_args": CALM,
        "pytest_add_cli_args_test_selection": [mirrored(FILES[name])],
    }
    lines = ["[mutmut]", *(f"{key}=" + "".join(f"\n    {v}" for v in some) for key, some in settings.items())]
    (folder / "setup.cfg").write_text("\n".join(lines) + "\n")
    return folder


def _bodies(folder: Path, name: str) -> tuple[int, list[str]]:
    """Returns (number of faults seen, a diff of each missed fault) for the functions that mutmut changes."""
    (folder / "mutmut.txt").write_text(_mutmut(folder, "run", "--max-children", "1"))
    _mutmut(folder, "export-cicd-stats")
    stats = json.loads((folder / "mutants" / "mutmut-cicd-stats.json").read_text())
    seen = stats["killed"] + stats["timeout"]
    lines = _mutmut(folder, "results").splitlines()
    survivors = [line.strip().split(": ")[0] for line in lines if line.strip() and not line.endswith(": timeout")]
    if not stats["total"] or seen + len(survivors) != stats["total"]:
        raise SystemExit(f"mutmut's run of {name} is not whole: {stats}; see {folder / 'mutmut.txt'}")
    return seen, [_shown(folder, mutant) for mutant in survivors]


def _mutmut(folder: Path, *words: str) -> str:
    process = subprocess.run([sys.executable, "-m", "mutmut", *words], cwd=folder, capture_output=True, text=True)
    if process.returncode:
        raise SystemExit(
            f"mutmut {words[0]} in {folder} ended with {process.returncode}\n{process.stdout[-2000:]}{process.stderr}"
        )
    return process.stdout


def _shown(folder: Path, mutant: str) -> str:
    diff = _mutmut(folder, "show", mutant).splitlines()
    changed = [line for line in diff if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    return "\n".join([mutant, *changed])


def _rest(folder: Path, name: str) -> tuple[int, list[str]]:
    """Returns (number of faults seen, the missed faults) for the places that mutmut leaves out."""
    path, seen, missed = folder / FILES[name], 0, []
    source = path.read_text()
    for place, changed in outside(source):
        path.write_text(changed)
        command = [sys.executable, "-m", "pytest", "-x", "-q", *CALM, mirrored(FILES[name])]
        if _passes(command, folder):
            missed.append(place)
        else:
            seen += 1
    path.write_text(source)
    return seen, missed


def _passes(words: list[str], folder: Path) -> bool:
    """Whether the tests pass; a fault that makes them run forever is seen."""
    try:
        process = subprocess.run(words, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=600)
    except subprocess.TimeoutExpired:
        return False
    return process.returncode == 0


def outside(source: str) -> Iterator[tuple[str, str]]:
    """Yields (fault, changed source) for each number and sign outside the functions that mutmut changes.

    Arguments of decorators are left out: they are sizes of caches and change nothing.
    """
    tree = ast.parse(source)
    defined = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)]
    plain = [n for n in defined if isinstance(n, ast.FunctionDef) and not n.decorator_list]
    covered = {id(n) for part in [*plain, *(d for n in defined for d in n.decorator_list)] for n in ast.walk(part)}
    for node in [n for n in ast.walk(tree) if id(n) not in covered]:
        for field, other in told_wrong(node):
            before, line = vars(node)[field], getattr(node, "lineno", 0)
            setattr(node, field, other)
            yield f"line {line}: {ast.unparse(node)}", ast.unparse(tree)
            setattr(node, field, before)


def told_wrong(node: ast.AST) -> Iterator[tuple[str, object]]:
    """Yields the fields of a node that can be changed, each with a wrong value."""
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield "value", node.value + 1
    if isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in SWAPS:
        yield "op", SWAPS[type(node.op)]()
    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
        yield "ops", [SWAPS[type(node.ops[0])](), *node.ops[1:]]


if __name__ == "__main__":
    from tests import nearest

    sys.exit(nearest.main(sys.argv[2:]) if sys.argv[1:2] == ["nearest"] else main(sys.argv[1:]))
