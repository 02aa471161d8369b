"""Small faults in the rules whose version is named (versions.py): each one alone, in a module made anew.

Not mutmut, which runs tests: here a fault is held against the answers that it changes, hundreds in a minute.
"""

import ast
import gc
import inspect
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from tests import nearest
from tests.mutation import told_wrong

SECONDS = 1.0  # of the processor: a fault that runs for ever is one that was seen


class Endless(Exception):
    pass


def faults(module: ModuleType) -> Iterator[tuple[str, str]]:
    """(where and what, the source with it) for each place in the module's functions at which it can be told wrong.

    `rules` with its helper, which makes the name, is left out, and so are texts that only document.
    """
    tree = ast.parse(inspect.getsource(module))
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name not in ("rules", "_places")]
    places = {id(n): n for function in functions for line in _code(function) for n in ast.walk(line)}
    for node in places.values():
        for field, wrong in (*told_wrong(node), *_more(node)):
            before, shown = vars(node)[field], ast.unparse(node)[:70]
            setattr(node, field, wrong)
            changed = ast.unparse(ast.fix_missing_locations(tree))
            yield f"{module.__name__}:{getattr(node, 'lineno', 0)} {field} of {shown}", changed
            setattr(node, field, before)


def _code(function: ast.FunctionDef) -> list[ast.stmt]:
    documented = isinstance(function.body[0], ast.Expr) and isinstance(function.body[0].value, ast.Constant)
    return function.body[documented:]


def _more(node: ast.AST) -> Iterator[tuple[str, object]]:
    """What the swaps of numbers and signs leave out: words, truth, conditions, parts of a condition, what is given."""
    yield from nearest._more(node)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield "value", f"{node.value}x"
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        yield "test", ast.UnaryOp(ast.Not(), node.test)
    if isinstance(node, ast.comprehension) and node.ifs:
        yield "ifs", [ast.UnaryOp(ast.Not(), node.ifs[0]), *node.ifs[1:]]
    if isinstance(node, ast.BoolOp):
        yield from (("values", [v for v in node.values if v is not left]) for left in node.values)
    if isinstance(node, ast.Tuple | ast.List) and isinstance(node.ctx, ast.Load) and len(node.elts) > 1:
        yield from (("elts", [v for v in node.elts if v is not left]) for left in node.elts)
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Yield | ast.YieldFrom):
        yield "value", ast.Constant(None)


def made(module: ModuleType, source: str, name: str | None = None) -> ModuleType:
    """The module anew, from another source; what it imports is what stands now."""
    new = ModuleType(name or module.__name__)
    new.__dict__["__file__"] = module.__file__
    exec(compile(source, new.__name__, "exec"), new.__dict__)
    return new


def outcome(answer: Callable[[], Any]) -> Any:
    """What it gives, or the kind of fault with which it ends."""
    try:
        with _in_time():
            return answer()
    except Exception as fault:
        return type(fault).__name__


@contextmanager
def _in_time() -> Iterator[None]:
    """By a timer of its own: the suite has that of the wall clock. An error in a callback of the garbage collector (a
    plugin may have one) or in a destructor is swallowed: so none is collected, and the timer goes off again.
    """

    def late(_signal: int, _frame: FrameType | None) -> None:
        raise Endless

    former = signal.signal(signal.SIGVTALRM, late)
    collects = gc.isenabled()
    gc.disable()
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        if collects:
            gc.enable()
        signal.signal(signal.SIGVTALRM, former)


def literals(tests: Path) -> list[str]:
    """Every text in the source of these tests."""
    found = [n.value for n in ast.walk(ast.parse(tests.read_text(encoding="utf-8"))) if isinstance(n, ast.Constant)]
    return sorted({value for value in found if isinstance(value, str) and re.search(r"\w", value)})
