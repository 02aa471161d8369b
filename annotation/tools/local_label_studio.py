"""Installs, starts and stops a local Label Studio: one pinned version per user, one server per workspace, loopback."""

import hashlib
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Protocol, TypedDict

import httpx2

from annotation.tools import server_errors
from saferec_builder.core.errors import ReviewError, strict_json
from saferec_builder.core.locks import file_lock
from saferec_builder.storage.whole_files import write_private

VERSION = "1.23.2"
PINS = Path(__file__).with_name("label-studio.txt")
START = 300.0  # seconds that a first start may take on a slow machine
STOP = 15.0  # seconds that a server has to stop before it is killed
Say = Callable[[str], None]


class Account(TypedDict):
    """The login of a reviewer."""

    email: str
    password: str


class SignUp(Protocol):
    """The calls of a server that are needed to make an account."""

    def invite(self) -> str: ...
    def people(self) -> dict[int, tuple[str, ...]]: ...


class Facts(TypedDict, total=False):
    """The contents of server.json: logins, the server's address, and the settings that it was started with."""

    email: str
    password: str
    token: str
    accounts: dict[str, Account]
    url: str
    port: int
    settings: str
    pid: int
    host: str  # the machine of `pid`
    boot: str  # _boot() there


_ENV = {
    "DJANGO_DB": "sqlite",
    "LABEL_STUDIO_ENABLE_LEGACY_API_TOKEN": "true",
    "COLLECT_ANALYTICS": "false",
    "LABEL_STUDIO_COLLECT_ANALYTICS": "false",
    "SENTRY_DSN": "",
    "FRONTEND_SENTRY_DSN": "",
    "LATEST_VERSION_CHECK": "false",
    "LABEL_STUDIO_LATEST_VERSION_CHECK": "false",
    "CONVERTER_DOWNLOAD_RESOURCES": "false",
    "LABEL_STUDIO_DISABLE_SIGNUP_WITHOUT_LINK": "true",
    "LABEL_STUDIO_ALLOWED_HOSTS": "127.0.0.1,localhost",  # a page whose domain points to our address gets 400
}
# The variables of our environment that the server gets: no key or token of a model, the Hub or a cloud, and no setting
# of another Label Studio. Some Pythons do not start without LD_LIBRARY_PATH.
_PASSED_ON = ("PATH", "HOME", "LANG", "LANGUAGE", "TMPDIR", "TZ", "LD_LIBRARY_PATH")


def cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "saferec-builder"


def installed() -> bool:
    return (_installation() / "ready").exists()


def _installation() -> Path:
    return cache() / f"label-studio-{VERSION}"


def install(say: Say) -> Path:
    """The folder of the installation, made at the first call (about 850 MB); an interrupted one starts over."""
    folder = _installation()
    if not installed():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with file_lock(folder.with_name(f"{folder.name}.lock"), f"{folder}: another installation", wait=True):
            if not installed():
                _install(folder, say)
    return folder


def _install(folder: Path, say: Say) -> None:
    """With an empty, migrated database, which saves each new workspace most of the first start's time."""
    say(f"installing Label Studio {VERSION} into {folder} (once; about 850 MB)")
    shutil.rmtree(folder, ignore_errors=True)
    python, empty = folder / "bin" / "python", folder / "empty"
    _run([sys.executable, "-m", "venv", folder])
    _run([python, "-m", "pip", "install", "--quiet", "--no-deps", "--requirement", PINS])
    empty.mkdir(parents=True)
    manage = next((folder / "lib").glob("python*/site-packages/label_studio/manage.py"))
    env = {**_base_environment(), "LABEL_STUDIO_BASE_DATA_DIR": str(empty)}
    _run([python, manage, "migrate", "--verbosity", "0"], env=env, cwd=empty)
    os.replace(empty / "label_studio.sqlite3", folder / "empty.sqlite3")
    (folder / "ready").write_text(VERSION)


def _run(command: list[str | Path], env: dict[str, str] | None = None, cwd: Path | None = None) -> None:
    process = subprocess.run(list(map(str, command)), env=env, cwd=cwd, capture_output=True, text=True, check=False)
    if process.returncode:
        last_line = (process.stderr.strip() or process.stdout.strip()).splitlines()[-1:]
        raise ReviewError(
            f"Label Studio could not be installed: {' '.join(last_line)}: give a server with --url and --token"
        )


def state(folder: Path) -> Facts | None:
    """The contents of the workspace's server.json; None if there is none."""
    path = folder / "server.json"
    if not path.exists():
        return None
    with suppress(ValueError, RecursionError):
        facts: Facts = strict_json(path.read_text())
        if isinstance(facts, dict):
            return facts
    raise ReviewError(f"{path}: damaged: put your copy of it back: it holds the passwords of the server")


def save(folder: Path, facts: Facts) -> None:
    write_private(folder / "server.json", json.dumps(facts, indent=1).encode())


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """A lock on starting and stopping the server and on server.json: two writers would lose each other's passwords."""
    folder.mkdir(parents=True, exist_ok=True)
    with file_lock(folder / ".lock", f"{folder}: another command", wait=True):
        yield


