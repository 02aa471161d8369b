"""How many usable answers come from 31 kinds of odd servers, all paid for: a line per kind, then the figures.

Each kind is asked about five conversations, twice; then those that return nothing about 45, sixteen at a time.
"""

import tempfile
from pathlib import Path

import saferec_builder as sr
from saferec_builder.storage import tables, workspace as store
from tests.bench.figures import figure
from tests.servers.llm_stub import running
from tests.worlds.model_replies import fill, options, price
from tests.worlds.odd_servers import KINDS, PAID_FOR_NOTHING, TEXTS, UNPAID, odd

PAID = len(KINDS) - UNPAID
BUDGET = 1.4  # USD: the reserve for five answers without a bill


def asked(kind: str, texts: tuple[str, ...], at_once: int) -> tuple[int, int, int, float]:
    """Returns (usable answers, requests of a first and of a second run without the probes at the start, USD)."""
    with tempfile.TemporaryDirectory() as folder, running() as stub:
        root = Path(folder) / "ws"
        sr.Workspace.create(root)
        ws = store.Workspace.open(root)
        options(ws, f'base_url = "{stub.url}"\nconcurrency = {at_once}\nretries = 0\nbudget_usd = {BUDGET}')
        price(ws, "small")
        ws = store.Workspace.open(root)
        odd(stub, kind)
        fill(ws, *texts)
        usable = int(sr.propose(ws, "openai:small").counts.figures["proposals"])
        first = sum("film" in text for text in stub.asked)
        sr.propose(ws, "openai:small")
        second = sum("film" in text for text in stub.asked) - first
        return usable, first, second, float(store.read(ws, tables.SPEND)["usd"].sum())


def main() -> None:
    names, usable, repeated, worst, most_spent = list(KINDS), 0, 0, 0, 0.0
    for n, kind in enumerate(names):
        answers, sent, second, usd = asked(kind, TEXTS, 1)
        print(f"{kind:45} {answers} of {sent}, second run {second}")
        usable, repeated = usable + answers, repeated + second * (n < PAID)
        most_spent = max(most_spent, usd)
    for kind in names[PAID - PAID_FOR_NOTHING : PAID]:
        worst = max(worst, asked(kind, tuple(f"blood, film {n}" for n in range(45)), 16)[1])
    figure("servers.usable_of_140", usable, "answers", ">= 125")
    figure("servers.second_run", repeated, "requests", "0")
    figure("servers.breaker", worst, "requests", "<= 20")
    figure("servers.spent_of_budget", most_spent / BUDGET, "share", "<= 1")
