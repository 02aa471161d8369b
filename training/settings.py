"""Reads settings: a YAML file of TRL's own arguments with a `saferec` block of ours, and the changes of --set."""

import hashlib
import json
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin

from saferec_builder.core.errors import TrainingError, near
from saferec_builder.core.json_value import JsonValue
from saferec_builder.core.plain_files import read_plain

if TYPE_CHECKING:
    from transformers import TrainingArguments

CONFIGS = Path(__file__).with_name("configs")
PARTS = ("all", "both", "sft_raw", "sft", "gdpo", "student")  # parts of a recipe
SFTS = ("sft_raw", "sft", "student")
Settings = dict[str, Any]  # arguments of TRL by name, and the fields of `Ours` under `saferec`
Arguments = TypeVar("Arguments", bound="TrainingArguments")


@dataclass(frozen=True)
class Ours:
    """The settings under `saferec`, with their defaults."""

    # config of the release to learn lists from, or `guard`: lists made by the guard
    rows: Literal["sft", "sft_raw", "guard"] = "sft"
    refill: bool = True  # whether to learn lists that lost unsafe items as refilled to k (true) or shortened
    prefer: Literal["safe", "raw"] = "safe"  # how the best checkpoint is chosen: see decoding/validation_scores.py
    checks: int = 2  # number of validation checks during training
    validate: int = 700  # rows of the validation split that each check uses
    thin: float = 0.0  # share of prompt words hidden from a model with item tokens
    hold: bool = False  # whether word embeddings stay frozen, in a model with item tokens
    repeat: int = 0  # how many more times to learn rows of people with two or more sensitivities: they are few
    says: int | None = None  # predicted traits before a list of item tokens; None: as the model was trained
    lora: int = 0  # rank of an adapter (LoRA) to train instead of all weights; 0: none
    lam: float = 1.0  # rewards.Weights.lam; mode gdpo normalises it away: there `reward_weights` weighs safety
    rho: float = 1.0
    mode: Literal["gdpo", "grpo"] = "gdpo"  # how rewards become advantages: see trainers/advantages.py
    clip: float = 0.0  # largest absolute value of an advantage; 0: no limit
    credit: Literal["sequence", "rank"] = "sequence"  # one advantage for an answer, or one for each rank
    rewards: Literal["ours", "paper"] = "ours"  # ours, or the paper's for comparison
    # how a model without item tokens answers: text, added item tokens, or text under a trie
    items: Literal["text", "tokens", "trie"] = "text"
    mask: bool = True  # whether a model with item tokens is constrained by decoding/constrained.py
    new_tokens: int = 256  # length of an answer if decoding is free
    batch: int = 256  # prompts per batch of answers
    # variables of the chat template, such as {enable_thinking: false}, for training, validation and serving
    chat_template_kwargs: Mapping[str, JsonValue] = field(default_factory=dict)


DEFAULTS: dict[str, JsonValue] = asdict(Ours())
ONE_OF = {f.name: get_args(f.type) for f in fields(Ours) if get_origin(f.type) is Literal}
COUNTS = ("per_device_train_batch_size", "gradient_accumulation_steps")  # arguments of TRL, from 1
LARGEST = 2**20  # bytes of a config: YAML is read slowly
ODD = (ValueError, TypeError, RecursionError)  # a reader of YAML raises these for odd dates, keys and nesting
LARGE = 10**9  # of numbers without another limit: infinity has no sum
LEAST: dict[str, float] = dict.fromkeys(("thin", "repeat", "says", "lora", "lam", "rho", "clip"), 0)
LEAST |= {"validate": 1, "new_tokens": 1, "batch": 1}


class WrongArgument(TrainingError):
    """An argument that TRL does not take; whoever read the settings knows which file it may stand in."""

    def __init__(self, message: str, name: str = "") -> None:
        super().__init__(message)
        self.name = name


def ours(settings: Settings) -> Ours:
    return Ours(**settings["saferec"])


