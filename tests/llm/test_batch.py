"""`--proposer batch` against a double of the Batch endpoints: half the price, and nothing is submitted twice."""

import json
import threading
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from saferec_builder import llm
from saferec_builder.llm import batch as stage
from saferec_builder.llm.requests_and_replies import Server
from saferec_builder.proposing.paid_answers import PaidAnswers
from saferec_builder.storage import tables, workspace as store
from tests.servers.batch_stub import Batches
from tests.servers.llm_stub import completion
from tests.servers.loopback import Reply
from tests.worlds.batched import TEXTS, Killed, killed_at
from tests.worlds.model_replies import Cli, answer, claim, fill, options


@pytest.mark.slow
def test_a_batch_is_sent_within_the_budget_read_paid_and_not_sent_again(
    ask: Any, workspace: store.Workspace, double: Batches
) -> None:
    assert ask("--budget-usd", "0.000001").json["dropped"] == {"budget reached": 5}
    assert double.batches == {} and not double.probes
    result = ask().json
    assert (result["in"], result["added"], result["proposals"], result["requests"]) == (5, 5, 3, 5)
    # 5 x (7 x 2 + 3 x 4) USD a million, half of it in a batch
    assert result["usd"] == pytest.approx(5 * 26 / 1e6 / 2, abs=1e-6)
    rerun = ask().json
    assert (rerun["added"], rerun["skipped"]) == (0, 5) and len(double.batches) == 1
    bill = store.read(workspace, tables.SPEND)
    assert (bill["requests"].sum(), bill["way"].unique().to_list()) == (5, ["batch"])


HALF = '"response": {"status_code": 200, "body": {"choices": [{"message": {"content": "\\ud83d"}}]}}'


@pytest.mark.parametrize(
    ("rest", "error"),
    [
        (HALF, None),
        (HALF.replace("200", '"200"'), None),
        (HALF.replace('"status_code": 200, ', ""), None),
        (
            '"response": {"status_code": 200, "body": "{\\"choices\\": [{\\"message\\": {\\"content\\": \\"?\\"}}]}"}',
            None,
        ),
        ('"error": {"code": 400}', "not answered: 400"),
        ('"error": "expired"', "not answered: expired"),
        ('"error": {"code": "\\ud83d"}', "not answered: ?"),
        ('"response": {"status_code": "oops", "body": 1}', "bad request: status 0: 1"),
        ('"response": [1]', "not answered: no reason given"),
    ],
)
def test_a_line_that_names_a_request_is_never_lost(rest: str, error: str | None) -> None:
    """Its answer was paid for."""
    reply = stage.reply_of(f'{{"custom_id": "r", {rest}}}', Server("m", "http://127.0.0.1:9"))
    assert reply is not None and reply.request == "r"
    assert reply.content == "?" if error is None else (reply.error or "").startswith(error)


@pytest.mark.slow
def test_what_a_batch_leaves_open_is_sent_again_and_what_it_was_paid_for_is_not(
    ask: Any, workspace, double: Batches
) -> None:
    fill(workspace, *TEXTS, "this one expires", "an odd one")
    double.end = "expired"
    result = ask().json
    assert (result["added"], result["dropped"]) == (5, {"not answered": 1, "off schema": 1})
    result = ask().json
    assert (result["skipped"], result["dropped"]) == (5, {"not answered": 1, "off schema": 1})
    assert len(double.batches) == 2 and len(double.sent) == 5 + 2 + 1


def test_one_request_for_the_same_text_is_counted_once_also_where_it_fails(blank: Any, workspace, double) -> None:
    fill(workspace, "an odd one", "an odd one", TEXTS[0], TEXTS[0])
    result = blank().json
    assert (result["requests"], result["already_paid"], result["tokens_in"]) == (2, 2, 2 * 7)
    assert (result["added"], result["dropped"], len(double.sent)) == (2, {"off schema": 2}, 2)


@pytest.mark.slow
def test_why_a_whole_batch_failed_is_told(ask: Any, workspace: store.Workspace, double: Batches) -> None:
    double.refuses = "the file holds a model that your account lacks"
    assert ask().json["dropped"] == {"not answered": len(TEXTS)}
    assert "failed: the file holds a model" in store.read(workspace, tables.DROPS)["detail"][0]
    double.refuses = ""
    assert ask().json["added"] == len(TEXTS)


