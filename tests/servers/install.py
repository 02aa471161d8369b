"""python -m tests.servers.install: the real review servers, each in an environment of its own in the user's cache."""

import shutil
import subprocess
import sys

from annotation.tools import local_label_studio as managed
from saferec_builder.storage.locks import held
from tests.servers import argilla_up


def main() -> None:
    managed.install(print)
    home = argilla_up.home()
    with held(home.with_name(f"{home.name}.lock"), f"{home}: another installation", wait=True):
        if not (home / "ready").exists():
            print(f"installing Argilla's server {argilla_up.VERSION} into {home}")
            shutil.rmtree(home, ignore_errors=True)
            subprocess.run([sys.executable, "-m", "venv", home], check=True)
            pip = [home / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-deps", "--requirement"]
            subprocess.run([*pip, argilla_up.PINS], check=True)
            (home / "ready").write_text(argilla_up.VERSION)


if __name__ == "__main__":
    main()
