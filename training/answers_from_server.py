"""Answers of any OpenAI-compatible server for the rows of a split, kept as a predictions file while they come in."""

import ipaddress
import json
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from http.client import HTTPException, IncompleteRead
from pathlib import Path
from typing import NotRequired, TypedDict
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, Request, build_opener

from saferec_builder.core.errors import TrainingError, strict_json
from saferec_builder.core.json_value import JsonValue, text_of_parts
from saferec_builder.core.locks import held
from saferec_builder.core.progress import Progress, shown
from training.data import Message, Row, jsonl
from training.settings import Settings, change

ASKED = "Recommend {k} titles for this person: one a line, numbered, as `1. Title (Year)`, and nothing else."
AT_ONCE, TRIES = 8, 5
PATIENCE = 300  # seconds that a server may ask us to wait
MOST = 16 * 2**20  # bytes of a reply that are read
DEFAULTS: Mapping[str, JsonValue] = {"temperature": 0, "max_tokens": 1024}
INSTEAD = {"temperature": None, "max_tokens": "max_completion_tokens"}  # what newer models refuse, and its new name
# a request's own fault where the server answers others: too long, moderated or filtered
ITS_OWN = (400, 403, 413, 422)
NO_CHOICE = "answered without a choice"
FIXED = ("model", "messages", "stream", "n")


@dataclass(frozen=True)
class Asking:
    """How a server is asked."""

    prompt: str = ASKED  # before the turns; {k} is the length of a list
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout: float = 120  # seconds for one answer
    body: Mapping[str, JsonValue] = field(default_factory=lambda: DEFAULTS)  # of each request, beside FIXED


class Answer(TypedDict):
    text: str
    finish: NotRequired[str]  # the server's finish_reason; `length`: it was cut at max_tokens
    refused: NotRequired[int]  # the status, where the server will not answer this request; 200: it gave no choice


class ErrorReply(ValueError):
    """A reply that calls itself good and holds an error, as routers pass on what happened behind them."""


def asking(changes: Sequence[str]) -> Asking:
    """What --set says: prompt, headers ($NAME is of the environment), timeout, and the rest as requests have it."""
    said: Settings = {"saferec": {}}
    for one in changes:
        change(said, one)
    prompt, headers, timeout = said.pop("prompt", ASKED), said.pop("headers", {}), said.pop("timeout", 120)
    if not isinstance(prompt, str) or not isinstance(timeout, int | float) or not timeout > 0:
        raise TrainingError(f"--set: prompt = {prompt!r}, timeout = {timeout!r}: expected a text, and seconds")
    if not isinstance(headers, dict) or not all(isinstance(value, str) for value in headers.values()):
        raise TrainingError("--set headers: expected texts by name, as in headers={X-Team: a, api-key: $KEY}")
    named = {name: re.findall(r"\$\{?(\w+)", value) for name, value in headers.items()}
    if missing := [name for name, variables in named.items() if not {*variables} <= os.environ.keys()]:
        raise TrainingError(f"--set headers: {missing[0]} names a variable that the environment lacks")
    filled = {name: os.path.expandvars(value) for name, value in headers.items()}
    if wrong := [name for name in said if name in FIXED] + [f"saferec.{name}" for name in said.pop("saferec")]:
        raise TrainingError(f"--set {wrong[0]}: expected prompt, headers, timeout, or what the server knows")
    body = {**DEFAULTS, **said}
    if "max_completion_tokens" in said and "max_tokens" not in said:
        del body["max_tokens"]
    return Asking(prompt, filled, timeout, body)


def consented(url: str, requests: int, remote: bool) -> None:
    """Stops before what people wrote leaves this machine, unless `remote` says that it may."""
    if "@" in url:
        raise TrainingError("--server holds a user or password: put the key into $OPENAI_API_KEY instead")
    if not (_is_loopback(url) or remote):
        raise TrainingError(
            f"--server {url}: this is another machine, and the turns of {requests:,} requests would be sent there: "
            "say --allow-remote if they may be"
        )