def test_what_a_model_refuses_is_known_before_the_batch(ask: Any, double: Batches) -> None:
    double.fixed = True  # each line with a temperature would fail, one day later
    result = ask().json
    assert (result["added"], result["dropped"], double.probes) == (len(TEXTS), {}, 2)  # with a temperature, and without
    assert ask().json["skipped"] == len(TEXTS) and double.probes == 2


PLACES = ["after the upload", "after the submission, before the note", "after the submission", "before the last note"]


@pytest.mark.parametrize("place", PLACES)
def test_a_kill_at_any_step_submits_nothing_twice(ask: Any, workspace, double, monkeypatch, place) -> None:
    append, states = store.append, []

    def dying(ws: store.Workspace, table: tables.Table, frame: Any, **held: Any) -> int:
        if table is not tables.BATCHES:
            return append(ws, table, frame, **held)
        states.append(frame["state"][0])
        late = place in ("after the upload", "after the submission")
        added = append(ws, table, frame) if late else 0
        if states[-1] == ("uploaded", "submitted", "submitted", "done")[PLACES.index(place)]:
            raise Killed
        return added or append(ws, table, frame)

    monkeypatch.setattr(store, "append", dying)
    with pytest.raises(Killed):
        ask()
    monkeypatch.setattr(store, "append", append)
    result = ask().json
    assert (result["added"], result["proposals"], result["dropped"]) == (5, 3, {})
    assert len(double.batches) == 1 and len(set(double.sent)) == len(double.sent) == 5
    stored = [store.read(workspace, table) for table in (tables.REPLIES, tables.SPEND)]
    assert (stored[0].height, stored[1]["requests"].sum()) == (5, 5)  # answers fetched again are not stored twice
    fill(workspace, *TEXTS, "one more")  # its price is estimated from earlier bills, which a kill leaves complete
    assert 0 < ask("--dry-run", "--budget-usd", "1").json["estimated_tokens_in"] < 10_000


def test_a_kill_while_answers_are_kept_loses_no_bill(ask: Any, workspace, double: Batches, monkeypatch) -> None:
    """Answers stored before the kill counted as paid and billed, but were in no bill."""
    put, replies = PaidAnswers.put, []
    with monkeypatch.context() as patch, pytest.raises(Killed):

        def dead(*_: Any) -> int:
            raise Killed

        def dying(table: PaidAnswers, reply: llm.Reply) -> None:
            put(table, reply)
            replies.append(reply)
            if len(replies) == 2:
                patch.setattr(store, "append", dead)  # after a real kill the last bill is not written
                raise Killed

        patch.setattr(PaidAnswers, "put", dying)
        ask()
    result = ask().json
    assert (result["added"], result["requests"], result["already_paid"], len(double.batches)) == (5, 3, 2, 1)
    bill = store.read(workspace, tables.SPEND)
    assert (bill["requests"].sum(), bill["usd"].sum()) == (5, pytest.approx(5 * 26 / 1e6 / 2))


def test_what_was_uploaded_only_is_never_submitted(ask: Any, workspace, double: Batches, monkeypatch) -> None:
    """Between a kill after the upload and the next run, a conversation was marked as withheld from models."""
    killed_at("_start", ask, monkeypatch)
    (file,) = double.files.values()
    assert TEXTS[2].encode() in file and not double.batches
    mark = {"conversation": "c2", "digest": tables.digest(TEXTS[2]), "revision": 0}
    marks = tables.MARKS.frame([mark | {"language": "en", "language_score": 1.0, "crisis": True, "replaced": 0}])
    store.append(workspace, tables.MARKS, marks)
    assert ask().json["added"] == len(TEXTS) - 1
    (batch,) = double.batches.values()
    file = double.files[batch["input_file_id"]]
    assert TEXTS[2].encode() not in file and TEXTS[0].encode() in file


