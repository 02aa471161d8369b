"""Settings of short trainings on the small release, and the answers that they are judged by."""

import itertools
from pathlib import Path
from typing import Any

from training import data, settings
from training.decoding import generate
from training.trainers import gdpo, sft

SHORT = ["warmup_steps=0", "saferec.checks=1", "saferec.thin=0", "logging_steps=1"]


def learn(world: Path, folder: Path, *changes: str) -> dict[str, Any]:
    """A short SFT from `start`."""
    found = settings.read("sft", [*SHORT, "max_steps=1", *changes])
    table = data.rows(world / "release", "sft", "train")
    policy = generate.load(str(world / "start"))
    return sft.train(policy, table, found, folder, lambda _: {"score": 0.0})


def practise(world: Path, model: Path, folder: Path, *changes: str) -> dict[str, Any]:
    """A short GDPO from `model`."""
    fixed = ["per_device_train_batch_size=4", "num_generations=4", "max_steps=2", "learning_rate=0.1", "beta=0.1"]
    found = settings.read("gdpo", [*SHORT, *fixed, *changes])
    release = data.open_release(world / "release")
    table = data.rows(release.folder, "grpo", "train")
    policy = generate.load(str(model))
    better = itertools.count()  # each check above the one before: the last weights stay
    return gdpo.train(policy, table, release, found, folder, lambda _: {"score": float(next(better))})
