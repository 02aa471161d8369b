"""`make ablations` on the small release, one step a stage: variants train, answer and stand in the table."""

from pathlib import Path

import pytest

pytest.importorskip("trl")
from tests.bench import bench_ablations as bench
from tests.worlds import small_release
from training import data

pytestmark = [
    pytest.mark.training,
    pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning"),
]
SHORT = {
    "sft": ("max_steps=1", "warmup_steps=0", "saferec.checks=1"),
    "gdpo": ("max_steps=1", "per_device_train_batch_size=8", "saferec.checks=1"),
}


FEW = ("refilled_conditioned", "refilled_rank", "unsafe_grpo_10", "refilled_no_count", "refilled_paper_free")


def test_variants_run_and_stand_in_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "GDPO", {name: bench.GDPO[name] for name in FEW})  # one of each kind of change
    release = small_release.write(tmp_path / "release")
    report = bench.ablations(release, tmp_path / "runs", 0, changes=SHORT)
    names = [run["name"] for run in report["runs"]]
    assert set(bench.SFT) | set(bench.GDPO) <= set(names) and len(names) == len(set(names))
    lengths = {run["name"]: run["metrics"]["length"]["mean"] for run in report["runs"]}
    assert lengths["refilled_rank"] == 4 and set(lengths) == set(names)
    shown = bench.table([report, report])
    assert all(name in shown for name in names)


def test_rows_of_people_with_two_sensitivities_are_learnt_more_often() -> None:
    few, many, none = {"traits": ["gore"]}, {"traits": ["gore", "animal_harm"]}, dict[str, list[str]](traits=[])
    assert data.repeated([few, many, none], 3) == [few, many, none, many, many, many]
    assert data.repeated([many], 0) == [many]


def test_what_lists_were_refilled_with_is_taken_out_again(tmp_path: Path) -> None:
    release = data.open_release(small_release.write(tmp_path / "release"))
    rows = data.rows(release.folder, "sft", "train")
    found = data.unfilled(rows, release.items)
    # u1 (gore): truth a d f, of which d f are safe; u2 a b; u3 (animal harm): e g; u4: a is not clear for gore, f is
    assert [row["items"] for row in found] == [list("df"), list("ab"), list("eg"), list("f")]
    assert found[0]["completion"][0]["content"] == "1. Item D (2004)\n2. Item F (2006)"
    assert data.unfilled([rows[0] | {"refilled": 4}], release.items) == []
