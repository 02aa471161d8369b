"""Packing: documents side by side have the loss that they have alone."""

from pathlib import Path

import pytest

from saferec_builder.core.errors import TrainingError
from tests.worlds.fits import learn
from training.decoding import generate
from training.trainers import packing_check as packing

pytestmark = pytest.mark.training


def test_packed_documents_have_the_loss_that_they_have_alone(world: Path, tmp_path: Path) -> None:
    # four documents in one batch: padded to the longest, or in one row of 1024 tokens. One step, so one loss
    alone = learn(world, tmp_path / "alone", "per_device_train_batch_size=4")
    packed = learn(world, tmp_path / "packed", "packing=true", "per_device_train_batch_size=1")
    for name in ("loss", "grad_norm"):
        one, other = (next(line[name] for line in done["log"] if name in line) for done in (alone, packed))
        assert one == pytest.approx(other, rel=1e-3)


def test_packing_is_refused_where_documents_would_see_each_other(world: Path) -> None:
    model = generate.load(str(world / "start")).model
    assert packing.leak(model) < 1e-4
    with pytest.raises(TrainingError, match="wrapped cuts documents"):
        packing.refuse_leaks(model, "wrapped")
    blind = model.forward
    model.forward = lambda ids, **_: blind(input_ids=ids)  # an attention that knows no bounds
    with pytest.raises(TrainingError, match="reads across the documents"):
        packing.refuse_leaks(model, "bfd")
