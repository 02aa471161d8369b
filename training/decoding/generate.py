"""Generates the answers of a model for rows of a split: ranked items if items are tokens, else text."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jinja2 import TemplateError
from safetensors import SafetensorError
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LogitsProcessorList,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from saferec_builder.core.errors import TrainingError
from saferec_builder.core.json_value import JsonValue
from saferec_builder.core.progress import Progress, shown
from training.data import Message, Row
from training.decoding import constrained, shared_prefix
from training.decoding.constrained import Catalogue
from training.decoding.trie import Trie

CausalLM = Any  # a causal language model of transformers, whose types lack `generate`
QUESTION: Message = {"role": "user", "content": "a"}


@dataclass(frozen=True)
class PolicyModel:
    """A model, its tokenizer, and its item tokens, or the names that its text is constrained to, if any."""

    model: CausalLM
    tokenizer: PreTrainedTokenizerBase
    catalogue: Catalogue | None
    batch: int = 256
    new_tokens: int = 256  # largest number, if decoding is free
    masked: bool = True  # whether item tokens are sampled under the masks of decoding/constrained.py
    trie: Trie | None = None  # for a model whose items are text: the lists that it may write

    @property
    def masks(self) -> Catalogue | Trie | None:
        """What constrains its answers to the catalogue, if anything does."""
        return self.trie or (self.catalogue if self.masked else None)


def load(name: str, how: Mapping[str, Any] = {}, template: Mapping[str, JsonValue] = {}) -> PolicyModel:
    """Loads a model from a folder, or by a name that transformers knows; item tokens lie beside its weights.

    how = arguments of `from_pretrained`, as TRL's model_init_kwargs. template = defaults for variables of the chat
    template.
    """
    how = {"dtype": "auto", **how}
    source = {name: how[name] for name in ("revision", "trust_remote_code") if name in how}
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, padding_side="left", **source)
        model = AutoModelForCausalLM.from_pretrained(name, **how)
    # an incomplete file, one of another model, an attention or a quantization that is not installed
    except (OSError, ValueError, TypeError, RuntimeError, ImportError, SafetensorError) as fault:
        reason = (str(fault).strip() or type(fault).__name__).splitlines()[0]
        raise TrainingError(
            f"model {name}: cannot be loaded ({reason}): expected a model's folder, its name on the Hub, or"
            " `tiny` to train a new one"
        ) from None
    if tokenizer.chat_template is None:
        raise TrainingError(f"model {name}: its tokenizer has no chat template: expected a chat (instruct) model")
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    _set_defaults(tokenizer, template)
    _set_end_token(model, tokenizer)
    return PolicyModel(model, tokenizer, constrained.load(name))


def _set_end_token(model: CausalLM, tokenizer: PreTrainedTokenizerBase) -> None:
    """Sets the end token to the one that the chat template, and so SFT, ends answers with: base models have another."""
    special = {i for i, token in tokenizer.added_tokens_decoder.items() if token.special}
    marks = [i for i in tokenizer.encode(_tail(tokenizer), add_special_tokens=False) if i in special]
    if not marks or marks[-1] == tokenizer.eos_token_id:
        return
    tokenizer.eos_token = tokenizer.convert_ids_to_tokens(marks[-1])
    model.generation_config.eos_token_id = sorted({marks[-1], *_ends(model, tokenizer)} - {None})


def _set_defaults(tokenizer: PreTrainedTokenizerBase, template: Mapping[str, JsonValue]) -> None:
    """Writes defaults for its variables, such as enable_thinking, into the chat template, which is saved with the
    model: training, validation and a server use the same."""
    original, defaults = tokenizer.chat_template, ""
    for name, value in template.items():
        if not isinstance(original, str) or not name.isidentifier() or name not in original:
            raise TrainingError(f"saferec.chat_template_kwargs: the model's chat template knows no {name!r}")
        # Jinja writes values as JSON does, except None
        literal = "none" if value is None else json.dumps(value)
        defaults += f"{{% if {name} is not defined %}}{{% set {name} = {literal} %}}{{% endif %}}"
    if defaults:
        tokenizer.chat_template = defaults + original.removeprefix(defaults)


def close_thoughts(tokenizer: PreTrainedTokenizerBase) -> None:
    """Makes a template that opens <think> before every answer close it at once: lists are learnt without thoughts."""
    if _templated(tokenizer, [QUESTION], begun=True).rstrip().endswith("<think>"):
        tokenizer.chat_template += '{% if add_generation_prompt %}{{ "\n</think>\n\n" }}{% endif %}'


def tokens(
    policy: PolicyModel, rows: Sequence[Row], excluded: Sequence[Sequence[str]], progress: Progress | None = None
) -> list[list[int]]:
    """Returns the tokens of the greedy answer per row; with item tokens: predicted traits, if any, and items."""
    answers: dict[int, list[int]] = {}
    prompts = prompt_tokens(policy.tokenizer, rows)
    # sorted by length: less padding, same answers
    order = sorted(range(len(rows)), key=lambda n: len(prompts[n]))
    with shown(len(order), progress) as bar:
        for start in range(0, len(order), policy.batch):
            batch = order[start : start + policy.batch]
            drawn = draw(policy, [prompts[n] for n in batch], [excluded[n] for n in batch])
            answers |= zip(batch, drawn, strict=True)
            bar.update(len(batch))
    return [answers[n] for n in range(len(rows))]


def draw(
    policy: PolicyModel, ids: Sequence[Sequence[int]], excluded: Sequence[Sequence[str]] | None, **sampling: Any
) -> list[list[int]]:
    """Returns token ids of one answer per prompt, up to and without the end; without `excluded` it is not masked.
    sampling = arguments of `generate`; without any the answer is greedy."""
    ends = _ends(policy.model, policy.tokenizer)
    answers = draw_padded(policy, ids, excluded, **sampling)
    return [next((answer[:n] for n, token in enumerate(answer) if token in ends), answer) for answer in answers]


def draw_padded(
    policy: PolicyModel, ids: Sequence[Sequence[int]], excluded: Sequence[Sequence[str]] | None, **sampling: Any
) -> list[list[int]]:
    """Like `draw`, but with the end of each answer, and padding after it to one length."""
    model, tokenizer = policy.model, policy.tokenizer
    width = max(map(len, ids))
    padded = torch.tensor([[tokenizer.pad_token_id] * (width - len(p)) + list(p) for p in ids], device=model.device)
    attention = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in ids], device=model.device)
    # trainers switch the cache off in the settings of the model
    extra: dict[str, Any] = {"max_new_tokens": policy.new_tokens, "use_cache": True}
    # defaults of a chat model would sample from another distribution than the one that is trained
    extra |= {"top_p": 1.0, "min_p": None, "repetition_penalty": 1.0, "no_repeat_ngram_size": 0, "num_beams": 1}
    extra |= {"pad_token_id": tokenizer.pad_token_id} | sampling
    if excluded is not None and (masks := policy.masks):
        processors = LogitsProcessorList([masks.mask(excluded, width)])
        extra |= {"max_new_tokens": masks.length, "logits_processor": processors}
    if not sampling:
        extra |= {"do_sample": False, "temperature": None, "top_p": None, "top_k": None}
    training = model.training
    model.eval()
    with torch.no_grad():
        extra |= shared_prefix.arguments(model, ids, padded, attention)
        answers: list[list[int]] = model.generate(padded, attention_mask=attention, **extra)[:, width:].tolist()
    model.train(training)
    return answers


def _ends(model: CausalLM, tokenizer: PreTrainedTokenizerBase) -> set[int]:
    ends = model.generation_config.eos_token_id
    return {tokenizer.eos_token_id, tokenizer.pad_token_id, *(ends if isinstance(ends, list) else [ends])}


def embeddings(model: PreTrainedModel) -> list[Tensor]:
    """Returns the input embeddings (vocabulary, width), and the output embeddings unless both are tied."""
    parts = [model.get_input_embeddings()]
    if not model.config.tie_word_embeddings:
        parts.append(model.get_output_embeddings())  # type: ignore[no-untyped-call]
    return [part.get_parameter("weight") for part in parts]


def prompt_tokens(tokenizer: PreTrainedTokenizerBase, rows: Sequence[Row]) -> list[list[int]]:
    """Returns the tokens of each row's prompt in the chat template, up to the start of the answer."""
    chats = [list(row["prompt"]) for row in rows]
    return list(_templated(tokenizer, chats, begun=True, tokenize=True)["input_ids"])


