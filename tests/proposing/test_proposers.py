"""Which proposers can run, and which are refused."""

from typing import Any

import pytest

from saferec_builder.proposing import proposers
from saferec_builder.storage import workspace as store
from tests.servers.llm_stub import Stub, says
from tests.worlds.model_replies import price


def test_a_jury_with_one_model_twice_is_refused(ask: Any, workspace: store.Workspace, stub: Stub) -> None:
    """The second read nothing, as the first had read all under the same name; the counts were the second's."""
    toml = workspace.root / "saferec.toml"
    sections = "".join(f'[propose.models.{name}]\nmodel = "m"\n' for name in "ab")
    toml.write_text(toml.read_text().replace('"openai:small", "openai:large"', '"openai:a", "openai:b"') + sections)
    result = ask("--proposer", "jury")
    assert result.code == 1 and "--proposer jury: m stands twice" in result.err and not stub.asked


def test_a_model_has_settings_of_its_own(ask: Any, workspace: store.Workspace, stub: Stub, monkeypatch) -> None:
    monkeypatch.setenv("OTHER_KEY", "a-very-secret-value")
    toml = workspace.root / "saferec.toml"
    sections = """[propose.models.small]
max_completion_tokens = 9000
temperature = 0.5
reasoning_effort = "low"
extra_body = { chat_template_kwargs = { enable_thinking = false } }
headers = { X-Key = "$OTHER_KEY", X-Title = "mine" }
[propose.models.large]
max_tokens = 70
"""
    toml.write_text(toml.read_text() + sections)
    headers: list[Any] = []
    stub.usual = lambda h: (headers.append(h.headers), says(f'{{"claims": []}} {h.headers["X-Key"]}')(h))
    assert ask("--proposer", "openai:small").json["added"] == 3
    body = stub.bodies[-1]
    assert (body["max_completion_tokens"], body["temperature"], body["reasoning_effort"]) == (9000, 0.5, "low")
    assert body["chat_template_kwargs"] == {"enable_thinking": False} and "max_tokens" not in body
    assert (headers[-1]["X-Key"], headers[-1]["X-Title"]) == ("a-very-secret-value", "mine")
    stored = b"".join(path.read_bytes() for path in workspace.root.rglob("*") if path.is_file())
    assert b"a-very-secret-value" not in stored  # although the server repeats it
    ask("--proposer", "openai:large", "--limit", "1")
    assert stub.bodies[-1]["max_tokens"] == 70 and "max_completion_tokens" not in stub.bodies[-1]
    monkeypatch.delenv("OTHER_KEY")
    result = ask("--proposer", "openai:small", "--dry-run")
    assert result.code == 1 and "headers: X-Key: set the environment variable OTHER_KEY" in result.err


def test_two_names_for_one_model_are_refused(ask: Any, stub: Stub) -> None:
    """The second was ignored, and nothing showed which one had read."""
    result = ask("--proposer", "openai:small", "--model", "large")
    assert result.code == 1 and "openai:small and --model large name two models" in result.err and not stub.asked
    assert ask("--proposer", "openai:small", "--model", "small", "--dry-run").code == 0


@pytest.mark.parametrize(
    "words",
    [
        "--model m",
        "--proposer learned --base-url http://127.0.0.1:9/v1",
        "--proposer jury --model m",
        "--proposer rules,openai:m --base-url http://127.0.0.1:9/v1",
    ],
)
def test_a_model_that_nobody_would_ask_is_refused(ask: Any, words: str) -> None:
    """`propose --model m` read with the rules, and only the name in the counts showed it."""
    result = ask(*words.split())
    assert result.code == 1 and "--model and --base-url are for one model: say --proposer openai" in result.err


@pytest.mark.parametrize("url", ["localhost:8000/v1", "", "ftp://127.0.0.1/v1", "http://", "http://127.0.0.1:99999/v1"])
def test_an_address_that_is_none_is_named_as_it_is(ask: Any, url: str) -> None:
    """Without `http://` a local server was taken for a remote one, and an empty address for OpenAI's."""
    result = ask("--proposer", "openai:small", "--base-url", url, "--allow-remote")
    assert result.code == 1 and result.err.count("\n") == 1
    assert f"base_url {url!r}: no address" in result.err and "http://127.0.0.1:8000/v1" in result.err


@pytest.mark.parametrize(("word", "meant"), [("small", "openai:small"), ("rule", "rules")])
def test_a_proposer_that_is_none_is_told_which_one_is_near(ask: Any, workspace, word: str, meant: str) -> None:
    toml = workspace.root / "saferec.toml"
    toml.write_text(toml.read_text() + '[propose.models.small]\nmodel = "m"\n')
    result = ask("--proposer", word)
    assert result.code == 1 and f"--proposer {word}: did you mean {meant}? expected one of rules, learned" in result.err


def test_a_key_may_come_with_a_line_break(ask: Any, workspace, stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file ends with one, which no header can hold: the error spoke of an attack, and not of the key."""
    monkeypatch.setenv("OPENAI_API_KEY", "a-very-secret-value\n")
    monkeypatch.setenv("TEAM", "a-secret-team\r\n")
    toml = workspace.root / "saferec.toml"
    toml.write_text(toml.read_text() + '[propose.models.small]\nheaders = { X-Team = "$TEAM" }\n')
    headers: list[Any] = []
    stub.usual = lambda h: (headers.append(h.headers), says('{"claims": []}')(h))
    assert ask("--proposer", "openai:small").json["added"] == 3
    assert (headers[-1]["Authorization"], headers[-1]["X-Team"]) == ("Bearer a-very-secret-value", "a-secret-team")


def test_a_misspelt_section_is_named_before_its_prices(ask: Any, workspace: store.Workspace) -> None:
    price(workspace, "vllm")
    result = ask("--proposer", "openai:vlm", "--budget-usd", "1")
    slip = "--proposer openai:vlm (there is no [propose.models.vlm]: did you mean openai:vllm?): a budget needs prices"
    assert result.code == 1 and slip in result.err


def test_the_section_of_a_model_is_named_as_toml_wants_it(ask: Any) -> None:
    """[propose.models.gpt-4.1], as the advice was, is another section: saferec.toml was refused."""
    result = ask("--proposer", "openai:gpt-4.1", "--budget-usd", "1")
    assert result.code == 1 and 'a budget needs prices: [propose.models."gpt-4.1"] input' in result.err
    assert proposers.section("a_B-1") == "[propose.models.a_B-1]"
