"""Safe-GDPO with TRL's GRPOTrainer: three rewards, each normalised within its group of rollouts before they are summed.

advantages.py says how rewards become advantages, and whose; rollouts.py how answers are drawn.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from saferec_builder.core.errors import TrainingError
from training import settings as config
from training.data import Release, Row
from training.decoding import rollouts
from training.decoding.generate import Speaker, prompt_tokens
from training.evaluation import paper_metrics as compat, rewards
from training.models import word_dropout as thinning
from training.trainers import advantages as credit
from training.trainers.best_checkpoint import Score
from training.trainers.fit import fit, item_rows, lora

REWARDS = {"ours": rewards.OURS, "paper": compat.REWARDS}
FREE = {"top_p": 1.0, "top_k": 0, "min_p": None, "repetition_penalty": 1.0, "generation_kwargs": None}
COLUMNS = ("prompt", "traits", "truth", "safe_truth", "seen", "domain")


def train(
    speaker: Speaker,
    rows: Sequence[Row],
    release: Release,
    settings: dict[str, Any],
    folder: Path,
    score: Score,
    *,
    seed: int = 0,
) -> dict[str, Any]:
    """Trains from the speaker's weights; the checkpoint that is best on validation stays in `folder`.

    settings as settings.read gives them: arguments of trl.GRPOConfig, and ours, of which `mode` decides the way of
    normalising. The policy that was given is also the reference of a KL term (beta > 0): with LoRA it
    is what is left when the new adapter is off, because fit.py merges the adapter of an earlier stage.
    """
    from datasets import Dataset

    ours, args = settings["saferec"], arguments(settings, folder, seed)
    _refuse(speaker, settings, args)
    floor = ours["floor"] if ours["mode"] == "conditioned" else None
    weights = rewards.Weights(ours["lam"], ours["rho"], floor)
    last: rewards.Batch = []
    table = [{c: row[c] for c in COLUMNS} for row in rows]
    if not speaker.catalogue:
        prompt_tokens(speaker.tokenizer, table)  # what the model's template refuses is told before anything is asked
    if ours["thin"] and thinning.possible(speaker):
        hidden = thinning.prompts(speaker, table, ours["thin"], seed)
        table = [{**row, "prompt": prompt} for row, prompt in zip(table, hidden, strict=True)]
    if ours["hold"]:
        thinning.hold(speaker)
    kind = rollouts.trainer(speaker, table, args)
    if ours["credit"] == "rank":
        kind = credit.ranked(kind, _places(speaker, last), last, weights)
    trainer = kind(
        model=speaker.model,
        args=args,
        train_dataset=Dataset.from_list(table),
        processing_class=speaker.tokenizer,
        peft_config=lora(ours["lora"], item_rows(speaker)),
        reward_funcs=functions(speaker, release, ours["rewards"], weights, last),
    )
    # where it starts from is a candidate too: GDPO must earn its place
    return fit(trainer, speaker, folder, score, ours["checks"], start_counts=True)


def functions(
    speaker: Speaker, release: Release, kind: str, weights: rewards.Weights, last: rewards.Batch | None = None
) -> list[rewards.RewardFunction]:
    """The rewards of this kind, ours by our verdicts and the paper's by its own rule."""
    oracle = compat.oracle(release) if kind == "paper" else release.oracle
    return rewards.functions(_reader(speaker, release), oracle, release.k, weights, REWARDS[kind], last)


def arguments(settings: dict[str, Any], folder: Path, seed: int) -> Any:
    """The GRPOConfig of a training in `folder`, or what TRL or we have against it, in one line."""
    from trl import GRPOConfig  # type: ignore[attr-defined]

    ours = settings["saferec"]
    how = credit.checked(ours["mode"], ours["credit"], ours["rewards"])
    args = config.trl(GRPOConfig, settings | {"multi_objective_aggregation": how}, folder / "trainer", seed)
    if (ours["mode"], ours["credit"]) == ("grpo", "rank") and args.scale_rewards != "group":
        raise TrainingError(
            f"scale_rewards = {args.scale_rewards!r}: each rank is scaled within its group: wanted --credit sequence"
        )
    return args


def check_room(settings: dict[str, Any], k: int) -> None:
    """Whether a list fits into an answer that is written as text."""
    room = settings.get("max_completion_length", 256)
    if isinstance(room, int) and room < 8 * k:
        raise TrainingError(
            f"max_completion_length = {room}: {k} titles as text do not fit: wanted --set max_completion_length=256"
            " (in `run`: --set gdpo.max_completion_length=256)"
        )


def _refuse(speaker: Speaker, settings: dict[str, Any], args: Any) -> None:
    """Settings that do not go together, or that would be passed over."""
    if settings["saferec"]["credit"] == "rank" and speaker.catalogue and not speaker.masked:
        raise TrainingError("--credit rank: without masks an item may stand anywhere: wanted saferec.mask=true")
    for name in ("use_vllm", "use_transformers_continuous_batching"):
        if getattr(args, name) and speaker.held:
            raise TrainingError(
                f"{name}: what draws there knows no masks: wanted --items text, or saferec.mask=false for item tokens"
            )
    if speaker.held and args.cache_implementation not in rollouts.CACHES:
        raise TrainingError(f"cache_implementation = {args.cache_implementation!r}: wanted null or static")
    if settings.get("mask_truncated_completions") and speaker.held:
        raise TrainingError(
            "mask_truncated_completions: a list that is held to the catalogue has no token at its end, so that all"
            " would be masked: wanted false"
        )
    for name, free in FREE.items():
        if speaker.held and getattr(args, name) not in (free, None):
            raise TrainingError(f"{name}: a list that is held to the catalogue is drawn by its probabilities alone")


def _places(speaker: Speaker, last: rewards.Batch) -> credit.Places:
    if speaker.catalogue is None:
        return credit.places_of_lines(speaker.tokenizer, last)
    return credit.places_of_items(speaker.catalogue)


def _reader(speaker: Speaker, release: Release) -> rewards.Read:
    if speaker.catalogue is None:
        return rewards.reader(release.find)
    catalogue = speaker.catalogue

    def read(completions: Sequence[Any], completion_ids: Sequence[Sequence[int]], **_: Any) -> list[list[str]]:
        return [catalogue.items(ids) for ids in completion_ids]

    return read