def answer_tokens(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[list[int]]:
    """Returns the tokens of answers that follow a prompt, each with the end of a turn. Text that a template puts before
    an answer, such as empty thoughts, belongs to the prompt."""
    tail = _tail(tokenizer)
    return [tokenizer.encode(text + tail, add_special_tokens=False) for text in texts]


def _tail(tokenizer: PreTrainedTokenizerBase) -> str:
    answer: Message = {"role": "assistant", "content": "qwq"}
    prefix, _, tail = str(_templated(tokenizer, [QUESTION, answer])).rpartition(answer["content"])
    if not prefix:
        raise TrainingError("the model's chat template changes the words of an answer: expected another model")
    return tail


def _templated(tokenizer: PreTrainedTokenizerBase, chats: Any, begun: bool = False, tokenize: bool = False) -> Any:
    """Returns a chat, or several, in the template of the model; begun = whether to add the start of an answer."""
    try:
        return tokenizer.apply_chat_template(
            chats, add_generation_prompt=begun, tokenize=tokenize, return_dict=tokenize
        )
    except TemplateError as fault:  # some templates require that the user begins, which not every conversation does
        raise TrainingError(
            f"the model's chat template refuses a conversation of the release ({fault}): expected a model that takes"
            " it, or a copy of this one with another chat_template.jinja"
        ) from None
