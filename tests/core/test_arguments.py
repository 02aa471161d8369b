"""Arguments are checked against annotations: names and paths are converted, and the rest is refused."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from saferec_builder.core.arguments import checked
from saferec_builder.core.errors import UsageError


@dataclass(frozen=True)
class Shelf:
    name: str


def put(
    shelf: Shelf,
    names: Sequence[str] = (),
    *,
    files: Iterable[Path] = (),
    either: Iterable[Path | str] | Path | str = (),
    file: Path | None = None,
    most: int = 1,
    pause: float = 0.0,
    sure: bool = False,
    each: Callable[[int], object] | None = None,
    only: Mapping[str, str] | None = None,
) -> list[object]:
    """Puts them there."""
    return [shelf, names, files, either, file, most, pause, sure, each, only]


PUT = checked("put", put, {Shelf: Shelf})
A = Shelf("a")


def test_what_fits_stays_as_it_is() -> None:
    options = {"file": Path("x"), "most": np.int64(3), "pause": 2, "sure": True, "each": print, "only": {"a": "b"}}
    arguments = PUT(A, ["ann"], files=[Path("y")], either="z", **options)  # type: ignore[arg-type]
    assert arguments == [A, ["ann"], [Path("y")], "z", *options.values()]
    assert PUT(A) == put(A) and PUT(shelf=A, file=None) == put(A)


def test_a_name_stands_for_what_is_made_of_it_for_a_path_or_for_a_list_of_it_alone() -> None:
    arguments = PUT(
        Path("b"),  # type: ignore[arg-type]
        "ann",
        files="runs",  # type: ignore[arg-type]
        either=["z", Path("z")],
        file="x",  # type: ignore[arg-type]
    )
    assert arguments[:5] == [Shelf("b"), ["ann"], [Path("runs")], ["z", Path("z")], Path("x")]
    names: Iterator[str] = (name for name in "ab")
    assert PUT(A, names, files=["u", Path("v")])[1:3] == [["a", "b"], [Path("u"), Path("v")]]  # type: ignore
    assert PUT(A, pl.Series(["ann", "bo"]))[1] == ["ann", "bo"]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "given, said",
    [
        ({"shelf": None}, "put: shelf is None (NoneType): expected Shelf: help(saferec_builder.put) says what it is"),
        ({"names": 3}, "put: names is 3 (int): expected Sequence[str]: "),
        ({"names": ["ann", 3]}, "put: names is ['ann', 3] (list): expected Sequence[str]: "),
        ({"names": Path("ann")}, "expected Sequence[str]"),
        ({"file": [["Alien"]]}, "put: file is [['Alien']] (list): expected Path | None: "),
        ({"most": "3"}, "put: most is '3' (str): expected int: "),
        ({"pause": None}, "expected float"),
        ({"most": -1}, "put: most is -1: expected 0 or more: help(saferec_builder.put) says what it is"),
        ({"pause": float("nan")}, "put: pause is nan: expected 0 or more"),
        ({"sure": "no"}, "put: sure is 'no' (str): expected bool"),
        ({"each": 3}, "expected Callable[[int], object] | None"),
        ({"only": ["a"]}, "expected Mapping[str, str] | None"),
        ({"mostt": 3}, "put: got an unexpected keyword argument 'mostt': help(saferec_builder.put) says what it takes"),
        ({"names": pl.DataFrame({"a": [1] * 99})}, "(DataFrame): expected Sequence[str]"),
    ],
)
def test_what_is_neither_is_one_line_that_names_the_argument(given: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError) as fault:
        PUT(**{"shelf": A, **given})  # type: ignore[arg-type]
    assert said in str(fault.value) and "\n" not in str(fault.value)
    with pytest.raises(UsageError, match="put: missing a required argument: 'shelf'"):
        PUT()  # type: ignore[call-arg]


def test_what_the_function_raises_is_its_own() -> None:
    def fail(file: Path) -> None:
        raise TypeError("a bug")

    with pytest.raises(TypeError, match="a bug"):
        checked("fail", fail, {})(Path("x"))
    assert (PUT.__doc__, PUT.__name__) == ("Puts them there.", "put")


def test_an_argument_that_cannot_be_shown_is_named_all_the_same() -> None:
    class Shy:
        def __repr__(self) -> str:
            raise ValueError("not ready")

    with pytest.raises(UsageError, match=r"put: shelf is <Shy instance at \w+> \(Shy\): expected Shelf"):
        PUT(Shy())  # type: ignore[arg-type]


def test_an_object_stands_for_the_part_of_it_that_is_expected() -> None:
    """For example, a release for its folder or its version."""
    put_parts = checked("put", put, {Shelf: Shelf}, {Shelf: {Path: lambda shelf: Path(shelf.name), str: str}})
    arguments = put_parts(A, file=Shelf("b"), files=[Shelf("c"), "d"])  # type: ignore[list-item, arg-type]
    assert (arguments[0], arguments[2], arguments[4]) == (A, [Path("c"), Path("d")], Path("b"))
    with pytest.raises(UsageError, match="most is Shelf"):
        put_parts(A, most=Shelf("b"))  # type: ignore[arg-type]
