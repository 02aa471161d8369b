"""A run that is killed twice ends with the metrics of an undisturbed one; two processes train as one command."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import ROOT
from tests.worlds import small_release

pytest.importorskip("trl")
pytestmark = pytest.mark.training
SHORT = (
    "both.num_train_epochs=4 both.warmup_steps=0 both.per_device_train_batch_size=2 both.save_strategy=epoch"
    " gdpo.max_steps=12 gdpo.per_device_train_batch_size=8 gdpo.save_strategy=steps gdpo.save_steps=1"
).split()
# one process imports torch, and each run is a fork of it, which is killed like any other process
FORKS = """
import contextlib, os, signal, sys, time
from pathlib import Path
import torch
torch.set_num_threads(1)
import datasets, transformers
from trl import GRPOTrainer, SFTTrainer
from training import pipeline as line
from training.safecrs import main

def fork(output):
    pid = os.fork()
    if pid == 0:
        code = main(WORDS + ["--output", str(output)])
        sys.stdout.flush()
        os._exit(code)
    return pid

def ended(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def killed(output, mark):
    pid = fork(output)
    while not (output / mark / "trainer_state.json").is_file():
        assert os.waitpid(pid, os.WNOHANG) == (0, 0), "it ended before it could be killed"
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)
    return ended(pid)

home = Path(sys.argv[1])
WORDS = sys.argv[2:]
assert ended(fork(home / "alone")) == 0
assert killed(home / "killed", "sft/trainer/checkpoint-4") == -9
assert killed(home / "killed", "safe_gdpo/trainer/checkpoint-3") == -9
print("---", flush=True)
assert ended(fork(home / "killed")) == 0
"""


def words(folder: Path) -> list[str]:
    small_release.write(folder / "release")
    changes = [word for change in SHORT for word in ("--set", change)]
    return ["run", "--release", str(folder / "release"), "--model", "tiny", *changes]


def ran(*command: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    run = subprocess.run(command, capture_output=True, text=True, timeout=800, env=env, cwd=ROOT)
    assert run.returncode == 0, run.stderr[-4000:]
    return run


def figures(folder: Path) -> list[dict[str, Any]]:
    runs: list[dict[str, Any]] = json.loads((folder / "report.json").read_text())["runs"]
    return runs


def test_killed_twice_and_gone_on_it_ends_with_the_same_figures(tmp_path: Path) -> None:
    resumed = ran(sys.executable, "-c", FORKS, str(tmp_path), *words(tmp_path))
    last = resumed.stdout.split("---")[-1]
    assert "sft: finished before" in last and "safe_gdpo:\n  goes on from step" in last, last
    assert figures(tmp_path / "alone") == figures(tmp_path / "killed")
    for stage in ("sft", "safe_sft", "safe_gdpo"):
        cards = [json.loads((tmp_path / run / stage / "run.json").read_text()) for run in ("alone", "killed")]
        assert cards[0]["validation"] == cards[1]["validation"] and cards[0]["key"] == cards[1]["key"]
        checks = [(tmp_path / run / stage / "validation.jsonl").read_text() for run in ("alone", "killed")]
        assert checks[0] == checks[1]
        assert not (tmp_path / "killed" / stage / "trainer").exists()


def test_two_processes_train_one_model(tmp_path: Path) -> None:
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    short = ["--set", "both.num_train_epochs=1", "--set", "gdpo.max_steps=1", "--output", str(tmp_path / "runs")]
    run = ran(*launch, "-m", "training.safecrs", *words(tmp_path), *short)
    assert run.stdout.count("safe_gdpo:") == 1, run.stdout  # only one of them prints and writes
    card = json.loads((tmp_path / "runs" / "sft" / "run.json").read_text())
    assert card["steps"] == 1  # four rows, two per process and step: a single process would take two steps
    assert len(figures(tmp_path / "runs")) >= 5
