"""Reading what was proposed first, and then what the audit asks for, costs less than reading in random order."""

from pathlib import Path

import pytest

from tests.worlds import cost_worlds as worlds
from tests.worlds.certificate_worlds import REGIMES

PROPOSED = worlds.world(REGIMES[0], 0.5, 1, 400)
SCORED = worlds.world(REGIMES[1], 0.3, 1, 800)


@pytest.mark.slow
def test_proposals_save_reading(tmp_path: Path) -> None:
    """400 conversations, half of which hold something; 10,000 and three proposers in `make bench ONLY=review_cost`."""
    paid, random = (
        worlds.price(made, tmp_path / name)
        for name, made in (("proposed", PROPOSED), ("random", worlds.world(None, 0.5, 1, 400)))
    )
    assert paid == worlds.computed(PROPOSED)
    assert paid.floor == random.floor < paid.read < 0.95 * random.read
    assert not paid.wrong and not random.wrong


@pytest.mark.slow
def test_what_is_doubted_most_is_read_before_the_draw(tmp_path: Path) -> None:
    """What `review status` advises is read by the commands, and saves a tenth of the reading in this world."""
    paid = worlds.price(SCORED, tmp_path / "ws", scores=True)
    assert paid == worlds.computed(SCORED, scores=True)
    assert paid.read < 0.95 * worlds.computed(SCORED).read and not paid.wrong
