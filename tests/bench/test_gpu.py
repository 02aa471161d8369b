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
    # frozen: 4*10 + 240 + 6*8*100 = 40 + 240 + 4800; attention has no weights, so none of it is saved
    parts = {"N": 10, "L": 2, "h": 4, "d": 8, "V": 100}
    assert gpu.flops(parts, 5, 6, 6, 6) == 5100 and gpu.flops(parts, 5, 4, 6, 6) == 5080
    # checkpointed, the layers once more: 2*10 + 2*2*4*5 = 100
    assert gpu.flops(parts, 5, 6, 8, 6) == 5180


def test_the_head_is_counted_as_often_as_trl_multiplies_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    # frozen, for 32 tokens of d 32 and V 2000: logits, the same again in the backward pass, the gradient of the input
    from torch.utils import _python_dispatch as dispatch
    from trl import SFTTrainer  # type: ignore[attr-defined]

    is_head: list[bool] = []

    class Watch(dispatch.TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func.overloadpacket.__name__ in {"mm", "addmm", "addmm_"}:
                is_head.append(max(max(part.shape) for part in args[-2:]) == 2000)
            return func(*args, **(kwargs or {}))

    step = SFTTrainer.training_step

    def watched(*given: Any, **named: Any) -> Any:
        is_head.clear()
        with Watch():  # type: ignore[no-untyped-call]
            return step(*given, **named)  # type: ignore[no-untyped-call]

    monkeypatch.setattr(SFTTrainer, "training_step", watched)
    gpu.main([*TINY, "--parts", "sft"])
    assert sum(is_head) * 2 == 6


def test_trls_own_rollout_is_no_part_of_our_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    # it reads every prompt once for each answer: 45.6 GB, where ours was planned with 29.6
    memory = {"most": 0}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: memory["most"])
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: memory.update(most=0))
    ours, theirs = gpu.Peaks(), gpu.Peaks()
    for gib, peaks in ((2, ours), (9, theirs), (3, ours), (8, theirs), (1, ours)):
        memory["most"] = gib * 2**30
        peaks.take()
    assert (ours.most, theirs.most) == (3, 9)


def test_a_card_for_pcie_has_a_peak_of_its_own() -> None:
    peaks = {"NVIDIA H200": 989e12, "NVIDIA H100 80GB HBM3": 989e12, "NVIDIA H100 PCIe": 756e12, "Some chip": None}
    assert {name: gpu.peak_of(name) for name in peaks} == peaks


def test_weights_that_are_trained_themselves_are_in_32_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    # as in the commands (pipeline.py); the bench used bf16 for both
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert (gpu.dtype(16), gpu.dtype(0)) == (torch.bfloat16, torch.float32)


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
    report = gpu.main([*TINY, "--set", "gradient_accumulation_steps=4"])
    # four passes of 100 and the optimizer's 1; before them one rollout of 4 * 2 answers of 12 tokens for all
    assert report["sft"]["seconds_per_step"] == 401 and report["sft"]["tokens_per_second"] == 4 * 2 * 16 / 401
    gdpo = report["gdpo"]
    assert (gdpo["step_seconds"], gdpo["rollout_seconds"], gdpo["update_seconds"]) == (411, 10, 401)
    assert gdpo["rollout_tokens_per_second"] == 4 * 2 * 12 / 10


def test_the_shapes_have_the_published_sizes() -> None:
    # on the meta device: nothing is allocated. Qwen2.5-0.5B has .36 B weights without embeddings, Llama-3.1-8B 8.03 B
    import transformers

    sizes = {}
    for name in ("qwen2.5-0.5b", "llama-3.1-8b"):
        facts = dict(gpu.SHAPES[name])
        config = getattr(transformers, facts.pop("kind"))(**facts)
        with torch.device("meta"):
            model = transformers.AutoModelForCausalLM.from_config(config)
        sizes[name] = gpu.sizes(model) | {"all": sum(p.numel() for p in model.parameters())}
    assert sizes["qwen2.5-0.5b"]["N"] == pytest.approx(0.36e9, rel=0.01)
    assert sizes["qwen2.5-0.5b"]["all"] == pytest.approx(0.494e9, rel=0.001)
    assert sizes["llama-3.1-8b"]["all"] == pytest.approx(8.03e9, rel=0.001)
    assert sizes["llama-3.1-8b"]["h"] == sizes["llama-3.1-8b"]["d"] == 4096


def test_both_parts_run_and_their_times_add_up() -> None:
    report = gpu.main([*TINY, "--peak", "1e12"])
    sft, gdpo = report["sft"], report["gdpo"]
    assert sft["tokens_per_second"] == pytest.approx(2 * 16 / sft["seconds_per_step"])
    assert sft["mfu"] > sft["mfu_done"] > 0
    parts = [gdpo[f"{name}_seconds"] for name in ("rollout", "reward", "update")]
    assert all(part > 0 for part in parts) and sum(parts) == pytest.approx(gdpo["step_seconds"])
    assert sum(gdpo[f"{name}_share"] for name in ("rollout", "reward", "update")) == pytest.approx(1)
    assert gdpo["rollout_tokens_per_second"] == pytest.approx(2 * 12 / gdpo["rollout_seconds"])
    assert gdpo["rollout_ratio"] == pytest.approx(gdpo["default_rollout_seconds"] / gdpo["rollout_seconds"])
