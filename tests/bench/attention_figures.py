"""Who is flagged, and whether the bound on the truth holds: figures of `make bench ONLY=coverage`."""

from tests.bench.figures import figure
from tests.worlds import blind_worlds as worlds

WORLDS = 200
LIVES = 10_000  # of honest readers: what is promised of them is rare
HARDER = (1, 2, 5)  # times as hard as the controls is what was missed


def attention_figures() -> None:
    """Careless readers with 20 decoys and 20 controls; honest ones with 200 of each, seen after every answer."""
    careless = [
        sum(worlds.ever_flagged(reader, seed) for seed in range(WORLDS)) / WORLDS
        for reader in (worlds.PASTES, worlds.CLICKS)
    ]
    figure("coverage.careless_flagged", min(careless), "share", ">= 0.99")
    honest = sum(worlds.ever_flagged(worlds.HONEST, seed, asked=200) for seed in range(LIVES)) / LIVES
    figure("coverage.honest_flagged", honest, "share", "<= 0.005")
    figure("coverage.truth_relative", covered(1), "worlds", ">= 190")
    for harder in HARDER[1:]:
        figure(f"coverage.truth_relative.harder_{harder}", covered(harder), "worlds", ">= 190")


def covered(harder: float) -> int:
    """Worlds in which no look is wrong, of the bound for missed ones that are so many times as hard."""
    return sum(all(look.covers(harder) for look in worlds.looks(seed, harder)) for seed in range(WORLDS))
