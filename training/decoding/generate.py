"""Answers of a model for rows of a split: ranked items where items are tokens, text where they are words."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from training.decoding import constrained as decoding, shared_prefix as prefill, trie
from training.decoding.constrained import Catalogue
from training.decoding.shared_prefix import Room
from training.decoding.trie import Trie


@dataclass(frozen=True)
class Speaker:
    """A model that answers, its tokenizer, and its item tokens, or the names that its text is held to, if any."""

    model: Any
    tokenizer: Any
    catalogue: Catalogue | None
    batch: int = 256
    new_tokens: int = 256  # at most, where decoding is free
    masked: bool = True  # whether item tokens are drawn under the masks of decoding/constrained.py
    trie: Trie | None = None  # of a model whose items are text: the lists that it may write

    @property
    def held(self) -> bool:
        """Whether it can answer only with what the catalogue has."""
        return self.trie is not None or (self.catalogue is not None and self.masked)


def load(name: str, dtype: str = "auto", **settings: Any) -> Speaker:
    """The model in a folder or of a name that transformers knows; item tokens are found beside its weights.

    dtype `auto` is that of the weights. To train all of them takes float32: an update of 1e-6 is lost on bfloat16.
    """
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from saferec_builder.core.errors import TrainingError

    try:
        words = AutoTokenizer.from_pretrained(name, padding_side="left")
        model = AutoModelForCausalLM.from_pretrained(name, dtype=dtype)
    except (OSError, ValueError, RuntimeError, SafetensorError) as fault:  # half a file, or another model's
        first = (str(fault).strip() or type(fault).__name__).splitlines()[0]
        raise TrainingError(
            f"model {name}: cannot be loaded ({first}): wanted `tiny`, a model folder or a name"
        ) from None
    if words.chat_template is None:
        raise TrainingError(f"model {name}: its tokenizer has no chat template: wanted a chat (instruct) model")
    if words.pad_token is None:
        words.pad_token = words.eos_token
    _end_with_the_turn(model, words)
    return Speaker(model, words, decoding.load(name), **settings)


def _end_with_the_turn(model: Any, words: Any) -> None:
    """What a base model takes for the end of a text is not what its template ends an answer with, and SFT teaches."""
    said = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    whole, prompt = (
        words.apply_chat_template(part, tokenize=True, return_dict=True, add_generation_prompt=begun)["input_ids"]
        for part, begun in ((said, False), (said[:1], True))
    )
    special = {i for i, token in words.added_tokens_decoder.items() if token.special}
    marks = [i for i in whole[len(prompt) :] if i in special]
    if whole[: len(prompt)] != prompt or not marks or marks[-1] == words.eos_token_id:
        return
    words.eos_token = words.convert_ids_to_tokens(marks[-1])
    model.generation_config.eos_token_id = sorted({marks[-1], *_ends(model, words)} - {None})


def items(speaker: Speaker, rows: Sequence[dict[str, Any]], shut: Sequence[Sequence[str]]) -> list[list[str]]:
    """Per row the items of the greedy answer, exactly k, none of `shut`; for a speaker with item tokens."""
    assert speaker.catalogue is not None
    return [speaker.catalogue.items(answer) for answer in tokens(speaker, rows, shut)]


def tokens(speaker: Speaker, rows: Sequence[dict[str, Any]], shut: Sequence[Sequence[str]]) -> list[list[int]]:
    """Per row the greedy answer under the masks: what it names of the traits it heard, and its items."""
    found: list[list[int]] = [[] for _ in rows]
    for picked, ids in _batches(speaker, rows):
        closed = [shut[n] for n in picked] if speaker.masked else None
        for n, answer in zip(picked, draw(speaker, ids, closed), strict=True):
            found[n] = answer
    return found


def texts(speaker: Speaker, rows: Sequence[dict[str, Any]], shut: Sequence[Sequence[str]]) -> list[str]:
    """Per row the greedy answer as written, for any model; none of `shut` where text is held to names."""
    found = [""] * len(rows)
    for picked, ids in _batches(speaker, rows):
        closed = [shut[n] for n in picked] if speaker.trie else None
        answers = speaker.tokenizer.batch_decode(draw(speaker, ids, closed), skip_special_tokens=True)
        for n, answer in zip(picked, answers, strict=True):
            found[n] = answer
    return found


def draw(
    speaker: Speaker,
    ids: Sequence[Sequence[int]],
    shut: Sequence[Sequence[str]] | None,
    room: Room | None = None,
    **sampling: Any,
) -> list[list[int]]:
    """Token ids of one answer per prompt, up to and without the end; masked where `shut` is given.

    sampling = arguments of `generate`; without any the answer is greedy. room = where a training keeps its cache.
    """
    ends = _ends(speaker.model, speaker.tokenizer)
    answers = written(speaker, ids, shut, room, **sampling)
    return [next((answer[:n] for n, i in enumerate(answer) if i in ends), answer) for answer in answers]


def written(
    speaker: Speaker,
    ids: Sequence[Sequence[int]],
    shut: Sequence[Sequence[str]] | None,
    room: Room | None = None,
    **sampling: Any,
) -> list[list[int]]:
    """As `draw`, but with the end of each answer, and padding behind it up to one length."""
    import torch

    model, words = speaker.model, speaker.tokenizer
    width = max(map(len, ids))
    padded = torch.tensor([[words.pad_token_id] * (width - len(i)) + list(i) for i in ids], device=model.device)
    attention = torch.tensor([[0] * (width - len(i)) + [1] * len(i) for i in ids], device=model.device)
    # trainers switch the cache off in the model's settings, where it is of no use to them
    extra: dict[str, Any] = {"max_new_tokens": speaker.new_tokens, "use_cache": True}
    # what comes with a model for chatting would draw from another distribution than the one that is trained
    extra |= {"top_p": 1.0, "min_p": None, "repetition_penalty": 1.0, "no_repeat_ngram_size": 0, "num_beams": 1}
    extra |= {"pad_token_id": words.pad_token_id} | sampling
    if shut is not None:
        extra |= _held(speaker, shut, width)
    if not sampling:
        extra |= {"do_sample": False, "temperature": None, "top_p": None, "top_k": None}
    training = model.training
    model.eval()
    with torch.no_grad():
        extra |= prefill.arguments(model, ids, padded, attention, extra["max_new_tokens"], room)
        answers: list[list[int]] = model.generate(padded, attention_mask=attention, **extra)[:, width:].tolist()
    model.train(training)
    return answers


def _held(speaker: Speaker, shut: Sequence[Sequence[str]], width: int) -> dict[str, Any]:
    """What holds `generate` to the catalogue, after prompts of `width` tokens."""
    if speaker.trie:
        return {
            "max_new_tokens": speaker.trie.length,
            "logits_processor": trie.mask(speaker.trie, shut, width),
        }
    assert speaker.catalogue is not None
    rows = decoding.closed(speaker.catalogue, shut, speaker.model.config.vocab_size).to(speaker.model.device)
    mask = decoding.mask(speaker.catalogue, rows, width)
    return {"max_new_tokens": speaker.catalogue.length, "logits_processor": mask}


def _ends(model: Any, words: Any) -> set[int]:
    ends = model.generation_config.eos_token_id
    return {words.eos_token_id, words.pad_token_id, *(ends if isinstance(ends, list) else [ends])}


def prompt_tokens(tokenizer: Any, rows: Sequence[dict[str, Any]]) -> list[list[int]]:
    """Per row its prompt in the chat template, up to where the answer begins."""
    return chat_tokens(tokenizer, [row["prompt"] for row in rows], begun=True)


def chat_tokens(tokenizer: Any, chats: Sequence[Sequence[dict[str, str]]], begun: bool) -> list[list[int]]:
    """Chats in the model's template; begun = with what an answer begins with behind them."""
    from jinja2 import TemplateError

    from saferec_builder.core.errors import TrainingError

    try:
        found: list[list[int]] = tokenizer.apply_chat_template(
            chats, add_generation_prompt=begun, tokenize=True, return_dict=True
        )["input_ids"]
    except TemplateError as fault:  # some want the user to begin, and not every conversation begins so
        raise TrainingError(
            f"the model's chat template refuses a conversation of the release ({fault}): wanted a model that takes"
            " it, or a copy of this one with another chat_template.jinja"
        ) from None
    return found


def _batches(speaker: Speaker, rows: Sequence[dict[str, Any]]) -> Iterator[tuple[list[int], list[list[int]]]]:
    """(row numbers, prompt ids), rows of like length together: less padding, same answers."""
    prompts = prompt_tokens(speaker.tokenizer, rows)
    order = sorted(range(len(rows)), key=lambda n: len(prompts[n]))
    for start in range(0, len(order), speaker.batch):
        picked = order[start : start + speaker.batch]
        yield picked, [prompts[n] for n in picked]
