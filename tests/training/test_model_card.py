"""The README.md of a trained model."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import Printed
from training import model_card, run_folders as stages


@pytest.mark.slow
def test_a_trained_model_has_a_card_that_says_what_it_learned_from(tmp_path: Path) -> None:
    """There was run.json alone: no licence, no bound of what the labels miss, and nothing against serving `sft`."""
    facts = {"licence": "cc-by-4.0", "certificate": {"any": "at most 7 %"}, "demo": False}
    release: Any = SimpleNamespace(digest="d1g", manifest={"name": "n", "version": "1.0.0", **facts})
    run, best = stages.Run(release, tmp_path), {"step": 34, "score": -0.7, "recall@10": 0.189}
    for name, rows in (("sft", "sft_raw"), ("safe_sft", "sft"), ("student", "guard")):
        settings = {"saferec": {"rows": rows}}
        run.stage(name, settings, lambda _: {"steps": 68, "validation": best}, "/home/someone/Llama")
        text = (tmp_path / name / "README.md").read_text()
        for fact in (
            "| Llama (the licence",
            "n 1.0.0",
            "d1g",
            "cc-by-4.0",
            "at most 7 %",
            "step 34",
            "| `recall@10` | 0.189 |",
        ):
            assert fact in text, fact
        assert ("do not let it answer people" in text) == (rows == "sft_raw") and "someone" not in text
        assert ("It imitates that filter" in text) == (rows == "guard")
        assert "invented" not in text and "| `score` |" not in text
    run.stage("start", {}, lambda _: {})
    assert not (tmp_path / "start" / "README.md").exists()  # nothing was trained


@pytest.mark.slow
def test_only_what_is_made_of_the_release_alone_has_its_licence(tmp_path: Path) -> None:
    """The licence of the data is none for the weights of a pretrained model, nor for what is trained from these."""
    release: Any = SimpleNamespace(digest="d", manifest={"name": "n", "version": "1.0.0", "licence": "cc-by-4.0"})
    work = {"steps": 1, "validation": {"step": 1, "score": 0.0, "recall@10": 0.1}}
    for model in ("tiny", "org/Llama"):
        run = stages.Run(release, tmp_path / model)
        start = run.stage("start", {}, lambda _: {}, model)
        sft = run.stage("sft", {}, lambda _: work, str(start))
        gdpo = run.stage("gdpo", {}, lambda _: work, str(sft))
        for folder in (sft, gdpo):
            metadata = (folder / "README.md").read_text().split("---\n")[1]
            assert ('license: "cc-by-4.0"\n' in metadata) == (model == "tiny")


@pytest.mark.training
def test_the_card_says_how_to_ask_the_model(world: Path, capsys: Printed) -> None:
    code = re.findall(r"```python\n(.*?)```", model_card._USE, re.DOTALL)[0]
    exec(code.replace("FOLDER", str(world / "start")), {})
    assert re.fullmatch(r"\{'1': \[('\w+', ){3}'\w+'\]\}\n", capsys.readouterr().out)
