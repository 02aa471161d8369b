"""Safe-GDPO with TRL's GRPOTrainer: three rewards, each normalised within its group of rollouts before they are summed.

advantages.py says how rewards become advantages, and whose; rollouts.py how answers are drawn.
"""

from collections.abc import Sequence
from importlib.metadata import version
from inspect import signature
from pathlib import Path

from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer  # type: ignore[attr-defined]

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
# Private methods of trl.GRPOTrainer that rollouts.py and advantages.py override: why no public way does, and the
# parameters that they count on. pyproject.toml holds TRL to the versions that have them.
PRIVATE = {
    # draws answers: `rollout_func` is experimental, and may not see the model
    "_generate_single_turn": ("prompt_ids",),
    # gives their log-probabilities, under the masks that they were drawn with: TRL has no masks
    "_get_per_token_logps_and_entropies": (
        *("model", "input_ids", "attention_mask", "logits_to_keep", "compute_entropy", "compute_aux_loss"),
    ),
    # calls the rewards: the only moment at which the shares of each rank are at hand
    "_calculate_rewards": ("inputs", "prompts", "completions", "completion_ids_list"),
    # makes the advantages: TRL's aggregation gives one to an answer, and clips none
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
    """Trains from the weights of `policy`; the checkpoint that is best on validation stays in `folder`.

    settings as settings.read gives them: arguments of trl.GRPOConfig, and ours, of which `mode` decides the way of
    normalising. The weights that were given are also the reference of a KL term (beta > 0): with LoRA they are what is
    left when the new adapter is off, because fit.py merges the adapter of an earlier stage.
    """
    refuse_another_trl()
    options, args = ours(settings), arguments(settings, folder, seed)
    weights = rewards.Weights(options.lam, options.rho)
    last: rewards.Batch = []
    table: list[Row] = [{c: row[c] for c in COLUMNS} for row in rows]  # type: ignore[literal-required, misc]
    if not policy.catalogue:
        prompt_tokens(policy.tokenizer, table)  # what the template refuses is an error now, not later
    if options.hold:
        word_dropout.freeze_words(policy)
    kind = rollouts.trainer(policy, table, args)
    if options.credit == "rank":
        kind = advantages.ranked(kind, _places(policy, last), last, weights)
    if options.clip:
        kind = advantages.clipped(kind, options.clip)
    trainer = kind(
        model=policy.model,
        args=args,
        train_dataset=Dataset.from_list(table),
        processing_class=policy.tokenizer,
        peft_config=lora(options.lora, item_rows(policy)),
        reward_funcs=functions(policy, release, options.rewards, weights, last),  # type: ignore[arg-type]
    )
    # where it starts from is a candidate too: GDPO must earn its place
    return fit(trainer, policy, folder, score, options.checks, start_counts=True)


def refuse_another_trl(trainer: type = GRPOTrainer) -> None:
    """A TRL in which a method of PRIVATE is gone, or takes something else: its own would be used without a word."""
    for name, needed in PRIVATE.items():
        method = getattr(trainer, name, None)
        if method is None or not {*needed} <= {*signature(method).parameters}:
            raise TrainingError(
                f"TRL {version('trl')}: GRPOTrainer.{name}({', '.join(needed)}), which Safe-GDPO overrides, is not"
                " there: expected a version that pyproject.toml names: pip install 'saferec-builder[train]'"
            )


def functions(
    policy: PolicyModel, release: Release, kind: str, weights: rewards.Weights, last: rewards.Batch | None = None
) -> list[rewards.RewardFunction]:
    """The rewards of this kind, ours by our verdicts and the paper's by its own rule."""
    oracle = paper_metrics.oracle(release) if kind == "paper" else release.oracle
    return rewards.functions(_reader(policy, release), oracle, release.k, weights, REWARDS[kind], last)


def arguments(settings: Settings, folder: Path, seed: int) -> GRPOConfig:
    """The GRPOConfig of a training in `folder`, or what TRL or we have against it, in one line."""
    how = {"multi_objective_aggregation": advantages.MODES[ours(settings).mode]}
    return trl_arguments(GRPOConfig, settings | how, folder / "trainer", seed)


def _places(policy: PolicyModel, last: rewards.Batch) -> advantages.Places:
    if policy.catalogue is None:
        return advantages.places_of_lines(policy.tokenizer, last)
    return advantages.places_of_items(policy.catalogue)


def _reader(policy: PolicyModel, release: Release) -> rewards.Read:
    if policy.catalogue is None:
        return rewards.reader(release.listed)
    catalogue = policy.catalogue

    def read(completion_ids: Sequence[Sequence[int]], **_: object) -> list[list[str]]:
        return [catalogue.items(ids) for ids in completion_ids]

    return read
