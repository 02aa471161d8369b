"""`--proposer batch` against a double of the Batch endpoints: half the price, and nothing is submitted twice."""

import json
import threading
from dataclasses import replace
from typing import Any

import pytest

from saferec_builder import llm
from saferec_builder.llm import batch as stage
from saferec_builder.llm.requests_and_replies import Server
from saferec_builder.proposing.paid_answers import PaidAnswers
from saferec_builder.storage import tables, workspace as store
from tests.servers.batch_stub import Batches, _Handler
from tests.servers.llm_stub import completion
from tests.worlds.batched import TEXTS, Killed, killed_at
from tests.worlds.model_replies import Cli, answer, claim, fill, options


def test_a_batch_is_read_paid_and_not_sent_again(ask: Any, workspace: store.Workspace, double: Batches) -> None:
    ran = ask().json
    assert (ran["in"], ran["added"], ran["proposals"], ran["requests"]) == (5, 5, 3, 5)
    # 5 x (7 x 2 + 3 x 4) USD a million, half of it in a batch
    assert ran["usd"] == pytest.approx(5 * 26 / 1e6 / 2, abs=1e-6)
    again = ask().json
    assert (again["added"], again["skipped"]) == (0, 5) and len(double.batches) == 1
    bill = store.read(workspace, tables.SPEND)
    assert (bill["requests"].sum(), bill["way"].unique().to_list()) == (5, ["batch"])


HALF = '"response": {"status_code": 200, "body": {"choices": [{"message": {"content": "\\ud83d"}}]}}'


@pytest.mark.parametrize(
    ("rest", "error"),
    [
        (HALF, None),
        ('"error": {"code": 400}', "not answered: 400"),
        ('"error": "expired"', "not answered: expired"),
        ('"error": {"code": "\\ud83d"}', "not answered: ?"),
        ('"response": {"status_code": "oops", "body": 1}', "bad request: status 0: 1"),
        ('"response": [1]', "not answered: no reason given"),
    ],
)
def test_a_line_that_names_a_request_is_never_lost(rest: str, error: str | None) -> None:
    """It was paid for."""
    reply = stage.reply_of(f'{{"custom_id": "r", {rest}}}', Server("m", "http://127.0.0.1:9"))
    assert reply is not None and reply.request == "r"
    assert reply.content == "?" if error is None else (reply.error or "").startswith(error)


@pytest.mark.slow
def test_what_a_batch_leaves_open_is_sent_again_and_what_it_was_paid_for_is_not(
    ask: Any, workspace, double: Batches
) -> None:
    fill(workspace, *TEXTS, "this one expires", "an odd one")
    double.end = "expired"
    ran = ask().json
    assert (ran["added"], ran["dropped"]) == (5, {"not answered": 1, "off schema": 1})
    ran = ask().json
    assert (ran["skipped"], ran["dropped"]) == (5, {"not answered": 1, "off schema": 1})
    assert len(double.batches) == 2 and len(double.sent) == 5 + 2 + 1


def test_one_request_for_the_same_text_is_counted_once_also_where_it_fails(blank: Any, workspace, double) -> None:
    fill(workspace, "an odd one", "an odd one", TEXTS[0], TEXTS[0])
    ran = blank().json
    assert (ran["requests"], ran["already_paid"], ran["tokens_in"]) == (2, 2, 2 * 7)
    assert (ran["added"], ran["dropped"], len(double.sent)) == (2, {"off schema": 2}, 2)


@pytest.mark.slow
def test_why_a_whole_batch_failed_is_told(ask: Any, workspace: store.Workspace, double: Batches) -> None:
    double.refuses = "the file holds a model that your account lacks"
    assert ask().json["dropped"] == {"not answered": len(TEXTS)}
    assert "failed: the file holds a model" in store.read(workspace, tables.DROPS)["detail"][0]
    double.refuses = ""
    assert ask().json["added"] == len(TEXTS)


def test_what_a_model_refuses_is_known_before_the_batch(ask: Any, double: Batches) -> None:
    double.fixed = True  # each line with a temperature would fail, a day later
    ran = ask().json
    assert (ran["added"], ran["dropped"], double.probes) == (len(TEXTS), {}, 2)  # with a temperature, and without
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
    ran = ask().json
    assert (ran["added"], ran["proposals"], ran["dropped"]) == (5, 3, {})
    assert len(double.batches) == 1 and len(set(double.sent)) == len(double.sent) == 5
    kept = [store.read(workspace, table) for table in (tables.REPLIES, tables.SPEND)]
    assert (kept[0].height, kept[1]["requests"].sum()) == (5, 5)  # answers that are fetched again are no second ones
    fill(workspace, *TEXTS, "one more")  # its price is guessed by the bills so far, which a kill leaves whole
    assert 0 < ask("--dry-run", "--budget-usd", "1").json["estimated_tokens_in"] < 10_000


