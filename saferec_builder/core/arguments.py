"""Checks the arguments of the public API: converts what is unambiguous, refuses the rest in one line."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import wraps
from inspect import formatannotation, signature
from numbers import Integral, Real
from pathlib import Path
from reprlib import Repr
from types import UnionType
from typing import Any, ParamSpec, TypeVar, get_args, get_origin, get_type_hints

from saferec_builder.core.errors import UsageError

P = ParamSpec("P")
R = TypeVar("R")
Named = Mapping[object, Callable[[str], object]]  # type -> function that makes one from a name or path
# type of an object -> (expected type -> function that gives that part of it)
Parts = Mapping[type, Mapping[object, Callable[[Any], object]]]
_WIDER: Mapping[object, type] = {int: Integral, float: Real}  # numpy numbers count, too
_MANY = (Sequence, Collection, Iterable)


_SHORT = Repr()  # survives objects whose own repr fails
_SHORT.maxstring = _SHORT.maxother = 80


class _Unfit(Exception):
    """The value fits no type that the annotation names."""


def checked(name: str, function: Callable[P, R], named: Named, parts: Parts = {}) -> Callable[P, R]:  # noqa: B006
    """Returns the function as `name` of the API: each call first checks its arguments against the annotations.

    A str or Path may stand for a path, for an object that `named` makes from it, or for a list with one element, where
    one of these is expected and no str is. An object whose type is in `parts` may stand for its part of the expected
    type. Raises UsageError that names an argument of a wrong type, a missing one, or a number below 0: numbers of the
    API are counts, dollars, minutes and seconds.
    """
    api_signature, hints = signature(function), get_type_hints(function)

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            bound = api_signature.bind(*args, **kwargs)
        except TypeError as fault:
            raise UsageError(f"{name}: {fault}: help(saferec_builder.{name}) says what it takes") from None
        for argument, value in bound.arguments.items():
            advice = f"help(saferec_builder.{name}) says what it is"
            if isinstance(value, Real) and not float(value) >= 0:  # refuses NaN, too
                raise UsageError(f"{name}: {argument} is {value}: expected 0 or more: {advice}")
            try:
                bound.arguments[argument] = _fit(value, hints[argument], named, parts)
            except _Unfit:
                problem = f"{argument} is {' '.join(_SHORT.repr(value).split())} ({type(value).__name__})"
                expected = re.sub(r"(\w+\.)+", "", formatannotation(hints[argument]))
                raise UsageError(f"{name}: {problem}: expected {expected}: {advice}") from None
        return function(*bound.args, **bound.kwargs)

    wrapper.__module__, wrapper.__qualname__ = "saferec_builder.api", name  # so that pickle and help() find it
    return wrapper


def _fit(value: object, hint: object, named: Named, parts: Parts) -> object:
    """Returns the value, or what it stands for, as one of the types of the annotation; raises _Unfit."""
    kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    lists = [kind for kind in kinds if get_origin(kind) in _MANY]
    if any(_is_instance(value, kind) for kind in kinds if kind not in lists):
        return value
    getters = parts.get(type(value), {})
    if part := next((getters[kind] for kind in kinds if kind in getters), None):
        return part(value)
    is_text = isinstance(value, str | Path)  # a text is no list of letters
    if lists and not is_text and isinstance(value, Iterable):
        return [_fit(element, get_args(lists[0])[0], named, parts) for element in value]
    if is_text and Path in kinds:
        return Path(str(value))
    if is_text and (maker := next((named[kind] for kind in kinds if kind in named), None)):
        return _fit(maker(str(value)), hint, {}, {})
    if is_text and lists:
        return [_fit(value, get_args(lists[0])[0], named, parts)]
    raise _Unfit


def _is_instance(value: object, kind: object) -> bool:
    kind = _WIDER.get(kind, get_origin(kind) or kind)
    return not isinstance(kind, type) or isinstance(value, kind)
