"""A YAML file of TRL's own arguments, a `saferec` block of ours, and what --set changes in either."""

import hashlib
import json
import math
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from saferec_builder.core.errors import TrainingError
from saferec_builder.core.json_value import JsonValue
from saferec_builder.core.plain_files import read_plain

if TYPE_CHECKING:
    from transformers import TrainingArguments

CONFIGS = Path(__file__).with_name("configs")
PARTS = ("all", "both", "sft_raw", "sft", "gdpo", "student")  # of a recipe
SFTS = ("sft_raw", "sft", "student")
Settings = dict[str, Any]  # arguments of TRL's by name, and what `Ours` has under `saferec`
Arguments = TypeVar("Arguments", bound="TrainingArguments")


@dataclass(frozen=True)
class Ours:
    """What may stand under `saferec`, and what it is by default."""

    rows: str = "sft"  # config of the release to learn lists from, or `guard`: the lists that the guard would make
    refill: bool = True  # whether lists that lost items to safety are learnt as refilled to k, or as what was left
    prefer: str = "safe"  # which checkpoint is best on validation: see decoding/validation_scores.py
    caution: float = 3.0  # what one point of svr_upper costs in points of recall, where `safe` is preferred
    checks: int = 2  # how often validation is asked during training
    validate: int = 700  # rows of the validation split that are asked
    thin: float = 0.0  # share of prompt words hidden from a model with item tokens
    hold: bool = False  # whether the embeddings of words stay as they are, in a model with item tokens
    repeat: int = 0  # how many more times the rows of people with two or more sensitivities are learnt: they are few
    says: int | None = None  # how many predicted traits a list of item tokens begins with; None: as taught before
    lora: int = 0  # rank of an adapter (LoRA) to train instead of all weights; 0: none
    lam: float = 1.0  # rewards.Weights; mode gdpo divides it out again: there `reward_weights` weighs safety
    rho: float = 1.0
    mode: str = "gdpo"  # how rewards become advantages: see trainers/advantages.py
    clip: float = 0.0  # the largest advantage, to either side; 0: any
    credit: str = "sequence"  # one advantage for an answer, or one for each rank
    rewards: str = "ours"  # ours, or the paper's for comparison
    items: str = "text"  # of a model without item tokens: write text, be given `tokens`, or be held to them by a `trie`
    mask: bool = True  # whether a model with item tokens may draw only what decoding/constrained.py permits
    new_tokens: int = 256  # length of an answer where decoding is free
    batch: int = 256  # prompts that are answered at once
    # values for variables of the chat template, such as {enable_thinking: false}: in training, validation and serving
    chat_template_kwargs: Mapping[str, JsonValue] = field(default_factory=dict)


DEFAULTS: dict[str, JsonValue] = asdict(Ours())
ONE_OF = {
    "rows": ("sft", "sft_raw", "guard"),
    "prefer": ("safe", "raw"),
    "mode": ("gdpo", "grpo"),
    "credit": ("sequence", "rank"),
    "rewards": ("ours", "paper"),
    "items": ("text", "tokens", "trie"),
}
LARGEST = 2**20  # bytes of a config: YAML is read slowly
LEAST: dict[str, float] = dict.fromkeys(("caution", "thin", "repeat", "says", "lora", "lam", "rho", "clip"), 0)
LEAST |= {"validate": 1, "new_tokens": 1, "batch": 1}


def ours(settings: Settings) -> Ours:
    return Ours(**settings["saferec"])


def read(name: str, changes: Sequence[str] = (), stage: str = "sft") -> Settings:
    """The settings in a file, or in training/configs/NAME.yaml, with each "key=value" or "saferec.key=value" put in.

    A recipe has parts `all`, `both` (what all of SFTS have) and of each stage, which stand over the config of `stage`.
    """
    path, found = file(name)
    if set(PARTS) & set(found):
        if unknown := set(found) - {*PARTS, "shape"}:
            raise TrainingError(f"{path}: {min(unknown)}: expected shape, {', '.join(PARTS)} in a recipe")
        _, base = file(stage)
        for part in ("all", *(["both"] if stage in SFTS else []), stage):
            more = found.get(part, {})
            base |= {**more, "saferec": {**base["saferec"], **more.get("saferec", {})}}
        found = base
    found["saferec"] = {**DEFAULTS, **{name: _value(value) for name, value in found.get("saferec", {}).items()}}
    for one in changes:
        change(found, one)
    strange = [key for key in found["saferec"] if key not in DEFAULTS]
    if strange:
        raise TrainingError(f"{path}: saferec.{strange[0]} is not known: expected one of {', '.join(DEFAULTS)}")
    for key, value in found["saferec"].items():
        _check(key, value)
    return found


