"""Requests to a model server and its replies: a request's name and bytes, and how a response body is read."""

import json
from dataclasses import dataclass, field
from typing import Annotated, TypeAlias

from pydantic import BaseModel, BeforeValidator, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_json

from saferec_builder.core import addresses
from saferec_builder.core.errors import fault_of
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


def _text(value: JsonValue) -> JsonValue:
    """An answer's text; some servers send it in parts, or parse its JSON."""
    if (text := text_of_parts(value)) is not None:
        return text
    return json.dumps(value) if isinstance(value, dict | list) else value


_Text = Annotated[str | None, BeforeValidator(_text)]


class _Function(BaseModel):
    arguments: _Text = None


class _Call(BaseModel):
    function: _Function = _Function()


class _Message(BaseModel):
    content: _Text = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None
    reasoning_content: _Text = None

    @property
    def answer(self) -> str | None:
        """The text of the answer. Some servers return the whole answer as reasoning, without content. Several calls of
        the tool, which some models make for one claim each, become a list."""
        thought = (self.reasoning_content or "").strip()
        arguments = [call.function.arguments for call in self.tool_calls or () if call.function.arguments]
        distinct = [*dict.fromkeys(arguments)]
        joined = f"[{', '.join(distinct)}]" if len(distinct) > 1 else "".join(distinct)
        return joined or self.content or (thought if thought.startswith("{") else None)


class _Choice(BaseModel):
    finish_reason: str | None = None
    message: _Message


def _plausible(value: JsonValue) -> int | None:
    """A plausible count of tokens; any other value counts as not reported."""
    return int(value) if isinstance(value, int | float) and 0 <= value <= MOST_TOKENS else None


def _object_or_none(value: JsonValue) -> JsonValue:
    return value if isinstance(value, dict) else None


_Tokens = Annotated[int | None, BeforeValidator(_plausible)]


class _Details(BaseModel):
    cached_tokens: _Tokens = None
    reasoning_tokens: _Tokens = None


_Parts = Annotated[_Details | None, BeforeValidator(_object_or_none)]


class _Usage(BaseModel):
    prompt_tokens: _Tokens = None
    completion_tokens: _Tokens = None
    total_tokens: _Tokens = None
    prompt_cache_hit_tokens: _Tokens = None
    prompt_tokens_details: _Parts = None
    completion_tokens_details: _Parts = None

    @property
    def cached(self) -> int:
        return min(self._cached, self.prompt_tokens or 0)

    @property
    def _cached(self) -> int:
        count = self.prompt_tokens_details.cached_tokens if self.prompt_tokens_details else None
        return count or self.prompt_cache_hit_tokens or 0

    @property
    def reasoning(self) -> int:
        extra = (self.out or 0) - self.completion_tokens if self.completion_tokens else 0
        return max(self._reasoned, extra)

    @property
    def out(self) -> int | None:
        """Completion tokens with those of reasoning, which some servers report separately or only in the total."""
        completion = self.completion_tokens or 0
        extra = self._reasoned if self._reasoned > completion else 0  # more than the completion: not part of it
        remainder = self.total_tokens - self.prompt_tokens if self.total_tokens and self.prompt_tokens else 0
        remainder -= self._cached if self._cached > (self.prompt_tokens or 0) else 0  # prompt_tokens lack it
        return max(completion + extra, remainder) or self.completion_tokens

    @property
    def _reasoned(self) -> int:
        return (self.completion_tokens_details and self.completion_tokens_details.reasoning_tokens) or 0


class _Body(BaseModel):
    choices: list[_Choice] | None = None
    usage: Annotated[_Usage | None, BeforeValidator(_object_or_none)] = None  # a malformed one must not cost the answer


_BODY = TypeAdapter(Annotated[_Body, BeforeValidator(as_completion)])


def read_body(request: str, model: str, text: str) -> Reply:
    """Reads the reply from the body of a 200; a reply with an error keeps the body."""
    try:
        body = _BODY.validate_json(text)
    except ValidationError as fault:
        problem = "web page instead of JSON" if text.lstrip()[:1] == "<" else "broken JSON"
        return Reply(request, model, error=f"{problem}: {fault.errors(include_url=False)[0]['msg']}", body=text)
    if json_fault := fault_of(text):
        return Reply(request, model, error=f"broken JSON: {json_fault}", body=text)
    usage = body.usage or _Usage()
    content, error = _content(body.choices or [])
    billed = (usage.prompt_tokens, usage.out, usage.cached, usage.reasoning)
    return Reply(request, model, content, error, text, *billed)


def _content(choices: list[_Choice]) -> tuple[str | None, str | None]:
    if not choices:
        return None, "no choices"
    message, finish = choices[0].message, choices[0].finish_reason
    if message.refusal or finish == "content_filter":
        return None, f"refused: {(message.refusal or finish or '')[:200]}"
    if finish == "length":  # even if the text looks complete: a server may close what it cut
        return None, "cut off: the answer reached the token limit"
    return (message.answer, None) if message.answer else (None, "empty answer")


def refusal(status: int, text: str) -> str:
    """The error for a response that is not a 200."""
    if status == 429:
        reason = "quota exhausted" if is_quota(text) else "rate limited"
    elif status == 402:  # payment required: some servers use it for this
        reason = "quota exhausted"
    elif status == 401:
        reason = "key refused"
    elif status == 403:
        reason = "forbidden"  # this text is, by moderation or a firewall: the key was accepted at the probe
    elif 300 <= status < 400:
        reason = "redirected"  # not followed: it could send the text to a host that nobody agreed to
    else:
        reason = "server error" if status >= 500 else "bad request"
    return f"{reason}: status {status}: {' '.join(text.split())[:200]}"


def is_quota(text: str) -> bool:
    return "insufficient_quota" in text or "billing_hard_limit" in text