@pytest.mark.slow
def test_words_of_somebody_who_was_erased_do_not_come_back_with_the_batch(
    ask: Any, cli: Cli, workspace, double: Batches, monkeypatch
) -> None:
    """Their answer, which quotes them, was stored under a request without a note of its conversation."""
    killed_at("_fetched", ask, monkeypatch)
    assert cli("forget", "c2", "-C", workspace.root).code == 0
    double.answer = lambda text: completion(answer(claim("gore", "faint" if "faint" in text else "blood")))
    result = ask("--limit", "1").json  # the answers to the others are stored, even if not read now
    assert (result["added"], result["requests"]) == (1, 1)
    bodies = store.read(workspace, tables.REPLIES)["body"]
    assert len(bodies) == len(TEXTS) - 1 and not any("faint" in body for body in bodies)
    assert store.read(workspace, tables.SPEND)["requests"].sum() == len(TEXTS)  # theirs was paid, too
    assert ask().json["already_paid"] == len(TEXTS) - 2 and len(double.batches) == 1


@pytest.mark.slow
def test_answers_to_texts_that_a_run_does_not_read_leave_the_bytes_of_a_token(
    ask: Any, workspace: store.Workspace, double: Batches, monkeypatch
) -> None:
    """Their tokens counted, and the bytes that were sent for them did not: a dry run then told a multiple of the price,
    and a budget refused what it could pay."""
    assert ask("--limit", "2").json["added"] == 2
    (before,) = store.read(workspace, tables.SPEND).select(pl.col("bytes_out") / pl.col("tokens_in")).to_series()
    killed_at("_fetched", ask, monkeypatch)
    assert ask("--limit", "1").json["added"] == 1  # the answers to the two others are stored
    bills = store.read(workspace, tables.SPEND)
    assert bills["requests"].sum() == len(TEXTS)
    assert bills["bytes_out"].sum() / bills["tokens_in"].sum() == pytest.approx(before, rel=0.02)


def test_a_lost_answer_to_the_submission_is_one_line_and_found_again(ask: Any, double: Batches) -> None:
    double.breaks = ["/v1/batches"]
    result = ask()
    assert result.code == 1 and "run the command again" in result.err and result.err.count("\n") == 1
    assert ask().json["added"] == 5 and len(double.batches) == 1


def test_what_is_fetched_again_is_billed_once(ask: Any, workspace: store.Workspace, double: Batches) -> None:
    """The file of answers arrived, the file of errors did not: the next run fetches both."""
    options(workspace, "retries = 0")
    fill(workspace, *TEXTS, "this one expires")
    double.end = "expired"
    double.breaks = ["/v1/files/file-2/content"] * 4  # file-0 has the requests, file-1 the answers
    result = ask()
    assert result.code == 1 and "cannot fetch a batch" in result.err
    double.breaks.clear()
    result = ask().json
    assert (result["added"], result["dropped"], len(double.batches)) == (5, {"not answered": 1}, 1)
    assert store.read(workspace, tables.SPEND)["requests"].sum() == 5  # the expired request was not answered


def test_answers_that_the_server_has_deleted_name_a_way_on(ask: Any, workspace, double: Batches) -> None:
    """Servers delete them some day, and `run the command again` would always end here; their cost is billed."""
    settle = double.settle
    double.settle = lambda batch: (settle(batch), double.files.pop(batch["output_file_id"]))
    result = ask()
    assert result.code == 1 and "status 404" in result.err and "--proposer openai:NAME" in result.err
    assert "run the command again" not in result.err and result.err.count("\n") == 1
    (reserved,) = store.read(workspace, tables.RESERVED)["usd"]
    assert store.read(workspace, tables.SPEND)["usd"].sum() == pytest.approx(reserved)
    assert ask("--budget-usd", str(1.1 * reserved)).json["dropped"] == {"budget reached": len(TEXTS)}


def test_a_server_without_batches_names_a_way_on(ask: Any, double: Batches, monkeypatch: Any) -> None:
    """llama.cpp, vLLM and others have none; the advice was to run the command again."""
    monkeypatch.setattr(Batches, "_say", lambda *_: Reply(404, b'{"error": {"message": "File Not Found"}}'))
    result = ask()
    assert result.code == 1 and "no Batch API: ask without one: --proposer openai:NAME" in result.err