def test_a_kill_while_answers_are_kept_loses_no_bill(ask: Any, workspace, double: Batches, monkeypatch) -> None:
    """Those that were kept before it were taken for paid and billed, and were in no bill."""
    put, kept = PaidAnswers.put, []
    with monkeypatch.context() as patch, pytest.raises(Killed):

        def dead(*_: Any) -> int:
            raise Killed

        def dying(table: PaidAnswers, reply: llm.Reply) -> None:
            put(table, reply)
            kept.append(reply)
            if len(kept) == 2:
                patch.setattr(store, "append", dead)  # a real kill leaves no time for the last bill
                raise Killed

        patch.setattr(PaidAnswers, "put", dying)
        ask()
    ran = ask().json
    assert (ran["added"], ran["requests"], ran["already_paid"], len(double.batches)) == (5, 3, 2, 1)
    bill = store.read(workspace, tables.SPEND)
    assert (bill["requests"].sum(), bill["usd"].sum()) == (5, pytest.approx(5 * 26 / 1e6 / 2))


def test_what_was_uploaded_only_is_never_submitted(ask: Any, workspace, double: Batches, monkeypatch) -> None:
    """Between a kill after the upload and the next run a conversation was marked that no model may read."""
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


def test_words_of_somebody_who_was_erased_do_not_come_back_with_the_batch(
    ask: Any, cli: Cli, workspace, double: Batches, monkeypatch
) -> None:
    """Their answer, which quotes them, was kept under a request of which nobody had noted whose it is."""
    killed_at("_fetched", ask, monkeypatch)
    assert cli("forget", "c2", "-C", workspace.root).code == 0
    double.answer = lambda text: completion(answer(claim("gore", "faint" if "faint" in text else "blood")))
    ran = ask("--limit", "1").json  # of the others, what is not read now is kept all the same
    assert (ran["added"], ran["requests"]) == (1, 1)
    kept = store.read(workspace, tables.REPLIES)["body"]
    assert len(kept) == len(TEXTS) - 1 and not any("faint" in body for body in kept)
    assert store.read(workspace, tables.SPEND)["requests"].sum() == len(TEXTS)  # theirs was paid for
    assert ask().json["already_paid"] == len(TEXTS) - 2 and len(double.batches) == 1


def test_a_lost_answer_to_the_submission_is_one_line_and_found_again(ask: Any, double: Batches) -> None:
    double.breaks = ["/v1/batches"]
    ran = ask()
    assert ran.code == 1 and "run the command again" in ran.err and ran.err.count("\n") == 1
    assert ask().json["added"] == 5 and len(double.batches) == 1


def test_what_is_fetched_again_is_billed_once(ask: Any, workspace: store.Workspace, double: Batches) -> None:
    """The answers came, and the file of what has none did not: the next run fetches both."""
    options(workspace, "retries = 0")
    fill(workspace, *TEXTS, "this one expires")
    double.end = "expired"
    double.breaks = ["/v1/files/file-2/content"] * 4  # file-0 is what was sent, file-1 the answers
    ran = ask()
    assert ran.code == 1 and "cannot fetch a batch" in ran.err
    double.breaks.clear()
    ran = ask().json
    assert (ran["added"], ran["dropped"], len(double.batches)) == (5, {"not answered": 1}, 1)
    assert store.read(workspace, tables.SPEND)["requests"].sum() == 5  # and what expired was not answered


def test_answers_that_the_server_has_deleted_name_a_way_on(ask: Any, workspace, double: Batches) -> None:
    """They are not kept for ever, and `run the command again` would end here each time; what they cost is billed."""
    settle = double.settle
    double.settle = lambda batch: (settle(batch), double.files.pop(batch["output_file_id"]))
    ran = ask()
    assert ran.code == 1 and "status 404" in ran.err and "--proposer openai:NAME" in ran.err
    assert "run the command again" not in ran.err and ran.err.count("\n") == 1
    (most,) = store.read(workspace, tables.RESERVED)["usd"]
    assert store.read(workspace, tables.SPEND)["usd"].sum() == pytest.approx(most)
    assert ask("--budget-usd", str(1.1 * most)).json["dropped"] == {"budget reached": len(TEXTS)}


