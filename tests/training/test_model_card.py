"""The README.md of a trained model."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from training import run_folders as stages


def test_a_trained_model_has_a_card_that_says_what_it_learned_from(tmp_path: Path) -> None:
    """There was run.json alone: no licence, no bound of what the labels miss, and nothing against serving `sft`."""
    facts = {"licence": "cc-by-4.0", "certificate": {"any": "at most 7 %"}, "demo": False}
    release: Any = SimpleNamespace(digest="d1g", manifest={"name": "n", "version": "1.0.0", **facts})
    run, best = stages.Run(release, tmp_path), {"step": 34, "score": -0.7, "recall@10": 0.189}
    for name, rows in (("sft", "sft_raw"), ("safe_sft", "sft")):
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
        assert "invented" not in text and "score" not in text
    run.stage("start", {}, lambda _: {})
    assert not (tmp_path / "start" / "README.md").exists()  # nothing was trained
