"""A missing, wrong or refusing review server: the user gets one line, whichever library raised the error."""

import sys
import threading
from collections.abc import Iterator

import pytest

from annotation.tools import argilla_client, label_studio_client, server_errors as failures
from saferec_builder.core.errors import ReviewError
from tests.servers.loopback import Asked, Reply, serving

TOOLS = pytest.mark.parametrize("tool", [label_studio_client, argilla_client], ids=["label-studio", "argilla"])


class Odd:
    """Answers everything with one status and one body."""

    status, body, url = 200, b"<html>hello</html>", ""

    def answer(self, asked: Asked) -> Reply:
        return Reply(self.status, self.body)


@pytest.fixture
def odd() -> Iterator[Odd]:
    server = Odd()
    with serving(lambda asked: server.answer(asked)) as server.url:
        yield server


def fault(tool, url: str) -> ReviewError:
    with pytest.raises(ReviewError) as raised:
        tool.Server(url, "a-token", timeout=5.0).projects("saferec-builder x")
    return raised.value


@TOOLS
@pytest.mark.parametrize(
    ("status", "body", "kind", "says"),
    [
        (200, b"<html>hello</html>", ReviewError, "is this address really the review server?"),
        (200, b'{"unlike": "anything"}', ReviewError, "is this address really"),
        (401, b"{}", ReviewError, "the token was refused"),
        (403, b"{}", ReviewError, "the token was refused"),
        (404, b"{}", failures.Missing, "not there (any more)"),
        (429, b"{}", failures.Broken, "run the command again"),
        (500, b"oops", failures.Broken, "run the command again"),
        (503, b"{}", failures.Broken, "run the command again"),
    ],
)
def test_what_a_server_answers_is_one_line(tool, odd, status, body, kind, says):
    odd.status, odd.body = status, body
    error = fault(tool, odd.url)
    assert type(error) is kind
    assert says in str(error)
    assert "\n" not in str(error)


@pytest.mark.parametrize("ask", ["count", "keys"])
def test_an_answer_that_says_nothing_is_not_an_empty_project(odd, ask):
    """Otherwise every task would be sent a second time."""
    odd.body = b'{"unlike": "anything"}'
    server = label_studio_client.Server(odd.url, "t", timeout=5.0)
    with pytest.raises(ReviewError, match="not understood"):
        getattr(server, ask)(1)


@TOOLS
def test_what_is_no_address_is_one_line(tool):
    assert "this is no address" in str(fault(tool, "labels"))


@pytest.mark.parametrize(
    ("tool", "says"),
    [
        (label_studio_client, "starts the workspace's own Label Studio"),
        (argilla_client, "team-server.md says how to start one"),  # it said `review up`, which starts no Argilla
    ],
)
def test_a_server_that_is_not_there_is_one_line_with_what_starts_it(tool, says):
    assert says in str(fault(tool, "http://127.0.0.1:9"))


@TOOLS
def test_a_missing_library_is_the_line_that_installs_it(tool, monkeypatch):
    monkeypatch.setitem(sys.modules, {label_studio_client: "label_studio_sdk", argilla_client: "argilla"}[tool], None)
    with pytest.raises(ReviewError, match="pip install 'saferec-builder"):
        tool.Server("http://127.0.0.1:9", "t")


@TOOLS
def test_a_timeout_leaves_it_open_whether_it_was_done(tool, odd, monkeypatch):
    monkeypatch.setattr(odd, "answer", lambda asked: threading.Event().wait(1.0) or Reply(200))
    with pytest.raises(failures.Unsure, match="ReadTimeout|RemoteProtocolError"):
        tool.Server(odd.url, "t", timeout=0.2).projects("x")


def test_what_a_library_refuses_is_named(odd):
    """The message is not "no JSON came back" when the library refused our own question."""
    failures.needed("argilla", "argilla")
    from argilla._models import QuestionModel

    with (
        pytest.raises(ReviewError, match=r"LabelQuestion.*visible_options|QuestionModel.*visible_options"),
        failures.translated_errors("u", "do"),
    ):
        QuestionModel(name="x", settings={"type": "label_selection", "options": [], "visible_options": 1})
