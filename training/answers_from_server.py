"""Asks any OpenAI-compatible server for answers to the rows of a split, and writes them to a predictions file."""

import json
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from http.client import HTTPException, IncompleteRead
from pathlib import Path
from typing import NotRequired, TextIO, TypedDict
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

from saferec_builder.core.addresses import host, is_loopback
from saferec_builder.core.errors import TrainingError, strict_json
from saferec_builder.core.json_value import JsonValue, text_of_parts
from saferec_builder.core.locks import file_lock
from saferec_builder.core.progress import Progress, shown
from training.data import Message, Row, jsonl
from training.settings import Settings, change

ASKED = "Recommend {k} titles for this person: one a line, numbered, as `1. Title (Year)`, and nothing else."
AT_ONCE, TRIES = 8, 5
PATIENCE = 300  # seconds that a server may ask us to wait
LONGEST = 86_400  # seconds for one answer: sockets take no infinity
MOST = 16 * 2**20  # bytes of a reply to read
DEFAULTS: Mapping[str, JsonValue] = {"temperature": 0, "max_tokens": 1024}
NEW_NAMES = {"temperature": None, "max_tokens": "max_completion_tokens"}  # field that newer models refuse -> new name
# HTTP statuses of one request (too long, moderated or filtered), if the server answers others
REQUEST_ERRORS = (400, 403, 413, 422)
NO_CHOICE = "answered without a choice"
FIXED = ("model", "messages", "stream", "n")


@dataclass(frozen=True)
class RequestOptions:
    prompt: str = ASKED  # before the turns; {k} is the length of a list
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout: float = 120  # seconds for one answer
    body: Mapping[str, JsonValue] = field(default_factory=lambda: DEFAULTS)  # fields of a request but FIXED


class Answer(TypedDict):
    text: str
    finish: NotRequired[str]  # finish_reason of the server; `length`: cut at max_tokens
    refused: NotRequired[int]  # HTTP status, if the server refuses this request; 200: a reply without a choice


class ErrorReply(ValueError):
    """A reply with status 200 that holds an error, as routers send when a server behind them fails."""


def request_options(changes: Sequence[str]) -> RequestOptions:
    """Parses --set: prompt, headers ($NAME from the environment), timeout, and other fields of requests."""
    options: Settings = {"saferec": {}}
    for setting in changes:
        change(options, setting)
    prompt, headers, timeout = options.pop("prompt", ASKED), options.pop("headers", {}), options.pop("timeout", 120)
    if not isinstance(prompt, str) or not isinstance(timeout, int | float) or not 0 < timeout <= LONGEST:
        raise TrainingError(
            f"--set: prompt = {prompt!r}, timeout = {timeout!r}: expected a text, and seconds up to {LONGEST:,}"
        )
    if not isinstance(headers, dict) or not all(isinstance(value, str) for value in headers.values()):
        raise TrainingError("--set headers: expected texts by name, as in headers={X-Team: a, api-key: $KEY}")
    variables_by_header = {name: re.findall(r"\$\{?(\w+)", value) for name, value in headers.items()}
    if missing := [name for name, variables in variables_by_header.items() if not {*variables} <= os.environ.keys()]:
        raise TrainingError(f"--set headers: {missing[0]} names a variable that the environment lacks")
    expanded = {name: os.path.expandvars(value) for name, value in headers.items()}
    if wrong := [name for name in options if name in FIXED] + [f"saferec.{name}" for name in options.pop("saferec")]:
        raise TrainingError(f"--set {wrong[0]}: expected prompt, headers, timeout, or what the server knows")
    body = {**DEFAULTS, **options}
    if "max_completion_tokens" in options and "max_tokens" not in options:
        del body["max_tokens"]
    return RequestOptions(prompt, expanded, timeout, body)


def refuse_remote(url: str, requests: int, remote: bool) -> None:
    """Raises TrainingError before requests are sent to another machine, unless `remote` allows it."""
    if "@" in url:
        raise TrainingError("--server holds a user or password: put the key into $OPENAI_API_KEY instead")
    if not host(url):
        example = "that begins with http:// or https://, such as http://localhost:8000/v1"
        raise TrainingError(f"--server {url}: expected an address {example}")
    if not (is_loopback(url) or remote):
        raise TrainingError(
            f"--server {url}: this is another machine, and the turns of {requests:,} requests would be sent there: "
            "say --allow-remote if they may be"
        )