def _is_loopback(url: str) -> bool:
    host = _host(url)
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _host(url: str) -> str:
    try:
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return parts.hostname
    except ValueError:  # brackets that nobody closed, or a port that there is not
        pass
    raise TrainingError(
        f"--server {url}: expected an address that begins with http:// or https://, such as http://localhost:8000/v1"
    )


def messages(row: Row, k: int, how: Asking = Asking()) -> list[Message]:
    """What the server is asked for a row."""
    return [{"role": "system", "content": how.prompt.replace("{k}", str(k))}, *row["prompt"]]


def ask(
    url: str,
    model: str,
    table: Sequence[Row],
    k: int,
    path: Path,
    sleep: Callable[[float], None] = time.sleep,
    how: Asking = Asking(),
    *,
    progress: Progress | None = None,
) -> None:
    """Writes {"id", "text", "finish"} for every row to `path`; rows that it holds already are not asked again.

    url ends before /chat/completions. OPENAI_API_KEY is sent where it is set. A server that is busy or away is asked
    again some times; then the answers so far stay, and running it again goes on from them. A single request that is
    refused is an answer without text, `refused` says with which status; a server that refuses all, or from some time on
    what it had answered, is an error, and so is a key that it does not know.
    Who writes to the same path at the same time waits, and finds the answers there. progress: a step is a request.
    """
    _host(url)
    path.parent.mkdir(parents=True, exist_ok=True)
    body = dict(how.body)

    def send(row: Row) -> Answer:
        return _one(url, {"model": model, "messages": messages(row, k, how)}, body, how, sleep)

    with held(path, f"{path}: another `evaluate`", wait=True):
        _drop_half_a_line(path)
        _fill(path, table, send, url, progress)


def _fill(path: Path, table: Sequence[Row], send: Callable[[Row], Answer], url: str, progress: Progress | None) -> None:
    there = {row["id"]: "refused" not in row for _, row in jsonl(path)}
    rows = [row for row in table if row["conversation"] not in there]
    answered = [row for row in table if there.get(row["conversation"])]
    refused: list[tuple[Row, Answer]] = []
    with (
        open(path, "a", encoding="utf-8") as file,
        ThreadPoolExecutor(AT_ONCE) as pool,
        shown(len(rows), progress) as bar,
    ):
        begun = {pool.submit(send, row): row for row in rows}
        kept: set[Future[Answer]] = set()

        def keep(row: Row, answer: Answer) -> None:
            file.write(json.dumps({"id": row["conversation"], **answer}, ensure_ascii=False) + "\n")
            file.flush()

        def keep_refused() -> None:
            """They are the requests' own where one that was answered is answered again: a key may have reached its
            limit."""
            if refused and (not answered or "refused" in send(answered[0])):
                raise _refusal(url, refused[0][1]["refused"])
            for one in refused:
                keep(*one)
            refused.clear()

        try:
            for done in as_completed(begun):
                kept.add(done)
                row, answer = begun[done], done.result()
                if "refused" in answer:
                    refused.append((row, answer))
                else:
                    keep(row, answer)
                    answered.append(row)
                bar.update()
                if len(refused) == AT_ONCE:
                    keep_refused()
            keep_refused()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            for done in begun.keys() - kept:  # what was on the way may have been paid for
                if not done.cancelled() and done.exception() is None and "refused" not in done.result():
                    keep(begun[done], done.result())
            raise


def _refusal(url: str, status: int) -> TrainingError:
    what = NO_CHOICE if status == 200 else f"refused with {status}"
    return TrainingError(f"{url}: the server {what}: check --model and the key")


def _drop_half_a_line(path: Path) -> None:
    """What a killed run left of its last line."""
    if path.is_file() and (raw := path.read_bytes()) and not raw.endswith(b"\n"):
        path.write_bytes(raw[: raw.rfind(b"\n") + 1])


