"""`evaluate --server` against a real HTTP server on the loopback: busy, unreachable, refusing, answering."""

import itertools
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate
from typing import Any

import pytest

from saferec_builder.core.errors import TrainingError
from tests.servers.loopback import Asked, Reply, serving
from tests.worlds import bars, small_release
from training import answers_from_server as server
from training.safecrs import main


class Model:
    """A chat server: `replies` are statuses to send first, `seen` its requests, `cut` how many replies break off."""

    def __init__(self) -> None:
        self.replies: list[int] = []
        self.seen: list[tuple[dict[str, Any], str | None]] = []
        self.keys: list[str | None] = []  # the api-key header of each request, for a gateway
        self.strangers: list[str | None] = []  # the keys that came along with a redirect
        self.cut = 0
        self.wait: str | None = None  # Retry-After of a refusal
        self.choice: dict[str, Any] = {}  # further fields of the choice
        self.bodies: list[Any] = []  # bodies to send first, with status 200
        self.bars: list[str] = []  # parameters that it refuses by name, one at a time
        self.waits: list[float] = []  # seconds for which `ask` would have slept
        self.url = ""

    def ask(self, table, path, **more) -> list[dict[str, Any]]:
        """Asks it for the answers to these rows, without waiting; returns all that the file holds then."""
        server.ask(self.url, "m", table, 4, path, self.waits.append, **more)
        return [json.loads(line) for line in path.read_text().splitlines()]

    def answer(self, request: Asked) -> Reply:
        key = request.headers.get("Authorization")
        if request.method == "GET":
            self.strangers.append(key)
            return Reply(400)
        payload = json.loads(request.body)
        self.seen.append((payload, key))
        self.keys.append(request.headers.get("api-key"))
        barred = next((name for name in self.bars if name in payload), None)
        status = self.replies.pop(0) if self.replies else 400 if barred else 200
        text = "1. Item D (2004)" if "red stuff" in payload["messages"][-1]["content"] else None
        reply: dict[str, Any] = {"choices": [{"message": {"role": "assistant", "content": text}, **self.choice}]}
        if barred:
            reply = {"error": {"message": f"'{barred}' is not supported with this model."}}
        if status == 200 and self.bodies:
            reply = self.bodies.pop(0)
        body = json.dumps(reply).encode()
        self.cut -= (cut := self.cut > 0)
        waits = [("Retry-After", self.wait)] if self.wait and status != 200 else []
        return Reply(status, body, (("Content-Length", str(len(body) + 9 * cut)), ("Location", self.url), *waits))


@pytest.fixture
def model() -> Iterator[Model]:
    chat = Model()
    with serving(chat.answer) as url:
        chat.url = f"{url}/v1"
        yield chat


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.jsonl"


