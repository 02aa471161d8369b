"""python -m tests.servers.install: puts servers and harnesses into their own environments in the user's cache."""

import shutil
import subprocess
import sys
from pathlib import Path

from annotation.tools import local_label_studio as managed
from saferec_builder.core.locks import file_lock
from tests.servers import argilla_up, harnesses


def main() -> None:
    managed.install(print)
    environment(argilla_up.home(), argilla_up.PINS)
    environment(harnesses.home(), harnesses.PINS)


def environment(home: Path, pins: Path) -> None:
    """Makes the environment, unless it exists."""
    with file_lock(home.with_name(f"{home.name}.lock"), f"{home}: another installation", wait=True):
        if not (home / "ready").exists():
            print(f"installing {pins.name} into {home}")
            shutil.rmtree(home, ignore_errors=True)
            subprocess.run([sys.executable, "-m", "venv", home], check=True)
            pip = [home / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-deps", "--requirement"]
            subprocess.run([*pip, pins], check=True)
            (home / "ready").touch()


if __name__ == "__main__":
    main()
