"""A review server that sends us on to somebody else: neither the token nor a text gets there, and a person is told."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from annotation.tools import server_errors as failures
from saferec_builder.storage import tables, workspace as store
from tests.servers.faulty import Proxy
from tests.servers.loopback import Asked, Reply, serving
from tests.worlds import review_world

TOKEN = "canary-token-7711"
PEOPLE = ("--reviewer", "ann", "--reviewer", "bo", "--all")


class Host:
    """A web server on loopback: `seen` is every request it got, `to` where it sends everybody (nobody: 404)."""

    def __init__(self) -> None:
        self.seen, self.to, self.status, self.url = list[tuple[str, str]](), "", 307, ""

    def answer(self, asked: Asked) -> Reply:
        self.seen.append((asked.method, asked.path))
        return Reply(self.status, b"", (("Location", self.to),)) if self.to and asked.path != "/moved" else Reply(404)


@pytest.fixture
def hosts() -> Iterator[tuple[Host, Host]]:
    """The server that was named, and somebody else's."""
    both = Host(), Host()
    with serving(both[0].answer) as both[0].url, serving(both[1].answer) as both[1].url:
        yield both


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["label-studio", "argilla"])
@pytest.mark.parametrize("words", [("push", *PEOPLE), ("pull",)], ids=["push", "pull"])
@pytest.mark.parametrize("status", [302, 307, 308])
def test_nothing_goes_where_a_review_server_points(ws, cli, hosts, tool, words, status):
    named, other = hosts
    named.to, named.status = f"{other.url}/api/{TOKEN}", status
    ran = cli("review", *words, "--tool", tool, "--url", named.url, "--token", TOKEN, "-C", ws.root)
    assert (ran.code, ran.err.count("\n")) == (1, 1), ran.err
    assert f"it sends us on to {other.url}/" in ran.err and "no token and no text was sent there" in ran.err
    assert (len(named.seen), other.seen) == (1, [])
    assert TOKEN not in ran.out + ran.err  # though the address repeats it
    assert store.read(ws, tables.ASSIGNMENTS).is_empty()


@pytest.mark.parametrize(
    "to", ["https://127.0.0.1:{port}/x", "http://localhost:{port}/x", "http://127.0.0.1/x", "ftp://127.0.0.1:{port}/x"]
)
def test_another_scheme_name_or_port_is_another_origin(ws, cli, hosts, to):
    named, _ = hosts
    named.to = to.format(port=named.url.rsplit(":", 1)[1])
    ran = cli("review", "pull", "--url", named.url, "--token", TOKEN, "-C", ws.root)
    assert (ran.code, len(named.seen), "it sends us on to" in ran.err) == (1, 1, True), ran.err


@pytest.mark.parametrize("to", ["{url}/moved", "/moved"])
def test_a_server_may_move_a_page_of_its_own(ws, cli, hosts, to):
    named, _ = hosts
    named.to, named.status = to.format(url=named.url), 308
    ran = cli("review", "pull", "--url", named.url, "--token", TOKEN, "-C", ws.root)
    assert ran.code == 1 and "404" in ran.err
    assert [path for _, path in named.seen][-1] == "/moved"


def test_a_port_that_goes_without_saying_is_no_other_origin():
    def reply(url: str, to: str) -> Any:
        asked = SimpleNamespace(url=httpx.URL(url))
        return SimpleNamespace(has_redirect_location=True, headers={"location": to}, request=asked)

    failures.refuse_foreign_redirect(reply("https://labels.example.org/a", "https://LABELS.example.org:443/b"))
    failures.refuse_foreign_redirect(reply("http://labels.example.org:80/a", "//labels.example.org/b"))
    away = "http://labels.example.org:443/b //evil.example https://labels.example.org.evil.example/ http://["
    for to in away.split():
        with pytest.raises(failures.Elsewhere, match="sent there"):
            failures.refuse_foreign_redirect(reply("https://labels.example.org/a", to))


@pytest.mark.servers
def test_no_text_follows_an_import_that_is_sent_on(ws, cli, hosts, label_studio):
    """A real Label Studio; a proxy before it sends the import on, the request that carries what people said."""
    home, facts = label_studio
    _, other = hosts
    tool = review_world.LabelStudio(ws, home, facts)
    proxy = Proxy(facts["url"], home / "data" / "label_studio.sqlite3", 120.0)
    try:
        proxy.elsewhere = other.url
        proxy.faults.extend(["pass", "elsewhere"])  # the project is made, then the import
        where = ("--url", proxy.url, "--token", facts["token"], "-C", ws.root)
        ran = cli("review", "push", "--reviewer", "ann", "--all", *where)
        assert (ran.code, ran.err.count("\n")) == (1, 1), ran.err
        assert f"it sends us on to {other.url}/" in ran.err and facts["token"] not in ran.err
        assert (proxy.met["elsewhere"], other.seen, tool.tasks("ann")) == (1, [], {})
    finally:
        proxy.away()
