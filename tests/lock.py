"""`python -m tests.lock`: writes lock/*.txt, the hashes of all that `make venv` installs on Linux with x86.

Versions are those of constraints.txt. packages.txt holds everything but torch; torch.txt the registry's wheels of torch
and any build in BUILDS; cuda.txt what only the registry's build of torch requires. Needs `uv` (`pip install uv`).
"""

import re
import subprocess
import tempfile
from pathlib import Path

from tests import ROOT

LOCK = ROOT / "lock"
EXTRAS = "label-studio argilla page hub train ray"
TOOLS = "pip\nsetuptools>=77\nwheel\n"  # these build our own package
CUDA = re.compile(r"nvidia-|cuda-|triton==")
# PyTorch's CPU-only build, cp311: no registry has its hash
BUILDS = "6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b"
PIN = re.compile(r"^([\w.-]+)(?:\[[\w,-]+\])?==(\S+)((?: \\\n +--hash=\S+)+)$", re.M)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        (tools := Path(folder) / "tools.in").write_text(TOOLS)
        args = ["uv", "pip", "compile", "pyproject.toml", tools, "--group", "dev", "--constraint", "constraints.txt"]
        args += [word for extra in EXTRAS.split() for word in ("--extra", extra)]
        args += ["--generate-hashes", "--python-version", "3.11", "--python-platform", "x86_64-manylinux_2_28"]
        args += ["--no-header", "--no-annotate", "--no-config", "--output-file", lock := Path(folder) / "lock.txt"]
        subprocess.run(args, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        write(lock.read_text(encoding="utf-8"))


def write(text: str) -> None:
    pins_by_file: dict[str, list[str]] = {"packages": [], "torch": [], "cuda": []}
    for pin in PIN.finditer(text):
        if pin[1] == "torch":
            pins_by_file["torch"].append(f"{pin[0]} \\\n    --hash=sha256:{BUILDS}")
        else:
            pins_by_file["cuda" if CUDA.match(pin[0]) else "packages"].append(pin[0])
    LOCK.mkdir(exist_ok=True)
    for name, pins in pins_by_file.items():
        (LOCK / f"{name}.txt").write_text("\n".join(pins) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
