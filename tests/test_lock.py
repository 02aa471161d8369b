"""Every pin of `make venv` has hashes and is the version of constraints.txt; a changed wheel is refused, another build
of torch is taken: the real Makefile, against an index of tiny wheels on this machine."""

import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests import ROOT, lock

CUDA = "nvidia-tiny==1.0; platform_system == 'Linux'"


def test_every_pin_has_hashes_and_is_that_of_the_constraints() -> None:
    pins = re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.M)
    held = {canonical(name): version for name, version in pins}
    found: dict[str, str] = {}
    for name in ("packages", "torch", "cuda"):
        text = (lock.LOCK / f"{name}.txt").read_text(encoding="utf-8")
        each = lock.PIN.findall(text)
        assert len(each) == text.count("==") and "".join(line for line in text.splitlines() if "--hash" not in line)
        found |= {canonical(pin): version for pin, version, _ in each}
    assert {name: held[name] for name in found if name in held} == {name: found[name] for name in found if name in held}
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = asked["project"]["optional-dependencies"]
    groups = [asked["project"]["dependencies"], asked["dependency-groups"]["dev"], *extras.values()]
    names = {canonical(Requirement(line).name) for group in groups for line in group} - {"saferec-builder"}
    assert names - set(found) == set(), "run `python -m tests.lock`"


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def wheel(folder: Path, name: str, version: str, *needs: str, words: str = "") -> str:
    """A wheel with one module; gives its line for a file of pins."""
    folder.mkdir(exist_ok=True, parents=True)
    module = name.replace("-", "_")
    path = folder / f"{module}-{version}-py3-none-any.whl"
    info = f"{module}-{version}.dist-info"
    asks = "".join(f"Requires-Dist: {need}\n" for need in needs)
    files = {
        f"{module}.py": words,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{asks}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    sums = {
        at: base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=") for at, text in files.items()
    }
    record = "".join(f"{at},sha256={digest.decode()},{len(files[at])}\n" for at, digest in sums.items())
    with zipfile.ZipFile(path, "w") as packed:
        for at, text in (files | {f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}).items():
            packed.writestr(at, text)
    return (
        f"{name}=={version.partition('+')[0]} \\\n    --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}\n"
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The Makefile of a project with one package, torch and what its build for CUDA asks for."""
    home, index = tmp_path / "project", tmp_path / "wheels"
    (home / "lock").mkdir(parents=True)
    shutil.copy(ROOT / "Makefile", home)
    (home / "constraints.txt").touch()
    (home / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "built"\nbackend-path = ["."]\n'
        '[project]\nname = "tiny"\nversion = "1"\n'
    )
    (home / "built.py").write_text(
        "import shutil, os\n"
        "def build_editable(folder, *more):\n"
        "    shutil.copy('tiny-1-py3-none-any.whl', folder)\n    return 'tiny-1-py3-none-any.whl'\n"
    )
    wheel(home, "tiny", "1")
    pins = {
        "packages": wheel(index, "some", "1.0"),
        "torch": wheel(index, "torch", "2.13.0", CUDA, words="build = 'cuda'"),
    }
    pins["cuda"] = wheel(index, "nvidia-tiny", "1.0")
    for name, text in pins.items():
        (home / "lock" / f"{name}.txt").write_text(text)
    return home


def run(project: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "HOME": str(project), "PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1"}
    env |= {"PIP_FIND_LINKS": str(project.parent / "wheels"), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    return subprocess.run([*map(str, words)], cwd=project, env=env, capture_output=True, text=True, timeout=300)


def build(project: Path) -> str:
    """(which build of torch, whether what CUDA needs is there, whether the package is)."""
    there = "*(bool(u.find_spec(n)) for n in ('nvidia_tiny', 'some'))"
    code = f"import torch, importlib.util as u; print(torch.build, {there})"
    return run(project, project / ".venv/bin/python", "-c", code).stdout.strip()


@pytest.mark.slow
def test_the_registrys_build_a_changed_wheel_and_another_build(project: Path) -> None:
    make = ("make", "venv", f"PYTHON={sys.executable}")
    wheels, torch = project.parent / "wheels", project / "lock" / "torch.txt"
    good = (wheels / "some-1.0-py3-none-any.whl").read_bytes()
    wheel(wheels, "some", "1.0", words="changed = True")
    ran = run(project, *make)
    assert ran.returncode and "THESE PACKAGES DO NOT MATCH THE HASHES" in ran.stderr
    assert not (project / ".venv/ready").exists()
    (wheels / "some-1.0-py3-none-any.whl").write_bytes(good)
    ran = run(project, *make)
    assert ran.returncode == 0 and build(project) == "cuda True True", ran.stderr
    shutil.rmtree(project / ".venv")
    (mine := project / "mine.txt").write_text(wheel(wheels, "torch", "2.13.0+cpu", words="build = 'cpu'"))
    ran = run(project, *make)  # the index's newest has no hash that is known
    assert ran.returncode and "THESE PACKAGES DO NOT MATCH THE HASHES" in ran.stderr, torch.read_text()
    ran = run(project, *make, f"TORCH={mine}")
    assert ran.returncode == 0 and build(project) == "cpu False True", ran.stderr