def file(name: str) -> tuple[Path, Settings]:
    """A config or a recipe as it stands in its file, and where that is."""
    import yaml

    path = Path(name) if Path(name).suffix in (".yaml", ".yml") else CONFIGS / f"{name}.yaml"
    try:
        raw = read_plain(path)
        if len(raw) > LARGEST:
            raise TrainingError(f"{path}: {len(raw):,} bytes, expected a config of at most {LARGEST:,}")
        found = yaml.safe_load(raw.decode()) or {}
    except FileNotFoundError:
        there = ", ".join(sorted(p.stem for p in CONFIGS.glob("*.yaml")))
        raise TrainingError(f"{path}: no such config: expected a YAML file, or one of {there}") from None
    except OSError as fault:
        raise TrainingError(f"{path}: cannot be read: {fault.strerror}: expected a YAML file") from None
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as fault:  # an odd key or date is one of the last
        raise TrainingError(f"{path}: not YAML: {' '.join(str(fault).split())}") from None
    if not isinstance(found, dict) or not isinstance(found.get("saferec", {}), dict):
        raise TrainingError(f"{path}: expected TRL arguments as `name: value`, and ours under `saferec:`")
    if wrong := [part for part in PARTS if not isinstance(found.get(part, {}), dict)]:
        raise TrainingError(f"{path}: {wrong[0]}: expected arguments as `name: value`")
    if wrong := [part for part in PARTS if not isinstance(found.get(part, {}).get("saferec", {}), dict)]:
        raise TrainingError(f"{path}: {wrong[0]}: saferec: expected `name: value`")
    return path, found


def _check(key: str, value: JsonValue) -> None:
    default, most = DEFAULTS[key], 1 if key == "thin" else math.inf
    if value is None and default is None:
        return
    kind = type(default) if default is not None else int
    # a whole number will do where another number is the default, and a switch is no number
    if not isinstance(value, (int, float) if kind is float else kind) or isinstance(value, bool) != (kind is bool):
        raise TrainingError(f"saferec.{key} = {value!r}: expected a value like {default!r}")
    if key in ONE_OF and value not in ONE_OF[key]:
        raise TrainingError(f"saferec.{key} = {value!r}: expected one of {', '.join(ONE_OF[key])}")
    if key in LEAST and not (isinstance(value, int | float) and LEAST[key] <= value <= most):
        raise TrainingError(f"saferec.{key} = {value!r}: expected a number from {LEAST[key]} to {most}")


def change(settings: Settings, setting: str) -> None:
    """Puts "key=value" or "saferec.key=value" in."""
    import yaml

    key, equals, value = setting.partition("=")
    if not equals or key.strip() in ("", "saferec"):
        raise TrainingError(f"--set {setting}: expected key=value, as in learning_rate=1e-4 or saferec.lora=16")
    place, name = (settings["saferec"], key[8:]) if key.startswith("saferec.") else (settings, key)
    try:
        place[name] = _value(yaml.safe_load(value))
    except yaml.YAMLError:
        raise TrainingError(f"--set {setting}: the value is not YAML: expected a number, a word or [a, list]") from None


def _value(found: JsonValue) -> JsonValue:
    """YAML 1.1 reads 1e-4 as a text: a number was meant."""
    try:
        return float(found) if isinstance(found, str) else found
    except ValueError:
        return found


def trl_arguments(kind: type[Arguments], settings: Settings, output: Path, seed: int) -> Arguments:
    """An SFTConfig or GRPOConfig of these settings; an argument that it does not know is an error of one line."""
    # TRL would pass the second over: it is about a model that it loads itself, and ours is loaded by then
    named: Settings = {k: _value(v) for k, v in settings.items() if k not in ("saferec", "model_init_kwargs")}
    known = [f.name for f in fields(kind)]
    if strange := [key for key in named if key not in known]:
        close, part = get_close_matches(strange[0], known, 1), strange[0].rpartition(".")[2]
        hint = f"did you mean {close[0]}?" if close else "see its documentation"
        hint = f"only `run` takes a stage before it: say {part}" if part in known else hint
        raise TrainingError(f"argument {strange[0]!r} is not one of trl.{kind.__name__}: {hint}")
    # TRL takes a word for a number or a switch, and fails when it counts with it
    for one in fields(kind):
        if isinstance(one.default, int | float) and isinstance(given := named.get(one.name), str):
            raise TrainingError(f"{one.name} = {given!r}: expected a value like {one.default!r}")
    epochs, steps = named.get("num_train_epochs", 1), named.get("max_steps", -1)
    numbers = all(isinstance(one, int | float) for one in (epochs, steps))
    if numbers and epochs <= 0 and steps <= 0:  # TRL would call it a finished training
        raise TrainingError(f"num_train_epochs = {epochs}: expected more than 0, or max_steps")
    with warnings.catch_warnings():
        # the older name works in every version that we support, the newer one does not
        warnings.filterwarnings("ignore", "`gradient_checkpointing` is deprecated", FutureWarning)
        try:
            return kind(**{"output_dir": str(output), "seed": seed, **_together(), **named})
        except (TypeError, ValueError) as fault:
            raise TrainingError(f"trl.{kind.__name__}: {' '.join(str(fault).split())}") from None


def _together() -> dict[str, bool]:
    """Several processes without a GPU find each other only where the CPU is asked for."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return {}
    import torch

    return {} if torch.cuda.is_available() else {"use_cpu": True}


def key(*parts: object) -> str:
    """16 hex digits that change with any of the parts."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
