"""Runs that begin while a batch is still open."""

from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest

from saferec_builder.llm import batch as stage
from saferec_builder.storage import tables, workspace as store
from tests.conftest import Ran
from tests.servers.batch_stub import Batches
from tests.servers.llm_stub import Stub, unbilled
from tests.worlds.batched import Killed, killed_at
from tests.worlds.model_replies import answer, speaks


@pytest.fixture
def out(ask: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """Runs `propose` again while the texts are in a batch that is not fetched yet."""
    killed_at("_settled", ask, monkeypatch)
    return ask


@pytest.mark.slow
def test_a_budget_counts_what_a_batch_that_is_out_can_cost(out: Any, workspace, stub: Stub, double: Batches) -> None:
    """The next run ignored it, so that all runs together cost more than the budget."""
    toml = workspace.root / "saferec.toml"
    toml.write_text(toml.read_text().replace("[splits]", "[propose.models.n]\ninput = 2.0\noutput = 4.0\n\n[splits]"))
    stub.usual = speaks
    (reserved,) = store.read(workspace, tables.RESERVED)["usd"]
    assert reserved > 5 * 2_000 * 4.0 / 1e6 / 2  # only the longest answers, at half the price
    beside = ("--proposer", "openai:n", "--base-url", stub.url, "--budget-usd")
    assert out(*beside, reserved).json["dropped"] == {"budget reached": 5} and not stub.asked
    result = out("--budget-usd", reserved).json  # its own reservation does not count against it
    assert (result["added"], len(double.batches)) == (5, 1)
    assert out(*beside, reserved).json["added"] > 0  # the batch cost far less


@pytest.mark.slow
def test_a_model_is_not_asked_directly_for_what_is_in_a_batch(out: Any, workspace, double: Batches) -> None:
    """It was paid twice, and the batch was never fetched."""
    plan = out("--dry-run").json
    assert (plan["requests"], plan["in_open_batches"], plan["estimated_usd"]) == (0, 5, 0)
    direct = ("--proposer", "openai:m")
    result = out(*direct)
    assert result.code == 1 and result.err.count("\n") == 1
    assert "5 requests to m are in a batch that is not over" in result.err and "--proposer batch:m" in result.err
    double.looks = 0
    result = out(*direct).json
    assert (result["added"], result["requests"], result["already_paid"], double.probes) == (5, 0, 5, 1)  # the batch's
    bill = store.read(workspace, tables.SPEND)
    assert (bill["requests"].sum(), bill["way"].to_list()) == (5, ["batch"])
    assert result["usd"] == bill["usd"].sum() == pytest.approx(5 * 26 / 1e6 / 2)


@pytest.mark.slow
def test_what_another_batch_left_unanswered_is_not_in_the_one_that_is_out(
    ask: Any, double: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dry run took every unanswered request for a part of the open batch and reported no request."""
    double.refuses = "the file holds a model that your account lacks"
    assert ask("--limit", "2").json["dropped"] == {"not answered": 2}
    double.refuses = ""
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(stage._Batches, "_settled", Mock(side_effect=Killed))
        ask("--limit", "2")
    plan = ask("--dry-run").json
    assert (plan["requests"], plan["in_open_batches"]) == (3, 2)  # two were refused, one was never sent
    per_request = plan["estimated_tokens_in"] / 3
    assert plan["estimated_tokens_out"] == 3 * 150 and 500 < per_request < 5_000
    assert ask("--dry-run", "--limit", "2").json["requests"] == 0


@pytest.mark.slow
def test_a_batch_is_billed_where_nothing_is_left_to_read(out: Any, workspace, stub: Stub, double: Batches) -> None:
    """Another server with the same model has read everything since."""
    stub.usual = speaks
    assert out("--proposer", "openai:m", "--base-url", stub.url).json["added"] == 5
    spent = store.read(workspace, tables.SPEND)["usd"].sum()
    assert out("--proposer", "openai:m").json["skipped"] == 5  # nothing would be paid twice, so the run continues
    result = out().json
    assert (result["skipped"], result["usd"]) == (5, pytest.approx(5 * 26 / 1e6 / 2))
    assert store.read(workspace, tables.SPEND)["usd"].sum() == pytest.approx(spent + result["usd"])
    assert store.read(workspace, tables.BATCHES)["state"][-1] == "done"


@pytest.mark.slow
def test_a_batch_whose_answers_were_deleted_costs_what_was_reserved_and_holds_nobody_up(
    out: Any, workspace, double: Batches, monkeypatch
) -> None:
    """It blocked its budget for ever; after that was fixed, it was in no bill, although it was paid."""
    killed_at("_fetched", out, monkeypatch)
    del double.files["file-1"]
    (reserved,) = store.read(workspace, tables.RESERVED)["usd"]
    assert out("--proposer", "openai:m", "--budget-usd", str(4 * reserved)).json["requests"] == 5
    bill = store.read(workspace, tables.SPEND).filter(way="batch")
    assert (bill["requests"].to_list(), bill["usd"].to_list()) == ([0], [pytest.approx(reserved)])
    assert store.read(workspace, tables.BATCHES)["state"][-1] == "done"


def test_an_answer_without_tokens_costs_what_its_batch_had_reserved(out: Any, workspace, double: Batches) -> None:
    """In a run after the one that reserved the cost."""
    (reserved,) = store.read(workspace, tables.RESERVED)["usd"]
    double.answer = lambda _: unbilled(answer())
    assert out().json["usd"] == pytest.approx(reserved, abs=1e-6)
