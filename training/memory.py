"""What a training with LoRA would need of a GPU, by formula: nothing is loaded, and no GPU is asked.

weights      as they are loaded, in 16 bits
adapter      its weights, gradients and the optimizer's two moments, in 32 bits
activations  what autograd keeps of a micro-batch: with gradient checkpointing what goes into each layer, and one layer
             in full
logits       of the answers, where masks need them all; else what TRL makes of them at a time
cache        keys and values of all answers that are drawn together, while nothing is kept for gradients
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields

from saferec_builder.core.errors import TrainingError
from saferec_builder.core.json_value import JsonValue
from training.settings import Settings, ours

GB = 1e9
TILE = 2 * 4096, 2**15  # bytes of logits that TRL holds at once for a word (4,096 tokens), and words (TRL 1.16)
READ = (  # what the plan rests on; another setting would change nothing
    *("per_device_train_batch_size", "gradient_accumulation_steps", "gradient_checkpointing"),
    *("max_length", "max_completion_length", "saferec.lora", "saferec.items"),
)


@dataclass(frozen=True)
class Shape:
    """A decoder such as Llama's or Qwen's, by the names of its config.json."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    tie_word_embeddings: bool = False
    head_dim: int | None = None  # hidden_size / num_attention_heads where it is not said

    @property
    def queries(self) -> int:
        """Width of the queries of a token, and of the answer of its attention."""
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
        """Parameters of LoRA on every linear map of the layers."""
        return self.num_hidden_layers * rank * sum(a + b for a, b in self.linear)

    def kept(self, rank: int) -> int:
        """Bytes that autograd keeps of a token in one layer: bfloat16, LoRA, padded rows, SDPA or flash attention.

        Of each norm what goes into it in 32 bits (8 h, and a number each); 2 h for each of q, k, v, gate and up, 2 q
        (the width of the queries) for o, and 2 i for down, whose adapters keep what they multiply; q, k, v and the
        answer of the attention (8 q, keys and values repeated for every head), and its sums; gate before and behind
        SiLU, and up (6 i); 2 r of each adapter.
        """
        h, i, q = self.hidden_size, self.intermediate_size, self.queries
        return 18 * h + 10 * q + 8 * i + 14 * rank + 4 * self.num_attention_heads + 8


def shape(facts: Mapping[str, JsonValue]) -> Shape:
    """The shape in a config.json, or in a recipe."""
    facts = {"num_key_value_heads": facts.get("num_attention_heads")} | dict(facts)
    known = {field.name: facts[field.name] for field in fields(Shape) if field.name in facts}
    try:
        return Shape(**known)  # type: ignore[arg-type]
    except TypeError as fault:
        raise TrainingError(f"shape: {fault}: expected the sizes of a config.json") from None


def facts(model: str) -> Mapping[str, JsonValue]:
    """What config.json of a model says, in its folder or on the Hub."""
    from transformers import AutoConfig

    try:
        found: dict[str, JsonValue] = AutoConfig.from_pretrained(model).get_text_config().to_dict()
    except (OSError, ValueError) as fault:
        raise TrainingError(f"model {model}: no config.json ({str(fault).splitlines()[0]})") from None
    return found


def plan(stage: str, settings: Settings, of: Shape, prompt: int) -> dict[str, float]:
    """GB of each part, and `peak`: the most that stands at once, for the cache of rollouts goes before a step begins.

    prompt = tokens of the longest prompt.
    """
    own = "max_completion_length" if stage == "gdpo" else "max_length"
    given = {"gradient_accumulation_steps": 1, **settings, "--prompt": prompt}
    for name in ("per_device_train_batch_size", "gradient_accumulation_steps", own, "--prompt"):
        if not isinstance(value := given.get(name), int | float) or not value > 0:
            raise TrainingError(f"{stage}: {name} = {value!r}: expected a number above 0, as a recipe has it")
    if not isinstance(checkpointed := settings.get("gradient_checkpointing"), bool):
        raise TrainingError(
            f"{stage}: gradient_checkpointing = {checkpointed!r}: expected true or false, as a recipe has it"
        )
    options, layers, rows = ours(settings), of.num_hidden_layers, given["per_device_train_batch_size"]
    if not options.lora:
        raise TrainingError(f"{stage}: the plan is of LoRA in 16 bits: expected saferec.lora, such as 16")
    length = given[own] + (prompt if stage == "gdpo" else 0)
    layer = of.kept(options.lora)
    kept = 2 * of.hidden_size * layers + layer if checkpointed else layers * layer
    found = {
        "weights": 2.0 * of.parameters,
        "adapter": 16.0 * of.adapter(options.lora),
        "activations": float(rows * length * kept),
        "logits": float(TILE[0] * min(TILE[1], of.vocab_size)),
        "cache": 0.0,
    }
    if stage == "gdpo":
        if options.items != "text":
            found["logits"] = 16.0 * rows * (given[own] + 1) * of.vocab_size
        found["cache"] = 4.0 * of.keys * layers * rows * given["gradient_accumulation_steps"] * length
    still = found["weights"] + found["adapter"]
    found["peak"] = still + max(found["activations"] + found["logits"], found["cache"])
    return {name: size / GB for name, size in found.items()}
