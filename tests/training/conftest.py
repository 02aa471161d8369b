"""Releases and models that several tests of training begin with."""

from pathlib import Path

import pytest

from tests.worlds import small_release
from tests.worlds.chat_model import made
from training import data
from training.data import open_release
from training.decoding import generate
from training.models import tiny


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fit")
    release = data.open_release(small_release.write(folder / "release"))
    (folder / "start").mkdir()
    tiny.make(folder / "start", release, data.rows(release.folder, "grpo", "train"))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tiny")
    made(root / "model", open_release(small_release.write(root / "release")))
    return root


@pytest.fixture(scope="module")
def speaker(folder: Path) -> generate.Speaker:
    return generate.load(str(folder / "model"))
