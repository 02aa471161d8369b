"""The memory plan of a GPU: its formula against what autograd keeps, and against the recipes."""

from typing import Any

import pytest

from saferec_builder.core.errors import TrainingError
from training import memory, settings
from training.safecrs import main

ROWS = 4
SHAPES = [  # hidden, intermediate, heads, heads of keys and values, rank
    (128, 256, 4, 4, 8),
    (192, 512, 6, 2, 8),
    (256, 896, 8, 2, 16),
]


def activation_bytes(shape: memory.Shape, rank: int, checkpointed: bool, length: int) -> int:
    """Returns the bytes that autograd keeps of one pass through the layers, without the weights; one row is padded."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import LlamaConfig, LlamaForCausalLM

    model: Any = LlamaForCausalLM(LlamaConfig(**vars(shape))).to(torch.bfloat16)
    model = get_peft_model(model, LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear"))
    if checkpointed:
        model.enable_input_require_grads()
        model.activation_checkpointing_enable()
    weights = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    kept: dict[int, tuple[int, Any]] = {}  # keeps the tensor, or its memory would be reused

    def keep(tensor: Any) -> Any:
        place = tensor.untyped_storage()
        if place.data_ptr() not in weights:
            kept[place.data_ptr()] = place.nbytes(), tensor
        return tensor

    ids = torch.arange(ROWS * length).reshape(ROWS, length) % shape.vocab_size
    attention = torch.ones_like(ids)
    attention[0, :3] = 0
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor), torch.autocast("cpu", torch.bfloat16):
        model.get_base_model().model(input_ids=ids, attention_mask=attention, use_cache=False)
    return sum(size for size, _ in kept.values())


@pytest.mark.training
@pytest.mark.parametrize("sizes", SHAPES)
def test_the_formula_is_what_autograd_keeps(sizes: tuple[int, ...]) -> None:
    *widths, rank = sizes
    two, three = (memory.Shape(64, widths[0], widths[1], layers, *widths[2:]) for layers in (2, 3))
    for checkpointed, formula in ((False, two.activation_bytes(rank)), (True, 2 * two.hidden_size)):
        # one layer more and 32 tokens a row more: the bytes that depend on neither cancel out
        sizes = [activation_bytes(shape, rank, checkpointed, n) for n in (32, 64) for shape in (two, three)]
        assert formula == pytest.approx((sizes[3] - sizes[2] - sizes[1] + sizes[0]) / (ROWS * 32), rel=0.06)


def test_the_sizes_are_those_that_were_published() -> None:
    # Llama-3.1-8B: 8.03 B parameters; Qwen2.5-0.5B: .494 B, with biases of q, k and v, which are not counted here
    shapes = {name: memory.shape(settings.file(name)[1]["shape"]) for name in ("llama-3.1-8b", "qwen2.5-0.5b")}
    assert shapes["llama-3.1-8b"].parameters == pytest.approx(8.030e9, rel=1e-3)
    assert shapes["qwen2.5-0.5b"].parameters == pytest.approx(0.494e9, rel=1e-3)
    # Qwen3-0.6B has heads of 128, twice 1024 / 16: .596 B, and keys of 8 * 128
    qwen3 = memory.Shape(151_936, 1024, 3072, 28, 16, 8, True, 128)
    assert qwen3.parameters == pytest.approx(0.596e9, rel=1e-3) and qwen3.keys == 1024
    # rank 16, a layer: q and o 2 * 8192, k and v 2 * 5120, gate, up and down 3 * 18432: 81,920 * 16 * 32 layers
    assert shapes["llama-3.1-8b"].adapter(16) == 81_920 * 16 * 32


def test_a_recipe_says_what_it_needs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["memory", "--config", "llama-3.1-8b"]) == 0
    sums = [float(word) for word in capsys.readouterr().out.splitlines()[-1].split()[1:]]
    assert len(sums) == 2 and min(sums) > 16 and max(sums) <= 60
    assert main(["memory", "--config", "llama-3.1-8b", "--set", "gradient_checkpointing=false"]) == 0
    without_checkpoints = [float(word) for word in capsys.readouterr().out.splitlines()[-1].split()[1:]]
    assert all(larger > sums[n] for n, larger in enumerate(without_checkpoints))
    for arguments, message in (
        (["--set", "saferec.lora=0"], "expected saferec.lora"),
        (["--config", "sft"], "no shape"),
        (["--set", "max_length=null"], "sft: max_length = None: expected a number above 0"),
        (["--prompt", "-5"], "--prompt = -5"),
        (["--set", "gradient_checkpointing=null"], "gradient_checkpointing = None: expected true or false"),
        # text times a number: it ended in a line of a gigabyte and a traceback
        (["--set", "per_device_train_batch_size=ab"], "per_device_train_batch_size = 'ab'"),
        # a setting that `run` would take, and a typing error: both were ignored without a message
        (["--set", "gdpo.max_completion_length=128"], "expected one of per_device_train_batch_size"),
        (["--set", "per_device_batch_size=128"], "the plan does not depend on it"),
    ):
        assert main(["memory", "--config", "llama-3.1-8b", *arguments]) == 1
        assert message in capsys.readouterr().err


def test_the_plan_is_what_an_h100_needed() -> None:
    """Peak that torch allocated in the bench: the recipes' settings, random weights, one H100 80GB, TRL 1.16."""
    for name, gib in (("llama-3.1-8b", 17.9647), ("qwen2.5-0.5b", 2.2122)):  # with --batch 4 and 8, --length 1024
        shape = memory.shape(settings.file(name)[1]["shape"])
        planned = memory.plan("sft", settings.read(name), shape, 512)["peak"]
        assert planned == pytest.approx(gib * 2**30 / memory.GB, rel=0.06)  # 19.01 for 19.29, 2.28 for 2.38


def test_a_recipe_stands_over_the_configs(tmp_path: Any) -> None:
    by_stage = {stage: settings.read("llama-3.1-8b", ["saferec.lora=8"], stage) for stage in ("sft_raw", "sft", "gdpo")}
    assert [config["saferec"]["lora"] for config in by_stage.values()] == [8, 8, 8]
    assert [config["saferec"]["rows"] for config in by_stage.values()] == ["sft_raw", "sft", "sft"]
    assert [config["learning_rate"] for config in by_stage.values()] == [1e-4, 1e-4, 1e-5]
    assert by_stage["gdpo"]["num_generations"] == 8  # of gdpo.yaml
    assert settings.read("tiny", stage="gdpo") == settings.read("gdpo")
    wrong = {
        "all: {}\nalll: {}": "alll: expected shape, all",
        "gdpo: 4": "gdpo: expected",
        "all: {saferec: }": "all: sa",
    }
    for text, message in wrong.items():
        (tmp_path / "own.yaml").write_text(text)
        with pytest.raises(TrainingError, match=message):
            settings.read(str(tmp_path / "own.yaml"))
