"""`python -m tests.mutation nearest [--sample N] [--seed S] [--only FILE...]`: how many faults the nearest tests see.

Draws N lines of the product, or of some files, at random, the same for the same seed, and puts one small fault into
each: a number, sign, comparison, condition, result or call. For each fault it runs only the tests that belong to the
path of the changed file (tests/layers.py), those that a reader would find; a fault that only other tests see counts as
missed. Tests of real servers are left out. Everything happens in a copy under build/mutation.
"""

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from saferec_builder.scoring.intervals import clopper_pearson
from tests import ROOT
from tests.layers import files, held_by

FOLDER = ROOT / "build" / "mutation"
COPIED = ("saferec_builder", "training", "annotation", "exports", "tests", "pyproject.toml", "docs", "README.md")
CALM = ["-p", "no:cacheprovider", "--hypothesis-profile=ci"]  # no deadline: a busy machine is no fault that was seen
PATIENCE = 5  # a fault that makes the tests take this many times longer makes them run forever, and counts as seen
Swaps = dict[type[ast.AST], type[ast.AST]]
PAIRS = [(ast.Add, ast.Sub), (ast.Mult, ast.Div), (ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.And, ast.Or)]
SWAPS: Swaps = {one: other for pair in PAIRS for one, other in (pair, pair[::-1])}  # swapped both ways
SWAPS |= {ast.LShift: ast.RShift, ast.BitAnd: ast.BitOr, ast.Eq: ast.NotEq, ast.IsNot: ast.Is}
OTHERS: Swaps = {ast.In: ast.NotIn, ast.NotIn: ast.In, ast.NotEq: ast.Eq, ast.Is: ast.IsNot}
Place = tuple[int, int, int, int]  # first line and column, last line and column


@dataclass(frozen=True)
class Fault:
    path: str
    line: int
    before: str
    after: str
    source: str  # the whole file with the fault

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.before} -> {self.after}"


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation")
    parser.add_argument("what", choices=["nearest"])
    parser.add_argument("--only", type=Path, nargs="+", help="files of the product; default: all")
    parser.add_argument("--sample", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(words)
    _copy()
    seconds: dict[str, float | None] = {}  # time of each file's tests without a fault; None if they fail
    seen, missed, unknown = 0, list[str](), list[str]()
    for fault in draw(options.sample, options.seed, options.only):
        tests = held_by(fault.path)
        if tests and fault.path not in seconds:
            start = time.monotonic()
            seconds[fault.path] = time.monotonic() - start if _passes(tests, 900) else None
        usual = seconds.get(fault.path)
        if not tests:
            missed.append(f"{fault}  (no test at its path)")
        elif usual is None:
            unknown.append(f"{fault}  (its tests fail without a fault)")
        elif _survives(fault, tests, 30 + PATIENCE * usual):
            missed.append(str(fault))
        else:
            seen += 1
        print(f"\r{seen + len(missed) + len(unknown)} of {options.sample}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    print(*missed, *unknown, sep="\n")
    total = max(seen + len(missed), 1)
    low, high = clopper_pearson(seen, total)
    share = f"{seen / total:.1%} ({low:.1%} to {high:.1%})"
    print(f"{seen} of {seen + len(missed)} faults seen by tests at their path: {share}")
    return int(bool(unknown))


def draw(sample: int, seed: int, only: Sequence[Path] | None = None) -> Iterator[Fault]:
    """Yields a fault for each line of a random sample without repeats: one of those that the line can have."""
    lines = [
        (path, line) for path in sorted(map(Path.absolute, only or files())) for line in sorted(faults_by_line(path))
    ]
    rng = random.Random(seed)
    for path, line in rng.sample(lines, min(sample, len(lines))):
        yield rng.choice(faults_by_line(path)[line])


@cache
def faults_by_line(path: Path) -> dict[int, list[Fault]]:
    source = path.read_text(encoding="utf-8")
    faults: dict[int, list[Fault]] = {}
    for place, before, after in _places(ast.parse(source)):
        changed = _replaced(source, place, after)
        with suppress(SyntaxError):  # inside a pattern or a nested f-string
            ast.parse(changed)
            fault = Fault(str(path.relative_to(ROOT)), place[0], before, after, changed)
            faults.setdefault(place[0], []).append(fault)
    return faults


def _places(tree: ast.Module) -> Iterator[tuple[Place, str, str]]:
    """Yields (place, old text, new text) for all code that runs: no annotations, no decorators."""
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        for field, other in wrong_values(node):
            before, value = ast.unparse(node), vars(node)[field]
            setattr(node, field, other)
            yield _place(node), before.split("\n")[0], f"({ast.unparse(node)})"
            setattr(node, field, value)
        yield from _instead(node)
        for name, field in ast.iter_fields(node):
            if name not in ("annotation", "returns", "decorator_list", "type_params"):
                parts = field if isinstance(field, list) else [field]
                todo += [part for part in parts if isinstance(part, ast.AST) and hasattr(part, "_fields")]


def wrong_values(node: ast.AST) -> Iterator[tuple[str, object]]:
    """Yields the fields of a node that can be changed, each with a wrong value."""
    if isinstance(node, ast.Constant) and type(node.value) in (bool, int, float):
        yield "value", not node.value if isinstance(node.value, bool) else node.value + 1
    if isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in SWAPS:
        yield "op", SWAPS[type(node.op)]()
    for swaps in (SWAPS, OTHERS):
        if isinstance(node, ast.Compare) and type(node.ops[0]) in swaps:
            yield "ops", [swaps[type(node.ops[0])](), *node.ops[1:]]


def _instead(node: ast.AST) -> Iterator[tuple[Place, str, str]]:
    """Yields negated conditions, results replaced by None, and removed calls."""
    if isinstance(node, ast.If | ast.IfExp | ast.While) and "TYPE_CHECKING" not in (test := ast.unparse(node.test)):
        yield _place(node.test), test, f"(not ({test}))"
    if isinstance(node, ast.Return) and node.value is not None and ast.unparse(node.value) != "None":
        yield _place(node.value), f"return {ast.unparse(node.value)}", "None"
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.Await):
        yield _place(node), ast.unparse(node), "..."


def _place(node: ast.expr | ast.stmt) -> Place:
    assert node.end_lineno is not None and node.end_col_offset is not None  # they come from a parsed source
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset


def _replaced(source: str, place: Place, text: str) -> str:
    lines = source.encode().split(b"\n")  # columns count bytes
    first, start, last, end = place
    lines[first - 1 : last] = [lines[first - 1][:start] + text.encode() + lines[last - 1][end:]]
    return b"\n".join(lines).decode()


def _copy() -> None:
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    for part in COPIED:
        source = ROOT / part
        (shutil.copytree if source.is_dir() else shutil.copy)(source, FOLDER / part)


def _survives(fault: Fault, tests: list[str], timeout: float) -> bool:
    path = FOLDER / fault.path
    before = path.read_bytes()
    path.write_text(fault.source, encoding="utf-8")
    try:
        return _passes(tests, timeout)
    finally:
        path.write_bytes(before)


def _passes(tests: list[str], timeout: float) -> bool:
    """Whether the tests pass in the copy; processes that they start import from it too."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", *CALM, "-m", "not servers and not soak", *tests]
    own_imports = {"PYTHONPATH": str(FOLDER), "PYTHONDONTWRITEBYTECODE": "1"}
    env = {k: v for k, v in os.environ.items() if k != "SAFEREC_EVERY_PART"} | own_imports
    process = subprocess.Popen(
        command, cwd=FOLDER, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        return process.wait(timeout) == 0
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.wait()
        return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