def up(folder: Path, say: Say) -> tuple[Facts, bool]:
    """(the login data, whether the server had to be started). The data lies in `folder`/data."""
    with _locked(folder):
        check_machine(folder)
        facts = state(folder)
        if facts and alive(folder, facts):
            if facts.get("settings") == _settings():
                if not (answering := healthy(facts["url"])):
                    say(f"Label Studio at {facts['url']} does not answer yet: waiting up to {START:.0f} s for it")
                if answering or _answers_in_time(facts["url"], partial(alive, folder, facts)):
                    return facts, False
            say("Label Studio does not answer, or runs with the settings of another version: it is started anew")
            _down(folder)
        if misplaced := next(folder.glob(f"**/{folder.name}/data"), None):
            raise ReviewError(
                f"{misplaced}: an earlier version, started with a relative path, kept the server's data there: end that"
                f" server (process {(facts or {}).get('pid')}), put this folder in the place of {folder / 'data'}, and"
                " run this again"
            )
        return _start(folder, facts or Facts(), say), True


def check_machine(folder: Path) -> None:
    """Raises ReviewError if another machine started the server and no `down` has followed: it may still use the
    database. The name of a laptop changes with its network: a machine that has not been restarted is the same one."""
    facts, name = state(folder) or Facts(), socket.gethostname()
    host, boot = facts.get("host", name), facts.get("boot")
    if host != name and not (boot and boot == _boot()):
        raise ReviewError(
            f"{folder}: Label Studio was started on {host}, and only one machine may use its database: run"
            " `saferec-build review down` there, or here if it does not run there any more; then run this again"
        )


def _boot() -> str:
    """Names this start of this machine; empty if that is not known. On Linux with the namespaces of processes and
    folders: containers share a start, and do not see each other's processes. Ids of machines are copied with images."""
    with suppress(OSError):
        if sys.platform == "linux":
            boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
            return " ".join([boot, *(os.readlink(f"/proc/self/ns/{kind}") for kind in ("pid", "mnt"))])
        command = ["sysctl", "-n", "kern.bootsessionuuid"]  # macOS
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return ""


def clear_exports(folder: Path) -> None:
    """Removes the copies of texts and answers that each pull leaves in the server's data folder."""
    for path in (folder / "data" / "export").glob("*"):
        path.unlink(missing_ok=True)


def _start(folder: Path, stored: Facts, say: Say) -> Facts:
    installation = install(say)
    (folder / "data").mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    defaults = Facts(email="owner@saferec.local", accounts={})
    defaults |= Facts(password=secrets.token_urlsafe(18), token=secrets.token_hex(20))
    facts = defaults | stored
    port = _free_port(facts.get("port"))
    facts |= Facts(url=f"http://127.0.0.1:{port}", port=port, settings=_settings())
    save(folder, facts)  # before the start, so that the password is never lost
    _copy_template(folder)
    say(f"starting Label Studio at {facts['url']} (the first time takes a minute or two)")
    with open(os.open(folder / "server.log", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600), "a") as log:
        process = subprocess.Popen(
            _command(installation, folder, port),
            env=_environment(folder, facts),
            stdout=log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            cwd=folder,
            umask=0o077,
        )
    facts |= Facts(pid=process.pid, host=socket.gethostname(), boot=_boot())
    save(folder, facts)
    answers = _answers_in_time(facts["url"], lambda: process.poll() is None)
    code, process.returncode = process.returncode, 0  # it outlives this command, which does not wait for its end
    if not answers:
        status = "is not there yet" if code is None else f"stopped with exit code {code}"
        raise ReviewError(f"Label Studio at {facts['url']} {status}: see {folder / 'server.log'}")
    return facts


def _command(installation: Path, folder: Path, port: int) -> list[str]:
    words = [installation / "bin" / "label-studio", "start", "--no-browser", "--internal-host", "127.0.0.1"]
    return [str(word) for word in [*words, "--port", port, "--data-dir", folder / "data"]]


def _environment(folder: Path, facts: Facts) -> dict[str, str]:
    names = {"USERNAME": facts["email"], "PASSWORD": facts["password"], "USER_TOKEN": facts["token"]}
    env = {f"LABEL_STUDIO_{name}": value for name, value in names.items()}
    env |= {"LABEL_STUDIO_BASE_DATA_DIR": str(folder / "data"), "LABEL_STUDIO_HOST": facts["url"]}
    return {**_base_environment(), **env}


def _base_environment() -> dict[str, str]:
    """Our settings, and of our own environment only the variables that a program needs to run."""
    passed = {name: value for name, value in os.environ.items() if name in _PASSED_ON or name.startswith("LC_")}
    return passed | _ENV


def _settings() -> str:
    """Digest of the settings: a server that was started with others is restarted."""
    return hashlib.blake2b(json.dumps([_ENV, _PASSED_ON]).encode(), digest_size=8).hexdigest()


