"""A second run: after a server was down, a database was busy or a trait was reworded."""

import re
import threading
from typing import Any

import pytest

from saferec_builder.core import taxonomy as traits
from saferec_builder.core.errors import StoreError
from saferec_builder.proposing import corpus, evaluation, jobs, plan, proposers, runner
from saferec_builder.proposing.calibration import Truth
from saferec_builder.storage import tables, workspace as store
from tests.servers.llm_stub import Stub, says, status
from tests.worlds.model_replies import TEXTS, answer, claim, fill, options, own_taxonomy, price, speaks


@pytest.mark.slow
def test_what_was_not_answered_makes_no_answer_look_shorter(blank: Any, workspace: store.Workspace, stub: Stub) -> None:
    fill(workspace, *(f"blood {n}" for n in range(10)))
    price(workspace, "small")
    options(workspace, "retries = 0")
    stub.usual = status(500)
    assert blank("--proposer", "openai:small").json["dropped"] == {"server error": 10}
    stub.usual = speaks
    blank("--proposer", "openai:small", "--limit", "5")
    assert store.read(workspace, tables.SPEND)["requests"].sum() == 5  # answered; 15 were sent
    planned = blank("--proposer", "openai:small", "--dry-run").json
    # five answers of 3 tokens came: five more are 15; divided by fifteen requests it was 5 x (15 / 15) = 5
    assert (planned["requests"], planned["estimated_tokens_out"]) == (5, 15)


@pytest.mark.slow
def test_a_busy_database_loses_no_bill(ask: Any, workspace: store.Workspace, monkeypatch, stub: Stub) -> None:
    price(workspace, "small")
    append, attempts, retried = store.append, [], threading.Event()

    def busy(ws: store.Workspace, table: tables.Table, frame: Any, **held: Any) -> int:
        if table is tables.SPEND and not retried.is_set():
            attempts.append(frame["requests"][0])
            if len(attempts) == 2:
                retried.set()
            raise StoreError("workspace.db: database is locked")
        return append(ws, table, frame, **held)

    def late(handler: Any) -> None:  # the last answer waits until two attempts to store a bill
        if "maybe" in handler.text:
            retried.wait(20)
        speaks(handler)

    stub.usual = late
    monkeypatch.setattr(store, "append", busy)
    result = ask("--proposer", "openai:small")
    assert result.code == 0 and len(attempts) == 2, result.err
    bill = store.read(workspace, tables.SPEND)
    assert (bill["requests"].sum(), bill["usd"].sum()) == (3, pytest.approx(3 * 370 / 1e6))  # 7 x 10 + 3 x 100 each


@pytest.mark.slow
def test_what_is_asked_again_without_its_evidence_is_billed_as_it_comes(
    blank: Any, workspace: store.Workspace, monkeypatch, stub: Stub
) -> None:
    """It was billed only at the end: after a kill the answers were kept but the bill was lost."""
    fill(workspace, *TEXTS)
    price(workspace, "small")
    ws = store.Workspace.open(workspace.root)
    append, billed, in_time = store.append, threading.Event(), []

    def watched(ws: store.Workspace, table: tables.Table, frame: Any, **held: Any) -> int:
        added = append(ws, table, frame, **held)
        if table is tables.SPEND and frame["requests"][0]:
            billed.set()
        return added

    def late(handler: Any) -> None:  # the last answer waits until the others are billed
        if "maybe" in handler.text:
            in_time.append(billed.wait(10))
        speaks(handler)

    stub.usual = late
    monkeypatch.setattr(store, "append", watched)
    texts, step = corpus.load(ws), proposers.steps(ws, "openai:small", None, None)[0][0]
    readings = runner.answers(jobs.unread(texts, step, plan.budget(ws, step, None)))
    assert in_time == [True] and len(readings) == 3
    assert store.read(ws, tables.SPEND)["usd"].sum() == pytest.approx(3 * 370 / 1e6)


def reword(ws: store.Workspace) -> None:
    """Changes the definition of the trait gore."""
    text = traits.EMBEDDED.read_text()
    reworded = re.sub(r'(slug = "gore".*?definition = ")', r"\1Above all: ", text, count=1, flags=re.S)
    (ws.root / "mine.toml").write_text(reworded)
    own_taxonomy(ws)


@pytest.mark.slow
def test_what_was_said_of_other_words_is_no_doubt_and_no_claim(ask: Any, workspace, stub: Stub) -> None:
    """In the old wording `small` claimed the trait of c0 and was unsure of c2; now it is silent and sure."""
    assert ask("--proposer", "openai:small").json["proposals"] == 2
    reword(workspace)
    sure = answer(claim("gore", "blood") | {"confidence": 95})
    stub.usual = lambda h: says(sure if "maybe" in h.text else answer())(h)
    summary = ask("--proposer", "openai:small,openai:large").json
    assert (summary["small"]["added"], summary["small"]["proposals"], summary["large"]["in"]) == (3, 1, 0)
    proposals = store.read(workspace, tables.PROPOSALS).filter(subject="c2")
    assert proposals["verdict"].to_list() == ["unsure", "present"]  # the old row stays
    texts = corpus.load(store.Workspace.open(workspace.root))
    step = proposers.steps(texts.ws, "openai:small", None, None)[0][0]
    assert evaluation.claimed(texts, step, Truth({}, whole={"c0"}))[:2] == ([], {"c0"})


@pytest.mark.slow
def test_only_new_proposals_are_told_by_verdict(cli: Any, workspace: store.Workspace) -> None:
    """The rules read the reworded trait again with the same result: once, 2 of 0 proposals were present."""
    fill(workspace, *TEXTS[:2])
    figures = ("proposals", "of_these_present", "added")
    summary = cli("propose", "-C", workspace.root, "--json").json
    assert [summary.get(name, 0) for name in figures] == [1, 1, 2]
    reword(workspace)
    fill(workspace, *TEXTS[:2], "blood makes me faint")
    rerun = cli("propose", "-C", workspace.root, "--json").json
    assert [rerun.get(name, 0) for name in figures] == [1, 1, 3]
