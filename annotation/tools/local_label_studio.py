"""Installs, starts and stops a local Label Studio: one pinned version per user, data per workspace, on loopback."""

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
from typing import TypedDict

import httpx2

from annotation.tools import server_errors as failures
from saferec_builder.core.errors import ReviewError, strict_json
from saferec_builder.core.locks import held
from saferec_builder.storage.whole_files import write_private

VERSION = "1.23.2"
PINS = Path(__file__).with_name("label-studio.txt")
START = 300.0  # seconds that a first start may take on a slow machine
STOP = 15.0  # seconds until a server that was asked to stop is killed
Say = Callable[[str], None]


class Account(TypedDict):
    """What a reviewer logs in with."""

    email: str
    password: str


class Facts(TypedDict, total=False):
    """What server.json holds: how to log in, where the server is, and how it was started."""

    email: str
    password: str
    token: str
    accounts: dict[str, Account]
    url: str
    port: int
    settings: str
    pid: int


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
    "LABEL_STUDIO_ALLOWED_HOSTS": "127.0.0.1,localhost",  # a page elsewhere that takes our address for its own gets 400
}
# all that it gets of ours: no key or token of a model, the Hub or a cloud, nor a setting of another Label Studio's.
# LD_LIBRARY_PATH: without it some Pythons do not start.
_KEPT = ("PATH", "HOME", "LANG", "LANGUAGE", "TMPDIR", "TZ", "LD_LIBRARY_PATH")


def cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "saferec-builder"


def installed() -> bool:
    return (_home() / "ready").exists()


def _home() -> Path:
    return cache() / f"label-studio-{VERSION}"


def install(say: Say) -> Path:
    """The folder of the installation, made at the first call (about 850 MB); killed halfway, it starts over."""
    home = _home()
    if not installed():
        home.parent.mkdir(parents=True, exist_ok=True)
        with held(home.with_name(f"{home.name}.lock"), f"{home}: another installation", wait=True):
            if not installed():
                _install(home, say)
    return home


