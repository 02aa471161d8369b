"""Requests to a model server and its replies: a request's name and bytes, and how a response body is read."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from pydantic_core import PydanticSerializationError, to_json

from saferec_builder.core import addresses
from saferec_builder.core.errors import strict_json
from saferec_builder.core.json_value import JsonValue, text_of_parts
from saferec_builder.llm.answer_forms import RESPONSES, WAYS, as_completion, as_response, in_one_message, shaped
from saferec_builder.storage.tables import digest

OPENAI = "https://api.openai.com/v1"
SAMPLING = (("temperature", 0.0), ("max_completion_tokens", 2_000))  # 20 claims with their quotes take about 1,200
Body: TypeAlias = dict[str, JsonValue]  # of a chat completion, without model and sampling
Sampling: TypeAlias = tuple[tuple[str, JsonValue], ...]

MOST_TOKENS = 10**9  # of one request: a larger number is no real count, and would break the table of spending


@dataclass(frozen=True)
class Server:
    model: str
    base_url: str = OPENAI
    key: str = field(default="unused", repr=False)  # a server on this machine needs none
    concurrency: int = 16
    timeout: float = 120.0
    retries: int = 3
    sampling: Sampling = field(default_factory=lambda: SAMPLING)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)  # beside the key: removed from all that a server sends
    way: str = WAYS[0]  # how an answer of a schema is asked for
    refuses: tuple[str, ...] = ()  # temperature, max_completion_tokens or system; requests keep their names

    @property
    def host(self) -> str:
        return addresses.host(self.base_url) or self.base_url

    @property
    def is_loopback(self) -> bool:
        """Whether nothing that is sent leaves this machine."""
        return addresses.is_loopback(self.base_url)

    @property
    def is_openai(self) -> bool:
        """OpenAI itself, in any of its regions."""
        return f".{self.host}".endswith(".api.openai.com")

    @property
    def path(self) -> str:
        """The path of its answers, below base_url."""
        return "/responses" if self.way == RESPONSES else "/chat/completions"

    @property
    def longest_answer(self) -> int:
        """The most tokens that an answer may have."""
        sampling = dict(self.sampling)
        limit = sampling.get("max_completion_tokens") or sampling.get("max_tokens")
        return int(limit) if isinstance(limit, int | float) else 2_000

    def name(self, body: Body) -> str:
        """The key under which a reply is stored: a digest of server, model, sampling, messages and schema."""
        return digest(self.base_url.rstrip("/"), self.model, self.sampling, body)

    def payload(self, body: Body) -> bytes:
        request = {"model": self.model, **dict(self.sampling), **shaped(body, self.way)}
        for name in self.refuses:
            value = request.pop(name, None)
            if name == "max_completion_tokens" and value is not None:
                request["max_tokens"] = value  # its former name
            elif name == "system":
                in_one_message(request)
        request = as_response(request) if self.way == RESPONSES else request
        try:
            return to_json(request)
        except PydanticSerializationError:  # an unpaired surrogate, which UTF-8 cannot hold
            return json.dumps(request, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


_TOO_LONG = re.compile(
    r"context[ _](?:length|size|window)|prompt is too long|max_new_tokens", re.I
)  # as servers say it

DONE = (200, 201)  # statuses of an answer; some frameworks answer every POST with 201
UNSENT = ": not sent"  # ends the error of a request that was not sent
ANSWERED = ("cut off", "refused", "off schema", "empty answer", "broken JSON")  # reasons of answers that were generated


@dataclass(frozen=True)
class Reply:
    """content: the answer's text, or None and `error` says why; body: the raw reply as it came.

    Tokens are as billed, even if the answer is unusable; tokens_cached is the part of tokens_in that was cheaper,
    tokens_reasoning the part of tokens_out that is not in the answer. cached: not paid for by this request.
    """

    request: str
    model: str
    content: str | None = None
    error: str | None = None
    body: str = ""
    tokens_in: int | None = None
    tokens_out: int | None = None
    tokens_cached: int = 0
    tokens_reasoning: int = 0
    cached: bool = False

    @property
    def reason(self) -> str | None:
        return self.error.split(":")[0] if self.error else None

    @property
    def sent(self) -> bool:
        return not (self.error or "").endswith(UNSENT)

    @property
    def answered(self) -> bool:
        """Whether an answer was generated, usable or not, so that it costs something."""
        has_answer = self.content is not None or self.reason in ANSWERED
        return has_answer or (self.tokens_in or 0) + (self.tokens_out or 0) > 0


def read_body(request: str, model: str, text: str) -> Reply:
    """Reads the reply from the body of a 200; a reply with an error keeps the body."""
    try:
        body = _object(as_completion(strict_json(text)))
    except (ValueError, RecursionError) as fault:
        problem = "web page instead of JSON" if text.lstrip()[:1] == "<" else "broken JSON"
        detail = "a stream of events, although none was asked for" if text.startswith(("data:", "event:")) else fault
        return Reply(request, model, error=f"{problem}: {detail}", body=text)
    choices = body.get("choices")
    if isinstance(choices, list) and choices:
        content, error = _content(_object(choices[0]))
    else:
        content, error = None, _error_inside(body, text)
    return Reply(request, model, content, error, text, *_billed(_object(body.get("usage"))))


def _error_inside(body: Mapping[str, JsonValue], text: str) -> str:
    """The error for a 200 without an answer: OpenRouter and LM Studio put their errors inside one."""
    fault = body.get("error")
    code = _object(fault).get("code")
    return refusal(code if isinstance(code, int) else 200, text) if fault else "no choices"


def _object(value: JsonValue) -> Mapping[str, JsonValue]:
    """The value if it is an object; servers put other things (null, false, a list) where they have nothing to say."""
    return value if isinstance(value, dict) else {}


def _text(value: JsonValue) -> str:
    """An answer's text; some servers send it in parts, or parse its JSON. "" if there is none."""
    if (parts := text_of_parts(value)) is not None:
        return encodable(parts)
    text = json.dumps(value) if value and isinstance(value, dict | list) else value
    return encodable(text) if isinstance(text, str) else ""


