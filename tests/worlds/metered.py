"""A proposer run in a process of its own against a stub that counts what it would bill."""

import random
import subprocess
import time
from collections import Counter
from pathlib import Path

import polars as pl

from saferec_builder.storage import tables, workspace as store
from saferec_builder.storage.workspace import make
from tests.servers.llm_stub import Handler, Stub, completion, status
from tests.worlds.line import TOOL
from tests.worlds.model_replies import answer, claim, fill

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
    make(folder, demo=False)
    toml = folder / "saferec.toml"
    limits = f"[propose]\nconcurrency = {AT_ONCE}\nretries = 20\n"
    toml.write_text(toml.read_text().replace("[propose]\n", limits))
    ws = store.Workspace.open(folder)
    fill(ws, *(f"number {n}, {'no blood please' if n % 3 else 'something funny'}" for n in range(many)))
    return ws


def start(ws: store.Workspace, stub: Stub) -> subprocess.Popen[str]:
    words = ["propose", "--proposer", "openai", "--model", "m", "--base-url", stub.url, "--json", "-C", str(ws.root)]
    return subprocess.Popen([TOOL, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(ws: store.Workspace, stub: Stub) -> None:
    out, err = start(ws, stub).communicate(timeout=600)
    assert '"dropped": {}' in out, out + err


def contents(ws: store.Workspace) -> dict[str, pl.DataFrame]:
    paid_by_run = (tables.SPEND,)
    return {t.name: store.read(ws, t).sort(t.key) for t in tables.TABLES.values() if t not in paid_by_run}
