"""Shared by the tests of training: the small release, a model made from it, a filter for TRL's one warning."""

import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.worlds import small_release
from training import data

collect_ignore = [] if find_spec("trl") else ["trainers", "decoding", "models", "test_pipeline.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # TRL 1.16 calls transformers 5.23 by a deprecated name
    ignored = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(ignored)


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_release.write(tmp_path_factory.mktemp("written") / "release")


@pytest.fixture
def release(written: Path, tmp_path: Path) -> data.Release:
    """The small release, in a folder that a test may change."""
    return data.open_release(shutil.copytree(written, tmp_path / "release"))


@pytest.fixture
def rows(release: data.Release) -> list[data.Row]:
    return data.rows(release.folder, "grpo", "test")


@pytest.fixture
def train(release: data.Release) -> list[data.Row]:
    return data.rows(release.folder, "grpo", "train")


@pytest.fixture(scope="session")
def world(written: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the small `release`, and in `start` the embedded model made from it. Tests must not change it."""
    from training.models import tiny

    folder = tmp_path_factory.mktemp("tiny")
    release = data.open_release(shutil.copytree(written, folder / "release"))
    tiny.make(folder / "start", release, data.rows(release.folder, "grpo", "train"))
    return folder


@pytest.fixture(scope="module")
def policy(world: Path) -> Any:
    from training.decoding import generate

    return generate.load(str(world / "start"))
