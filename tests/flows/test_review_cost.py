"""Reading proposed conversations first, then those of the audit, costs less than reading in random order."""

from pathlib import Path

import pytest

from tests.worlds import cost_worlds as worlds
from tests.worlds.certificate_worlds import REGIMES

PROPOSED = worlds.world(REGIMES[0], 0.5, 1, 400)
SCORED = worlds.world(REGIMES[1], 0.3, 1, 800)


@pytest.mark.slow
def test_proposals_save_reading(tmp_path: Path) -> None:
    """400 conversations, half of them with a trait; `make bench ONLY=review_cost` has 10,000 and three proposers."""
    paid, at_random = (
        worlds.price(world, tmp_path / name)
        for name, world in (("proposed", PROPOSED), ("random", worlds.world(None, 0.5, 1, 400)))
    )
    assert paid == worlds.computed(PROPOSED)
    assert paid.floor == at_random.floor < paid.read < 0.95 * at_random.read
    assert not paid.wrong and not at_random.wrong


@pytest.mark.slow
def test_what_is_doubted_most_is_read_before_the_draw(tmp_path: Path) -> None:
    """The commands read what `review status` advises, which saves a tenth of the reading in this world."""
    paid = worlds.price(SCORED, tmp_path / "ws", scores=True)
    assert paid == worlds.computed(SCORED, scores=True)
    assert paid.read < 0.95 * worlds.computed(SCORED).read and not paid.wrong
