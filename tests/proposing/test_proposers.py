"""Who is asked, and who cannot be."""

from typing import Any

import pytest

from saferec_builder.storage import workspace as store
from tests.servers.llm_stub import Stub, says


def test_a_jury_with_one_model_twice_is_refused(ask: Any, workspace: store.Workspace, stub: Stub) -> None:
    """The second read nothing, as the first had read it all under the same name, and the counts were the second's."""
    toml = workspace.root / "saferec.toml"
    named = "".join(f'[propose.models.{name}]\nmodel = "m"\n' for name in "ab")
    toml.write_text(toml.read_text().replace('"openai:small", "openai:large"', '"openai:a", "openai:b"') + named)
    ran = ask("--proposer", "jury")
    assert ran.code == 1 and "--proposer jury: m stands twice" in ran.err and not stub.asked


def test_a_model_has_settings_of_its_own(ask: Any, workspace: store.Workspace, stub: Stub, monkeypatch) -> None:
    monkeypatch.setenv("OTHER_KEY", "a-very-secret-value")
    toml = workspace.root / "saferec.toml"
    named = """[propose.models.small]
max_completion_tokens = 9000
temperature = 0.5
reasoning_effort = "low"
extra_body = { chat_template_kwargs = { enable_thinking = false } }
headers = { X-Key = "$OTHER_KEY", X-Title = "mine" }
[propose.models.large]
max_tokens = 70
"""
    toml.write_text(toml.read_text() + named)
    seen: list[Any] = []
    stub.usual = lambda h: (seen.append(h.headers), says(f'{{"claims": []}} {h.headers["X-Key"]}')(h))
    assert ask("--proposer", "openai:small").json["added"] == 3
    sent = stub.bodies[-1]
    assert (sent["max_completion_tokens"], sent["temperature"], sent["reasoning_effort"]) == (9000, 0.5, "low")
    assert sent["chat_template_kwargs"] == {"enable_thinking": False} and "max_tokens" not in sent
    assert (seen[-1]["X-Key"], seen[-1]["X-Title"]) == ("a-very-secret-value", "mine")
    kept = b"".join(path.read_bytes() for path in workspace.root.rglob("*") if path.is_file())
    assert b"a-very-secret-value" not in kept  # though the server repeats it
    ask("--proposer", "openai:large", "--limit", "1")
    assert stub.bodies[-1]["max_tokens"] == 70 and "max_completion_tokens" not in stub.bodies[-1]
    monkeypatch.delenv("OTHER_KEY")
    ran = ask("--proposer", "openai:small", "--dry-run")
    assert ran.code == 1 and "headers: X-Key: set the environment variable OTHER_KEY" in ran.err


def test_two_names_for_one_model_are_refused(ask: Any, stub: Stub) -> None:
    """The second was ignored, and nobody was told which one had read."""
    ran = ask("--proposer", "openai:small", "--model", "large")
    assert ran.code == 1 and "openai:small and --model large name two models" in ran.err and not stub.asked
    assert ask("--proposer", "openai:small", "--model", "small", "--dry-run").code == 0


@pytest.mark.parametrize("url", ["localhost:8000/v1", "", "ftp://127.0.0.1/v1", "http://", "http://127.0.0.1:99999/v1"])
def test_an_address_that_is_none_is_named_as_it_is(ask: Any, url: str) -> None:
    """Without its `http://` a server of this machine was taken for another one's, and an empty one for OpenAI's."""
    ran = ask("--proposer", "openai:small", "--base-url", url, "--allow-remote")
    assert ran.code == 1 and ran.err.count("\n") == 1
    assert f"base_url {url!r}: no address" in ran.err and "http://127.0.0.1:8000/v1" in ran.err


@pytest.mark.parametrize(("word", "meant"), [("small", "openai:small"), ("rule", "rules")])
def test_a_proposer_that_is_none_is_told_which_one_is_near(ask: Any, workspace, word: str, meant: str) -> None:
    toml = workspace.root / "saferec.toml"
    toml.write_text(toml.read_text() + '[propose.models.small]\nmodel = "m"\n')
    ran = ask("--proposer", word)
    assert ran.code == 1 and f"--proposer {word}: did you mean {meant}? expected one of rules, learned" in ran.err