def test_a_lost_file_of_errors_costs_no_answer(ask: Any, workspace, double: Batches) -> None:
    """All answers were given up, and paid for again."""
    fill(workspace, *TEXTS, "this one expires")
    settle = double.settle
    double.settle = lambda batch: (settle(batch), double.files.pop(batch["error_file_id"]))
    result = ask().json
    assert (result["added"], result["dropped"]) == (5, {"not answered": 1})


@pytest.mark.parametrize("page", [b"<p>log in</p>", b"[1]", b"{}", b'"text"'])
def test_an_answer_of_another_shape_is_one_line_and_nothing_is_noted(
    ask: Any, workspace: store.Workspace, double: Batches, monkeypatch: pytest.MonkeyPatch, page: bytes
) -> None:
    say = Batches._say
    monkeypatch.setattr(Batches, "_say", lambda self, asked, told: say(self, asked, page))
    result = ask()
    assert result.code == 1 and "cannot upload a batch" in result.err and result.err.count("\n") == 1
    assert store.read(workspace, tables.BATCHES).height == 0


@pytest.mark.slow
def test_files_are_cut_at_their_limits(ask: Any, workspace: store.Workspace, double: Batches, monkeypatch) -> None:
    monkeypatch.setattr(stage, "MOST_REQUESTS", 2)
    assert ask().json["added"] == 5
    files = [double.files[b["input_file_id"]].splitlines() for b in double.batches.values()]
    assert [len(lines) for lines in files] == [2, 2, 1]
    line = json.loads(files[0][0])
    assert (line["method"], line["url"], line["body"]["model"]) == ("POST", "/v1/chat/completions", "m")
    assert {batch["endpoint"] for batch in double.batches.values()} == {"/v1/chat/completions"}
    monkeypatch.setattr(stage, "MOST_BYTES", 100)  # each line is longer: one file each
    fill(workspace, "a new text", "another")
    assert ask().json["added"] == 2 and len(double.batches) == 5


def test_a_model_of_the_other_api_has_its_batches_there(ask: Any, double: Batches, monkeypatch: Any) -> None:
    """The batch was made for one path and its lines for the other: the result of the probe came too late."""

    async def found(wire: Any, server: llm.Server, *_: Any) -> llm.Server:
        return replace(server, way="responses")

    monkeypatch.setattr(stage, "probed", found)
    monkeypatch.setattr(double, "answer", lambda text: None)
    ask()
    (batch,) = double.batches.values()
    line = json.loads(double.files[batch["input_file_id"]].splitlines()[0])
    assert batch["endpoint"] == line["url"] == "/v1/responses" and line["body"]["store"] is False


def test_a_line_that_stands_twice_is_billed_once(ask: Any, workspace, double: Batches, monkeypatch) -> None:
    put = double.put
    doubled = lambda content: content + b"\n" + content if b"status_code" in content else content  # noqa: E731
    monkeypatch.setattr(double, "put", lambda content: put(doubled(content)))
    result = ask().json
    assert (result["added"], result["requests"]) == (5, 5)
    bill = store.read(workspace, tables.SPEND)
    assert (bill["requests"].sum(), bill["tokens_in"].sum()) == (5, 5 * 7)


@pytest.mark.slow
def test_a_file_that_takes_too_long_names_what_helps(ask: Any, workspace, double: Batches, monkeypatch) -> None:
    """200 MB at 10 Mbit/s take 160 seconds: with the 120 of one request, `run the command again` always ended here."""
    options(workspace, "timeout = 2.0\nretries = 0")
    late = threading.Event()
    monkeypatch.setattr(Batches, "_say", lambda *_: late.wait(30) and None)
    result = ask()
    late.set()
    assert result.code == 1 and "cannot upload a batch: timeout" in result.err
    assert "more than 2 seconds ([propose] timeout) or send less at once (--limit)" in result.err


def test_a_batch_is_found_again_however_the_address_ends(ask: Any, workspace, double: Batches, monkeypatch) -> None:
    """Requests have the same names with and without the last slash, and so have their batches."""
    killed_at("_fetched", ask, monkeypatch)
    toml = workspace.root / "saferec.toml"
    toml.write_text(toml.read_text().replace(f'"{double.url}"', f'"{double.url}/"'))
    assert ask().json["added"] == 5
    assert len(double.batches) == 1 and len(set(double.sent)) == len(double.sent) == 5
