"""python -m tests.bench.gpu --shape NAME: costs of training on this machine, with random weights in real shapes.

Needs torch, transformers, accelerate, peft, trl and datasets, and no network. One JSON line is printed
when each part ends: machine, shape and settings; `sft`: tokens a second and MFU; `gdpo`: seconds of a step, split
into rollout, reward and update; and for comparison the time of TRL's own `generate` on the same prompts
(`rollout_ratio`: how many times as long) and its peak of memory, which ours does not include.
Rewards read real lists from text, so that their share is realistic. A step includes the optimizer's. If its
answers do not fit into memory at once: --prompts 2 --set gradient_accumulation_steps=8 is a step of 16 prompts too.

MFU = tokens a second x FLOPs a token / the chip's dense bf16 peak. FLOPs a token = 6 N + 6 L h s + 6 d V:
N weights without embeddings and LM head, L layers, h = heads x head size, s tokens of a row (causal attention: half of
the square), d width, V vocabulary. What is computed a second time, and what an adapter saves, is not counted.
"""

import argparse
import gc
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SHAPES = {"qwen2.5-0.5b": "Qwen2Config", "llama-3.1-8b": "LlamaConfig", "tiny": "LlamaConfig"}  # with sizes of recipes
TINY = {"vocab_size": 2_000, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
TINY |= {"num_attention_heads": 4, "num_key_value_heads": 4, "tie_word_embeddings": True}
# dense bf16, per second; the first match in a chip's name counts: PCIe cards do less than their namesakes
PEAKS = {"H200 NVL": 835e12, "H100 NVL": 835e12, "H100 PCIe": 756e12, "H200": 989e12, "H100": 989e12}
PEAKS |= {"A100": 312e12, "L40S": 362e12, "4090": 165e12}
# set by the options of this bench, on which its figures depend
OPTIONS = {
    "per_device_train_batch_size": "--batch, or --prompts and --generations",
    "num_generations": "--generations",
    "max_completion_length": "--answer-length",
    "max_length": "--length",
    "max_steps": "--steps",
}
WARM = 2  # untimed steps before the timed ones
ITEMS = 1000  # of the invented catalog in which rewards look up titles
K = 10


def main(words: Sequence[str] | None = None) -> dict[str, Any]:
    options = _parser().parse_args(words)
    import torch

    on_gpu = torch.cuda.is_available()
    machine = torch.cuda.get_device_name() if on_gpu else "CPU"
    peak = options.peak or next((peak for name, peak in PEAKS.items() if name in machine), None)
    run: dict[str, Any] = {"machine": machine, "torch": torch.__version__, **{k: v for k, v in vars(options).items()}}
    results: dict[str, Any] = {}
    for part in options.parts:
        results[part] = sft(options, peak) if part == "sft" else gdpo(options)
        print(json.dumps(run | {part: results[part]}), flush=True)  # a later part may not fit, or be cut off
        _forget()
    return run | results


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.gpu", description=__doc__.split("\n")[0])
    parser.add_argument("--shape", choices=SHAPES, required=True)
    parser.add_argument("--parts", nargs="+", choices=["sft", "gdpo"], default=["sft", "gdpo"])
    parser.add_argument("--lora", type=int, default=16, help="rank; 0: all weights are trained")
    parser.add_argument("--length", type=int, default=2048, help="tokens of a row of SFT")
    parser.add_argument("--batch", type=int, default=8, help="rows of an SFT step")
    parser.add_argument("--prompts", type=int, default=16, help="prompts of a GDPO step")
    parser.add_argument("--generations", type=int, default=8)
    parser.add_argument("--prompt-length", type=int, default=256)
    parser.add_argument("--answer-length", type=int, default=128)
    parser.add_argument("--steps", type=int, default=10, help="steps that are timed, after two that are not")
    parser.add_argument("--peak", type=float, help="dense bf16 FLOP/s of the chip, where it is not known here")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="an argument of TRL's config")
    return parser


# --- measurements -----------------------------------------------------------------------------------------------------


def sft(given: argparse.Namespace, peak: float | None) -> dict[str, Any]:
    """Tokens a second of SFT on full rows, and MFU if the chip's peak is known."""
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer  # type: ignore[attr-defined]

    from training.trainers.fit import lora

    args = _config(SFTConfig, given, per_device_train_batch_size=given.batch, max_length=given.length)
    rows = (WARM + given.steps) * given.batch * args.gradient_accumulation_steps
    ids = [[5 + (7 * n + m) % 1000 for m in range(given.length)] for n in range(rows)]
    clock, peaks = Clock(), Peaks()
    model = weights(given.shape, given.lora)
    parts = sizes(model)
    trainer = SFTTrainer(
        model=model,
        args=args,
        train_dataset=Dataset.from_dict({"input_ids": ids, "completion_mask": [[1] * given.length] * rows}),
        processing_class=tokenizer(),
        peft_config=lora(given.lora),
        callbacks=[_steps(clock)],
    )
    trainer.train()
    peaks.take()
    seconds = clock.of("step", given.steps)
    speed = given.batch * args.gradient_accumulation_steps * given.length / seconds
    figures = {"seconds_per_step": seconds, "tokens_per_second": speed, "memory_gib": peaks.most}
    if peak:
        figures["mfu"] = speed * flops(parts, given.length) / peak
    return figures