def _free_port(previous: int | None) -> int:
    """The previous port, so that bookmarks stay valid, or else any free one."""
    for port in (previous or 0, 0):
        with socket.socket() as sock, suppress(OSError):
            # as the server does: connections that it has just closed hold the port for a minute
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(("127.0.0.1", port))
            return int(sock.getsockname()[1])
    raise ReviewError("no free port on 127.0.0.1")


def _copy_template(folder: Path) -> None:
    """Gives a new workspace the installation's empty database."""
    template, database = _installation() / "empty.sqlite3", folder / "data" / "label_studio.sqlite3"
    if template.exists() and not database.exists():
        shutil.copyfile(template, database.with_suffix(".tmp"))
        os.replace(database.with_suffix(".tmp"), database)


def _answers_in_time(url: str, running: Callable[[], bool]) -> bool:
    """Whether the server answers before START has passed or its process has ended."""
    deadline = time.monotonic() + START
    while running() and time.monotonic() < deadline:
        if healthy(url):
            return True
        time.sleep(0.5)
    return False


def healthy(url: str) -> bool:
    try:
        return bool(httpx2.get(f"{url}/health", timeout=5, trust_env=False).status_code == 200)  # not by a proxy
    except httpx2.HTTPError:
        return False


def alive(folder: Path, facts: Facts) -> bool:
    """Whether the process that we started still runs: its pid alone could be another process by now."""
    if not facts.get("pid"):
        return False
    if sys.platform == "linux":  # small images have no `ps`
        with suppress(OSError):  # no such process
            return b"\0" + os.fsencode(folder / "data") in Path(f"/proc/{facts['pid']}/cmdline").read_bytes()
        return False
    command = ["ps", "-ww", "-p", str(facts["pid"]), "-o", "args="]
    return f" {folder / 'data'}" in subprocess.run(command, capture_output=True, text=True, check=False).stdout


def down(folder: Path) -> bool:
    """Stops the workspace's server; returns False if none was running on this machine. From then on any machine may
    start it."""
    if state(folder) is None:
        return False
    with _locked(folder):
        stopped, facts = _down(folder), state(folder) or Facts()
        facts.pop("host", None)
        facts.pop("boot", None)
        save(folder, facts)
        return stopped


def _down(folder: Path) -> bool:
    facts = state(folder)
    if not facts or not alive(folder, facts):
        return False
    os.kill(facts["pid"], signal.SIGTERM)
    deadline = time.monotonic() + STOP
    while alive(folder, facts) and time.monotonic() < deadline:
        with suppress(ChildProcessError):  # a child of this process stays a zombie until it is waited for
            os.waitpid(facts["pid"], os.WNOHANG)
        time.sleep(0.1)
    if alive(folder, facts):
        os.kill(facts["pid"], signal.SIGKILL)
    return True


def account(folder: Path, server: SignUp, name: str) -> Account:
    """E-mail and password of a reviewer on the managed server; signs up on its page if it has no such account yet."""
    path = folder / "server.json"
    with _locked(folder):
        facts = state(folder) or Facts()
        there = {logins[0].lower() for logins in server.people().values()}
        if name not in facts["accounts"] and _email(name) in there:
            raise ReviewError(
                f"{path}: the password of {_email(name)} is missing: put your last copy of this file back, or"
                " give this person another name"
            )
        if name not in facts["accounts"]:
            facts["accounts"][name] = Account(email=_email(name), password=secrets.token_urlsafe(12))
            save(folder, facts)  # before the account exists, so that the password is never lost
        account = facts["accounts"][name]
        if account["email"] not in there:  # new, or its data were deleted
            try:
                signed_up = _sign_up(facts["url"], server.invite(), account)
            finally:
                server.invite()  # ours was valid until now
            if not signed_up:
                log = folder / "server.log"
                raise ReviewError(f"{facts['url']}: no account for {name} could be made: see {log}")
    return account


def _sign_up(url: str, invite: str, account: Account) -> bool:
    """Makes the account on the page of an invitation; returns whether it exists then."""
    hooks = {"response": [server_errors.refuse_foreign_redirect]}
    with (
        suppress(httpx2.HTTPError),
        httpx2.Client(base_url=url, timeout=120, follow_redirects=True, event_hooks=hooks, trust_env=False) as web,
    ):
        token = re.search('name="csrfmiddlewaretoken" value="([^"]+)"', web.get(invite).text)
        body = {**account, "csrfmiddlewaretoken": token and token[1], "allow_newsletters": "false", "how_find_us": ""}
        web.post(invite, data=body, headers={"Referer": url + invite})
        return bool(web.get("/api/current-user/whoami").status_code == 200)
    return False


def _email(name: str) -> str:
    """An e-mail address that the server accepts: it would refuse one with the name Zoë, and that of its owner."""
    if re.fullmatch(r"(?!owner$)[a-z0-9_-]+(\.[a-z0-9_-]+)*", plain := name.lower()):
        return f"{plain}@saferec.local"
    return f"reviewer-{hashlib.blake2b(name.encode(), digest_size=4).hexdigest()}@saferec.local"
