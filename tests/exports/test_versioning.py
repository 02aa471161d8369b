"""Which releases there are, in the order of their numbers."""

from pathlib import Path

import pytest

from exports import versioning
from saferec_builder.core.errors import ReleaseError


@pytest.fixture
def releases(tmp_path: Path) -> Path:
    for version in ("1.0.0", "1.10.0", "1.9.0", "2.0.0"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "manifest.json").touch()
    return tmp_path


def test_the_version_before_is_found_by_number(releases: Path) -> None:
    assert versioning.before(releases, "1.10.0") == releases / "1.9.0"
    assert versioning.before(releases, "1.0.0") is None


def test_the_newest_is_found_by_number_and_any_other_by_name(releases: Path) -> None:
    (releases / "10.0.0").mkdir()  # without a manifest it is none
    assert versioning.find(releases) == releases / "2.0.0"
    assert versioning.find(releases, "1.9.0") == releases / "1.9.0"
    with pytest.raises(ReleaseError, match="no release '10.0.0'; there are 1.0.0, 1.9.0, 1.10.0, 2.0.0"):
        versioning.find(releases, "10.0.0")
