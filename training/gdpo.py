"""Safe-GDPO with TRL's GRPOTrainer: three rewards, each normalised within its group of rollouts before they are summed.

credit.py says how rewards become advantages, and whose. Where a model is held to the catalogue (training/decoding.py,
training/trie.py), rollouts and their log-probabilities go through the same masks.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from saferec_builder.errors import TrainingError
from training import compat, credit, decoding, rewards, thinning, trie
from training import settings as config
from training.best import Score
from training.data import Release, Row
from training.fit import fit, item_rows, lora
from training.generate import Speaker, draw, prompt_tokens

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
    kind = _trainer(speaker, table)
    if ours["credit"] == "rank":
        kind = credit.ranked(kind, _places(speaker, last), last, weights)
    trainer = kind(
        model=speaker.model,
        args=args,
        train_dataset=Dataset.from_list(table),
        processing_class=speaker.tokenizer,
        peft_config=lora(ours["lora"], item_rows(speaker)),
        reward_funcs=rewards.functions(
            _reader(speaker, release), release.oracle, release.k, weights, REWARDS[ours["rewards"]], last
        ),
    )
    # where it starts from is a candidate too: GDPO must earn its place
    return fit(trainer, speaker, folder, score, ours["checks"], start_counts=True)


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
    if settings.get("use_vllm") and speaker.held:
        raise TrainingError("use_vllm: vLLM knows no masks: wanted --items text, or saferec.mask=false for item tokens")
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


def _trainer(speaker: Speaker, table: Sequence[Row]) -> type:
    """TRL's trainer, with the masks in its two places where tokens meet probabilities."""
    from trl import GRPOTrainer  # type: ignore[attr-defined]

    if not speaker.held:
        return GRPOTrainer
    shut = _shut(speaker, table)

    class Masked(GRPOTrainer):
        def _generate_single_turn(self, prompt_ids: Any, *_: Any, **__: Any) -> tuple[list[list[int]], None]:
            voice = replace(speaker, model=self.accelerator.unwrap_model(self.model))
            closed = [shut(ids) for ids in prompt_ids]
            return draw(voice, prompt_ids, closed, do_sample=True, temperature=self.temperature, top_k=0), None

        def _get_per_token_logps_and_entropies(
            self,
            model: Any,
            input_ids: Any,
            attention_mask: Any,
            logits_to_keep: int,
            *_: Any,
            compute_entropy: bool = False,
            **__: Any,
        ) -> tuple[Any, Any, None]:
            kept = logits_to_keep + 1  # the token before the answer foretells its first
            logits = model(input_ids=input_ids, attention_mask=attention_mask, logits_to_keep=kept).logits
            logits = logits[:, :-1] / self.temperature
            prompts, there = input_ids[:, :-logits_to_keep], attention_mask[:, :-logits_to_keep].bool()
            closed = [shut(ids[own].tolist()) for ids, own in zip(prompts, there, strict=True)]
            chosen, entropy = _logs(speaker, closed, input_ids[:, -logits_to_keep:], logits)
            return chosen, entropy if compute_entropy else None, None

    return Masked


def _shut(speaker: Speaker, table: Sequence[Row]) -> Callable[[Sequence[int]], Sequence[str]]:
    """The tokens of a prompt -> the items that its answer may not name: those that its seeker has seen."""
    if speaker.catalogue:
        return speaker.catalogue.items  # an item that the prompt names is a token of it
    seen: dict[tuple[int, ...], set[str]] = {}  # two seekers who ask alike: what either has seen is out for both
    for ids, row in zip(prompt_tokens(speaker.tokenizer, table), table, strict=True):
        seen.setdefault(tuple(ids), set()).update(row["seen"])
    return lambda ids: sorted(seen[tuple(ids)])


def _logs(speaker: Speaker, shut: Sequence[Sequence[str]], completions: Any, logits: Any) -> tuple[Any, Any]:
    """(log p of each token, entropy), both (rows, length), of answers that could name none of `shut`."""
    if speaker.trie:
        return trie.log_probabilities(speaker.trie, shut, completions, logits)
    assert speaker.catalogue is not None
    closed = decoding.closed(speaker.catalogue, shut, logits.size(-1)).to(logits.device)
    return decoding.log_probabilities(speaker.catalogue, closed, completions, logits)