def gdpo(given: argparse.Namespace) -> dict[str, Any]:
    """Seconds of a GDPO step, without TRL's default rollout beside it, and the shares of rollout, reward and update."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer  # type: ignore[attr-defined]

    from training.decoding import rollouts
    from training.decoding.generate import PolicyModel
    from training.trainers.fit import lora

    clock = Clock()
    args = _config(
        GRPOConfig,
        given,
        per_device_train_batch_size=given.prompts * given.generations,
        num_generations=given.generations,
        max_completion_length=given.answer_length,
        generation_kwargs={"min_new_tokens": given.answer_length},
        multi_objective_aggregation="normalize_then_sum",
        loss_type="grpo",
    )
    passes = max(args.gradient_accumulation_steps, args.steps_per_generation)
    rows = [_row(n, given.prompt_length) for n in range(given.prompts * (WARM + given.steps) * passes)]
    policy, peaks, default_peaks = PolicyModel(weights(given.shape, given.lora), tokenizer(), None), Peaks(), Peaks()

    class Timed(rollouts.trainer(policy, rows, args)):  # type: ignore[misc]
        def _generate_single_turn(self, *asked: Any, **named: Any) -> Any:
            peaks.take()
            with clock("default"):  # TRL's own rollout, with the default cache
                GRPOTrainer._generate_single_turn(self, *asked, **named)  # type: ignore[no-untyped-call]
            default_peaks.take()
            with clock("rollout"):
                return super()._generate_single_turn(*asked, **named)

        def _calculate_rewards(self, *asked: Any) -> Any:
            with clock("reward"):
                return super()._calculate_rewards(*asked)

    trainer = Timed(
        model=policy.model,
        args=args,
        train_dataset=Dataset.from_list(rows),
        processing_class=policy.tokenizer,
        peft_config=lora(given.lora),
        reward_funcs=_rewards(),
        callbacks=[_steps(clock)],
    )
    trainer.train()
    seconds = {name: clock.of(name, given.steps) for name in ("step", "default", "rollout", "reward")}
    default_seconds = seconds.pop("default")
    seconds["step"] -= default_seconds
    seconds["update"] = seconds["step"] - seconds["rollout"] - seconds["reward"]
    peaks.take()
    figures: dict[str, Any] = {f"{name}_seconds": value for name, value in seconds.items()}
    figures |= {"memory_gib": peaks.most, "default_rollout_memory_gib": default_peaks.most}
    return figures | {"default_rollout_seconds": default_seconds, "rollout_ratio": default_seconds / seconds["rollout"]}


class Clock:
    """Seconds of named spans, including the work of the GPU."""

    def __init__(self) -> None:
        self.spans: dict[str, list[float]] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        start = _now()
        yield
        self.add(name, start)

    def add(self, name: str, start: float) -> None:
        self.spans.setdefault(name, []).append(_now() - start)

    def of(self, name: str, steps: int) -> float:
        """Seconds per step over the last `steps` of a training: those before are for warming up."""
        # a rollout may serve several steps, and a step may have several passes
        last = max(1, round(len(self.spans[name]) * steps / (WARM + steps)))
        return sum(self.spans[name][-last:]) / steps


def _steps(clock: Clock) -> Any:
    """Measures whole steps: all passes, and the optimizer's work."""
    from transformers import TrainerCallback

    class Steps(TrainerCallback):
        def on_step_begin(self, *_: Any, **__: Any) -> None:
            self.start = _now()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            clock.add("step", self.start)

    return Steps()


def _now() -> float:
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


class Peaks:
    """The peak of memory in GiB over those spans of work that end with `take`; None without a GPU."""

    most: float | None = None

    def take(self) -> None:
        import torch

        if torch.cuda.is_available():
            self.most = max(self.most or 0.0, torch.cuda.max_memory_allocated() / 2**30)
            torch.cuda.reset_peak_memory_stats()


def _forget() -> None:
    """Frees the memory of a part, which only cycles hold, and resets the peak, so that the next part has its own."""
    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


# --- models and data --------------------------------------------------------------------------------------------------


