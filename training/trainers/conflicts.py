"""Refuses settings that conflict or would be ignored, before anything is loaded or cleared."""

from collections.abc import Iterator
from importlib.util import find_spec

from saferec_builder.core.errors import TrainingError
from training.settings import Settings, ours

# values that sampling under masks uses whatever the settings are
FREE = {"top_p": 1.0, "top_k": 0, "min_p": None, "repetition_penalty": 1.0, "generation_kwargs": None}
FLOAT32 = ("float32", "torch.float32", None)
OWN = {  # arguments of TRL that our commands set -> what to set instead
    "output_dir": "--output",
    "seed": "--seed",
    "multi_objective_aggregation": "--mode",
    "chat_template_kwargs": "saferec.chat_template_kwargs, which validation and serving go by too",
    "chat_template_path": "a copy of the model with another chat_template.jinja, which validation goes by too",
    "eval_strategy": "saferec.checks, which says how often validation is asked",
    "load_best_model_at_end": "false: the best model on validation is what stays",
    "push_to_hub": "false, and the folder to be uploaded when it is done: TRL would publish the last weights",
}


def refuse(verb: str, settings: Settings, tokens: bool) -> None:
    """Raises TrainingError for the first conflict. verb = `sft` or `gdpo`; tokens: whether items are tokens."""
    for problem in _conflicts(verb, settings, tokens):
        raise TrainingError(problem)


def _conflicts(verb: str, settings: Settings, tokens: bool) -> Iterator[str]:
    options, get = ours(settings), settings.get
    for name, instead in OWN.items():
        if get(name) is not None and get(name) is not False and get(name) != "no":
            yield f"{name}: expected {instead}"
    report_to = get("report_to") or "none"
    for name in [report_to] if isinstance(report_to, str) else report_to:
        if name in ("tensorboard", "trackio", "wandb") and find_spec(name) is None:
            yield f"report_to = {name}: it is not installed: pip install {name}"
    kw = get("model_init_kwargs") or {}
    if not isinstance(kw, dict):
        yield f"model_init_kwargs = {kw}: expected {{name: value}}"
        return
    if not options.lora and kw.get("dtype") not in FLOAT32:
        yield f"model_init_kwargs.dtype = {kw['dtype']}: small steps are lost on it: expected saferec.lora, or float32"
    if kw.get("quantization_config"):
        yield "model_init_kwargs.quantization_config: what is trained could not be kept in it: expected it in evaluate"
    if tokens and options.items == "trie":
        yield "saferec.items = trie: the items of this model are tokens: expected text"
    if options.items == "trie" and not options.mask:
        yield "saferec.mask = false: a trie is a mask: expected --items text"
    yield from _sft_conflicts(settings, tokens) if verb == "sft" else _gdpo_conflicts(settings, tokens)


def _sft_conflicts(settings: Settings, tokens: bool) -> Iterator[str]:
    if tokens and settings.get("loss_type", "nll") != "nll":
        yield f"loss_type = {settings['loss_type']}: a model with item tokens has a loss of its own: expected nll"
    if settings.get("assistant_only_loss"):
        yield "assistant_only_loss: a row teaches one answer, the last: expected completion_only_loss=true"
    if settings.get("packing") or settings.get("padding_free"):
        if settings.get("packing_strategy") == "wrapped":
            yield "packing_strategy = wrapped: it cuts documents and joins them without a bound: expected bfd"
        if "flash" not in str((settings.get("model_init_kwargs") or {}).get("attn_implementation")):
            yield "packing: documents may read each other: expected model_init_kwargs.attn_implementation of flash"


def _gdpo_conflicts(settings: Settings, tokens: bool) -> Iterator[str]:
    options, get = ours(settings), settings.get
    if options.thin:
        yield f"saferec.thin = {options.thin}: words are hidden in SFT alone: expected 0"
    if options.credit == "rank":
        if tokens and not options.mask:
            yield "--credit rank: without masks an item may stand anywhere: expected saferec.mask=true"
        if options.rewards == "paper":
            yield "--credit rank: the paper's rewards know no ranks: expected sequence, or saferec.rewards=ours"
        if options.mode == "grpo" and get("scale_rewards", "group") not in ("group", True):
            yield f"scale_rewards = {get('scale_rewards')}: each rank is scaled within its group: expected group"
    if (weights := get("reward_weights")) is not None and (not isinstance(weights, list) or len(weights) != 3):
        yield f"reward_weights = {weights}: expected three, of relevance, safety and count"
    if not (options.items == "trie" or (tokens and options.mask)):
        return
    for name in ("use_vllm", "use_transformers_continuous_batching", "cache_implementation"):
        if get(name):
            yield f"{name}: what draws there knows no masks: expected --items text, or saferec.mask=false"
    if get("mask_truncated_completions"):
        yield (
            "mask_truncated_completions: a list that is held to the catalogue has no token at its end, so that all"
            " would be masked: expected false"
        )
    for name, neutral in FREE.items():
        if get(name, neutral) not in (neutral, None):
            yield f"{name}: a list that is held to the catalogue is drawn by its probabilities alone"
