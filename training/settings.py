"""A YAML file of TRL's own arguments, a `saferec` block of ours, and what --set changes in either."""

import hashlib
import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from saferec_builder.core.errors import TrainingError

CONFIGS = Path(__file__).with_name("configs")
OURS = {  # what may stand under `saferec`, and what it is where nothing is said
    "rows": "sft",  # config of the release to learn lists from
    "refill": True,  # whether lists that lost items to safety are learnt as refilled to k, or as what was left
    "prefer": "safe",  # which checkpoint is best on validation: see decoding/validation.py
    "caution": 3.0,  # what one point of svr_upper costs in points of recall, where `safe` is preferred
    "checks": 2,  # how often validation is asked during training
    "validate": 700,  # rows of the validation split that are asked
    "thin": 0.0,  # share of prompt words hidden from a model with item tokens
    "hold": False,  # whether the embeddings of words stay as they are, in a model with item tokens
    "repeat": 0,  # how many times more the rows of people with two or more sensitivities are learnt: they are few
    "says": None,  # with how many traits that it heard a model with item tokens begins; None: as it was taught before
    "lora": 0,  # rank of an adapter (LoRA) to train instead of all weights; 0: none
    "lam": 1.0,  # rewards.Weights; mode gdpo divides it out again: there `reward_weights` weighs safety
    "rho": 1.0,
    "floor": 0.0,  # in mode conditioned: the safety below which relevance does not count
    "mode": "gdpo",  # how rewards become advantages: gdpo | grpo | conditioned, see trainers/advantages.py
    "credit": "sequence",  # one advantage for an answer, or one for each rank: sequence | rank
    "rewards": "ours",  # ours, or the paper's for comparison: ours | paper
    "items": "text",  # of a model without item tokens: write text, be given `tokens`, or be held to names by a `trie`
    "mask": True,  # whether a model with item tokens may draw only what decoding/constrained.py permits
    "new_tokens": 256,  # length of an answer where decoding is free
    "batch": 256,  # prompts that are answered at once
}
ONE_OF = {"rows": ("sft", "sft_raw"), "prefer": ("safe", "raw"), "items": ("text", "tokens", "trie")}
LEAST: dict[str, float] = {
    "caution": 0,
    "validate": 1,
    "thin": 0,
    "repeat": 0,
    "says": 0,
    "lora": 0,
    "lam": 0,
    "rho": 0,
}
LEAST |= {"floor": -math.inf, "new_tokens": 1, "batch": 1}


def read(name: str, changes: Sequence[str] = ()) -> dict[str, Any]:
    """The settings in a file, or in training/configs/NAME.yaml, with each "key=value" or "saferec.key=value" put in."""
    import yaml

    path = Path(name) if Path(name).suffix in (".yaml", ".yml") else CONFIGS / f"{name}.yaml"
    try:
        found = yaml.safe_load(path.read_text("utf-8")) or {}
    except FileNotFoundError:
        there = ", ".join(sorted(p.stem for p in CONFIGS.glob("*.yaml")))
        raise TrainingError(f"{path}: no such config: wanted a YAML file, or one of {there}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as fault:
        raise TrainingError(f"{path}: not YAML: {' '.join(str(fault).split())}") from None
    if not isinstance(found, dict) or not isinstance(found.get("saferec", {}), dict):
        raise TrainingError(f"{path}: wanted TRL arguments as `name: value`, and ours under `saferec:`")
    found["saferec"] = {**OURS, **{name: _value(value) for name, value in found.get("saferec", {}).items()}}
    for one in changes:
        change(found, one)
    strange = [key for key in found["saferec"] if key not in OURS]
    if strange:
        raise TrainingError(f"{path}: saferec.{strange[0]} is not known: wanted one of {', '.join(OURS)}")
    for key, value in found["saferec"].items():
        _check(key, value)
    return found


def _check(key: str, value: Any) -> None:
    wanted, most = _kind(OURS[key]), 1 if key == "thin" else math.inf
    fits = isinstance(value, wanted) and isinstance(value, bool) == (wanted is bool)
    if value is None and OURS[key] is None:
        return
    if not fits:
        raise TrainingError(f"saferec.{key} = {value!r}: wanted a value like {OURS[key]!r}")
    if key in ONE_OF and value not in ONE_OF[key]:
        raise TrainingError(f"saferec.{key} = {value!r}: wanted one of {', '.join(ONE_OF[key])}")
    if key in LEAST and not LEAST[key] <= value <= most:
        raise TrainingError(f"saferec.{key} = {value!r}: wanted a number from {LEAST[key]} to {most}")


def _kind(default: Any) -> Any:
    """A whole number will do where another number is the default."""
    return (int, float) if isinstance(default, float) else int if default is None else type(default)


def change(settings: dict[str, Any], said: str) -> None:
    """Puts "key=value" or "saferec.key=value" in."""
    import yaml

    key, equals, value = said.partition("=")
    if not equals or key.strip() in ("", "saferec"):
        raise TrainingError(f"--set {said}: wanted key=value, as in learning_rate=1e-4 or saferec.lora=16")
    place, name = (settings["saferec"], key[8:]) if key.startswith("saferec.") else (settings, key)
    try:
        place[name] = _value(yaml.safe_load(value))
    except yaml.YAMLError:
        raise TrainingError(f"--set {said}: the value is not YAML: wanted a number, a word or [a, list]") from None


def _value(found: Any) -> Any:
    """YAML 1.1 reads 1e-4 as a text: a number was meant."""
    try:
        return float(found) if isinstance(found, str) else found
    except ValueError:
        return found


def trl(kind: type, settings: dict[str, Any], output: Path, seed: int) -> Any:
    """An SFTConfig or GRPOConfig of these settings; an argument that it does not know is an error of one line."""
    import dataclasses
    import warnings

    named = {key: _value(value) for key, value in settings.items() if key != "saferec"}
    strange = [key for key in named if key not in {f.name for f in dataclasses.fields(kind)}]
    if strange:
        raise TrainingError(f"argument {strange[0]!r} is not one of trl.{kind.__name__}: see its documentation")
    # TRL takes a word for a number or a switch, and fails when it counts with it
    for field in dataclasses.fields(kind):
        if isinstance(field.default, int | float) and isinstance(said := named.get(field.name), str):
            raise TrainingError(f"{field.name} = {said!r}: wanted a value like {field.default!r}")
    with warnings.catch_warnings():
        # the older name works in every version that we support, the newer one does not
        warnings.filterwarnings("ignore", "`gradient_checkpointing` is deprecated", FutureWarning)
        try:
            return kind(**{"output_dir": str(output), "seed": seed, **_together(), **named})
        except (TypeError, ValueError) as fault:
            raise TrainingError(f"trl.{kind.__name__}: {' '.join(str(fault).split())}") from None


def _together() -> dict[str, Any]:
    """Several processes without a GPU find each other only where the CPU is asked for."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return {}
    import torch

    return {} if torch.cuda.is_available() else {"use_cpu": True}


def key(*parts: Any) -> str:
    """16 hex digits that change with any of the parts."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
