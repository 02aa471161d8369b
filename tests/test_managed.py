"""Two commands at once are one installation, one server and everybody's account."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from annotation import managed
from annotation.label_studio import Server

SERVER = """
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
class Healthy(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
HTTPServer(("127.0.0.1", int(sys.argv[1])), Healthy).serve_forever()
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return managed._home()


def both(what: Callable[[int], Any]) -> list[Any]:
    """What two threads got that began together."""
    found: list[Any] = [None, None]
    line = threading.Barrier(2)

    def run(n: int) -> None:
        line.wait()
        found[n] = what(n)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_two_installations_at_once_are_one(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = []

    def slow(words: list[str], **how: Any) -> subprocess.CompletedProcess[str]:
        ran.append(words)
        cache.mkdir(exist_ok=True)
        time.sleep(0.3)  # the other one would begin meanwhile
        return subprocess.CompletedProcess(words, 0, "", "")

    monkeypatch.setattr(subprocess, "run", slow)
    assert both(lambda n: managed.install(lambda line: None)) == [cache, cache]
    assert len(ran) == 2  # an environment, and what goes into it


def test_two_starts_at_once_are_one_server(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.mkdir(parents=True)
    (cache / "ready").touch()
    (cache / "empty.sqlite3").touch()
    home = tmp_path / "label-studio"

    def words(installation: Path, home: Path, port: int) -> list[str]:
        return [sys.executable, "-c", SERVER, str(port), str(home / "data")]

    monkeypatch.setattr(managed, "_command", words)
    try:
        (one, first), (two, second) = both(lambda n: managed.up(home, lambda line: None))
        assert {first, second} == {True, False}
        assert one == two == managed.state(home)
    finally:
        assert managed.down(home)
    assert not managed.healthy(one["url"])


def test_two_accounts_made_at_once_are_both_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def made(home: Path, facts: dict[str, Any], invite: str, name: str) -> dict[str, str]:
        time.sleep(0.2)
        return {"email": name, "password": "p"}

    monkeypatch.setattr(managed, "_account", made)
    managed.save(tmp_path, {"url": "u", "accounts": {}})
    known = [json.loads((tmp_path / "server.json").read_text()) for _ in range(2)]  # as two commands have read it
    both(lambda n: managed.account(tmp_path, known[n], "invite", ("ann", "bo")[n]))
    assert set((managed.state(tmp_path) or {})["accounts"]) == {"ann", "bo"}


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere `ps` comes with the system")
def test_a_server_is_found_and_stopped_without_ps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small images have none: a server that was started there could not be stopped, nor started a second time."""
    words = [sys.executable, "-c", "import time; time.sleep(60)", str(tmp_path / "data")]
    process = subprocess.Popen(words)
    managed.save(tmp_path, {"pid": process.pid, "url": "http://127.0.0.1:9", "accounts": {}})
    monkeypatch.setenv("PATH", str(tmp_path))
    assert managed.down(tmp_path)
    process.returncode = 0  # `down` has waited for its end
    assert not managed.down(tmp_path)


@pytest.mark.servers
def test_everybodys_name_gets_an_account(label_studio: tuple[Path, dict[str, Any]]) -> None:
    """A real server: it wants ASCII before the @, and no dot at its end. Names are what `review push` lets through."""
    home, facts = label_studio
    server = Server(facts["url"], facts["token"])
    names = ["Ann.Lee", "zoë", "Łukasz", "李", "di.", "a..b"]
    made = {name: managed.account(home, facts, server.invite(), name)["email"] for name in names}
    assert made["Ann.Lee"] == "ann.lee@saferec.local"
    assert set(made.values()) <= {known[0] for known in server.people().values()}
    assert set(names) <= set(server.names(made, names).values())
