"""Small faults in the rules whose version is named (versions.py): one fault at a time, in a fresh copy of a module.

No test runs for each: the answers with and without a fault are compared, hundreds in a minute.
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

from tests.mutation import wrong_values

SECONDS = 1.0  # of processor time: a fault that runs for ever counts as noticed


class Endless(Exception):
    pass


def faults(module: ModuleType) -> Iterator[tuple[str, str]]:
    """Yields (place and fault, source with the fault) for each place in the module's functions that can be changed.

    `rules` and its helper, which make the name, are left out, and so are docstrings.
    """
    tree = ast.parse(inspect.getsource(module))
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name not in ("rules", "_places")]
    places = {id(n): n for function in functions for line in _code(function) for n in ast.walk(line)}
    for node in places.values():
        for field, faulty in _wrong(node):
            original, code = vars(node)[field], ast.unparse(node)[:70]
            setattr(node, field, faulty)
            changed = ast.unparse(ast.fix_missing_locations(tree))
            yield f"{module.__name__}:{getattr(node, 'lineno', 0)} {field} of {code}", changed
            setattr(node, field, original)


def _code(function: ast.FunctionDef) -> list[ast.stmt]:
    documented = isinstance(function.body[0], ast.Expr) and isinstance(function.body[0].value, ast.Constant)
    return function.body[documented:]


def _wrong(node: ast.AST) -> Iterator[tuple[str, object]]:
    """Faults of `wrong_values`, and in strings, conditions, parts of a condition and yields."""
    yield from wrong_values(node)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield "value", f"{node.value}x"
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        yield "test", ast.UnaryOp(ast.Not(), node.test)
    if isinstance(node, ast.comprehension) and node.ifs:
        yield "ifs", [ast.UnaryOp(ast.Not(), node.ifs[0]), *node.ifs[1:]]
    if isinstance(node, ast.BoolOp):
        yield from (("values", [v for v in node.values if v is not removed]) for removed in node.values)
    if isinstance(node, ast.Tuple | ast.List) and isinstance(node.ctx, ast.Load) and len(node.elts) > 1:
        yield from (("elts", [v for v in node.elts if v is not removed]) for removed in node.elts)
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Yield | ast.YieldFrom):
        yield "value", ast.Constant(None)


def made(module: ModuleType, source: str, name: str | None = None) -> ModuleType:
    """A copy of the module from another source; its imports are the present modules."""
    copy = ModuleType(name or module.__name__)
    copy.__dict__["__file__"] = module.__file__
    exec(compile(source, copy.__name__, "exec"), copy.__dict__)
    return copy


def outcome(answer: Callable[[], Any]) -> Any:
    """Returns the answer, or the name of the exception that it raises."""
    try:
        with _in_time():
            return answer()
    except Exception as fault:
        return type(fault).__name__


@contextmanager
def _in_time() -> Iterator[None]:
    """Limits the time by its own timer: the suite uses that of the wall clock. An error in a callback of the garbage
    collector (a plugin may have one) or in a destructor is swallowed: so it is off, and the timer fires repeatedly.
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
    constants = [n.value for n in ast.walk(ast.parse(tests.read_text(encoding="utf-8"))) if isinstance(n, ast.Constant)]
    return sorted({value for value in constants if isinstance(value, str) and re.search(r"\w", value)})