def read(name: str, changes: Sequence[str] = (), stage: str = "sft") -> Settings:
    """Returns the settings of a file or of training/configs/NAME.yaml, after the changes ("[saferec.]key=value"). The
    parts of a recipe (`all`, `both`: all stages in SFTS, and one per stage) override the config of `stage`."""
    path, settings = file(name)
    if set(PARTS) & set(settings):
        if unknown := set(settings) - {*PARTS, "shape"}:
            raise TrainingError(f"{path}: {min(unknown)}: expected shape, {', '.join(PARTS)} in a recipe")
        _, base = file(stage)
        for part in ("all", *(["both"] if stage in SFTS else []), stage):
            base = _over(base, settings.get(part, {}))
        settings = base
    for key in settings.get("saferec", {}):
        _refuse_unknown_of_ours(key, str(path))
    settings["saferec"] = {**DEFAULTS, **{name: _value(value) for name, value in settings.get("saferec", {}).items()}}
    for setting in changes:
        change(settings, setting)
    for key, value in settings["saferec"].items():
        _check(key, value)
    return settings


def file(name: str) -> tuple[Path, Settings]:
    """Returns the path of a config, and its settings over those of our own config that it `extends`, if any."""
    path = Path(name) if Path(name).suffix in (".yaml", ".yml") else CONFIGS / f"{name}.yaml"
    settings = _parsed(path)
    if (base := settings.pop("extends", None)) is not None:
        settings = _over(_parsed(CONFIGS / f"{base}.yaml"), settings)
    return path, settings


def _over(base: Settings, more: Settings) -> Settings:
    return {**base, **more, "saferec": {**base.get("saferec", {}), **more.get("saferec", {})}}


def _parsed(path: Path) -> Settings:
    try:
        import yaml
    except ImportError:
        raise TrainingError("training needs pyyaml: pip install 'saferec-builder[train]'") from None
    try:
        raw = read_plain(path)
        if len(raw) > LARGEST:
            raise TrainingError(f"{path}: {len(raw):,} bytes, expected a config of at most {LARGEST:,}")
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(raw.decode())):
            raise TrainingError(f"{path}: aliases (*name) could unpack without end: write their values out")
        settings = yaml.safe_load(raw.decode()) or {}
    except FileNotFoundError:
        names = ", ".join(sorted(p.stem for p in CONFIGS.glob("*.yaml")))
        raise TrainingError(f"{path}: no such config: expected a YAML file, or one of {names}") from None
    except OSError as fault:
        raise TrainingError(f"{path}: cannot be read: {fault.strerror}: expected a YAML file") from None
    except (yaml.YAMLError, *ODD) as fault:
        raise TrainingError(f"{path}: not YAML: {' '.join(str(fault).split())}") from None
    if not isinstance(settings, dict):
        raise TrainingError(f"{path}: expected TRL arguments as `name: value`, and ours under `saferec:`")
    for part, block in (("", settings), *((f"{part}: ", settings.get(part, {})) for part in PARTS)):
        if not isinstance(block, dict):
            raise TrainingError(f"{path}: {part}expected arguments as `name: value`")
        if not isinstance(block.get("saferec", {}), dict):
            raise TrainingError(f"{path}: {part}saferec: expected `name: value`")
    loaded: Settings = settings
    return loaded


def _refuse_unknown_of_ours(key: str, place: str) -> None:
    if key not in DEFAULTS:
        raise TrainingError(f"{place}: saferec.{key} is not known: {near(str(key), DEFAULTS)}")


def _check(key: str, value: JsonValue) -> None:
    default, largest = DEFAULTS[key], 1 if key == "thin" else LARGE
    if value is None and default is None:
        return
    kind = int if default is None else type(default)
    # a whole number is accepted where the default is a float; a bool is not a number
    if not isinstance(value, (int, float) if kind is float else kind) or isinstance(value, bool) != (kind is bool):
        raise TrainingError(f"saferec.{key} = {value!r}: expected a value like {default!r}")
    if key in ONE_OF and value not in ONE_OF[key]:
        raise TrainingError(f"saferec.{key} = {value!r}: expected one of {', '.join(ONE_OF[key])}")
    if key in LEAST and not (isinstance(value, int | float) and LEAST[key] <= value <= largest):
        raise TrainingError(f"saferec.{key} = {value!r}: expected a number from {LEAST[key]} to {largest}")


