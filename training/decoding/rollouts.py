"""TRL's GRPOTrainer with our way of drawing answers: a prompt is read once for its group, under masks if there are any.

Where a model is held to the catalogue (constrained.py, trie.py), answers and their log-probabilities go through the
same masks: training on probabilities of tokens that could not be drawn drifts away.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from training.data import Row
from training.decoding import constrained as decoding, trie
from training.decoding.generate import Speaker, draw, prompt_tokens, written
from training.decoding.shared_prefix import Room

CACHES = (None, "static")  # values of cache_implementation that rollouts here know
# generation_kwargs that want another cache, or more rows in it than there are prompts
THEIRS = {"cache_implementation", "use_cache", "num_beams", "num_return_sequences"}


def trainer(speaker: Speaker, table: Sequence[Row], args: Any) -> type:
    """The trainer for the rows of `table` (trainers/gdpo.py's COLUMNS) and these arguments of trl.GRPOConfig.

    With cache_implementation `static` its cache keeps size and place, and transformers compiles the step that draws a
    token where there is a GPU. Who draws with vLLM, continuous batching, beams or another cache is left to TRL.
    """
    from trl import GRPOTrainer  # type: ignore[attr-defined]

    room = _room(speaker, table, args)
    if speaker.held:
        return _held(GRPOTrainer, speaker, _shut(speaker, table), room)
    elsewhere = args.use_vllm or args.use_transformers_continuous_batching or args.cache_implementation not in CACHES
    return GRPOTrainer if elsewhere or THEIRS & set(args.generation_kwargs or {}) else _free(GRPOTrainer, speaker, room)


def _room(speaker: Speaker, table: Sequence[Row], args: Any) -> Room | None:
    if args.cache_implementation != "static":
        return None
    kept = speaker.trie or speaker.catalogue if speaker.held else None
    return Room(
        max(map(len, prompt_tokens(speaker.tokenizer, table))) + (kept.length if kept else args.max_completion_length)
    )


def _free(kind: Any, speaker: Speaker, room: Room | None) -> type:
    """Drawn as TRL draws, token for token, where a process has all the weights."""

    class Free(kind):  # type: ignore[misc]
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            head = self.model.get_output_embeddings()
            if not hasattr(head, "bias"):  # peft's wrapper of a head whose rows are trained does not hand it on
                head.bias = head.original_module.bias if hasattr(head.original_module, "bias") else None

        def _generate_single_turn(self, prompt_ids: Any, *given: Any, **named: Any) -> Any:
            if self.is_fsdp_enabled or self.is_deepspeed_enabled:
                return super()._generate_single_turn(prompt_ids, *given, **named)
            voice = replace(speaker, model=self.accelerator.unwrap_model(self.model))
            how = {name: value for name, value in self.generation_kwargs.items() if name != "cache_implementation"}
            answers, ends = written(voice, prompt_ids, None, room, **how), set(self.eos_token_ids)
            last = [next((n for n, token in enumerate(ids, 1) if token in ends), len(ids)) for ids in answers]
            return [ids[:n] for ids, n in zip(answers, last, strict=True)], None

    return Free


def _held(kind: Any, speaker: Speaker, shut: Callable[[Sequence[int]], Sequence[str]], room: Room | None) -> type:
    """With the masks in the two places where tokens meet probabilities."""

    class Held(kind):  # type: ignore[misc]
        def _generate_single_turn(self, prompt_ids: Any, *_: Any, **__: Any) -> tuple[list[list[int]], None]:
            voice = replace(speaker, model=self.accelerator.unwrap_model(self.model))
            closed = [shut(ids) for ids in prompt_ids]
            return draw(voice, prompt_ids, closed, room, do_sample=True, temperature=self.temperature, top_k=0), None

        def _get_per_token_logps_and_entropies(
            self,
            model: Any,
            input_ids: Any,
            attention_mask: Any,
            logits_to_keep: int,
            *_: Any,
            compute_entropy: bool = False,
            compute_aux_loss: bool = False,  # of a mixture of experts: TRL adds how evenly they are used to the loss
            **__: Any,
        ) -> tuple[Any, Any, Any]:
            kept = logits_to_keep + 1  # the token before the answer foretells its first
            asked = {"output_router_logits": True} if compute_aux_loss else {}
            out = model(input_ids=input_ids, attention_mask=attention_mask, logits_to_keep=kept, **asked)
            logits = out.logits[:, :-1] / self.temperature
            prompts, there = input_ids[:, :-logits_to_keep], attention_mask[:, :-logits_to_keep].bool()
            closed = [shut(ids[own].tolist()) for ids, own in zip(prompts, there, strict=True)]
            chosen, entropy = _logs(speaker, closed, input_ids[:, -logits_to_keep:], logits)
            return chosen, entropy if compute_entropy else None, out.aux_loss if compute_aux_loss else None

    return Held


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
