"""Estimates the GPU memory of a training with LoRA, by formula: no model is loaded and no GPU is used.

weights      of the loaded model, in 16 bits
adapter      its weights, gradients and the optimizer's two moments, in 32 bits
activations  what autograd keeps of a micro-batch: with gradient checkpointing the inputs of each layer, and one layer
             in full
logits       of all tokens of the answers, where masks need them; else the tile that TRL computes at a time
cache        keys and values of all answers that are sampled together; nothing is kept for gradients then
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields

from saferec_builder.core.errors import TrainingError
from saferec_builder.core.json_value import JsonValue
from training.settings import Settings, ours

GB = 1e9
TILE = 2 * 4096, 2**15  # TRL 1.16 holds logits of 4,096 tokens (2 bytes each) for up to 2**15 vocabulary entries
READ = (  # settings that the plan depends on
    *("per_device_train_batch_size", "gradient_accumulation_steps", "gradient_checkpointing"),
    *("max_length", "max_completion_length", "saferec.lora", "saferec.items"),
)


@dataclass(frozen=True)
class Shape:
    """Sizes of a decoder such as Llama or Qwen, named as in config.json."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    tie_word_embeddings: bool = False
    head_dim: int | None = None  # None: hidden_size / num_attention_heads

    @property
    def queries(self) -> int:
        """Width of the queries of a token, and of the output of its attention."""
        return (self.head_dim or self.hidden_size // self.num_attention_heads) * self.num_attention_heads

    @property
    def keys(self) -> int:
        """Width of the keys of a token, and of its values."""
        return self.queries // self.num_attention_heads * self.num_key_value_heads

    @property
    def linear(self) -> list[tuple[int, int]]:
        """(in, out) of a layer's linear maps: q, k, v, o, gate, up, down."""
        h, i, q = self.hidden_size, self.intermediate_size, self.queries
        return [(h, q), (h, self.keys), (h, self.keys), (q, h), (h, i), (h, i), (i, h)]

    @property
    def parameters(self) -> int:
        h, tables = self.hidden_size, 1 if self.tie_word_embeddings else 2
        layer = sum(a * b for a, b in self.linear) + 2 * h
        return tables * self.vocab_size * h + self.num_hidden_layers * layer + h

    def adapter(self, rank: int) -> int:
        return self.num_hidden_layers * rank * sum(a + b for a, b in self.linear)

    def activation_bytes(self, rank: int) -> int:
        """Bytes that autograd keeps of a token in one layer: bfloat16, LoRA, padded rows, SDPA or flash attention.

        The input of each norm in 32 bits (8 h, and a number each). The inputs of the adapters: 2 h for each of q, k, v,
        gate and up, 2 q for o, 2 i for down. q, k, v and the output of the attention (8 q, keys and values repeated for
        every head), and its sums. gate before and after SiLU, and up (6 i). 2 r of each adapter.
        """
        h, i, q = self.hidden_size, self.intermediate_size, self.queries
        return 18 * h + 10 * q + 8 * i + 14 * rank + 4 * self.num_attention_heads + 8


def shape(facts: Mapping[str, JsonValue]) -> Shape:
    facts = {"num_key_value_heads": facts.get("num_attention_heads")} | dict(facts)
    sizes = {field.name: facts[field.name] for field in fields(Shape) if field.name in facts}
    try:
        return Shape(**sizes)  # type: ignore[arg-type]
    except TypeError as fault:
        raise TrainingError(f"shape: {fault}: expected the sizes of a config.json") from None


def plan(stage: str, settings: Settings, model: Shape, prompt: int) -> dict[str, float]:
    """Returns GB of each part, and of `peak`: the rollout cache is freed before a step. prompt = tokens of the longest
    prompt."""
    length_key = "max_completion_length" if stage == "gdpo" else "max_length"
    values = {"gradient_accumulation_steps": 1, **settings, "--prompt": prompt}
    for name in ("per_device_train_batch_size", "gradient_accumulation_steps", length_key, "--prompt"):
        if not isinstance(value := values.get(name), int | float) or not value > 0:
            raise TrainingError(f"{stage}: {name} = {value!r}: expected a number above 0, as a recipe has it")
    if not isinstance(saves := settings.get("gradient_checkpointing"), bool):
        raise TrainingError(f"{stage}: gradient_checkpointing = {saves!r}: expected true or false, as a recipe has it")
    options, layers, rows = ours(settings), model.num_hidden_layers, values["per_device_train_batch_size"]
    if not options.lora:
        raise TrainingError(f"{stage}: the plan is of LoRA in 16 bits: expected saferec.lora, such as 16")
    length = values[length_key] + (prompt if stage == "gdpo" else 0)
    layer = model.activation_bytes(options.lora)
    per_token = 2 * model.hidden_size * layers + layer if saves else layers * layer
    sizes = {
        "weights": 2.0 * model.parameters,
        "adapter": 16.0 * model.adapter(options.lora),
        "activations": float(rows * length * per_token),
        "logits": float(TILE[0] * min(TILE[1], model.vocab_size)),
        "cache": 0.0,
    }
    if stage == "gdpo":
        if options.items != "text":
            sizes["logits"] = 16.0 * rows * (values[length_key] + 1) * model.vocab_size
        sizes["cache"] = 4.0 * model.keys * layers * rows * values["gradient_accumulation_steps"] * length
    fixed = sizes["weights"] + sizes["adapter"]
    sizes["peak"] = fixed + max(sizes["activations"] + sizes["logits"], sizes["cache"])
    return {name: size / GB for name, size in sizes.items()}
