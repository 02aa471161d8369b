"""Safe-GDPO with TRL's GRPOTrainer: three rewards, each normalised within its group of rollouts before they add up."""

from collections.abc import Sequence
from importlib.metadata import version
from inspect import signature
from pathlib import Path

from datasets import Dataset
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from saferec_builder.core.errors import TrainingError
from training.data import Release, Row
from training.decoding import rollouts
from training.decoding.generate import PolicyModel, prompt_tokens
from training.decoding.validation_scores import Score
from training.evaluation import paper_metrics, rewards
from training.models import word_dropout
from training.run_folders import Card
from training.settings import Settings, ours, trl_arguments
from training.trainers import advantages
from training.trainers.fit import fit, item_rows, lora

REWARDS = {"ours": rewards.OURS, "paper": paper_metrics.REWARDS}
COLUMNS = ("prompt", "traits", "truth", "safe_truth", "seen", "domain")
# Private methods of trl.GRPOTrainer that rollouts.py and advantages.py override, why no public method will do, and the
# parameters that they need. pyproject.toml limits TRL to versions that have them.
PRIVATE = {
    # samples answers: `rollout_func` is experimental, and has no access to the model
    "_generate_single_turn": ("prompt_ids",),
    # computes their log-probabilities, under the same masks: TRL has no masks
    "_get_per_token_logps_and_entropies": (
        *("model", "input_ids", "attention_mask", "logits_to_keep", "batch_size"),
        *("compute_entropy", "compute_aux_loss"),
    ),
    # calls the rewards: the shares of each rank are available only here
    "_calculate_rewards": ("inputs", "prompts", "completions", "completion_ids_list"),
    # computes the advantages: TRL gives one to an answer, and does not clip it
    "_generate_and_score_completions": ("inputs",),
}


def train(
    policy: PolicyModel,
    rows: Sequence[Row],
    release: Release,
    settings: Settings,
    folder: Path,
    score: Score,
    *,
    seed: int = 0,
) -> Card:
    """Trains from the weights of `policy`; keeps the checkpoint that is best on validation in `folder`.

    The initial weights are also the reference of a KL term (beta > 0): with LoRA they are the model with the new
    adapter disabled, because fit.py merges the adapter of an earlier stage.
    """
    refuse_another_trl()
    options, args = ours(settings), arguments(settings, folder, seed)
    weights = rewards.Weights(options.lam, options.rho)
    last: rewards.Batch = []
    table: list[Row] = [{column: row[column] for column in COLUMNS} for row in rows]  # type: ignore[literal-required, misc]
    if not policy.catalogue:
        prompt_tokens(policy.tokenizer, table)  # raises now, not later, if the template refuses a prompt
    if options.hold:
        word_dropout.freeze_words(policy)
    trainer_type = rollouts.trainer(policy, table, args)
    if options.credit == "rank":
        of_items, of_lines = advantages.places_of_items, advantages.places_of_lines
        places = of_items(policy.catalogue) if policy.catalogue else of_lines(policy.tokenizer, last)
        trainer_type = advantages.ranked(trainer_type, places, last, weights)
    if options.clip:
        trainer_type = advantages.clipped(trainer_type, options.clip)
    trainer = trainer_type(
        model=policy.model,
        args=args,
        train_dataset=Dataset.from_list(table),
        processing_class=policy.tokenizer,
        peft_config=lora(options.lora, item_rows(policy)),
        reward_funcs=functions(policy, release, options.rewards, weights, last),  # type: ignore[arg-type]
    )
    # the initial weights are a candidate, too: GDPO must improve on them
    return fit(trainer, policy, folder, score, options.checks, start_counts=True)


def refuse_another_trl(trainer: type = GRPOTrainer) -> None:
    """Raises TrainingError if a method of PRIVATE is missing or has other parameters: an override would do nothing."""
    for name, parameters in PRIVATE.items():
        method = getattr(trainer, name, None)
        if method is None or not {*parameters} <= {*signature(method).parameters}:
            raise TrainingError(
                f"TRL {version('trl')}: GRPOTrainer.{name}({', '.join(parameters)}), which Safe-GDPO overrides, is not"
                " there: expected a version that pyproject.toml names: pip install 'saferec-builder[train]'"
            )


def functions(
    policy: PolicyModel, release: Release, kind: str, weights: rewards.Weights, last: rewards.Batch | None = None
) -> list[rewards.RewardFunction]:
    """Returns the rewards of this kind: ours use our verdicts, those of the paper its own rule."""
    oracle = paper_metrics.oracle(release) if kind == "paper" else release.oracle
    return rewards.functions(_reader(policy, release), oracle, release.k, weights, REWARDS[kind], last)


def arguments(settings: Settings, folder: Path, seed: int) -> GRPOConfig:
    """Returns the GRPOConfig of a training in `folder`; raises TrainingError if TRL or we refuse the settings."""
    mode = {"multi_objective_aggregation": advantages.MODES[ours(settings).mode]}
    return trl_arguments(GRPOConfig, settings | mode, folder / "trainer", seed)


def _reader(policy: PolicyModel, release: Release) -> rewards.Read:
    if policy.catalogue is None:
        return rewards.reader(release.listed)
    catalogue = policy.catalogue

    def read(completion_ids: Sequence[Sequence[int]], domain: Sequence[str | None], **_: object) -> list[list[str]]:
        return [catalogue.items(ids, name) for ids, name in zip(completion_ids, domain, strict=True)]

    return read
