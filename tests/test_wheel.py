"""Tests what a user installs: the wheel, in its own environment, run from an empty folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT


@pytest.mark.slow
def test_the_wheel_runs_the_demo_where_somebody_has_a_training_folder(tmp_path: Path) -> None:
    dist, venv, empty = tmp_path / "dist", tmp_path / "venv", tmp_path / "empty"
    (empty / "training").mkdir(parents=True)
    (empty / "training" / "__init__.py").write_text("raise SystemExit(1)")
    run(sys.executable, "-m", "build", "--wheel", "--outdir", dist, cwd=ROOT)
    (wheel,) = dist.glob("*.whl")
    run(sys.executable, "-m", "venv", venv)
    pip = (venv / "bin" / "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt")
    run(*pip, f"{wheel}[page]")  # enough by docs/how-to/install.md
    run(venv / "bin" / "saferec-build", "demo", "--generated", "60", "--no-training", cwd=empty)
    run(venv / "bin" / "saferec-train", "run", "--help", cwd=empty)
    assert (empty / "saferec-demo" / "report.html").exists()
    assert (empty / "saferec-demo" / "releases" / "1.0.0" / "manifest.json").exists()


def run(*words: object, cwd: Path | None = None) -> None:
    env = {
        name: value for name, value in os.environ.items() if name != "PYTHONPATH"
    }  # pip would find us installed there
    result = subprocess.run([str(w) for w in words], cwd=cwd, env=env, capture_output=True, text=True)
    assert result.returncode == 0, f"{words}\n{result.stdout}\n{result.stderr}"