def _install(home: Path, say: Say) -> None:
    say(f"installing Label Studio {VERSION} into {home} (once; about 850 MB)")
    shutil.rmtree(home, ignore_errors=True)
    for words in (
        [sys.executable, "-m", "venv", home],
        [home / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-deps", "--requirement", PINS],
    ):
        ran = subprocess.run([str(w) for w in words], capture_output=True, text=True, check=False)
        if ran.returncode:
            last = (ran.stderr.strip() or ran.stdout.strip()).splitlines()[-1:]
            raise ReviewError(
                f"Label Studio could not be installed: {' '.join(last)}: give a server with --url and --token"
            )
    (home / "ready").write_text(VERSION)


def state(home: Path) -> Facts | None:
    """What is known of the workspace's server; None where there never was one."""
    path = home / "server.json"
    if not path.exists():
        return None
    with suppress(ValueError, RecursionError):
        found: Facts = strict_json(path.read_text())
        if isinstance(found, dict):
            return found
    raise ReviewError(f"{path}: damaged: put your copy of it back: it holds the passwords of the server")


def save(home: Path, facts: Facts) -> None:
    write_private(home / "server.json", json.dumps(facts, indent=1).encode())


@contextmanager
def _alone(home: Path) -> Iterator[None]:
    """One at a time starts or stops the server, or writes server.json: two would lose each other's passwords."""
    home.mkdir(parents=True, exist_ok=True)
    with held(home / ".lock", f"{home}: another command", wait=True):
        yield


def up(home: Path, say: Say) -> tuple[Facts, bool]:
    """(what one needs to log in, whether it had to be started). The data folder is `home`/data."""
    with _alone(home):
        facts = state(home)
        if facts and alive(home, facts):
            if facts.get("settings") == _settings():
                if not (there := healthy(facts["url"])):
                    say(f"Label Studio at {facts['url']} does not answer yet: waiting up to {START:.0f} s for it")
                if there or _answers(facts["url"], partial(alive, home, facts)):
                    return facts, False
            say("Label Studio does not answer, or runs with the settings of another version: it is started anew")
            _down(home)
        return _start(home, facts or Facts(), say), True


def clear_exports(home: Path) -> None:
    """Removes the copies of texts and answers that each pull leaves in the server's folder."""
    for path in (home / "data" / "export").glob("*"):
        path.unlink(missing_ok=True)


def _start(home: Path, before: Facts, say: Say) -> Facts:
    installation = install(say)
    (home / "data").mkdir(parents=True, exist_ok=True)
    home.chmod(0o700)
    first = Facts(email="owner@saferec.local", accounts={})
    first |= Facts(password=secrets.token_urlsafe(18), token=secrets.token_hex(20))
    facts = first | before
    port = _free_port(facts.get("port"))
    facts |= Facts(url=f"http://127.0.0.1:{port}", port=port, settings=_settings())
    save(home, facts)  # before the start: the password must survive whatever happens next
    _from_template(home)
    say(f"starting Label Studio at {facts['url']} (the first time takes a minute or two)")
    with open(os.open(home / "server.log", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600), "a") as log:
        process = subprocess.Popen(
            _command(installation, home, port),
            env=_environment(home, facts),
            stdout=log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            cwd=home,
            umask=0o077,
        )
    facts["pid"] = process.pid
    save(home, facts)
    if not _answers(facts["url"], lambda: process.poll() is None):
        end = "is not there yet" if process.returncode is None else f"stopped with exit code {process.returncode}"
        raise ReviewError(f"Label Studio at {facts['url']} {end}: see {home / 'server.log'}")
    process.returncode = 0  # it outlives this command: nobody here waits for its end
    _keep_template()
    return facts


def _command(installation: Path, home: Path, port: int) -> list[str]:
    words = [installation / "bin" / "label-studio", "start", "--no-browser", "--internal-host", "127.0.0.1"]
    return [str(w) for w in [*words, "--port", port, "--data-dir", home / "data"]]


def _environment(home: Path, facts: Facts) -> dict[str, str]:
    names = {"USERNAME": facts["email"], "PASSWORD": facts["password"], "USER_TOKEN": facts["token"]}
    own = {f"LABEL_STUDIO_{name}": value for name, value in names.items()}
    own |= {"LABEL_STUDIO_BASE_DATA_DIR": str(home / "data"), "LABEL_STUDIO_HOST": facts["url"]}
    return {**_bare(), **own}


def _bare() -> dict[str, str]:
    """Our settings, and of what stands in our own environment only what a program needs to run."""
    kept = {name: value for name, value in os.environ.items() if name in _KEPT or name.startswith("LC_")}
    return kept | _ENV


def _settings() -> str:
    """Names what a server is started with: one that was started with less must not go on."""
    return hashlib.blake2b(json.dumps([_ENV, _KEPT]).encode(), digest_size=8).hexdigest()


def _free_port(before: int | None) -> int:
    """The port that it had before, so that bookmarks stay good, else any free one."""
    for port in (before or 0, 0):
        with socket.socket() as trial, suppress(OSError):
            trial.bind(("127.0.0.1", port))
            return int(trial.getsockname()[1])
    raise ReviewError("no free port on 127.0.0.1")


def _from_template(home: Path) -> None:
    """An empty, migrated database saves a new workspace most of the first start."""
    template, own = _home() / "empty.sqlite3", home / "data" / "label_studio.sqlite3"
    if template.exists() and not own.exists():
        shutil.copyfile(template, own.with_suffix(".tmp"))
        os.replace(own.with_suffix(".tmp"), own)


def _keep_template() -> None:
    """Made by a migration of its own, never from a workspace's data."""
    template = _home() / "empty.sqlite3"
    if template.exists():
        return
    folder = _home() / f"migrate-{os.getpid()}"
    folder.mkdir(parents=True, exist_ok=True)
    env = {**_bare(), "LABEL_STUDIO_BASE_DATA_DIR": str(folder)}
    manage = next((_home() / "lib").glob("python*/site-packages/label_studio/manage.py"))
    words = [str(_home() / "bin" / "python"), str(manage), "migrate", "--verbosity", "0"]
    ran = subprocess.run(words, env=env, capture_output=True, check=False, cwd=folder)
    if ran.returncode == 0 and (folder / "label_studio.sqlite3").exists():
        os.replace(folder / "label_studio.sqlite3", template)
    shutil.rmtree(folder, ignore_errors=True)


def _answers(url: str, running: Callable[[], bool]) -> bool:
    """Whether it does before START is over, or its process."""
    end = time.monotonic() + START
    while running() and time.monotonic() < end:
        if healthy(url):
            return True
        time.sleep(0.5)
    return False


def healthy(url: str) -> bool:
    try:
        return bool(httpx2.get(f"{url}/health", timeout=5).status_code == 200)
    except httpx2.HTTPError:
        return False


def alive(home: Path, facts: Facts) -> bool:
    """Whether the process that we started still runs: a pid alone could be somebody else's by now."""
    if not facts.get("pid"):
        return False
    if sys.platform == "linux":  # where a small image has no `ps`
        with suppress(OSError):  # there is no such process
            return os.fsencode(home / "data") in Path(f"/proc/{facts['pid']}/cmdline").read_bytes()
        return False
    words = ["ps", "-ww", "-p", str(facts["pid"]), "-o", "args="]
    return str(home / "data") in subprocess.run(words, capture_output=True, text=True, check=False).stdout


def down(home: Path) -> bool:
    """Stops the workspace's server; False where none was running."""
    if state(home) is None:
        return False
    with _alone(home):
        return _down(home)


def _down(home: Path) -> bool:
    facts = state(home)
    if not facts or not alive(home, facts):
        return False
    os.kill(facts["pid"], signal.SIGTERM)
    end = time.monotonic() + STOP
    while alive(home, facts) and time.monotonic() < end:
        with suppress(ChildProcessError):  # a child of this very process stays a zombie until somebody asks
            os.waitpid(facts["pid"], os.WNOHANG)
        time.sleep(0.1)
    if alive(home, facts):
        os.kill(facts["pid"], signal.SIGKILL)
    return True


def account(home: Path, facts: Facts, invite: Callable[[], str], name: str) -> Account:
    """E-mail and password of a reviewer on the managed server, made at the first call through its sign-up page.

    `invite` makes a new link to that page, and every earlier one is dead: ours lives until the account is there.
    """
    with _alone(home):
        facts |= state(home) or Facts()  # another command may have made some since
        if name not in facts["accounts"]:
            link = invite()
            try:
                facts["accounts"][name] = _account(home, facts, link, name)
                save(home, facts)
            finally:
                invite()
    return facts["accounts"][name]


def _account(home: Path, facts: Facts, invite: str, name: str) -> Account:
    made = Account(email=_email(name), password=secrets.token_urlsafe(12))
    stays = {"response": [failures.stays]}
    with httpx2.Client(base_url=facts["url"], timeout=120, follow_redirects=True, event_hooks=stays) as web:
        form = web.get(invite).text
        token = form.split('name="csrfmiddlewaretoken" value="', 1)[1].split('"', 1)[0]
        body = {**made, "csrfmiddlewaretoken": token, "allow_newsletters": "false", "how_find_us": ""}
        web.post(invite, data=body, headers={"Referer": facts["url"] + invite})
        if web.get("/api/current-user/whoami").status_code != 200:
            raise ReviewError(f"{facts['url']}: no account for {name} could be made: see {home / 'server.log'}")
    return made


def _email(name: str) -> str:
    """What the server takes for an address; of Zoë it would take none."""
    if re.fullmatch(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*", plain := name.lower()):
        return f"{plain}@saferec.local"
    return f"reviewer-{hashlib.blake2b(name.encode(), digest_size=4).hexdigest()}@saferec.local"
