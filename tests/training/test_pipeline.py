"""What a run does for each of its models."""

from pathlib import Path

import pytest

from training import data, pipeline as line, settings
from training.stages import Run

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.training,
    # TRL 1.16 asks transformers 5.23 by an older name
    pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning"),
]


def test_a_model_is_judged_as_it_was_taught_whatever_the_settings_of_the_others(world: Path, tmp_path: Path) -> None:
    found = settings.read("sft")  # it teaches to say two traits; the model here says none
    run = Run(data.open_release(world / "release"), tmp_path, 0)
    judged = line._speaker(run, str(world / "start"), found)
    assert judged.catalogue and judged.catalogue.said == 0 and found["saferec"]["says"] == 2
    taught = line._to_say(judged, found["saferec"]["says"]).catalogue
    assert taught and taught.said == 2