def change(settings: Settings, setting: str) -> None:
    """Applies "key=value" or "saferec.key=value" to the settings, in place."""
    import yaml

    key, equals, value = setting.partition("=")
    if not equals or key.strip() in ("", "saferec"):
        raise TrainingError(f"--set {setting}: expected key=value, as in learning_rate=1e-4 or saferec.lora=16")
    target, name = (settings["saferec"], key[8:]) if key.startswith("saferec.") else (settings, key)
    if target is not settings:
        _refuse_unknown_of_ours(name, f"--set {setting}")
    try:
        target[name] = _value(yaml.safe_load(value))
    except (yaml.YAMLError, *ODD):
        raise TrainingError(f"--set {setting}: the value is not YAML: expected a number, a word or [a, list]") from None


def _value(value: JsonValue) -> JsonValue:
    """Converts text such as 1e-4 to a number: YAML 1.1 reads it as text."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def trl_arguments(kind: type[Arguments], settings: Settings, output: Path, seed: int) -> Arguments:
    """Returns an SFTConfig or GRPOConfig of these settings; raises TrainingError if TRL does not know one of them, or
    would fail by it later."""
    # TRL ignores model_init_kwargs for a model that is loaded already, as ours is
    arguments: Settings = {k: _value(v) for k, v in settings.items() if k not in ("saferec", "model_init_kwargs")}
    _refuse_unknown(kind, arguments)
    _refuse_values(kind, arguments)
    # several processes without a GPU do not connect otherwise
    import torch

    several = int(os.environ.get("WORLD_SIZE", "1")) > 1
    use_cpu = {"use_cpu": True} if several and not torch.cuda.is_available() else {}
    with warnings.catch_warnings():
        # the older name works in every version that we support, the newer one does not
        warnings.filterwarnings("ignore", "`gradient_checkpointing` is deprecated", FutureWarning)
        try:
            return kind(**{"output_dir": str(output), "seed": seed, **use_cpu, **arguments})
        except (TypeError, ValueError) as fault:
            raise TrainingError(f"trl.{kind.__name__}: {' '.join(str(fault).split())}") from None


def _refuse_unknown(kind: type[Arguments], arguments: Settings) -> None:
    """Raises WrongArgument for the first argument that TRL does not have, with what was probably meant."""
    names = [f.name for f in fields(kind)]
    unknown = next((name for name in arguments if name not in names), None)
    if unknown is None:
        return
    last_part = unknown.rpartition(".")[2]
    if unknown in DEFAULTS:
        hint = f"say saferec.{unknown}"
    elif last_part in names:
        hint = f"only `run` takes a stage before it: say {last_part}"
    elif close := get_close_matches(unknown, names, 1):
        hint = f"did you mean {close[0]}?"
    else:
        hint = "see its documentation"
    raise WrongArgument(f"argument {unknown!r} is not one of trl.{kind.__name__}: {hint}", unknown)


def _refuse_values(kind: type[Arguments], arguments: Settings) -> None:
    """Raises WrongArgument for text in place of a number or a bool, and for a fraction or 0 in place of a count, and
    TrainingError for a training without a step: TRL accepts them, and fails later or reports a finished training."""
    for f in fields(kind):
        value, is_number = arguments.get(f.name, f.default), isinstance(f.default, int | float)
        is_fraction = isinstance(value, float) and f.type in (int, int | None)
        is_empty = f.name in COUNTS and not (isinstance(value, int) and value > 0)
        if is_fraction or is_empty or (is_number and isinstance(value, str)):
            raise WrongArgument(f"{f.name} = {value!r}: expected a value like {f.default!r}", f.name)
    epochs, steps = arguments.get("num_train_epochs", 1), arguments.get("max_steps", -1)
    are_numbers = all(isinstance(number, int | float) for number in (epochs, steps))
    if are_numbers and epochs <= 0 and steps <= 0:
        raise TrainingError(f"num_train_epochs = {epochs}: expected more than 0, or max_steps")


def key(*parts: object) -> str:
    """Returns 16 hex digits that change when any of the parts changes."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