@pytest.mark.slow
def test_a_server_is_evaluated(model, release, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    words = ["evaluate", "--release", str(release.folder), "--server", model.url, "--model", "org/name:1"]
    words += ["--output", str(tmp_path / "out")]
    assert main(words) == 0
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    run = report["runs"][0]
    # u7 wants d e and gets d; u8's answer is null: nothing can be read from it
    assert run["name"].startswith("org-name-1@127.0.0.1-") and run["metrics"]["recall@4"]["mean"] == 0.25
    assert run["metrics"]["invalid@4"]["mean"] == 0.5
    payload, key = model.seen[0]
    assert (key, payload["model"]) == ("Bearer sk-secret", "org/name:1")
    assert "4 titles" in payload["messages"][0]["content"]
    assert main(words) == 0
    assert len(model.seen) == 2  # a second run sends no request
    # another release with the same ids asks for lists of five: the stored answers to lists of four do not count
    manifest = release.folder / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"k": 4', '"k": 5'))
    small_release.sum_up(manifest.parent)
    assert main(words) == 0
    assert len(model.seen) == 4 and "5 titles" in model.seen[-1][0]["messages"][0]["content"]
    assert main([*words, "--set", "max_tokens=4096"]) == 0  # nor do those to requests with other settings
    assert len(model.seen) == 6 and model.seen[-1][0]["max_tokens"] == 4096
    assert "sk-secret" not in capsys.readouterr().out


def test_what_newer_models_refuse_by_name_is_said_in_their_way(model, rows, path) -> None:
    model.bars = ["max_tokens", "temperature"]
    answers = model.ask(rows, path)
    assert len(answers) == 2 and not any("refused" in answer for answer in answers)
    payload, _ = model.seen[-1]
    assert payload["max_completion_tokens"] == 1024 and "temperature" not in payload and "max_tokens" not in payload
    with pytest.raises(TrainingError, match="takes no temperature of 0.6: leave it out"):  # the user set it
        model.ask(rows, path.with_name("b"), how=server.request_options(["temperature=0.6"]))


def test_a_request_is_what_was_set(model, rows, path, monkeypatch) -> None:
    monkeypatch.setenv("GATEWAY_KEY", "gk$secret")  # a $ inside a value is not expanded
    options = ["prompt=Name {k} films {plainly}.", "max_completion_tokens=8192", "headers={api-key: $GATEWAY_KEY}"]
    how = server.request_options([*options, "chat_template_kwargs={enable_thinking: false}", "timeout=7"])
    model.ask(rows[:1], path, how=how)
    payload, _ = model.seen[0]
    assert payload.pop("messages")[0]["content"] == "Name 4 films {plainly}." and how.timeout == 7
    expected = {"temperature": 0, "max_completion_tokens": 8192, "chat_template_kwargs": {"enable_thinking": False}}
    assert payload == expected | {"model": "m"}
    assert model.keys[0] == "gk$secret" and "gk$" not in path.read_text()


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("timeout=0", "expected a text, and seconds"),
        ("timeout=.inf", "expected a text, and seconds"),  # ended in a traceback of the socket
        ("prompt=7", "expected a text, and seconds"),
        ("headers=key", "expected texts by name"),
        ("headers={key: $NO_SUCH_KEY}", "key names a variable that the environment lacks"),
        ("model=other", "--set model: expected prompt"),
        ("saferec.batch=4", "--set saferec.batch: expected prompt"),
    ],
)
def test_what_a_server_cannot_be_asked_is_one_line(said: str, told: str) -> None:
    with pytest.raises(TrainingError, match=told):
        server.request_options([said])


def test_an_answer_that_was_cut_is_counted_and_never_scored_as_empty(model, release, tmp_path, capsys) -> None:
    # a reasoning server: thoughts took all the room, so that u8's content is null; u7's list was cut after a title
    model.choice = {"finish_reason": "length"}
    fixed = ["evaluate", "--release", str(release.folder), "--output"]
    assert main([*fixed, str(tmp_path / "out"), "--server", model.url, "--model", "m"]) == 0
    assert "2 answers were cut at the server's limit, 1 of them before the first title" in capsys.readouterr().out
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    run, guard = report["runs"][0], next(entry for entry in report["runs"] if entry["name"] == "guard")
    # only u7 is scored: d of d and e; with u8's empty answer recall was .25, and half of the answers were invalid
    assert run["cut"] == 2 and run["n"] == guard["n"] == 1
    assert run["metrics"]["recall@4"]["mean"] == 0.5 and run["metrics"]["invalid@4"]["mean"] == 0
    (answers,) = (tmp_path / "out").glob("m@*.jsonl")
    (tmp_path / "lost.jsonl").write_text(answers.read_text().replace("1. Item D (2004)", ""))
    assert main([*fixed, str(tmp_path / "none"), "--predictions", str(tmp_path / "lost.jsonl")]) == 1
    assert "every answer was cut before its first title" in capsys.readouterr().err


def test_a_server_says_how_long_to_wait(model, rows, tmp_path) -> None:
    def waits(said: str) -> list[float]:
        model.replies, model.wait, model.waits = [429, 429], said, []
        model.ask(rows[:1], tmp_path / said[:3])
        return model.waits

    assert waits("7") == [7, 7] and waits("0.5") == [1, 2] and waits("soon") == [1, 2]
    in_a_minute = formatdate(time.time() + 60, usegmt=True)
    assert all(50 < wait <= 60 for wait in waits(in_a_minute))
    model.replies, model.wait = [429], "86400"
    with pytest.raises(TrainingError, match="answered 429 and asks to wait for 86400 s: what came is kept"):
        model.ask(rows[:1], tmp_path / "day")


