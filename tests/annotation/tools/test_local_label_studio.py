"""Two commands at once make one installation, one server and all accounts; and who may reach that server."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from annotation.tools import local_label_studio as managed
from annotation.tools.label_studio_client import Server
from saferec_builder.core.errors import ReviewError
from tests.servers.fixtures import PLANTED
from tests.servers.loopback import Reply, scripted

SERVER = """
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
class Healthy(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
HTTPServer(("127.0.0.1", int(sys.argv[1])), Healthy).serve_forever()
"""
Served = tuple[Path, dict[str, Any]]  # folder and server.json of a real server
WAITS = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return managed._installation()


def both(what: Callable[[int], Any]) -> list[Any]:
    """Returns what `what` returned in two threads that started together."""
    results: list[Any] = [None, None]
    barrier = threading.Barrier(2)

    def run(n: int) -> None:
        barrier.wait()
        results[n] = what(n)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_two_installations_at_once_are_one_with_an_empty_database_for_all(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, commands = cache / "lib" / "python3.11" / "site-packages" / "label_studio", list[list[str]]()

    def slow(words: list[str], *, env: dict[str, str] | None, **how: Any) -> subprocess.CompletedProcess[str]:
        commands.append(words)
        site.mkdir(parents=True, exist_ok=True)
        (site / "manage.py").touch()
        if env:
            (Path(env["LABEL_STUDIO_BASE_DATA_DIR"]) / "label_studio.sqlite3").write_text("empty")
        time.sleep(0.3)  # meanwhile the other one would begin
        return subprocess.CompletedProcess(words, 0, "", "")

    monkeypatch.setattr(subprocess, "run", slow)
    lines = list[str]()
    assert both(lambda n: managed.install(lines.append)) == [cache, cache]
    python = str(cache / "bin" / "python")
    pip = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--requirement", str(managed.PINS)]
    migrate = [python, str(site / "manage.py"), "migrate", "--verbosity", "0"]
    assert commands == [[sys.executable, "-m", "venv", str(cache)], pip, migrate]
    assert lines == [f"installing Label Studio {managed.VERSION} into {cache} (once; about 850 MB)"]
    (database := tmp_path / "data" / "label_studio.sqlite3").parent.mkdir()
    for before, after in (("", "empty"), ("full", "full")):  # of a new workspace, and of one that is used
        if before:
            database.write_text(before)
        managed._copy_template(tmp_path)
        assert [path.read_text() for path in database.parent.iterdir()] == [after]


@pytest.mark.parametrize(("output", "error"), [("", "a\nno room left"), ("b\nno room left", "")])
def test_an_installation_that_fails_says_why_and_is_none(
    cache: Path, monkeypatch: pytest.MonkeyPatch, output: str, error: str
) -> None:
    failed = subprocess.CompletedProcess([], 1, output, error)
    monkeypatch.setattr(subprocess, "run", lambda words, **how: failed)
    with pytest.raises(ReviewError, match="could not be installed: no room left: give a server with --url and --token"):
        managed.install(lambda line: None)
    assert not managed.installed()


@pytest.fixture
def home(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an installed server, for which SERVER stands in."""
    cache.mkdir(parents=True)
    (cache / "ready").touch()

    def words(installation: Path, home: Path, port: int) -> list[str]:
        return [sys.executable, "-c", SERVER, str(port), str(home / "data")]

    monkeypatch.setattr(managed, "_command", words)
    return tmp_path / "label-studio"


def test_one_that_does_not_answer_is_waited_for_and_never_doubled(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A first start took too long, and somebody ran `review up` again: two servers wrote one database."""
    (home / "data").mkdir(parents=True)
    port, gate = managed._free_port(None), home / "gate"
    late_code = f"import pathlib, sys, time\nwhile not pathlib.Path(sys.argv[3]).exists(): time.sleep(0.1)\n{SERVER}"
    slow, dead = (
        subprocess.Popen([sys.executable, "-c", code, str(port), str(home / "data"), str(gate)])
        for code in (late_code, "import time; time.sleep(60)")
    )
    facts = {"url": f"http://127.0.0.1:{port}", "port": port, "email": "e", "password": "p", "token": "t"}
    managed.save(home, facts | {"accounts": {}, "settings": managed._settings(), "pid": slow.pid})
    messages: list[str] = []

    def say(line: str) -> None:
        messages.append(line)
        gate.touch()  # it answers from now on

    while not managed.alive(home, managed.state(home) or {}):  # a new process has no command line for a moment
        assert slow.poll() is None
    try:
        assert managed.up(home, say)[1] is False and slow.poll() is None
        assert messages == [f"Label Studio at {facts['url']} does not answer yet: waiting up to 300 s for it"]
        assert managed.up(home, messages.append)[1] is False and len(messages) == 1
        managed.save(home, (managed.state(home) or {}) | {"url": "http://127.0.0.1:9", "pid": dead.pid})
        monkeypatch.setattr(managed, "START", 5.0)
        assert managed.up(home, lambda line: None)[1] is True and dead.wait(10) < 0
    finally:
        assert managed.down(home)
        for process in (slow, dead):
            process.kill()
            process.wait()


def test_two_starts_at_once_are_one_server(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two machines with the workspace on one network folder each started one, and both wrote one database."""
    try:
        (facts, started), (other_facts, other_started) = both(lambda n: managed.up(home, lambda line: None))
        assert {started, other_started} == {True, False}
        assert facts == other_facts == managed.state(home)
        there = f"was started on {facts['host']}, and only one machine may .* run `saferec-build review down` there"
        with monkeypatch.context() as patch, pytest.raises(ReviewError, match=there):
            patch.setattr(socket, "gethostname", lambda: "elsewhere")
            patch.setattr(managed, "_boot", lambda: "another")
            managed.up(home, lambda line: None)
    finally:
        assert managed.down(home)
    assert managed.healthy(facts["url"]) is False and not {"host", "boot"} & (managed.state(home) or {}).keys()


def test_a_machine_that_gets_another_name_is_the_same_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A laptop that was named anew by another network had to run `review down` before `review up`."""
    code = "from annotation.tools import local_label_studio as managed; print(managed._boot())"
    boot = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    managed.save(tmp_path, {"host": "at-home", "boot": boot})
    managed.check_machine(tmp_path)
    for stored, now in ((boot, "another"), (boot, ""), ("", "")):  # where a start has no name, the machine's decides
        managed.save(tmp_path, {"host": "at-home", "boot": stored})
        monkeypatch.setattr(managed, "_boot", lambda now=now: now)
        with pytest.raises(ReviewError, match="was started on at-home"):
            managed.check_machine(tmp_path)


class Accounts:
    """The accounts of a server, and its invitations."""

    def __init__(self, *emails: str) -> None:
        self.emails, self.invites = [*emails], 0

    def invite(self) -> str:
        self.invites += 1
        return "/u?token=1"

    def people(self) -> dict[int, tuple[str, ...]]:
        return {n: (email,) for n, email in enumerate(self.emails)}

    def sign_up(self, url: str, invite: str, account: managed.Account) -> bool:
        time.sleep(0.2)
        self.emails.append(account["email"])
        return True


def test_two_accounts_made_at_once_are_both_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Accounts()
    monkeypatch.setattr(managed, "_sign_up", server.sign_up)
    managed.save(tmp_path, {"url": "u", "accounts": {}})
    both(lambda n: managed.account(tmp_path, server, ("ann", "bo")[n]))
    assert set((managed.state(tmp_path) or {})["accounts"]) == {"ann", "bo"} and len(server.emails) == 2


def test_an_account_outlives_a_kill_deleted_data_and_an_older_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between the sign-up and its password, no later push could make the account; after the server's data were
    deleted, pushes went to people who could not log in."""
    server = Accounts()

    def killed(url: str, invite: str, account: managed.Account) -> bool:
        server.sign_up(url, invite, account)
        raise KeyboardInterrupt

    monkeypatch.setattr(managed, "_sign_up", killed)
    managed.save(tmp_path, {"url": "u", "accounts": {}})
    with pytest.raises(KeyboardInterrupt):
        managed.account(tmp_path, server, "ann")
    monkeypatch.setattr(managed, "_sign_up", server.sign_up)
    account = managed.account(tmp_path, server, "ann")
    assert (server.emails, server.invites) == (["ann@saferec.local"], 2)  # the link is closed, too
    server.emails.clear()  # somebody deleted the server's data
    assert managed.account(tmp_path, server, "ann") == account and server.emails == ["ann@saferec.local"]
    managed.save(tmp_path, {"url": "u", "accounts": {}})  # somebody put an older copy back
    told = "is missing: put your last copy of this file back, or give this person another name"
    with pytest.raises(ReviewError, match=f"server.json: the password of ann@saferec.local {told}$"):
        managed.account(tmp_path, server, "ann")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere `ps` comes with the system")
def test_a_server_is_found_and_stopped_without_ps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small images have no `ps`: a server started there could not be stopped, nor started a second time."""
    words = [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)", str(tmp_path / "data")]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout and process.stdout.readline()  # before it runs, /proc may have no words of it yet
        managed.save(tmp_path, {"pid": process.pid, "url": "http://127.0.0.1:9", "accounts": {}})
        monkeypatch.setenv("PATH", str(tmp_path))
        assert managed.down(tmp_path)
        process.returncode = 0  # `down` has waited for its end
    assert managed.down(tmp_path) is False


@pytest.mark.servers
def test_everybodys_name_gets_an_account(label_studio: Served) -> None:
    """A real server wants ASCII before the @, no dot at the end, and an e-mail that nobody has."""
    home, facts = label_studio
    server = Server(facts["url"], facts["token"])
    odd = {managed._email(name) for name in ("zoë", "Łukasz", "李", "di.", "a..b", "owner")}
    assert len(odd) == 6 and all(re.fullmatch(r"reviewer-[0-9a-f]{8}@saferec\.local", email) for email in odd)
    names = ["Ann.Lee", "zoë", "owner"]
    emails = {name: managed.account(home, server, name)["email"] for name in names}
    assert emails["Ann.Lee"] == "ann.lee@saferec.local" and emails["zoë"] in odd
    assert set(emails.values()) <= {person[0] for person in server.people().values()}
    assert set(names) <= set(server.names(emails, names).values())


def test_what_a_server_is_started_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of our environment only what any program needs is passed on; settings of another Label Studio change nothing."""
    foreign = PLANTED | {"LABEL_STUDIO_DISABLE_SIGNUP_WITHOUT_LINK": "false", "HEARTEX_ALLOWED_HOSTS": "*"}
    for name, value in {**foreign, "LC_ALL": "C.UTF-8", "TZ": "UTC"}.items():
        monkeypatch.setenv(name, value)
    facts = {"email": "e", "password": "p", "token": "t", "url": "http://127.0.0.1:8123"}
    passed = {name: os.environ[name] for name in managed._PASSED_ON if name in os.environ}
    own = {"USERNAME": "e", "PASSWORD": "p", "USER_TOKEN": "t", "HOST": facts["url"], "BASE_DATA_DIR": "/home/data"}
    expected = passed | managed._ENV | {"LC_ALL": "C.UTF-8"} | {f"LABEL_STUDIO_{k}": v for k, v in own.items()}
    assert managed._environment(Path("/home"), facts) == expected and expected["TZ"] == "UTC"
    assert managed._ENV["LABEL_STUDIO_DISABLE_SIGNUP_WITHOUT_LINK"] == "true"
    assert managed._ENV["LABEL_STUDIO_ALLOWED_HOSTS"] == "127.0.0.1,localhost"
    words = ["start", "--no-browser", "--internal-host", "127.0.0.1", "--port", "8123", "--data-dir", "/home/data"]
    assert managed._command(Path("/app"), Path("/home"), 8123) == ["/app/bin/label-studio", *words]


def test_a_server_that_ends_or_does_not_answer_is_one_line(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for code, status in (("raise SystemExit(3)", "stopped with exit code 3"), (WAITS, "is not there yet")):
        words = [sys.executable, "-c", code, str(home / "data")]
        monkeypatch.setattr(managed, "_command", lambda *where, words=words: words)
        with pytest.raises(ReviewError, match=rf"Label Studio at http://127\.0\.0\.1:\d+ {status}: see .*server\.log$"):
            managed.up(home, lambda line: None)
        monkeypatch.setattr(managed, "START", 2.0)
    monkeypatch.setattr(managed, "STOP", 0.3)  # it does not stop by itself
    pid = (managed.state(home) or {})["pid"]
    assert managed.down(home) and os.waitpid(pid, 0)[1] == signal.SIGKILL


def test_data_where_an_earlier_version_kept_them_are_not_passed_over(home: Path) -> None:
    (home / "label-studio" / "data").mkdir(parents=True)
    with pytest.raises(ReviewError, match=f"put this folder in the place of {home / 'data'}"):
        managed.up(home, lambda line: None)
    assert managed.state(home) is None


def test_the_port_of_before_is_taken_if_it_is_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        port = server.getsockname()[1]
        server.accept()[0].close()  # as a server that is stopped: its connections hold the port for a minute
        client.recv(1)
    assert managed._free_port(port) == port > 1_023
    with socket.create_server(("127.0.0.1", port)):
        assert port != managed._free_port(port) > 1_023


def test_an_account_is_made_on_the_page_of_the_link_and_exists_then(tmp_path: Path) -> None:
    form = Reply(200, b'<input name="csrfmiddlewaretoken" value="c-7">')
    replies = {"GET /u?token=1": form, "POST /u?token=1": {}, "GET /api/current-user/whoami": {"id": 2}}
    server = Accounts()
    with scripted(replies) as url:
        managed.save(tmp_path, {"url": url, "accounts": {}})
        account = managed.account(tmp_path, server, "Ann.Lee")
        assert account["email"] == "ann.lee@saferec.local" and len(account["password"]) == 16
        assert (managed.state(tmp_path) or {})["accounts"] == {"Ann.Lee": account} and server.invites == 2
    with scripted({**replies, "GET /u?token=1": Reply(500), "GET /api/current-user/whoami": Reply(401)}) as url:
        for number, address in ((4, url), (6, "http://127.0.0.1:9")):  # it fails; it is gone: both were tracebacks
            managed.save(tmp_path, {"url": address, "accounts": {}})
            with pytest.raises(ReviewError, match=f"^{address}: no account for bo could be made: see .*server.log$"):
                managed.account(tmp_path, server, "bo")
            assert server.invites == number  # the link of a failed attempt is closed, too


@pytest.mark.slow
def test_a_server_of_another_version_is_started_anew(home: Path) -> None:
    """A server that was started open to all, and with all keys in its environment, must not keep running."""
    messages = list[str]()
    try:
        old, _ = managed.up(home, messages.append)
        assert managed.up(home, messages.append) == (old, False)
        managed.save(home, {name: fact for name, fact in old.items() if name != "settings"})
        new, started = managed.up(home, messages.append)
        assert started and new["pid"] != old["pid"] and "started anew" in " ".join(messages)
        assert new["password"] == old["password"] and managed.up(home, messages.append) == (new, False)
    finally:
        managed.down(home)


# ---- a real server


def page(url: str, path: str, **how: Any) -> Any:
    return httpx2.get(url + path, timeout=120, **how)


def signed_up(url: str, path: str, email: str) -> int:
    """Returns the status code that somebody gets who fills in the sign-up page."""
    with httpx2.Client(base_url=url, timeout=120) as web:
        token = web.get(path).text.split('name="csrfmiddlewaretoken" value="', 1)[1].split('"', 1)[0]
        form = {"email": email, "password": "password-1234", "csrfmiddlewaretoken": token, "allow_newsletters": "false"}
        return int(web.post(path, data=form, headers={"Referer": url + path}).status_code)


@pytest.mark.servers
def test_nobody_signs_up_without_an_invitation(label_studio: Served) -> None:
    """A link that a reviewer has read is dead once the next account is made; reading a page makes no account."""
    home, facts = label_studio
    url, server = facts["url"], Server(facts["url"], facts["token"])
    owner = {"Authorization": f"Token {facts['token']}"}
    link = page(url, "/api/invite", headers=owner).json()["invite_url"]
    managed.account(home, server, "somebody-new")
    people = server.people()
    assert "somebody-new@saferec.local" in {person[0] for person in people.values()}
    for path in ("/user/signup/", "/user/signup/?token=guessed", link):
        assert signed_up(url, path, "stranger@example.org") == 403, path
    assert server.people() == people
    new_link = page(url, "/api/invite", headers=owner).json()["invite_url"]
    assert signed_up(url, new_link, "guest@example.org") == 302  # the page itself works: it was the link


@pytest.mark.servers
def test_a_server_answers_to_its_own_name_alone_and_has_no_key_of_ours(label_studio: Served) -> None:
    _, facts = label_studio
    port = facts["url"].rsplit(":", 1)[1]
    statuses = {
        host: page(facts["url"], "/user/login/", headers={"Host": host}).status_code
        for host in (f"127.0.0.1:{port}", f"localhost:{port}", f"rebound.example.org:{port}", "0.0.0.0")
    }
    assert list(statuses.values()) == [200, 200, 400, 400], statuses
    if sys.platform == "linux":  # elsewhere nobody can look
        lines = Path(f"/proc/{facts['pid']}/environ").read_text().split("\0")
        environment = dict(line.split("=", 1) for line in lines if "=" in line)
        assert environment["LABEL_STUDIO_USER_TOKEN"] == facts["token"]  # it is the right process
        assert not environment.keys() & PLANTED.keys() and "canary" not in "".join(environment.values())


def test_the_password_file_is_its_owners_and_no_strangers_process_is_stopped(tmp_path: Path):
    managed.save(tmp_path, {"pid": 1, "url": "http://127.0.0.1:9", "accounts": {}})
    assert (tmp_path / "server.json").stat().st_mode & 0o777 == 0o600
    assert managed.alive(tmp_path, {"pid": 1}) is False  # some process has that number, and it is not ours
    assert managed.down(tmp_path) is False
    assert managed.state(tmp_path / "nowhere") is None
    for damaged in ("[]", "{", "[" * 200_000):
        (tmp_path / "server.json").write_text(damaged)
        with pytest.raises(ReviewError, match="server.json: damaged: put your copy of it back"):
            managed.state(tmp_path)


def test_copies_of_what_was_pulled_are_removed(tmp_path: Path) -> None:
    for name in ("project-1-at-x.json", "project-1-at-x-info.json"):
        (tmp_path / "data" / "export").mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / "export" / name).write_text("[]")
    (tmp_path / "data" / "label_studio.sqlite3").write_text("")
    managed.clear_exports(tmp_path)
    managed.clear_exports(tmp_path / "never made")
    assert [path.name for path in (tmp_path / "data").rglob("*") if path.is_file()] == ["label_studio.sqlite3"]
