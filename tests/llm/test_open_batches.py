"""A batch that is out when another run begins."""

import sqlite3
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest

from saferec_builder.llm import batch as stage
from saferec_builder.storage import tables, workspace as store
from tests.conftest import Ran
from tests.servers.batch_stub import Batches
from tests.servers.llm_stub import Stub, unbilled
from tests.worlds.batched import TEXTS, Killed, killed_at
from tests.worlds.model_replies import Cli, answer, speaks


@pytest.fixture
def out(ask: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """Another `propose`, while the texts are in a batch that nobody has fetched."""
    killed_at("_settled", ask, monkeypatch)
    return ask


def test_a_budget_counts_what_a_batch_that_is_out_can_cost(out: Any, workspace, stub: Stub, double: Batches) -> None:
    """The next run did not know of it, and all runs together cost more than the budget."""
    toml = workspace.root / "saferec.toml"
    toml.write_text(toml.read_text().replace("[splits]", "[propose.models.n]\ninput = 2.0\noutput = 4.0\n\n[splits]"))
    stub.usual = speaks
    (most,) = store.read(workspace, tables.RESERVED)["usd"]
    assert most > 5 * 2_000 * 4.0 / 1e6 / 2  # the longest answers alone, at half the price
    beside = ("--proposer", "openai:n", "--base-url", stub.url, "--budget-usd")
    assert out(*beside, most).json["dropped"] == {"budget reached": 5} and not stub.asked
    ran = out("--budget-usd", most).json  # its own cost is no other
    assert (ran["added"], len(double.batches)) == (5, 1)
    assert out(*beside, most).json["added"] > 0  # it has cost far less


def test_a_model_is_not_asked_directly_for_what_is_in_a_batch(out: Any, workspace, double: Batches) -> None:
    """It was paid for twice, and the batch was never fetched."""
    told = out("--dry-run").json
    assert (told["requests"], told["in_open_batches"], told["estimated_usd"]) == (0, 5, 0)
    direct = ("--proposer", "openai:m")
    ran = out(*direct)
    assert ran.code == 1 and ran.err.count("\n") == 1
    assert "5 requests to m are in a batch that is not over" in ran.err and "--proposer batch:m" in ran.err
    double.looks = 0
    ran = out(*direct).json
    assert (ran["added"], ran["requests"], ran["already_paid"], double.probes) == (5, 0, 5, 1)  # the batch's own
    bill = store.read(workspace, tables.SPEND)
    assert (bill["requests"].sum(), bill["way"].to_list()) == (5, ["batch"])
    assert ran["usd"] == bill["usd"].sum() == pytest.approx(5 * 26 / 1e6 / 2)


def test_what_another_batch_left_unanswered_is_not_in_the_one_that_is_out(
    ask: Any, double: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dry run took whatever was ever asked, and not answered, for a part of the open batch: it told of no request."""
    double.refuses = "the file holds a model that your account lacks"
    assert ask("--limit", "2").json["dropped"] == {"not answered": 2}
    double.refuses = ""
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(stage._Batches, "_settled", Mock(side_effect=Killed))
        ask("--limit", "2")
    told = ask("--dry-run").json
    assert (told["requests"], told["in_open_batches"]) == (3, 2)  # two were refused, one was never sent
    one = told["estimated_tokens_in"] / 3
    assert told["estimated_tokens_out"] == 3 * 150 and 500 < one < 5_000
    assert ask("--dry-run", "--limit", "2").json["requests"] == 0


def test_what_an_older_program_has_submitted_is_kept_beyond_the_limit(
    out: Any, cli: Cli, workspace, double: Batches
) -> None:
    """It had noted neither whose texts they are nor the price: the answers were billed and dropped, all but one."""
    with sqlite3.connect(workspace.root / "workspace.db") as db:
        db.execute("DELETE FROM requests")
        db.execute("DELETE FROM reserved")
    assert cli("forget", "c2", "-C", workspace.root).code == 0
    ran = out("--limit", "1").json
    assert (ran["added"], len(double.batches)) == (1, 1)
    kept = store.read(workspace, tables.REPLIES)["body"].to_list()
    assert len(kept) == len(TEXTS) - 1  # without that of c2, who was erased
    assert cli("forget", "c0", "-C", workspace.root).code == 0
    assert store.read(workspace, tables.REPLIES).height == len(TEXTS) - 2  # and each is somebody's
    assert out().json["already_paid"] == len(TEXTS) - 2 and len(double.batches) == 1


def test_a_batch_is_billed_where_nothing_is_left_to_read(out: Any, workspace, stub: Stub, double: Batches) -> None:
    """Another server of the same model has read all since."""
    stub.usual = speaks
    assert out("--proposer", "openai:m", "--base-url", stub.url).json["added"] == 5
    spent = store.read(workspace, tables.SPEND)["usd"].sum()
    assert out("--proposer", "openai:m").json["skipped"] == 5  # nothing would be paid for twice, so it goes on
    ran = out().json
    assert (ran["skipped"], ran["usd"]) == (5, pytest.approx(5 * 26 / 1e6 / 2))
    assert store.read(workspace, tables.SPEND)["usd"].sum() == pytest.approx(spent + ran["usd"])
    assert store.read(workspace, tables.BATCHES)["state"][-1] == "done"


def test_a_batch_whose_answers_were_deleted_costs_what_was_reserved_and_holds_nobody_up(
    out: Any, workspace, double: Batches, monkeypatch
) -> None:
    """It held its budget for ever; then it was in no bill, though it was paid for."""
    killed_at("_fetched", out, monkeypatch)
    del double.files["file-1"]
    (most,) = store.read(workspace, tables.RESERVED)["usd"]
    assert out("--proposer", "openai:m", "--budget-usd", str(4 * most)).json["requests"] == 5
    bill = store.read(workspace, tables.SPEND).filter(way="batch")
    assert (bill["requests"].to_list(), bill["usd"].to_list()) == ([0], [pytest.approx(most)])
    assert store.read(workspace, tables.BATCHES)["state"][-1] == "done"


def test_an_answer_without_tokens_costs_what_its_batch_had_reserved(out: Any, workspace, double: Batches) -> None:
    """In a run after the one that has set it aside."""
    (most,) = store.read(workspace, tables.RESERVED)["usd"]
    double.answer = lambda _: unbilled(answer())
    assert out().json["usd"] == pytest.approx(most, abs=1e-6)
