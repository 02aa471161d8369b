"""The GPU bench on its smallest shape, here on a CPU; the formula of MFU by hand. Its figures are not quoted."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")
from tests.bench import gpu  # noqa: E402

pytestmark = [
    pytest.mark.training,
    pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning"),
]
SMALL = "--steps 1 --batch 2 --length 16 --prompts 1 --generations 2 --prompt-length 8 --answer-length 12".split()
TINY = ["--shape", "tiny", "--lora", "2", *SMALL]


def test_the_formula_by_hand() -> None:
    # N = 10, 2 layers, h 4, d 8, V 100, rows of 5: 6*10 + 6*2*4*5 + 6*8*100 = 60 + 240 + 4800
    assert gpu.flops({"N": 10, "L": 2, "h": 4, "d": 8, "V": 100}, 5) == 5100


def test_a_step_has_all_of_its_passes_and_what_the_optimizer_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a clock that advances only in the calls counted here."""
    from transformers import Trainer

    from training.decoding import rollouts

    clock = {"s": 0.0}
    monkeypatch.setattr(gpu, "_now", lambda: clock["s"])
    for seconds, kind, name in (
        (1, torch.optim.AdamW, "step"),
        (10, rollouts, "draw_padded"),
        (100, Trainer, "training_step"),
    ):

        def longer(*given: Any, seconds: int = seconds, done: Any = getattr(kind, name), **named: Any) -> Any:
            clock["s"] += seconds
            return done(*given, **named)

        monkeypatch.setattr(kind, name, longer)
    report = gpu.main([*TINY, "--set", "gradient_accumulation_steps=4", "--peak", "1e12"])
    # four passes of 100 and the optimizer's 1; before them one rollout of 4 * 2 answers of 12 tokens for all
    assert report["sft"]["seconds_per_step"] == 401 and report["sft"]["tokens_per_second"] == 4 * 2 * 16 / 401
    gdpo = report["gdpo"]
    assert (gdpo["step_seconds"], gdpo["rollout_seconds"], gdpo["update_seconds"]) == (411, 10, 401)
    assert report["sft"]["mfu"] > 0
    assert gdpo["rollout_ratio"] == gdpo["default_rollout_seconds"] / gdpo["rollout_seconds"]
