"""`make ablations` on the small release, one step per stage: variants train, answer and are in the table."""

from pathlib import Path

import pytest

pytest.importorskip("trl")
from tests.bench import bench_ablations as bench
from tests.worlds import small_release

pytestmark = [
    pytest.mark.training,
    pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning"),
]
SHORT = {
    "sft": ("max_steps=1", "warmup_steps=0", "saferec.checks=1"),
    "gdpo": ("max_steps=1", "per_device_train_batch_size=8", "saferec.checks=1"),
}

FEW = ("refilled_rank", "unsafe_grpo_10", "refilled_no_count", "refilled_paper_free")


def test_variants_run_and_stand_in_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "GDPO", {name: bench.GDPO[name] for name in FEW})  # one of each kind of change
    release = small_release.write(tmp_path / "release")
    report = bench.ablations(release, tmp_path / "runs", 0, changes=SHORT)
    names = [run["name"] for run in report["runs"]]
    assert set(bench.SFT) | set(bench.GDPO) <= set(names) and len(names) == len(set(names))
    lengths = {run["name"]: run["metrics"]["length"]["mean"] for run in report["runs"]}
    assert lengths["refilled_rank"] == 4 and set(lengths) == set(names)
    table = bench.table([report, report])
    assert all(name in table for name in names)