def encodable(text: str) -> str:
    """Replaces unpaired surrogates, with which a cut answer may end: no table can store them."""
    return text.encode(errors="replace").decode()


def _content(choice: Mapping[str, JsonValue]) -> tuple[str | None, str | None]:
    """Returns (the text of the answer, why there is none)."""
    message, finish = _object(choice.get("message")), choice.get("finish_reason")
    refused = _text(message.get("refusal"))
    if refused or finish == "content_filter":
        return None, f"refused: {(refused or 'content_filter')[:200]}"
    if finish == "length":  # even if the text looks complete: a server may close what it cut
        return None, "cut off: the answer reached the token limit"
    answer = _answer(message)
    return (answer, None) if answer else (None, "empty answer")


def _answer(message: Mapping[str, JsonValue]) -> str:
    """The text of the answer. Some servers return the whole answer as reasoning, without content. Several calls of the
    tool, which some models make for one claim each, become a list."""
    calls = message.get("tool_calls")
    functions = [_object(call).get("function") for call in calls] if isinstance(calls, list) else []
    functions.append(message.get("function_call"))  # the former name
    arguments = [*dict.fromkeys(filter(None, (_text(_object(function).get("arguments")) for function in functions)))]
    joined = f"[{', '.join(arguments)}]" if len(arguments) > 1 else "".join(arguments)
    thought = (_text(message.get("reasoning_content")) or _text(message.get("reasoning"))).strip()
    return joined or _text(message.get("content")) or (thought if thought.startswith("{") else "")


def _count(value: JsonValue) -> int | None:
    """A plausible count of tokens; any other value counts as not reported."""
    return int(value) if isinstance(value, int | float) and 0 <= value <= MOST_TOKENS else None


def _billed(usage: Mapping[str, JsonValue]) -> tuple[int | None, int | None, int, int]:
    """Returns the tokens (in, out, cached, of reasoning) of a bill; None for what it does not report.

    Out includes the tokens of reasoning, which some servers report separately or only in the total.
    """
    reported = [_count(usage.get(f"{name}_tokens")) for name in ("prompt", "completion", "total")]
    prompt, completion, total = (count or 0 for count in reported)
    cached = _count(_object(usage.get("prompt_tokens_details")).get("cached_tokens"))
    cached = cached or _count(usage.get("prompt_cache_hit_tokens")) or 0
    reasoned = _count(_object(usage.get("completion_tokens_details")).get("reasoning_tokens")) or 0
    extra = reasoned if reasoned > completion else 0  # more than the completion: not part of it
    remainder = total - prompt if total and prompt else 0
    remainder -= cached if cached > prompt else 0  # prompt_tokens lack it
    out = max(completion + extra, remainder)
    return reported[0], out or reported[1], min(cached, prompt), max(reasoned, out - completion if completion else 0)


def refusal(status: int, text: str) -> str:
    """The error for a response that holds no answer."""
    if status == 429:
        reason = "quota exhausted" if is_quota(text) else "rate limited"
    elif status == 402:  # payment required: some servers use it for this
        reason = "quota exhausted"
    elif status == 401:
        reason = "key refused"
    elif status == 403:
        reason = "forbidden"  # this text is, by moderation or a firewall: the key was accepted at the probe
    elif status in (400, 413, 422) and _TOO_LONG.search(text):
        reason = "longer than the context"
    elif 300 <= status < 400:
        reason = "redirected"  # not followed: it could send the text to a host that nobody agreed to
    else:
        reason = "server error" if status >= 500 else "bad request"
    return f"{reason}: status {status}: {' '.join(text.split())[:200]}"


def is_quota(text: str) -> bool:
    return "insufficient_quota" in text or "billing_hard_limit" in text