def messages(row: Row, k: int, how: RequestOptions = RequestOptions()) -> list[Message]:
    return [{"role": "system", "content": how.prompt.replace("{k}", str(k))}, *row["prompt"]]


def ask(
    url: str,
    model: str,
    table: Sequence[Row],
    k: int,
    path: Path,
    sleep: Callable[[float], None] = time.sleep,
    *,
    how: RequestOptions = RequestOptions(),
    progress: Progress | None = None,
) -> None:
    """Writes {"id", **Answer} for every row to `path`; skips rows whose answers it holds already.

    url ends before /chat/completions, and has passed `refuse_remote`. OPENAI_API_KEY is sent if it is set. Raises
    TrainingError for a server that stays busy or unreachable for TRIES requests, or refuses the key, all requests or
    one that it had answered: the answers so far stay, and another call continues from them. Another process that writes
    to the same path waits, and then finds the answers. progress: a step is a request.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    body = dict(how.body)

    def send(row: Row) -> Answer:
        return _ask_one(url, {"model": model, "messages": messages(row, k, how)}, body, how, sleep)

    with file_lock(path, f"{path}: another `evaluate`", wait=True):
        if (raw := path.read_bytes()) and not raw.endswith(b"\n"):  # a killed run left an incomplete last line
            os.truncate(path, raw.rfind(b"\n") + 1)  # the paid answers above it are not written again
        _fill(path, table, send, url, progress)


@dataclass
class _Writer:
    """Writes answers as they come. A refusal waits until it is known whether it is of one request or of all: the server
    is then asked again what it answered before."""

    file: TextIO
    send: Callable[[Row], Answer]
    url: str
    answered: list[Row]
    refused: list[tuple[Row, Answer]] = field(default_factory=list)

    def take(self, row: Row, answer: Answer) -> None:
        if "refused" not in answer:
            self.write(row, answer)
            self.answered.append(row)
            return
        self.refused.append((row, answer))
        if len(self.refused) == AT_ONCE:
            self.write_refused()

    def write_refused(self) -> None:
        """Writes the refusals; raises TrainingError if the server refuses what it answered, or has answered nothing:
        the key may be wrong, or at its limit."""
        if self.refused and (not self.answered or "refused" in self.send(self.answered[0])):
            raise _refusal(self.url, self.refused[0][1]["refused"])
        for row, answer in self.refused:
            self.write(row, answer)
        self.refused.clear()

    def write(self, row: Row, answer: Answer) -> None:
        self.file.write(json.dumps({"id": row["conversation"], **answer}, ensure_ascii=False) + "\n")
        self.file.flush()


def _fill(path: Path, table: Sequence[Row], send: Callable[[Row], Answer], url: str, progress: Progress | None) -> None:
    """Asks for the answers that the file lacks, AT_ONCE at a time, and writes each as it comes."""
    was_answered = {row["id"]: "refused" not in row for _, row in jsonl(path)}
    rows = [row for row in table if row["conversation"] not in was_answered]
    with (
        open(path, "a", encoding="utf-8") as file,
        ThreadPoolExecutor(AT_ONCE) as pool,
        shown(len(rows), progress) as bar,
    ):
        writer = _Writer(file, send, url, [row for row in table if was_answered.get(row["conversation"])])
        rows_by_future = {pool.submit(send, row): row for row in rows}
        waiting = {*rows_by_future}
        try:
            for future in as_completed(rows_by_future):
                waiting.remove(future)
                writer.take(rows_by_future[future], future.result())
                bar.update()
            writer.write_refused()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            for future in waiting:  # answers that arrived meanwhile may be paid for
                if not future.cancelled() and future.exception() is None and "refused" not in future.result():
                    writer.write(rows_by_future[future], future.result())
            raise


def _refusal(url: str, status: int) -> TrainingError:
    problem = NO_CHOICE if status == 200 else f"refused with {status}"
    return TrainingError(f"{url}: the server {problem}: check the address, --model and the key")


def _ask_one(
    url: str, row: Mapping[str, object], body: dict[str, JsonValue], how: RequestOptions, sleep: Callable[[float], None]
) -> Answer:
    """row = the model and the messages; body = other fields of all requests: those that the server refuses go."""
    opener = build_opener(*([ProxyHandler({})] if is_loopback(url) else []))  # no proxy for this machine
    wait = 0.0  # seconds that the server asks to wait
    for n in range(TRIES):
        if n:
            sleep(max(2.0 ** (n - 1), wait))
        fields = body.copy()
        try:
            with opener.open(_request(url, {**row, **fields}, how), timeout=how.timeout) as reply:
                raw = reply.read(MOST)
                if reply.length:  # longer than MOST, or broken off
                    raise IncompleteRead(raw, reply.length)
                if answer := _parsed(strict_json(raw), url):
                    return answer
                cause, wait = NO_CHOICE, 0.0
        except HTTPError as fault:
            reason = _reason(fault)
            refused = [name for name in NEW_NAMES if name in fields and f"'{name}'" in reason]
            if fault.code == 400 and refused:
                for name in refused:
                    if not NEW_NAMES[name] and fields[name] != DEFAULTS[name]:
                        message = f"{url}: the server takes no {name} of {fields[name]}: leave it out"
                        raise TrainingError(message) from None
                    if (value := body.pop(name, None)) is not None and (new := NEW_NAMES[name]):
                        body.setdefault(new, value)
                continue
            if fault.code in REQUEST_ERRORS:
                return {"text": "", "refused": fault.code}
            if fault.code not in (408, 409, 429) and fault.code < 500:
                raise _refusal(url, fault.code) from None
            cause, wait = f"answered {fault.code}", _retry_after(fault.headers.get("Retry-After"))
            if wait > PATIENCE:
                raise TrainingError(
                    f"{url}: the server {cause} and asks to wait for {wait:.0f} s: what came is kept, run it again then"
                ) from None
        except (OSError, HTTPException, ValueError, RecursionError) as fault:
            cause, wait = f"gave nothing usable ({type(fault).__name__})", 0.0
    if cause == NO_CHOICE:
        return {"text": "", "refused": 200}
    advice = "see whether it runs there; what came is kept, run it again"
    raise TrainingError(f"{url}: the server {cause} {TRIES} times: {advice}")


def _request(url: str, body: Mapping[str, object], how: RequestOptions) -> Request:
    request = Request(f"{url.rstrip('/')}/chat/completions", json.dumps(body).encode())
    request.add_header("Content-Type", "application/json")
    # unredirected: a redirect to another address does not get them
    if token := os.environ.get("OPENAI_API_KEY"):
        request.add_unredirected_header("Authorization", f"Bearer {token}")
    for name, value in how.headers.items():
        request.add_unredirected_header(name, value)
    return request


def _retry_after(header: str | None) -> float:
    """Returns the seconds to wait, from a header with a number or a date; 0 for anything else."""
    with suppress(ValueError):
        return max(0.0, float(header or 0))
    with suppress(ValueError):
        return max(0.0, parsedate_to_datetime(str(header)).timestamp() - time.time())
    return 0.0


def _reason(fault: HTTPError) -> str:
    with fault, suppress(OSError, HTTPException):
        return fault.read(4096).decode("utf-8", "replace")
    return ""


def _parsed(reply: JsonValue, url: str) -> Answer | None:
    """Parses a reply; returns None if it holds no choice."""
    match reply:
        case {"choices": [{"message": dict() as message, **choice}, *_]}:
            # content is null or missing for a refusal, a call of a tool, or reasoning that was cut
            content, finish = message.get("content"), choice.get("finish_reason")
            text = content if isinstance(content, str) else text_of_parts(content) or ""
            text = text.encode(errors="replace").decode()  # a cut answer may end in half of a surrogate pair
            return {"text": text, "finish": finish} if isinstance(finish, str) else {"text": text}
        case {"error": {"code": int(code)}} if code in REQUEST_ERRORS:
            return {"text": "", "refused": code}
        case {"error": fault} if fault:
            raise ErrorReply
        case {"choices": [] | None}:
            return None
    raise TrainingError(f"{url}: the reply is no chat completion: expected an OpenAI-compatible server")
