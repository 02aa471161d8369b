"""Tests that the pinned versions install on the Python versions that we name."""

from importlib.metadata import distributions

from packaging.specifiers import SpecifierSet

DEBIAN = "3.11.2"  # the Python of Debian 12, on which a newcomer's two commands must run


def test_every_pinned_package_installs_on_debians_python() -> None:
    versions = {d.metadata["Name"]: d.metadata["Requires-Python"] or "" for d in distributions()}
    assert len(versions) > 50
    assert {name: version for name, version in versions.items() if DEBIAN not in SpecifierSet(version)} == {}
