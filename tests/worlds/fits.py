"""Short trainings on the small release, and the scores that their checks get."""

import itertools
from pathlib import Path
from typing import Any

from training import data, settings
from training.decoding import generate
from training.trainers import gdpo, sft

SHORT = ["warmup_steps=0", "saferec.checks=1", "saferec.thin=0", "logging_steps=1"]


def learn(world: Path, folder: Path, *changes: str) -> dict[str, Any]:
    """A short SFT from `start`."""
    config = settings.read("sft", [*SHORT, "max_steps=1", *changes])
    table = data.rows(world / "release", "sft", "train")
    policy = generate.load(str(world / "start"))
    return sft.train(policy, table, config, folder, lambda _: {"score": 0.0})


def practise(world: Path, model: Path, folder: Path, *changes: str) -> dict[str, Any]:
    """A short GDPO from `model`."""
    fixed = ["per_device_train_batch_size=4", "num_generations=4", "max_steps=2", "learning_rate=0.1", "beta=0.1"]
    config = settings.read("gdpo", [*SHORT, *fixed, *changes])
    release = data.open_release(world / "release")
    table = data.rows(release.folder, "grpo", "train")
    policy = generate.load(str(model))
    scores = itertools.count()  # each check scores above the one before, so the last weights stay
    return gdpo.train(policy, table, release, config, folder, lambda _: {"score": float(next(scores))})