def test_a_busy_server_is_asked_again_and_what_came_is_kept(model, rows, path) -> None:
    model.replies = [429, 503]
    assert len(model.ask(rows[:1], path)) == 1 and model.waits == [1, 2]
    with open(path, "a") as file:
        file.write('{"id": "u8", "te')  # killed while it wrote
    model.replies = [500] * 5
    with pytest.raises(TrainingError, match="answered 500 5 times: .* what came is kept"):
        model.ask(rows, path)
    drawn: list[bars.Bar] = []
    for _ in range(2):  # the bar shows the requests that are still to be asked
        assert [answer["id"] for answer in model.ask(rows, path, progress=bars.drawn(drawn))] == ["u7", "u8"]
    assert [(bar.total, bar.done) for bar in drawn] == [(1, 1), (0, 0)]


def test_what_a_killed_run_left_is_cut_in_place(model, rows, path, monkeypatch) -> None:
    """All answers were written again: a full disk, or a second kill, left an empty file."""

    def full(emptied, data):
        emptied.open("wb").close()
        raise OSError(28, "No space left on device")

    model.ask(rows[:1], path)
    path.write_bytes(path.read_bytes() + b'{"id": "u8", "te')
    monkeypatch.setattr(type(path), "write_bytes", full)
    assert [answer["id"] for answer in model.ask(rows, path)] == ["u7", "u8"] and len(model.seen) == 2


def test_two_at_once_ask_once_and_spoil_nothing(model, rows, path, monkeypatch, caplog) -> None:
    """Both used to append: each request then had two answers, and every later run refused the file."""
    monkeypatch.setattr("saferec_builder.core.locks.SILENT", 0.01)
    started, waiting = threading.Event(), threading.Event()
    model.replies = [503]  # keeps the first run busy until the second one waits

    def sleep(_: float) -> None:
        started.set()
        waiting.wait(5)

    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(server.ask, model.url, "m", rows, 4, path, sleep)]
        started.wait(5)
        runs.append(pool.submit(server.ask, model.url, "m", rows, 4, path))
        while not caplog.records and not runs[1].done():
            time.sleep(0.01)
        waiting.set()
        for run in runs:
            run.result()
    assert [record.getMessage() for record in caplog.records] == [
        f"{path}: another `evaluate` is at work: waiting until it has ended"
    ]
    assert sorted(json.loads(line)["id"] for line in path.read_text().splitlines()) == ["u7", "u8"]
    assert len(model.seen) == 3


def test_a_refusal_and_a_wrong_address_are_one_line(model, rows, path) -> None:
    model.replies = [401, 401]
    with pytest.raises(TrainingError, match="refused with 401"):
        model.ask(rows[:1], path)
    model.replies = [403]  # no request was answered before, so the key is wrong
    with pytest.raises(TrainingError, match="refused with 403: check the address, --model and the key"):
        model.ask(rows[:1], path)
    model.url = "http://127.0.0.1:9"
    with pytest.raises(TrainingError, match="gave nothing usable.*: see whether it runs there"):
        model.ask(rows[:1], path)


def test_a_request_that_is_refused_is_an_answer_of_its_own(model, rows, path) -> None:
    table = [{**rows[0], "conversation": f"c{n}"} for n in range(20)]
    model.replies = [400, 403, 422]  # too long, moderated or filtered; the server answers the others
    answers = model.ask(table, path)
    assert {row["id"] for row in answers} == {row["conversation"] for row in table}
    assert sorted(row["refused"] for row in answers if "refused" in row) == [400, 403, 422]
    assert all((row["text"] == "") == ("refused" in row) for row in answers)
    model.replies = [400] * 20  # a server that refuses everything is asked no further
    with pytest.raises(TrainingError, match="refused with 400"):
        model.ask(table, path.with_name("none"))
    assert len(model.seen) < 20 + 20 and path.with_name("none").read_text() == ""


def test_refusals_of_a_key_at_its_limit_are_no_answers(rows, path) -> None:
    """They used to be kept as answers, and every later run scored them as empty."""
    table = [{**rows[0], "conversation": f"c{n}"} for n in range(20)]
    turn, late, refused = itertools.count(1), threading.Event(), range(5, 100)
    text = json.dumps({"choices": [{"message": {"content": "1. Item D (2004)"}}]}).encode()

    def answer(_: Asked) -> Reply:
        n = next(turn)
        if n == 4:
            late.wait(5)  # it was on its way when the limit was reached; its answer comes after the refusals
        if n == 11:
            late.set()
        return Reply(403) if n in refused else Reply(200, text)

    def statuses() -> list[int | None]:
        server.ask(url, "m", table, 4, path)
        return [json.loads(line).get("refused") for line in path.read_text().splitlines()]

    with serving(answer) as url:
        with pytest.raises(TrainingError, match="refused with 403: check the address, --model and the key"):
            statuses()
        assert path.read_text().count("1. Item D") == path.read_text().count("\n") == 4
        turn = itertools.count(1)
        refused = range(16, 100)  # the last of the 16 that are left, and the probe with one answered before
        with pytest.raises(TrainingError, match="refused with 403"):
            statuses()
        turn, refused = itertools.count(1), range(1, 2)  # the key works again, and the last request is moderated
        assert statuses() == [None] * 19 + [403]