@pytest.mark.parametrize("page", [b"<p>log in</p>", b"[1]", b"{}", b'"text"'])
def test_an_answer_of_another_shape_is_one_line_and_nothing_is_noted(
    ask: Any, workspace: store.Workspace, double: Batches, monkeypatch: pytest.MonkeyPatch, page: bytes
) -> None:
    say = _Handler._say
    monkeypatch.setattr(_Handler, "_say", lambda handler, told: say(handler, page))
    ran = ask()
    assert ran.code == 1 and "cannot upload a batch" in ran.err and ran.err.count("\n") == 1
    assert store.read(workspace, tables.BATCHES).height == 0


@pytest.mark.slow
def test_files_are_cut_at_their_limits(ask: Any, workspace: store.Workspace, double: Batches, monkeypatch) -> None:
    monkeypatch.setattr(stage, "MOST_REQUESTS", 2)
    assert ask().json["added"] == 5
    made = [double.files[b["input_file_id"]].splitlines() for b in double.batches.values()]
    assert [len(lines) for lines in made] == [2, 2, 1]
    first = json.loads(made[0][0])
    assert (first["method"], first["url"], first["body"]["model"]) == ("POST", "/v1/chat/completions", "m")
    assert {batch["endpoint"] for batch in double.batches.values()} == {"/v1/chat/completions"}
    monkeypatch.setattr(stage, "MOST_BYTES", 100)  # one line is longer: a file each
    fill(workspace, "a new text", "another")
    assert ask().json["added"] == 2 and len(double.batches) == 5


def test_a_model_of_the_other_api_has_its_batches_there(ask: Any, double: Batches, monkeypatch: Any) -> None:
    """The batch was made for one path, and its lines for the other: what is found at the start came too late."""

    async def found(wire: Any, server: llm.Server, *_: Any) -> llm.Server:
        return replace(server, way="responses")

    monkeypatch.setattr(stage, "probed", found)
    monkeypatch.setattr(double, "answer", lambda text: None)
    ask()
    (batch,) = double.batches.values()
    line = json.loads(double.files[batch["input_file_id"]].splitlines()[0])
    assert batch["endpoint"] == line["url"] == "/v1/responses" and line["body"]["store"] is False


def test_a_budget_holds_for_a_batch(ask: Any, double: Batches) -> None:
    ran = ask("--budget-usd", "0.000001").json
    assert ran["dropped"] == {"budget reached": 5} and double.batches == {} and not double.probes


def test_a_line_that_stands_twice_is_billed_once(ask: Any, workspace, double: Batches, monkeypatch) -> None:
    put = double.put
    twice = lambda content: content + b"\n" + content if b"status_code" in content else content  # noqa: E731
    monkeypatch.setattr(double, "put", lambda content: put(twice(content)))
    ran = ask().json
    assert (ran["added"], ran["requests"]) == (5, 5)
    bill = store.read(workspace, tables.SPEND)
    assert (bill["requests"].sum(), bill["tokens_in"].sum()) == (5, 5 * 7)


@pytest.mark.slow
def test_a_file_that_takes_too_long_names_what_helps(ask: Any, workspace, double: Batches, monkeypatch) -> None:
    """200 MB at 10 Mbit/s are 160 seconds: with the 120 of one request `run the command again` ended here each time."""
    options(workspace, "timeout = 2.0\nretries = 0")
    late = threading.Event()
    monkeypatch.setattr(_Handler, "_say", lambda *_: late.wait(30))
    ran = ask()
    late.set()
    assert ran.code == 1 and "cannot upload a batch: timeout" in ran.err
    assert "more than 2 seconds ([propose] timeout) or send less at once (--limit)" in ran.err


def test_a_batch_is_found_again_however_the_address_ends(ask: Any, workspace, double: Batches, monkeypatch) -> None:
    """Requests have the same names with and without the last stroke: so have the batches that hold them."""
    killed_at("_fetched", ask, monkeypatch)
    toml = workspace.root / "saferec.toml"
    toml.write_text(toml.read_text().replace(f'"{double.url}"', f'"{double.url}/"'))
    assert ask().json["added"] == 5
    assert len(double.batches) == 1 and len(set(double.sent)) == len(double.sent) == 5
