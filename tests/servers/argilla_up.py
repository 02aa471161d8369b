"""A real Argilla on loopback: Redis, a migrated SQLite database, the server, an owner. See argilla_main.py."""

import os
import secrets
import shutil
import socket
import subprocess
import time
from pathlib import Path

import httpx2

from annotation.tools import local_label_studio as managed
from saferec_builder.storage import whole_files

VERSION = "2.8.0"
PINS = Path(__file__).with_name("argilla.txt")
MAIN = Path(__file__).with_name("argilla_main.py")


def home() -> Path:
    return managed.cache() / f"argilla-{VERSION}"


def missing() -> str | None:
    """Returns what is missing to run it here, or None."""
    if not (home() / "ready").exists():
        return "Argilla's server (install: .venv/bin/python -m tests.servers.install)"
    if not shutil.which("redis-server"):
        return "Argilla's server (install: apt-get install redis-server)"
    return None


def free_port() -> int:
    """A port for a program that takes no open socket: somebody else may be faster."""
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return int(trial.getsockname()[1])


class Argilla:
    """Starts both processes when it is created; `close` ends them."""

    def __init__(self, folder: Path) -> None:
        self.folder, redis, listening = folder, folder / "redis.sock", socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        self.key, self.password = "owner-key-of-the-tests", "owner-12345678"
        self.processes: list[subprocess.Popen[bytes]] = []
        self.environment = os.environ | {
            "ARGILLA_HOME_PATH": str(folder),
            "ARGILLA_DATABASE_URL": f"sqlite+aiosqlite:///{folder}/argilla.db?check_same_thread=False",
            "ARGILLA_SEARCH_ENGINE": "sql",
            "ARGILLA_REDIS_URL": f"unix://{redis}",
            "ARGILLA_AUTH_SECRET_KEY": secrets.token_hex(16),
            "ARGILLA_ENABLE_TELEMETRY": "false",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_OFFLINE": "1",
        }
        self._start(["redis-server", "--port", "0", "--unixsocket", str(redis), "--save", "", "--appendonly", "no"])
        self._copy_database()
        self._start([str(home() / "bin" / "python"), str(MAIN), str(listening.fileno())], listening.fileno())
        listening.close()
        self._wait()

    def _copy_database(self) -> None:
        """The migrated database with its owner, which is made once per installation: it takes half of a start."""
        template, database = home() / "owner.db", self.folder / "argilla.db"
        if template.exists():
            shutil.copyfile(template, database)
            return
        self._run("database", "migrate")
        self._run("database", "users", "create_default", "--api-key", self.key, "--password", self.password)
        with whole_files.replacing(template) as tmp:
            shutil.copyfile(database, tmp)

    def _run(self, *words: str) -> None:
        tool = [str(home() / "bin" / "python"), "-m", "argilla_server", *words]
        run = subprocess.run(tool, env=self.environment, capture_output=True, text=True, cwd=self.folder, check=False)
        assert run.returncode == 0, run.stderr[-2000:]

    def _start(self, words: list[str], *descriptors: int) -> None:
        with open(self.folder / "server.log", "ab") as log:
            streams = {"stdout": log, "stderr": log, "stdin": subprocess.DEVNULL}
            process = subprocess.Popen(words, env=self.environment, cwd=self.folder, pass_fds=descriptors, **streams)
        self.processes.append(process)

    def _wait(self, seconds: float = 180.0) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            assert self.processes[-1].poll() is None, (self.folder / "server.log").read_text()[-2000:]
            try:
                if httpx2.get(f"{self.url}/api/v1/version", timeout=5).status_code == 200:
                    return
            except httpx2.HTTPError:
                time.sleep(0.3)
        raise AssertionError(f"Argilla did not answer within {seconds} s")

    def close(self) -> None:
        for process in reversed(self.processes):
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