def test_an_answer_that_breaks_off_is_asked_again_and_a_redirect_brings_no_key(model, rows, path, monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    model.cut = 2
    assert len(model.ask(rows[:1], path)) == 1 and model.waits == [1, 2]
    model.replies = [302]
    with pytest.raises(TrainingError, match="refused with 400"):
        model.ask(rows[1:], path.with_name("b"))
    assert model.strangers == [None]


def test_a_reply_that_holds_no_answer_is_asked_for_again(model, rows, path) -> None:
    """Routers answer 200 whatever happened behind them. One such reply used to end the run."""
    busy = {"error": {"message": "overloaded", "code": 502}}
    model.bodies = [busy, {"choices": []}, {"error": "busy", "choices": None}]
    assert model.ask(rows[:1], path)[0]["text"] == "1. Item D (2004)" and model.waits == [1, 2, 4]
    model.bodies = [busy] * 5
    with pytest.raises(TrainingError, match=r"gave nothing usable \(ErrorReply\) 5 times: .* what came is kept"):
        model.ask(rows, path)
    new = path.with_name("new")
    for bodies, status in (([{"choices": []}] * 5, 200), ([{"error": {"message": "moderated", "code": 403}}], 403)):
        model.bodies = [*bodies]
        path.write_text('{"id": "u7", "text": ""}\n')  # the server has answered before
        assert model.ask(rows, path)[-1] == {"id": "u8", "text": "", "refused": status} and not model.bodies
        model.bodies = bodies
        message = "refused with 403" if status == 403 else "answered without a choice"
        with pytest.raises(TrainingError, match=f"{message}: check the address, --model and the key"):
            model.ask(rows[1:], new)
    model.bodies = [{"hello": 1}]
    with pytest.raises(TrainingError, match="the reply is no chat completion"):
        model.ask(rows[1:], new)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"content": "1. Item D (2004) \ud83d"}, "1. Item D (2004) ?"),
        ({"role": "assistant"}, ""),
        ({"content": [{"type": "thinking", "thinking": []}, {"type": "text", "text": "1. Saw"}]}, "1. Saw"),
    ],
)
def test_an_answer_in_parts_or_cut_in_a_character_or_in_its_thoughts_is_kept(model, rows, path, message, text) -> None:
    """Half of an emoji ended in a traceback; a message without `content` ended the run, and so did each further run;
    parts were scored as an empty answer."""
    model.bodies = [{"choices": [{"message": message, "finish_reason": "length"}]}]
    assert model.ask(rows[:1], path) == [{"id": "u7", "text": text, "finish": "length"}]


@pytest.mark.parametrize("url", ["http://192.0.2.7:8000", "http://localhost.example.org", "https://127.0.0.1.nip.io"])
def test_nothing_is_sent_to_another_machine_without_a_word(url: str) -> None:
    with pytest.raises(TrainingError, match="12 requests would be sent there: say --allow-remote"):
        server.refuse_remote(url, 12, remote=False)
    server.refuse_remote(url, 12, remote=True)
    for here in ("http://localhost:8000/v1", "http://127.0.0.1/v1", "http://[::1]:8000/v1"):
        server.refuse_remote(here, 12, remote=False)


@pytest.mark.parametrize("url", "localhost:8000/v1 http://[::1 http://localhost:99999/v1 http:///v1 file:///a".split())
def test_no_address_is_said_before_anything_else(url: str) -> None:
    for remote in (True, False):
        with pytest.raises(TrainingError, match="expected an address that begins with http"):
            server.refuse_remote(url, 12, remote)
    with pytest.raises(TrainingError, match="put the key into") as error:
        server.refuse_remote("htp://me:secret@[here/v1", 12, remote=True)
    assert "secret" not in str(error.value)
