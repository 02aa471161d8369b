"""Samples the rollouts of TRL's GRPOTrainer: a prompt is computed once for its group, under masks if there are any."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from training.data import Row
from training.decoding.constrained import Catalogue
from training.decoding.generate import PolicyModel, draw, draw_padded, prompt_tokens
from training.decoding.trie import Trie

# generation_kwargs that need another cache, or more rows in it than there are prompts: left to TRL
THEIRS = {"cache_implementation", "use_cache", "num_beams", "num_return_sequences"}

Excluded = Callable[[Sequence[int]], Sequence[str]]  # tokens of a prompt -> items that its answer may not name
Drawn = tuple[list[list[int]], None]  # answers, and None for their log-probabilities


def trainer(policy: PolicyModel, table: Sequence[Row], args: GRPOConfig) -> type[GRPOTrainer]:
    """Returns the trainer for the rows of `table` (COLUMNS of trainers/gdpo.py). Sampling with vLLM, continuous
    batching, beams or another kind of cache is left to TRL."""
    if masks := policy.masks:
        return _masked(policy, masks, _excluded(policy, table))
    own_sampler = args.use_vllm or args.use_transformers_continuous_batching or args.cache_implementation
    return GRPOTrainer if own_sampler or THEIRS & set(args.generation_kwargs or {}) else _free(policy)


def _free(policy: PolicyModel) -> type[GRPOTrainer]:
    """Returns a trainer that samples the same tokens as TRL; it shares prompt caches if a process has all weights."""

    class Free(GRPOTrainer):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            model: Any = self.model
            head = model.get_output_embeddings()
            if not hasattr(head, "bias"):  # peft's wrapper of a head with trained rows lacks it
                head.bias = head.original_module.bias if hasattr(head.original_module, "bias") else None

        def _generate_single_turn(self, prompt_ids: list[list[int]], *args: Any, **kwargs: Any) -> Drawn:
            if self.is_fsdp_enabled or self.is_deepspeed_enabled:
                drawn: Drawn = super()._generate_single_turn(prompt_ids, *args, **kwargs)  # type: ignore[no-untyped-call]
                return drawn
            current = replace(policy, model=self.accelerator.unwrap_model(self.model))
            sampling = {name: value for name, value in self.generation_kwargs.items() if name != "cache_implementation"}
            answers, ends = draw_padded(current, prompt_ids, None, **sampling), set(self.eos_token_ids)
            lengths = [next((n for n, token in enumerate(ids, 1) if token in ends), len(ids)) for ids in answers]
            return [ids[:n] for ids, n in zip(answers, lengths, strict=True)], None

    return Free


def _masked(policy: PolicyModel, masks: Catalogue | Trie, excluded: Excluded) -> type[GRPOTrainer]:
    """Returns a trainer with masks in both methods that use probabilities of tokens."""

    class Masked(GRPOTrainer):
        def _generate_single_turn(self, prompt_ids: list[list[int]], *_: object, **__: object) -> Drawn:
            current = replace(policy, model=self.accelerator.unwrap_model(self.model))
            seen = [excluded(ids) for ids in prompt_ids]
            return draw(current, prompt_ids, seen, do_sample=True, temperature=self.temperature, top_k=0), None

        def _get_per_token_logps_and_entropies(
            self,
            model: PreTrainedModel,
            input_ids: Tensor,
            attention_mask: Tensor,
            logits_to_keep: int,
            *,
            batch_size: int | None = None,  # of a reference model, which TRL asks about all answers of a step at once
            compute_entropy: bool = False,
            compute_aux_loss: bool = False,  # of a mixture of experts: TRL adds its balancing loss
            **_: object,
        ) -> tuple[Tensor, Tensor | None, Tensor | None]:
            options = {"output_router_logits": True} if compute_aux_loss else {}
            chosen, entropies, aux_losses = list[Tensor](), list[Tensor](), list[Tensor]()
            rows = batch_size or len(input_ids)
            for ids, attention in zip(torch.split(input_ids, rows), torch.split(attention_mask, rows), strict=True):
                # the logits before the answer predict its first token
                output = model(input_ids=ids, attention_mask=attention, logits_to_keep=logits_to_keep + 1, **options)
                logits = output.logits[:, :-1] / self.temperature
                prompts, is_token = ids[:, :-logits_to_keep], attention[:, :-logits_to_keep].bool()
                seen = [excluded(prompt[mask].tolist()) for prompt, mask in zip(prompts, is_token, strict=True)]
                of_tokens, entropy = masks.log_probabilities(seen, ids[:, -logits_to_keep:], logits)
                chosen.append(of_tokens)
                entropies.append(entropy)
                aux_losses += [output.aux_loss] if compute_aux_loss else []
            entropy_of_all = torch.cat(entropies) if compute_entropy else None
            return torch.cat(chosen), entropy_of_all, torch.stack(aux_losses).mean() if compute_aux_loss else None

    return Masked


def _excluded(policy: PolicyModel, table: Sequence[Row]) -> Excluded:
    """Returns a function from prompt tokens to the items that the answer may not name: those its seeker has seen."""
    seen: dict[tuple[int, ...], set[str]] = {}  # seekers with equal prompts: items seen by either are excluded
    for ids, row in zip(prompt_tokens(policy.tokenizer, table), table, strict=True):
        seen.setdefault(tuple(ids), set()).update(row["seen"])
    return lambda ids: sorted(seen[tuple(ids)])
