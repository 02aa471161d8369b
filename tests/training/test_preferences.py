"""Pairs of a safe list and a raw one; flows/test_trl_cli.py trains on them."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

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
