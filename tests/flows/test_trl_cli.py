"""TRL trains on a release: its unchanged commands run on the configs `sft` and `grpo`, with rewards by name, and on the
pairs that training.preferences writes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT
from tests.worlds import small_release
from training import data, preferences
from training.decoding import generate
from training.models import tiny

torch = pytest.importorskip("torch")
pytest.importorskip("trl")
pytestmark = pytest.mark.training


NAMES = ("relevance", "safety", "count")
WAYS = {
    "sft": ["--learning_rate", "0.01"],
    "grpo": [
        *("--learning_rate", "0.01", "--num_generations", "2", "--max_completion_length", "8"),
        *("--multi_objective_aggregation", "normalize_then_sum", "--reward_funcs"),
        *(f"training.trl_rewards.{name}" for name in NAMES),
    ],
    "dpo": "--learning_rate 0.01 --dataset_test_split validation --eval_strategy steps --eval_steps 2".split(),
}


@pytest.mark.parametrize("way", WAYS)
def test_trl_trains_on_a_release(way: str, tmp_path: Path) -> None:
    release = data.open_release(small_release.write(tmp_path / "release"))
    (tmp_path / "start").mkdir()
    tiny.make(tmp_path / "start", release, data.rows(release.folder, "grpo", "train"))
    command = [str(Path(sys.executable).with_name("trl")), way, "--model_name_or_path", str(tmp_path / "start")]
    command += ["--output_dir", str(tmp_path / "out"), "--dataset_name"]
    if way == "dpo":
        preferences.write(release, tmp_path / "pairs")
        command += [str(tmp_path / "pairs")]
    else:
        command += [str(release.folder), "--dataset_config", way]
    command += "--max_steps 2 --per_device_train_batch_size 2 --logging_steps 1".split() + WAYS[way]
    command += "--bf16 false --gradient_checkpointing false --use_cpu true --report_to none".split()
    settings = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "home"), "OMP_NUM_THREADS": "1"}
    settings |= {"SAFEREC_RELEASE": str(release.folder), "PYTHONPATH": str(ROOT)}
    run = subprocess.run(command, capture_output=True, text=True, timeout=800, env=os.environ | settings, cwd=tmp_path)
    assert run.returncode == 0, run.stderr[-3000:]
    state = json.loads(next((tmp_path / "out").glob("checkpoint-*/trainer_state.json")).read_text())
    assert state["global_step"] == 2
    logs = [line for line in state["log_history"] if "loss" in line]
    if way == "grpo":
        means = [line[f"rewards/{name}/mean"] for line in logs for name in NAMES]
        assert len(logs) == 2 and all(-9 < mean <= 1 for mean in means) and any(means)
        return
    start, end = (generate.load(str(tmp_path / name)).model.state_dict() for name in ("start", "out"))
    assert any(not torch.equal(start[name], end[name]) for name in start) and all(line["loss"] > 0 for line in logs)
    if way == "dpo":
        # before the first step the model is its own reference: both log ratios are 0, -log sigmoid(0) = log 2 = .6931
        assert logs[0]["loss"] == pytest.approx(0.6931, abs=1e-3)
        assert any("eval_loss" in line for line in state["log_history"])
