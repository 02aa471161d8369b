"""The pinned versions install where we say they do."""

from importlib.metadata import distributions

from packaging.specifiers import SpecifierSet

DEBIAN = "3.11.2"  # the Python of Debian 12, on which a newcomer's two commands must run


def test_every_pinned_package_installs_on_debians_python() -> None:
    wanted = {d.metadata["Name"]: d.metadata["Requires-Python"] or "" for d in distributions()}
    assert len(wanted) > 50
    assert {name: asked for name, asked in wanted.items() if DEBIAN not in SpecifierSet(asked)} == {}