def _one(
    url: str, row: Mapping[str, object], body: dict[str, JsonValue], how: Asking, sleep: Callable[[float], None]
) -> Answer:
    """The reply, or why there is none.

    row = the model and the messages; body = what all requests hold beside: what the server refuses by name goes.
    """
    opener = build_opener(*([ProxyHandler({})] if _is_loopback(url) else []))  # no proxy reaches this machine
    pause = 0.0  # seconds that the server asked for
    for n in range(TRIES):
        if n:
            sleep(max(2.0 ** (n - 1), pause))
        sent = body.copy()
        try:
            with opener.open(_request(url, {**row, **sent}, how), timeout=how.timeout) as reply:
                raw = reply.read(MOST)
                if reply.length:  # more than anybody reads, or broken off
                    raise IncompleteRead(raw, reply.length)
                if answer := _answer(strict_json(raw), url):
                    return answer
                why, pause = NO_CHOICE, 0.0
        except HTTPError as fault:
            reason = _reason(fault)
            refused = [name for name in INSTEAD if name in sent and f"'{name}'" in reason]
            if fault.code == 400 and refused:
                for name in refused:
                    if not INSTEAD[name] and sent[name] != DEFAULTS[name]:
                        told = f"{url}: the server takes no {name} of {sent[name]}: leave it out"
                        raise TrainingError(told) from None
                    if (value := body.pop(name, None)) is not None and (new := INSTEAD[name]):
                        body.setdefault(new, value)
                continue
            if fault.code in ITS_OWN:
                return {"text": "", "refused": fault.code}
            if fault.code not in (408, 409, 429) and fault.code < 500:
                raise _refusal(url, fault.code) from None
            why, pause = f"answered {fault.code}", _retry_after(fault.headers.get("Retry-After"))
            if pause > PATIENCE:
                raise TrainingError(
                    f"{url}: the server {why} and asks to wait for {pause:.0f} s: what came is kept, run it again then"
                ) from None
        except (OSError, HTTPException, ValueError, RecursionError) as fault:
            why, pause = f"gave nothing usable ({type(fault).__name__})", 0.0
    if why == NO_CHOICE:
        return {"text": "", "refused": 200}
    next_ = "see whether it runs there; what came is kept, run it again"
    raise TrainingError(f"{url}: the server {why} {TRIES} times: {next_}")


def _request(url: str, body: Mapping[str, object], how: Asking) -> Request:
    made = Request(f"{url.rstrip('/')}/chat/completions", json.dumps(body).encode())
    made.add_header("Content-Type", "application/json")
    # for this address alone: a redirect takes none of them along
    if token := os.environ.get("OPENAI_API_KEY"):
        made.add_unredirected_header("Authorization", f"Bearer {token}")
    for name, value in how.headers.items():
        made.add_unredirected_header(name, value)
    return made


def _retry_after(said: str | None) -> float:
    """Seconds until the time that the header names, as a number or a date; 0 where it says nothing of use."""
    try:
        return max(0.0, float(said or 0))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(str(said)).timestamp() - time.time())
    except ValueError:
        return 0.0


def _reason(fault: HTTPError) -> str:
    with fault:
        try:
            return fault.read(4096).decode("utf-8", "replace")
        except (OSError, HTTPException):
            return ""


def _answer(reply: JsonValue, url: str) -> Answer | None:
    """What a reply says; None where it holds no choice."""
    match reply:
        case {"choices": [{"message": {"content": content}, **choice}, *_]}:
            # a refusal, or thoughts that were cut, come as null
            text = content if isinstance(content, str) else text_of_parts(content) or ""
            finish = choice.get("finish_reason")
            return {"text": text, "finish": finish} if isinstance(finish, str) else {"text": text}
        case {"error": {"code": int(code)}} if code in ITS_OWN:
            return {"text": "", "refused": code}
        case {"error": fault} if fault:
            raise ErrorReply
        case {"choices": [] | None}:
            return None
    raise TrainingError(f"{url}: the reply is no chat completion: expected an OpenAI-compatible server")
