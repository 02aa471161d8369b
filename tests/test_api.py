"""What `import saferec_builder` gives: one list, loaded when it is asked for, and each of it says what it does."""

import subprocess
import sys

import pytest

import saferec_builder
from saferec_builder import api
from tests import ROOT


def test_the_names_that_are_loaded_lazily_are_those_of_the_api() -> None:
    assert sorted(saferec_builder.API) == sorted(api.__all__)
    assert {*api.__all__} <= {*dir(saferec_builder)}
    assert saferec_builder.mine is api.mine


@pytest.mark.parametrize("name", api.__all__)
def test_each_says_what_it_does(name: str) -> None:
    told = getattr(api, name).__doc__ or ""
    assert len(told) > 40 and not told.startswith(f"{name}("), f"{name}: a docstring is its contract"


def test_what_is_no_name_of_the_api_is_an_error_that_names_it() -> None:
    with pytest.raises(AttributeError, match="'minee'"):
        saferec_builder.minee  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("room", ["catalog", "proposing", "cli"])
def test_a_package_of_ours_is_found_whatever_comes_first(room: str) -> None:
    """A lazy name of the same spelling would hide it, or import everything on the way to it."""
    code = f"import saferec_builder.{room}, sys; assert 'saferec_builder.api' not in sys.modules"
    assert room not in saferec_builder.API
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
