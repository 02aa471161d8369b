"""The authors' truth covers the demo's own texts and no others."""

import pytest

from saferec_builder.core.errors import UsageError
from saferec_builder.demo import truth
from saferec_builder.proposing import corpus
from saferec_builder.storage import workspace as store
from tests.worlds.model_replies import TEXTS, fill


def test_of_other_texts_nothing_is_known(workspace: store.Workspace) -> None:
    fill(workspace, *TEXTS)
    with pytest.raises(UsageError, match="run `saferec-build demo`"):
        truth.truth_of(corpus.load(workspace), by_rules=True)