def weights(shape: str, lora: int) -> Any:
    """A model of this shape with random weights, for an adapter of this rank; 0: all weights are trained.

    The commands load a checkpoint in bf16 on a GPU; trained weights are float32."""
    import torch
    import transformers

    from training import settings

    dtype = torch.bfloat16 if torch.cuda.is_available() and lora else torch.float32
    facts = TINY if shape == "tiny" else settings.file(shape)[1]["shape"]
    config = getattr(transformers, SHAPES[shape])(**facts, max_position_embeddings=8192, pad_token_id=0, eos_token_id=1)
    config.bos_token_id = None
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        return transformers.AutoModelForCausalLM.from_config(config, dtype=dtype)  # type: ignore[no-untyped-call]


def sizes(model: Any) -> dict[str, int]:
    """N, L, h, d and V of the formula."""
    config = model.config
    embeddings = {id(model.get_input_embeddings().weight), id(model.get_output_embeddings().weight)}
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    params = sum(p.numel() for p in model.parameters() if id(p) not in embeddings)
    parts = {"N": params, "L": config.num_hidden_layers, "h": config.num_attention_heads * head}
    return parts | {"d": config.hidden_size, "V": config.vocab_size}


def flops(parts: dict[str, int], length: int) -> float:
    """FLOPs of training on one token."""
    return 6.0 * (parts["N"] + parts["d"] * parts["V"] + parts["L"] * parts["h"] * length)


def tokenizer() -> Any:
    """A thousand words and the markers of a chat: enough for generated data."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = ["<pad>", "<end>", "<unk>", "<user>", "<answer>", *(f"w{n}" for n in range(1100))]
    base = Tokenizer(models.WordLevel({word: n for n, word in enumerate(words)}, unk_token="<unk>"))
    base.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    template = "{% for m in messages %}<user> {{ m.content }} {% endfor %}<answer>"
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=base, pad_token="<pad>", eos_token="<end>", unk_token="<unk>", chat_template=template
    )


def _row(n: int, length: int) -> dict[str, Any]:
    text = " ".join(f"w{(13 * n + 5 * m) % 1000}" for m in range(length))
    expected = [f"i{(n + m) % ITEMS}" for m in range(5)]
    row = {"prompt": [{"role": "user", "content": text}], "traits": ["gore"], "domain": "film", "seen": []}
    return row | {"truth": expected, "safe_truth": expected[1:]}


def _rewards() -> list[Any]:
    """Our rewards; each answer is read from a list of ten titles that depends on its tokens."""
    import numpy as np

    from saferec_builder.core import oracle as violations, titles
    from saferec_builder.scoring.answer_parser import finder, parse
    from training.evaluation import rewards

    names = [f"A Title of Number {n} ({1950 + n % 70})" for n in range(ITEMS)]
    split = [titles.split_year(name) for name in names]
    index = titles.index((f"i{n}", title, year, "film", ()) for n, (title, year) in enumerate(split))
    codes = np.where(np.arange(ITEMS)[:, None] % 5 == 0, violations.VIOLATED, violations.CLEAR).astype(np.int8)
    oracle = violations.oracle([f"i{n}" for n in range(ITEMS)], ["gore"], codes)
    find = finder(index)

    def read(completions: Sequence[Any], completion_ids: Sequence[Sequence[int]], **_: Any) -> list[list[str]]:
        lists = ["\n".join(f"{r}. {names[i % ITEMS]}" for r, i in enumerate(ids[:K], 1)) for ids in completion_ids]
        return [parse(text, find, "film").ranked for text in lists]

    return list(rewards.functions(read, oracle, K))


def _config(kind: type, given: argparse.Namespace, **fixed: Any) -> Any:
    """A TRL configuration for a run that saves nothing."""
    import torch

    from saferec_builder.core.errors import TrainingError
    from training import settings

    on_gpu = torch.cuda.is_available()
    fixed |= {"max_steps": WARM + given.steps, "learning_rate": 1e-5, "logging_steps": 1000, "disable_tqdm": True}
    fixed |= {"save_strategy": "no", "report_to": "none", "bf16": on_gpu, "use_cpu": not on_gpu}
    fixed |= {"gradient_checkpointing": False, "dataloader_pin_memory": on_gpu}
    config = {"saferec": {}, **fixed}
    for change in given.set:
        name = change.partition("=")[0].strip()
        if name in OPTIONS:
            raise TrainingError(f"--set {change}: expected {OPTIONS[name]}: the figures are counted by it")
        settings.change(config, change)
    return settings.trl_arguments(kind, config, Path(tempfile.gettempdir()) / "gpu_bench", 0)


if __name__ == "__main__":
    main(sys.argv[1:])
