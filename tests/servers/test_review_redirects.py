"""A review server that redirects us to another server: no token and no text gets there, and the user is told."""

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
    """A web server on loopback: `seen` lists the requests it got, `to` is where it redirects them (empty: 404)."""

    def __init__(self) -> None:
        self.seen, self.to, self.status, self.url = list[tuple[str, str]](), "", 307, ""

    def answer(self, asked: Asked) -> Reply:
        self.seen.append((asked.method, asked.path))
        return Reply(self.status, b"", (("Location", self.to),)) if self.to and asked.path != "/moved" else Reply(404)


@pytest.fixture
def hosts() -> Iterator[tuple[Host, Host]]:
    """The server named on the command line, and a foreign one."""
    both = Host(), Host()
    with serving(both[0].answer) as both[0].url, serving(both[1].answer) as both[1].url:
        yield both


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["label-studio", "argilla"])
@pytest.mark.parametrize(("status", "words"), [(302, ["pull"]), (307, ["push", *PEOPLE]), (308, ["push", *PEOPLE])])
def test_nothing_goes_where_a_review_server_points(ws, cli, hosts, tool, status, words):
    server, other = hosts
    server.to, server.status = f"{other.url}/api/{TOKEN}", status
    result = cli("review", *words, "--tool", tool, "--url", server.url, "--token", TOKEN, "-C", ws.root)
    assert (result.code, result.err.count("\n")) == (1, 1), result.err
    assert f"it sends us on to {other.url}/" in result.err and "no token and no text was sent there" in result.err
    assert (len(server.seen), other.seen) == (1, [])
    assert TOKEN not in result.out + result.err  # though the address repeats it
    assert store.read(ws, tables.ASSIGNMENTS).is_empty()


@pytest.mark.parametrize("to", ["{url}/moved", "/moved"])
def test_a_server_may_move_a_page_of_its_own(ws, cli, hosts, to):
    server, _ = hosts
    server.to, server.status = to.format(url=server.url), 308
    result = cli("review", "pull", "--url", server.url, "--token", TOKEN, "-C", ws.root)
    assert result.code == 1 and "404" in result.err
    assert [path for _, path in server.seen][-1] == "/moved"


def test_a_port_that_goes_without_saying_is_no_other_origin():
    def reply(url: str, to: str) -> Any:
        request = SimpleNamespace(url=httpx.URL(url))
        return SimpleNamespace(has_redirect_location=True, headers={"location": to}, request=request)

    failures.refuse_foreign_redirect(reply("https://labels.example.org/a", "https://LABELS.example.org:443/b"))
    failures.refuse_foreign_redirect(reply("http://labels.example.org:80/a", "//labels.example.org/b"))
    foreign = "http://labels.example.org:443/b //evil.example https://labels.example.org.evil.example/ http://["
    foreign += " https://labels.example.org:444/a ftp://labels.example.org:443/a https://example.org/a"
    for to in foreign.split():
        with pytest.raises(failures.Elsewhere, match="sent there"):
            failures.refuse_foreign_redirect(reply("https://labels.example.org/a", to))


@pytest.mark.servers
def test_no_text_follows_an_import_that_is_sent_on(ws, cli, hosts, label_studio):
    """A proxy in front of a real Label Studio redirects the import, the request that has people's texts in it."""
    home, facts = label_studio
    _, other = hosts
    tool = review_world.LabelStudio(ws, home, facts)
    proxy = Proxy(facts["url"], home / "data" / "label_studio.sqlite3", 120.0)
    try:
        proxy.elsewhere = other.url
        proxy.faults.extend(["pass", "elsewhere"])  # the project is made, then the import
        options = ("--url", proxy.url, "--token", facts["token"], "-C", ws.root)
        result = cli("review", "push", "--reviewer", "ann", "--all", *options)
        assert (result.code, result.err.count("\n")) == (1, 1), result.err
        assert f"it sends us on to {other.url}/" in result.err and facts["token"] not in result.err
        assert (proxy.met["elsewhere"], other.seen, tool.tasks("ann")) == (1, [], {})
    finally:
        proxy.away()
