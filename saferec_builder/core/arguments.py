"""Arguments of the public API: what is plainly meant is taken, what cannot be is refused in one line."""

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
Named = Mapping[object, Callable[[str], object]]  # a type -> what makes one of a name or a path
Parts = Mapping[
    type, Mapping[object, Callable[[Any], object]]
]  # a type -> what of it is meant where another is expected
_WIDER: Mapping[object, type] = {int: Integral, float: Real}  # numpy's are numbers too
_MANY = (Sequence, Collection, Iterable)


_SHORT = Repr()  # it stands a repr of theirs that fails
_SHORT.maxstring = _SHORT.maxother = 80


class _Unfit(Exception):
    """No kind that the annotation names."""


def checked(name: str, function: Callable[P, R], named: Named, parts: Parts = {}) -> Callable[P, R]:  # noqa: B006
    """The function as `name` of the API, whose arguments are held against their annotations before it begins.

    A str or Path stands for the path, for what `named` makes of it, or for a list of it alone, where one of these is
    expected and no str; an object of a type in `parts` for its part of the kind that is expected. UsageError says which
    argument is something else, is missing, or is a number below 0: numbers of the API are counts, dollars, minutes and
    seconds.
    """
    form, hints = signature(function), get_type_hints(function)

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            given = form.bind(*args, **kwargs)
        except TypeError as fault:
            raise UsageError(f"{name}: {fault}: help(saferec_builder.{name}) says what it takes") from None
        for argument, value in given.arguments.items():
            told = f"help(saferec_builder.{name}) says what it is"
            if isinstance(value, Real) and not float(value) >= 0:  # nor is it NaN
                raise UsageError(f"{name}: {argument} is {value}: expected 0 or more: {told}")
            try:
                given.arguments[argument] = _fit(value, hints[argument], named, parts)
            except _Unfit:
                found = f"{argument} is {' '.join(_SHORT.repr(value).split())} ({type(value).__name__})"
                expected = re.sub(r"(\w+\.)+", "", formatannotation(hints[argument]))
                raise UsageError(f"{name}: {found}: expected {expected}: {told}") from None
        return function(*given.args, **given.kwargs)

    called.__module__, called.__qualname__ = "saferec_builder.api", name  # where pickle and help find it
    return called


def _fit(value: object, hint: object, named: Named, parts: Parts) -> object:
    """The value, or what it stands for, as one of the kinds of the annotation."""
    kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    lists = [kind for kind in kinds if get_origin(kind) in _MANY]
    if any(_is(value, kind) for kind in kinds if kind not in lists):
        return value
    known = parts.get(type(value), {})
    if part := next((known[kind] for kind in kinds if kind in known), None):
        return part(value)
    alone = isinstance(value, str | Path)  # its letters are no list
    if lists and not alone and isinstance(value, Iterable):
        return [_fit(one, get_args(lists[0])[0], named, parts) for one in value]
    if alone and Path in kinds:
        return Path(str(value))
    if alone and (maker := next((named[kind] for kind in kinds if kind in named), None)):
        return _fit(maker(str(value)), hint, {}, {})
    if alone and lists:
        return [_fit(value, get_args(lists[0])[0], named, parts)]
    raise _Unfit


def _is(value: object, kind: object) -> bool:
    kind = _WIDER.get(kind, get_origin(kind) or kind)
    return not isinstance(kind, type) or isinstance(value, kind)
