"""A proposer run in a process of its own against a stub that counts what it would bill."""

import random
import subprocess
import time
from collections import Counter
from pathlib import Path

import polars as pl

from saferec_builder.storage import tables, workspace as store
from tests.servers.llm_stub import Handler, Stub, completion, status
from tests.worlds import line
from tests.worlds.model_replies import answer, claim, fill, options

AT_ONCE = 16


class Meter:
    """Answers and counts what it would bill; more than eight at once are too many."""

    def __init__(self) -> None:
        self.billed: Counter[str] = Counter()

    def __call__(self, handler: Handler) -> None:
        if handler.server.now > 8 and random.random() < 0.5:
            return status(429, retry_after_ms="15")(handler)
        time.sleep(0.002)
        with handler.server.lock:
            self.billed[handler.text] += 1
        handler.reply(200, completion(answer(claim("gore", "blood")) if "blood" in handler.text else '{"claims": []}'))


def prepare(folder: Path, many: int) -> store.Workspace:
    ws = store.Workspace.create(folder)
    options(ws, f"concurrency = {AT_ONCE}\nretries = 20")
    fill(ws, *(f"number {n}, {'no blood please' if n % 3 else 'something funny'}" for n in range(many)))
    return ws


def start(ws: store.Workspace, stub: Stub) -> subprocess.Popen[str]:
    words = ["propose", "--proposer", "openai", "--model", "m", "--base-url", stub.url, "--json", "-C", str(ws.root)]
    return subprocess.Popen([line.TOOL, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(ws: store.Workspace, stub: Stub) -> None:
    out, err = start(ws, stub).communicate(timeout=600)
    assert '"dropped": {}' in out, out + err


def contents(ws: store.Workspace) -> dict[str, pl.DataFrame]:
    """Every table but what each run paid."""
    return {name: frame for name, frame in line.contents(ws.root).items() if name != tables.SPEND.name}
