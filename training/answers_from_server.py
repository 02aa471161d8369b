"""Answers of any OpenAI-compatible server for the rows of a split, kept as a predictions file while they come in."""

import ipaddress
import json
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from http.client import HTTPException, IncompleteRead
from pathlib import Path
from typing import NotRequired, TypedDict
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, Request, build_opener

from saferec_builder.core.errors import TrainingError, strict_json
from saferec_builder.core.json_value import JsonValue
from training.data import Message, Row, jsonl

ASKED = "Recommend {k} titles for this person: one a line, numbered, as `1. Title (Year)`, and nothing else."
AT_ONCE, TRIES, WAIT, TOKENS = 8, 5, 120, 1024
MOST = 16 * 2**20  # bytes of a reply that are read
# what newer models of OpenAI's refuse, and what they take for it
INSTEAD: dict[str, dict[str, int]] = {"temperature": {}, "max_tokens": {"max_completion_tokens": TOKENS}}
ITS_OWN = (400, 413, 422)  # a request's own fault where the server answers others: too long, or filtered


class Answer(TypedDict):
    text: str
    refused: NotRequired[int]  # the status, where the server will not answer this request


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


def messages(row: Row, k: int) -> list[Message]:
    """What the server is asked for a row."""
    return [{"role": "system", "content": ASKED.format(k=k)}, *row["prompt"]]


def ask(
    url: str, model: str, table: Sequence[Row], k: int, path: Path, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Writes {"id", "text"} for every row to `path`; rows that it holds already are not asked again.

    url ends before /chat/completions. OPENAI_API_KEY is sent where it is set. A server that is busy or away is asked
    again some times; then the answers so far stay, and running it again goes on from them. A single request that is
    refused is an answer without text, `refused` says with which status; a server that only refuses is an error.
    """
    _host(url)
    path.parent.mkdir(parents=True, exist_ok=True)
    _drop_half_a_line(path)
    there = {row["id"] for _, row in jsonl(path)} if path.is_file() else set()
    rows = [row for row in table if row["conversation"] not in there]
    limits = {"temperature": 0, "max_tokens": TOKENS}
    with open(path, "a", encoding="utf-8") as file, ThreadPoolExecutor(AT_ONCE) as pool:
        asked = {pool.submit(_one, url, model, row, k, limits, sleep): row["conversation"] for row in rows}
        kept: set[Future[Answer]] = set()
        waiting: list[tuple[str, Answer]] = []  # refusals wait until another request was answered

        def write() -> None:
            lines = ({"id": name, **answer} for name, answer in waiting)
            file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
            file.flush()
            waiting.clear()

        def keep(done: Future[Answer]) -> None:
            kept.add(done)
            waiting.append((asked[done], done.result()))
            if "refused" not in done.result():
                there.add(asked[done])
                write()

        try:
            for done in as_completed(asked):
                keep(done)
                if len(waiting) == AT_ONCE:
                    raise _refusal(url, waiting[0][1]["refused"])
            if waiting and not there:
                raise _refusal(url, waiting[0][1]["refused"])
            write()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            for done in asked:  # what was on the way may have been paid for
                if done not in kept and not done.cancelled() and done.exception() is None:
                    keep(done)
            raise


def _refusal(url: str, status: int) -> TrainingError:
    return TrainingError(f"{url}: the server refused with {status}: check --model and the key")


def _drop_half_a_line(path: Path) -> None:
    """What a killed run left of its last line."""
    if path.is_file() and (raw := path.read_bytes()) and not raw.endswith(b"\n"):
        path.write_bytes(raw[: raw.rfind(b"\n") + 1])


def _one(url: str, model: str, row: Row, k: int, limits: dict[str, int], sleep: Callable[[float], None]) -> Answer:
    """The reply, or why there is none.

    limits = what all requests say beside model and messages; what the server refuses by name goes from there.
    """
    opener = build_opener(*([ProxyHandler({})] if _is_loopback(url) else []))  # no proxy reaches this machine
    for n in range(TRIES):
        if n:
            sleep(2.0 ** (n - 1))
        sent = limits.copy()
        body = json.dumps({"model": model, "messages": messages(row, k), **sent}).encode()
        try:
            request = Request(f"{url.rstrip('/')}/chat/completions", body, {"Content-Type": "application/json"})
            if token := os.environ.get("OPENAI_API_KEY"):
                request.add_unredirected_header("Authorization", f"Bearer {token}")  # for this address alone
            with opener.open(request, timeout=WAIT) as reply:
                raw = reply.read(MOST)
                if reply.length:  # more than anybody reads, or broken off
                    raise IncompleteRead(raw, reply.length)
                return {"text": _text(strict_json(raw), url)}
        except HTTPError as fault:
            reason = _reason(fault)
            refused = [name for name in INSTEAD if name in sent and f"'{name}'" in reason]
            if fault.code == 400 and refused:
                for name in refused:
                    limits.pop(name, None)
                    limits.update(INSTEAD[name])
                continue
            if fault.code in ITS_OWN:
                return {"text": "", "refused": fault.code}
            if fault.code not in (408, 409, 429) and fault.code < 500:
                raise _refusal(url, fault.code) from None
            why = f"answered {fault.code}"
        except (OSError, HTTPException, ValueError, RecursionError) as fault:
            why = f"gave nothing usable ({type(fault).__name__})"
    next_ = "see whether it runs there; what came is kept, run it again"
    raise TrainingError(f"{url}: the server {why} {TRIES} times: {next_}")


def _reason(fault: HTTPError) -> str:
    with fault:
        try:
            return fault.read(4096).decode("utf-8", "replace")
        except (OSError, HTTPException):
            return ""


def _text(reply: JsonValue, url: str) -> str:
    match reply:
        case {"choices": [{"message": {"content": content}}, *_]}:
            return content if isinstance(content, str) else ""  # a refusal may come as null
    raise TrainingError(f"{url}: the reply is no chat completion: expected an OpenAI-compatible server")
