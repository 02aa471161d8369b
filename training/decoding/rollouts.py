"""Draws the rollouts of TRL's GRPOTrainer: a prompt is read once for its group, under masks if there are any.

Where a model is held to the catalogue (constrained.py, trie.py), answers and their log-probabilities go through the
same masks: training on probabilities of tokens that could not be drawn drifts away.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor
from transformers import PreTrainedModel
from trl import GRPOConfig, GRPOTrainer  # type: ignore[attr-defined]

from training.data import Row
from training.decoding import constrained, trie
from training.decoding.generate import PolicyModel, draw, draw_padded, prompt_tokens

# generation_kwargs that want another cache, or more rows in it than there are prompts
THEIRS = {"cache_implementation", "use_cache", "num_beams", "num_return_sequences"}

Excluded = Callable[[Sequence[int]], Sequence[str]]  # the tokens of a prompt -> the items that its answer may not name
Drawn = tuple[list[list[int]], None]  # answers, and no log-probabilities of them


def trainer(policy: PolicyModel, table: Sequence[Row], args: GRPOConfig) -> type[GRPOTrainer]:
    """The trainer for the rows of `table` (trainers/gdpo.py's COLUMNS) and these arguments of trl.GRPOConfig.

    Who draws with vLLM, continuous batching, beams or a cache of another kind is left to TRL.
    """
    if policy.held:
        return _held(policy, _excluded(policy, table))
    elsewhere = args.use_vllm or args.use_transformers_continuous_batching or args.cache_implementation
    return GRPOTrainer if elsewhere or THEIRS & set(args.generation_kwargs or {}) else _free(policy)


def _free(policy: PolicyModel) -> type[GRPOTrainer]:
    """Drawn as TRL draws, token for token, where a process has all the weights."""

    class Free(GRPOTrainer):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            model: Any = self.model
            head = model.get_output_embeddings()
            if not hasattr(head, "bias"):  # peft's wrapper of a head whose rows are trained does not hand it on
                head.bias = head.original_module.bias if hasattr(head.original_module, "bias") else None

        def _generate_single_turn(self, prompt_ids: list[list[int]], *given: Any, **named: Any) -> Drawn:
            if self.is_fsdp_enabled or self.is_deepspeed_enabled:
                drawn: Drawn = super()._generate_single_turn(prompt_ids, *given, **named)  # type: ignore[no-untyped-call]
                return drawn
            current = replace(policy, model=self.accelerator.unwrap_model(self.model))
            how = {name: value for name, value in self.generation_kwargs.items() if name != "cache_implementation"}
            answers, ends = draw_padded(current, prompt_ids, None, **how), set(self.eos_token_ids)
            last = [next((n for n, token in enumerate(ids, 1) if token in ends), len(ids)) for ids in answers]
            return [ids[:n] for ids, n in zip(answers, last, strict=True)], None

    return Free


def _held(policy: PolicyModel, excluded: Excluded) -> type[GRPOTrainer]:
    """With the masks in the two places where tokens meet probabilities."""

    class Held(GRPOTrainer):
        def _generate_single_turn(self, prompt_ids: list[list[int]], *_: object, **__: object) -> Drawn:
            current = replace(policy, model=self.accelerator.unwrap_model(self.model))
            out = [excluded(ids) for ids in prompt_ids]
            return draw(current, prompt_ids, out, do_sample=True, temperature=self.temperature, top_k=0), None

        def _get_per_token_logps_and_entropies(
            self,
            model: PreTrainedModel,
            input_ids: Tensor,
            attention_mask: Tensor,
            logits_to_keep: int,
            *_: object,
            compute_entropy: bool = False,
            compute_aux_loss: bool = False,  # of a mixture of experts: TRL adds how evenly they are used to the loss
            **__: object,
        ) -> tuple[Tensor, Tensor | None, Tensor | None]:
            kept = logits_to_keep + 1  # the token before the answer foretells its first
            asked = {"output_router_logits": True} if compute_aux_loss else {}
            found = model(input_ids=input_ids, attention_mask=attention_mask, logits_to_keep=kept, **asked)
            logits = found.logits[:, :-1] / self.temperature
            prompts, there = input_ids[:, :-logits_to_keep], attention_mask[:, :-logits_to_keep].bool()
            out = [excluded(ids[own].tolist()) for ids, own in zip(prompts, there, strict=True)]
            chosen, entropy = _logs(policy, out, input_ids[:, -logits_to_keep:], logits)
            return chosen, entropy if compute_entropy else None, found.aux_loss if compute_aux_loss else None

    return Held


def _excluded(policy: PolicyModel, table: Sequence[Row]) -> Excluded:
    """The tokens of a prompt -> the items that its answer may not name: those that its seeker has seen."""
    if policy.catalogue:
        return policy.catalogue.items  # an item that the prompt names is a token of it
    seen: dict[tuple[int, ...], set[str]] = {}  # two seekers who ask alike: what either has seen is out for both
    for ids, row in zip(prompt_tokens(policy.tokenizer, table), table, strict=True):
        seen.setdefault(tuple(ids), set()).update(row["seen"])
    return lambda ids: sorted(seen[tuple(ids)])


def _logs(
    policy: PolicyModel, excluded: Sequence[Sequence[str]], completions: Tensor, logits: Tensor
) -> tuple[Tensor, Tensor]:
    """(log p of each token, entropy), both (rows, length), of answers that could name none of `excluded`."""
    if policy.trie:
        return trie.log_probabilities(policy.trie, excluded, completions, logits)
    assert policy.catalogue is not None
    blocked = constrained.blocked(policy.catalogue, excluded, logits.size(-1)).to(logits.device)
    return constrained.log_probabilities(policy.catalogue, blocked, completions, logits)
