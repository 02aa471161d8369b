"""A release is what TRL takes: its own `trl sft` command, unchanged, on the config `sft`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.worlds import small_release
from training import data
from training.decoding import generate
from training.models import tiny

torch = pytest.importorskip("torch")
pytest.importorskip("trl")
pytestmark = pytest.mark.training


def test_trl_sft_trains_on_a_release(tmp_path: Path) -> None:
    release = data.open_release(small_release.write(tmp_path / "release"))
    (tmp_path / "start").mkdir()
    tiny.make(tmp_path / "start", release, data.rows(release.folder, "grpo", "train"))
    command = [str(Path(sys.executable).with_name("trl")), "sft", "--model_name_or_path", str(tmp_path / "start")]
    command += ["--dataset_name", str(release.folder), "--dataset_config", "sft", "--output_dir", str(tmp_path / "out")]
    command += "--max_steps 2 --per_device_train_batch_size 2 --learning_rate 0.01 --logging_steps 1".split()
    command += "--bf16 false --gradient_checkpointing false --use_cpu true --report_to none".split()
    alone = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "home"), "OMP_NUM_THREADS": "1"}
    ran = subprocess.run(command, capture_output=True, text=True, timeout=800, env=os.environ | alone, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr[-3000:]
    state = json.loads(next((tmp_path / "out").glob("checkpoint-*/trainer_state.json")).read_text())
    assert state["global_step"] == 2 and all(line["loss"] > 0 for line in state["log_history"] if "loss" in line)
    before, after = (generate.load(str(tmp_path / name)).model.state_dict() for name in ("start", "out"))
    assert any(not torch.equal(before[name], after[name]) for name in before)
