"""Pairs of a safe list and a raw one, and TRL's own, unchanged `trl dpo` trained on them."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests import ROOT
from tests.worlds import chat_model
from tests.worlds.small_release import listed
from training import data, preferences


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def pairs(release, tmp_path: Path, capsys) -> Path:
    assert preferences.main([str(release.folder), str(tmp_path / "pairs")]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "train: 3 pairs of 4 rows, 1 with two lists alike",
        "validation: 1 pairs of 2 rows, 1 with two lists alike",
    ]
    return tmp_path / "pairs"


def test_the_safe_list_is_chosen_and_the_raw_one_rejected(release, pairs: Path) -> None:
    train = lines(pairs / "train.jsonl")
    # u1 has gore (a b c violated, j l unknown), took up a d f and has seen g; lists have 4 items, refilled in the
    # order a..j. Raw: a d f, then b. Safe: the clear ones of a d f, which are d f, then e h (a b c out, g seen)
    assert [pair["conversation"] for pair in train] == ["u1", "u3", "u4"]  # u2 has no trait: both lists are alike
    assert train[0]["chosen"] == [{"role": "assistant", "content": listed("dfeh")}]
    assert train[0]["rejected"] == [{"role": "assistant", "content": listed("adfb")}]
    prompts = {row["conversation"]: row["prompt"] for row in data.rows(release.folder, "sft", "train")}
    assert all(pair["prompt"] == prompts[pair["conversation"]] for pair in train)
    assert [pair["conversation"] for pair in lines(pairs / "validation.jsonl")] == ["u5"]
    assert not (pairs / "test.jsonl").exists()


def test_a_shorter_list_makes_no_pair_and_a_row_keeps_its_canary() -> None:
    row: Any = {"conversation": "u", "prompt": [{"role": "user", "content": "x"}], "completion": [], "canary": "c"}
    safe: list[data.Row] = [
        row | {"items": ["d"]},
        row | {"conversation": "v", "items": ["d", "e"]},
        row | {"conversation": "w", "prompt": [], "items": None},
    ]
    raw = [safe_row | {"items": ["a", "d"]} for safe_row in safe]
    kept, left_out = preferences.pairs(safe, raw, 2)
    assert [(pair["conversation"], pair["canary"]) for pair in kept] == [("v", "c")]
    assert left_out == {"with a list of fewer than 2": 1, "without text": 1}


def test_what_cannot_be_written_is_one_line(release, pairs: Path, capsys) -> None:
    assert preferences.main([str(release.folder), str(pairs)]) == 1
    assert "is there already: expected a new folder" in capsys.readouterr().err
    with pytest.raises(data.TrainingError, match="no pair in train"):
        preferences.write(replace(release, manifest={**release.manifest, "k": 9}), pairs.parent / "none")
    assert not (pairs.parent / "none").exists()


@pytest.mark.training
def test_trl_dpo_trains_on_the_pairs(pairs: Path, tmp_path: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    texts = [m["content"] for pair in lines(pairs / "train.jsonl") for m in pair["prompt"] + pair["chosen"]]
    chat_model.write(tmp_path / "start", texts)
    command = [str(Path(sys.executable).with_name("trl")), "dpo", "--model_name_or_path", str(tmp_path / "start")]
    command += ["--dataset_name", str(pairs), "--output_dir", str(tmp_path / "out"), "--learning_rate", "0.01"]
    command += "--dataset_test_split validation --eval_strategy steps --eval_steps 2 --max_steps 2".split()
    command += "--per_device_train_batch_size 2 --logging_steps 1 --bf16 false --gradient_checkpointing false".split()
    command += "--use_cpu true --report_to none".split()
    env = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "home"), "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=800, env=os.environ | env, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    state = json.loads((tmp_path / "out" / "checkpoint-2" / "trainer_state.json").read_text())
    losses = [line["loss"] for line in state["log_history"] if "loss" in line]
    # before the first step the model is its own reference: both log ratios are 0, -log sigmoid(0) = log 2 = .6931
    assert state["global_step"] == 2 and losses[0] == pytest.approx(0.6931, abs=1e-3)
    assert any("eval_loss" in line for line in state["log_history"])
    start, end = (AutoModelForCausalLM.from_pretrained(tmp_path / name).state_dict() for name in ("start", "out"))
    assert any(not torch.equal(start[name], end[name]) for name in start)
