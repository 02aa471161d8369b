"""Requests to a model server and its replies: a request's name, its bytes, and the reply read out of a body."""

import ipaddress
import json
from dataclasses import dataclass, field
from typing import Annotated, TypeAlias
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_json

from saferec_builder.core.errors import fault_of
from saferec_builder.core.json_value import JsonValue, text_of_parts
from saferec_builder.llm.answer_forms import RESPONSES, WAYS, as_completion, as_response, in_one_message, shaped
from saferec_builder.storage.tables import digest

OPENAI = "https://api.openai.com/v1"
SAMPLING = (("temperature", 0.0), ("max_completion_tokens", 2_000))  # 20 claims with their quotes take about 1,200
Body: TypeAlias = dict[str, JsonValue]  # of a chat completion, without model and sampling
Sampling: TypeAlias = tuple[tuple[str, JsonValue], ...]

MOST_TOKENS = 10**9  # of one request: more is no count, and would break the table of what was spent


@dataclass(frozen=True)
class Server:
    model: str
    base_url: str = OPENAI
    key: str = field(default="unused", repr=False)  # a server on this machine asks for none
    concurrency: int = 16
    timeout: float = 120.0
    retries: int = 3
    sampling: Sampling = field(default_factory=lambda: SAMPLING)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)  # beside the key: kept in nothing that a server repeats
    way: str = WAYS[0]  # of asking for an answer's form
    refuses: tuple[str, ...] = ()  # temperature, max_completion_tokens or system; requests keep their names

    @property
    def host(self) -> str:
        return urlsplit(self.base_url).hostname or self.base_url

    @property
    def is_loopback(self) -> bool:
        """Whether nothing that is sent leaves this machine; a name that only looks like it does not count."""
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def is_openai(self) -> bool:
        """OpenAI itself, in any of its regions."""
        return f".{self.host}".endswith(".api.openai.com")

    @property
    def path(self) -> str:
        """Where its answers are asked for, below base_url."""
        return "/responses" if self.way == RESPONSES else "/chat/completions"

    @property
    def longest_answer(self) -> int:
        """Tokens that an answer may have."""
        sampling = dict(self.sampling)
        limit = sampling.get("max_completion_tokens") or sampling.get("max_tokens")
        return int(limit) if isinstance(limit, int | float) else 2_000

    def name(self, body: Body) -> str:
        """What a reply is stored under: server, model, sampling, messages and schema."""
        return digest(self.base_url.rstrip("/"), self.model, self.sampling, body)

    def payload(self, body: Body) -> bytes:
        whole = {"model": self.model, **dict(self.sampling), **shaped(body, self.way)}
        for name in self.refuses:
            left_out = whole.pop(name, None)
            if name == "max_completion_tokens" and left_out is not None:
                whole["max_tokens"] = left_out  # its former name
            elif name == "system":
                in_one_message(whole)
        whole = as_response(whole) if self.way == RESPONSES else whole
        try:
            return to_json(whole)
        except PydanticSerializationError:  # half a character, which UTF-8 cannot hold
            return json.dumps(whole, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


UNSENT = ": not sent"  # ends the error of a request that stayed here
ANSWERED = ("cut off", "refused", "off schema", "empty answer", "broken JSON")  # faults of an answer that was made


@dataclass(frozen=True)
class Reply:
    """content: the answer's text, or None and `error` says why; body: the raw reply as it came.

    tokens are as billed, also where the answer is of no use; tokens_cached is the part of tokens_in that was cheaper,
    tokens_reasoning the part of tokens_out that no answer shows.
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
        """Whether an answer was made that costs something, of use or not."""
        made = self.content is not None or self.reason in ANSWERED
        return made or (self.tokens_in or 0) + (self.tokens_out or 0) > 0


def _text(value: JsonValue) -> JsonValue:
    """An answer's text, also of servers that send it in parts or read the JSON for one."""
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
        """Some servers file a whole answer under the thoughts before it, and have no content then; of several calls, as
        some models make one a claim, a list."""
        thought = (self.reasoning_content or "").strip()
        said = [call.function.arguments for call in self.tool_calls or () if call.function.arguments]
        calls = [*dict.fromkeys(said)]
        called = f"[{', '.join(calls)}]" if len(calls) > 1 else "".join(calls)
        return called or self.content or (thought if thought.startswith("{") else None)


class _Choice(BaseModel):
    finish_reason: str | None = None
    message: _Message


def _believed(value: JsonValue) -> int | None:
    """A count of tokens that a request can have had; what no request can have is as if the server named none."""
    return int(value) if isinstance(value, int | float) and 0 <= value <= MOST_TOKENS else None


def _object(value: JsonValue) -> JsonValue:
    return value if isinstance(value, dict) else None


_Tokens = Annotated[int | None, BeforeValidator(_believed)]


class _Details(BaseModel):
    cached_tokens: _Tokens = None
    reasoning_tokens: _Tokens = None


_Parts = Annotated[_Details | None, BeforeValidator(_object)]


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
        told = self.prompt_tokens_details.cached_tokens if self.prompt_tokens_details else None
        return told or self.prompt_cache_hit_tokens or 0

    @property
    def reasoning(self) -> int:
        beside = (self.out or 0) - self.completion_tokens if self.completion_tokens else 0
        return max(self._thought, beside)

    @property
    def out(self) -> int | None:
        """With the tokens of reasoning, which some servers bill beside those of the completion, and name by themselves
        or in the total alone."""
        said = self.completion_tokens or 0
        beside = self._thought if self._thought > said else 0  # more than the whole: no part of it
        rest = self.total_tokens - self.prompt_tokens if self.total_tokens and self.prompt_tokens else 0
        rest -= self._cached if self._cached > (self.prompt_tokens or 0) else 0  # of a prompt told without that part
        return max(said + beside, rest) or self.completion_tokens

    @property
    def _thought(self) -> int:
        return (self.completion_tokens_details and self.completion_tokens_details.reasoning_tokens) or 0


class _Body(BaseModel):
    choices: list[_Choice] | None = None
    usage: Annotated[_Usage | None, BeforeValidator(_object)] = None  # an odd one costs nobody the answer


_BODY = TypeAdapter(Annotated[_Body, BeforeValidator(as_completion)])


def read_body(request: str, model: str, text: str) -> Reply:
    """The reply in the text of a 200; a fault keeps the text."""
    try:
        body = _BODY.validate_json(text)
    except ValidationError as fault:
        found = "web page instead of JSON" if text.lstrip()[:1] == "<" else "broken JSON"
        return Reply(request, model, error=f"{found}: {fault.errors(include_url=False)[0]['msg']}", body=text)
    if twice := fault_of(text):
        return Reply(request, model, error=f"broken JSON: {twice}", body=text)
    usage = body.usage or _Usage()
    content, error = _content(body.choices or [])
    billed = (usage.prompt_tokens, usage.out, usage.cached, usage.reasoning)
    return Reply(request, model, content, error, text, *billed)


def _content(choices: list[_Choice]) -> tuple[str | None, str | None]:
    if not choices:
        return None, "no choices"
    message, end = choices[0].message, choices[0].finish_reason
    if message.refusal or end == "content_filter":
        return None, f"refused: {(message.refusal or end or '')[:200]}"
    if end == "length":  # also where the text looks whole: a server may close what it cut
        return None, "cut off: the answer reached the token limit"
    return (message.answer, None) if message.answer else (None, "empty answer")


def refusal(status: int, text: str) -> str:
    """The error in an answer that is not a 200."""
    if status == 429:
        reason = "quota exhausted" if is_quota(text) else "rate limited"
    elif status == 402:  # payment required: how some servers say so
        reason = "quota exhausted"
    elif status == 401:
        reason = "key refused"
    elif status == 403:
        reason = "forbidden"  # this text, by moderation or a firewall: the key was good for the first question
    elif 300 <= status < 400:
        reason = "redirected"  # not followed: it could carry the text to a host that nobody agreed to
    else:
        reason = "server error" if status >= 500 else "bad request"
    return f"{reason}: status {status}: {' '.join(text.split())[:200]}"


def is_quota(text: str) -> bool:
    return "insufficient_quota" in text or "billing_hard_limit" in text
