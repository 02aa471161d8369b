"""Property tests of the parsers of untrusted input, by the laws of worlds/fuzz_laws.py, and of the fault search."""

import asyncio
import json
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from saferec_builder.llm import batch
from tests import fuzz
from tests.conftest import NOT_RUN
from tests.worlds import fuzz_laws
from tests.worlds.fuzz_strategies import CALM, HALF, TEXT, changed, values


@pytest.mark.parametrize("name", fuzz_laws.LAWS)
def test_a_search_begins_with_what_holds(name: str) -> None:
    law, seeds = fuzz_laws.LAWS[name]
    for seed in seeds:
        law(seed)


# ---- replies

ANSWER = json.loads(fuzz_laws.CONTENT)


@pytest.mark.slow
@CALM
@given(changed(fuzz_laws.BODY))
@example({**fuzz_laws.BODY, "usage": {"prompt_tokens": 10**30, "completion_tokens": -5}})  # too large for any table
@example({**fuzz_laws.BODY, "usage": {"prompt_tokens": 1, "prompt_tokens_details": {"cached_tokens": 9}}})
def test_a_body_is_an_answer_or_an_error(body: Any) -> None:
    fuzz_laws.replies(json.dumps(body).encode())


@CALM
@given(changed(fuzz_laws.BATCH) | values())
@example({"custom_id": "r", "response": [1]})  # these four were found by a search
@example({"custom_id": "r", "response": None, "error": "over"})
@example({"custom_id": "r", "response": {"status_code": 200, "body": "\ud800"}})
@example({"choices": [], "usage": {"prompt_tokens": 10**20 - 1, "completion_tokens": -5}})
def test_a_line_of_a_batch_is_a_reply_or_nothing(line: Any) -> None:
    fuzz_laws.replies(json.dumps(line).encode())


@CALM
@given(changed(ANSWER))
def test_an_answer_has_claims_that_hold_and_claims_that_are_counted(answer: Any) -> None:
    body = {"choices": [{"message": {"content": json.dumps(answer)}}]}
    fuzz_laws.replies(json.dumps(body).encode())


@CALM
@given(st.binary(max_size=200))
@example(b"[" * 100_000)
@example(b'{"choices": [{"message": {"content": "' + b"[" * 2_000 + b'"}}]}')
def test_no_bytes_of_a_server_are_too_much(data: bytes) -> None:
    fuzz_laws.replies(data)


def test_a_line_separator_in_an_answer_is_no_end_of_a_line() -> None:
    """A server may write U+2028 unescaped: the reply after it was paid for, too."""
    body = {"choices": [{"message": {"content": "a\u2028b"}}]}
    line = {**fuzz_laws.BATCH, "response": {"status_code": 200, "body": body}}
    text = json.dumps(line, ensure_ascii=False) + "\n" + json.dumps(fuzz_laws.BATCH) + "\n"

    async def content(file: str) -> SimpleNamespace:
        return SimpleNamespace(response=text)

    client = SimpleNamespace(files=SimpleNamespace(content=content), with_options=lambda **_: None)
    wire: Any = SimpleNamespace(client=client, text=lambda response: response)
    unused: Any = None
    batches = batch._Batches(fuzz_laws.SERVER, wire, {}, unused, unused, unused)
    assert [reply.content for reply in asyncio.run(batches._fetched("file-1"))] == ["a\u2028b", fuzz_laws.CONTENT]


# ---- mined lines

PERSONAL = st.sampled_from(
    "I'm ¦Ann Lee¦my name is ¦a.lee@example.org¦ at example dot org¦+1 415 555 0177¦call ¦192.168.0.1¦::1¦fe80::1"
    "¦u/some_one¦@ann¦Ann#1234¦https://x.com/ann¦4111 1111 1111 1111¦12 Elm Street, Apt 4¦P.O. Box 12¦ lives at "
    "¦[name]¦[email]¦@¦#¦.¦-¦ ¦\n¦\u2028¦é¦🙈¦9¦user=".split("¦")
)


@CALM
@given(changed(fuzz_laws.TALK), st.binary(max_size=30))
def test_a_line_is_a_conversation_or_a_drop(talk: Any, junk: bytes) -> None:
    fuzz_laws.lines(json.dumps(talk).encode() + b"\n" + junk)


@CALM
@given(st.lists(PERSONAL | st.text(max_size=5), max_size=12).map("".join))
def test_placeholders_stay_what_they_are(text: str) -> None:
    fuzz_laws.redacted(text)


# ---- answers

PIECES = st.sampled_from(
    [title for _, title, _ in fuzz_laws.CATALOGUE]
    + '(1979)¦(2017)¦(2018)¦[1977]¦, 1966¦1. ¦2. ¦10) ¦- ¦* ¦| ¦|---|\n¦**¦*¦_¦__¦`¦```json\n¦```¦"¦“¦”¦«¦»'.split("¦")
    + '\n¦\n\n¦ ¦: ¦ - ¦, ¦ and ¦ because ¦Try ¦<think>¦</think>¦{"title": "¦", "year": 2017}¦[¦]¦{¦}'.split("¦")
    + "](http://x)¦Title | Year\n¦#¦>¦\x02¦\x03¦\u2028¦²¦٣. ¦１. ¦(¦)¦sorry¦Saw: Reborn¦The ¦a".split("¦")
)


@CALM
@given(st.lists(PIECES | TEXT, max_size=25).map("".join))
def test_any_text_is_an_answer(text: str) -> None:
    fuzz_laws.answer(text.encode())


@CALM
@given(values(), st.sampled_from(["```json\n{}\n```", "{}", "Sure!\n{}"]))
def test_any_json_is_an_answer(value: Any, around: str) -> None:
    fuzz_laws.answer(around.replace("{}", json.dumps(value)).encode())


@CALM
@given(st.lists(changed({"title": "Alien", "year": 1979}) | values(), max_size=4))
@example([{"title": 10**400}, {"name": True}, {"title": "Alien", "year": 10**400}])
def test_items_of_a_predictions_file_are_entries_or_nothing(items: Any) -> None:
    result = fuzz_laws.answers.from_items(items, fuzz_laws.FIND)
    assert len(result.entries) <= len(items) and {e.item for e in result.entries} <= {*fuzz_laws.IDS, None}
    assert (result.problem is None) is bool(result.entries)


@CALM
@given(HALF)
def test_half_a_character_is_read_like_any_other(half: str) -> None:
    fuzz_laws.answer(f"1. Alien (1979)\n2. {half} (2001)".encode("utf-8", "surrogatepass"))


# ---- the search itself


@pytest.mark.slow
def test_the_search_finds_what_is_planted_and_counts_it() -> None:
    pytest.importorskip("atheris", reason=f"{NOT_RUN}atheris (install: pip install atheris==3.0.0, Linux on x86-64)")
    command = [sys.executable, "-m", "tests.fuzz", "planted", "--seconds", "3"]
    result = subprocess.run(command, cwd=fuzz.ROOT, capture_output=True, text=True, timeout=200, check=False)
    last = result.stdout.splitlines()[-1]
    assert result.returncode == 1, result.stdout + result.stderr
    assert last.startswith("fuzz planted: ") and last.endswith(" executions in 3 s, 1 faults found"), last
    assert b"{" in next(path for path in (fuzz.folder("planted") / "faults").iterdir() if not path.suffix).read_bytes()


def test_a_search_that_cannot_run_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(fuzz, "find_spec", lambda name: None)
    assert fuzz.main(["replies", "--seconds", "1"]) == 2 and "NOT RUN" in capsys.readouterr().out
