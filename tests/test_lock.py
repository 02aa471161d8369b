"""Every pin of `make venv` has hashes and the version of constraints.txt; a changed wheel is refused, another build of
torch is accepted: tested with the real Makefile and an index of tiny wheels on this machine."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name as canonical
from wheel.wheelfile import WheelFile

from tests import ROOT, lock

CUDA = "nvidia-tiny==1.0; platform_system == 'Linux'"


def test_every_pin_has_hashes_and_is_that_of_the_constraints() -> None:
    rows = re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.M)
    pins = {canonical(name): version for name, version in rows}
    locked: dict[str, str] = {}
    for name in ("packages", "torch", "cuda"):
        text = (lock.LOCK / f"{name}.txt").read_text(encoding="utf-8")
        matches = lock.PIN.findall(text)
        assert len(matches) == text.count("==") and "".join(line for line in text.splitlines() if "--hash" not in line)
        locked |= {canonical(pin): version for pin, version, _ in matches}
    assert {key: pins[key] for key in locked if key in pins} == {key: locked[key] for key in locked if key in pins}
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = pyproject["project"]["optional-dependencies"]
    groups = [pyproject["project"]["dependencies"], pyproject["dependency-groups"]["dev"], *extras.values()]
    names = {canonical(Requirement(line).name) for group in groups for line in group} - {"saferec-builder"}
    assert names - set(locked) == set(), "run `python -m tests.lock`"


def wheel(folder: Path, name: str, version: str, *needs: str, words: str = "") -> str:
    """Writes a wheel with one module; returns its line for a file of pins."""
    folder.mkdir(exist_ok=True, parents=True)
    module = name.replace("-", "_")
    path = folder / f"{module}-{version}-py3-none-any.whl"
    info = f"{module}-{version}.dist-info"
    requires = "".join(f"Requires-Dist: {need}\n" for need in needs)
    files = {
        f"{module}.py": words,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with WheelFile(path, "w") as packed:
        for member, text in files.items():
            packed.writestr(member, text)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return f"{name}=={version.partition('+')[0]} \\\n    --hash=sha256:{digest}\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The Makefile of a project with one package, torch and the requirement of torch's CUDA build."""
    folder, index = tmp_path / "project", tmp_path / "wheels"
    (folder / "lock").mkdir(parents=True)
    shutil.copy(ROOT / "Makefile", folder)
    (folder / "constraints.txt").touch()
    (folder / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "built"\nbackend-path = ["."]\n'
        '[project]\nname = "tiny"\nversion = "1"\n'
    )
    (folder / "built.py").write_text(
        "import shutil, os\n"
        "def build_editable(folder, *more):\n"
        "    shutil.copy('tiny-1-py3-none-any.whl', folder)\n    return 'tiny-1-py3-none-any.whl'\n"
    )
    wheel(folder, "tiny", "1")
    pins = {
        "packages": wheel(index, "some", "1.0"),
        "torch": wheel(index, "torch", "2.13.0", CUDA, words="build = 'cuda'"),
    }
    pins["cuda"] = wheel(index, "nvidia-tiny", "1.0")
    for name, text in pins.items():
        (folder / "lock" / f"{name}.txt").write_text(text)
    return folder


def run(project: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "HOME": str(project), "PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1"}
    env |= {"PIP_FIND_LINKS": str(project.parent / "wheels"), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    return subprocess.run([*map(str, words)], cwd=project, env=env, capture_output=True, text=True, timeout=300)


def build(project: Path) -> str:
    """Returns "(build of torch) (is CUDA's requirement installed) (is the package installed)"."""
    installed = "*(bool(u.find_spec(n)) for n in ('nvidia_tiny', 'some'))"
    code = f"import torch, importlib.util as u; print(torch.build, {installed})"
    return run(project, project / ".venv/bin/python", "-c", code).stdout.strip()


@pytest.mark.slow
def test_the_registrys_build_a_changed_wheel_and_another_build(project: Path) -> None:
    make = ("make", "venv", f"PYTHON={sys.executable}")
    wheels, torch = project.parent / "wheels", project / "lock" / "torch.txt"
    good = (wheels / "some-1.0-py3-none-any.whl").read_bytes()
    wheel(wheels, "some", "1.0", words="changed = True")
    result = run(project, *make)
    assert result.returncode and "THESE PACKAGES DO NOT MATCH THE HASHES" in result.stderr
    assert not (project / ".venv/ready").exists()
    (wheels / "some-1.0-py3-none-any.whl").write_bytes(good)
    result = run(project, *make)
    assert result.returncode == 0 and build(project) == "cuda True True", result.stderr
    assert "up to 3.2 GB" in result.stdout and "up to .7 GB" in run(project, *make, "--dry-run", "--always-make").stdout
    shutil.rmtree(project / ".venv")
    (mine := project / "mine.txt").write_text(wheel(wheels, "torch", "2.13.0+cpu", words="build = 'cpu'"))
    result = run(project, *make)  # the newest build in the index has no known hash
    assert result.returncode and "THESE PACKAGES DO NOT MATCH THE HASHES" in result.stderr, torch.read_text()
    result = run(project, *make, f"TORCH={mine}")
    assert result.returncode == 0 and build(project) == "cpu False True", result.stderr
