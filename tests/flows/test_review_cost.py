"""Reading what was proposed first, and then what the audit asks for, costs less than reading in random order."""

from pathlib import Path

import pytest

from tests.worlds import cost_worlds as worlds
from tests.worlds.certificate_worlds import REGIMES


@pytest.mark.slow
def test_proposals_save_reading(tmp_path: Path) -> None:
    """400 conversations, half of which hold something; 10,000 and three proposers in `make bench ONLY=review_cost`."""
    paid, random = (
        worlds.price(worlds.world(proposer, 0.5, 1, 400), tmp_path / proposer.name)
        for proposer in (REGIMES[0], worlds.NOBODY)
    )
    assert paid.floor == random.floor < paid.read < 0.95 * random.read
    assert not paid.wrong and not random.wrong
