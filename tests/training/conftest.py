"""What the tests of training share: TRL's one warning, and no tests of models where TRL is not installed."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.worlds import small_release
from training import data

collect_ignore = [] if find_spec("trl") else ["trainers", "decoding", "models", "test_pipeline.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # TRL 1.16 asks transformers 5.23 by an older name
    older = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(older)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from training.models import tiny

    folder = tmp_path_factory.mktemp("fit")
    release = data.open_release(small_release.write(folder / "release"))
    (folder / "start").mkdir()
    tiny.make(folder / "start", release, data.rows(release.folder, "grpo", "train"))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.worlds.chat_model import made

    root = tmp_path_factory.mktemp("tiny")
    made(root / "model", data.open_release(small_release.write(root / "release")))
    return root


@pytest.fixture(scope="module")
def policy(folder: Path) -> Any:
    from training.decoding import generate

    return generate.load(str(folder / "model"))
