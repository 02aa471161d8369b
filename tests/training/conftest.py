"""What the tests of training share: TRL's one warning, and no tests of models where TRL is not installed."""

from importlib.util import find_spec
from pathlib import Path

import pytest

collect_ignore = [] if find_spec("trl") else ["trainers", "decoding", "models"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # TRL 1.16 asks transformers 5.23 by an older name
    older = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(older)
