"""What `evaluate` says of its answers and of its folder, in cases that are easily confused."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.conftest import Printed
from tests.worlds import small_release
from training.data import Release
from training.evaluation import evaluate


def written(path: Path, **answers: object) -> Path:
    lines = (json.dumps({"id": name, **answer}) for name, answer in answers.items() if isinstance(answer, dict))
    path.write_text("\n".join(lines))
    return path


def test_titles_without_their_years_are_other_answers(release: Release, tmp_path: Path) -> None:
    """They may be other works, and count in svr_upper alone; all the same they were called the same answers."""
    dated = [{"title": release.items[item].title, "year": release.items[item].year} for item in "dehi"]
    undated = [{"title": entry["title"]} for entry in dated]
    files = [
        written(tmp_path / f"{name}.jsonl", u7={"items": items}, u8={"items": dated})
        for name, items in (("mine", dated), ("copy", dated), ("undated", undated))
    ]
    runs = {run["name"]: run for run in evaluate.evaluate(release, files)["runs"]}
    assert [name for name in ("copy", "undated") if runs[name].get("same_answers")] == ["copy"]
    assert runs["undated"]["difference"]["svr_upper@4"]["mean"] == 1


def test_a_cut_answer_to_a_request_without_text_is_left_out_for_one_reason(
    release: Release, tmp_path: Path, capsys: Printed
) -> None:
    table = pq.read_table(release.folder / "data/grpo/test.parquet")
    rows = [row | {"prompt": []} if row["conversation"] == "u8" else row for row in table.to_pylist()]
    small_release.rewrite(release.folder, "grpo/test.parquet", pa.Table.from_pylist(rows, table.schema))
    cut = {"text": "", "finish": "length"}
    evaluate.evaluate(release, written(tmp_path / "mine.jsonl", u7={"text": "1. Item D (2004)"}, u8=cut))
    out = capsys.readouterr().out
    assert "mine: 1 answers were cut" in out and "which not every file answers" not in out


def test_a_report_of_another_program_is_replaced(release: Release, tmp_path: Path, capsys: Printed) -> None:
    """A linter's report.json has `runs` without names: the figures of a long evaluation were lost by it."""
    (tmp_path / "report.json").write_text('{"version": "2.1.0", "runs": [{"tool": {}}]}')
    answers = written(tmp_path / "mine.jsonl", u7={"text": "1. Item D (2004)"}, u8={"text": "1. Item C (2003)"})
    evaluate.evaluate(release, answers, tmp_path)
    assert json.loads((tmp_path / "report.json").read_text())["k"] == 4
    assert "they replace" not in capsys.readouterr().out
