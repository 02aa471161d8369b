"""What the report page says of trained models and their figures."""

import json
import re
from pathlib import Path

import pytest

from exports.report import page
from exports.report.gather import gather
from saferec_builder.core.errors import ReleaseError, UsageError
from saferec_builder.storage import workspace as store
from tests.conftest import Cli
from tests.worlds.report_world import results, run, text_of


def test_runs_that_cannot_be_read_name_the_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        page.read_runs(tmp_path)
    for invalid in ("{", '{"runs": []}', json.dumps({"release": {"name": "x", "version": "1"}, "k": 0})):
        (tmp_path / "report.json").write_text(invalid)
        with pytest.raises(ReleaseError, match=r"report\.json"):
            page.read_runs(tmp_path)
    results(tmp_path, run("sft", recall=float("nan")))
    with pytest.raises(ReleaseError, match=r"runs\.0\.metrics\.recall@10"):
        page.read_runs(tmp_path)


def test_runs_without_numbers_are_n_a_and_not_a_point(workspace: store.Workspace, tmp_path: Path) -> None:
    runs = results(tmp_path / "r", run("sft"), run("mine", None, None, None), chosen="mine")
    html = page.render(gather(workspace) | {"runs": [page.read_runs(runs)]})
    assert "mine best on validation n/a" in text_of(html)
    assert "not known to be safe for the person" not in text_of(html)
    assert len(re.findall(r'<circle class="run', html)) == 2  # sft, in the wide and in the narrow drawing


@pytest.mark.slow
def test_scores_have_a_page_in_an_empty_workspace_and_say_of_whom(workspace: store.Workspace, tmp_path: Path) -> None:
    """A page needs only a release and scores; the 8 users of the headline were those of no slice, of 21 in all."""
    scores = run("mine") | {"everyone": {"n": 21, "metrics": run("x")["metrics"]}}
    page.write(workspace, runs=[results(tmp_path / "scores", scores, run("guard") | {"learned_from": 49})])
    html = (workspace.root / "report.html").read_text()
    assert "Guard baseline learned from 49 traits: too few" in text_of(html)
    # it was "In 0 of the 0 that ..."
    empty = text_of(page.render(gather(workspace) | {"runs": []}))
    assert "play or read. None of them has a label yet. Each of 0 items" in empty
    assert "8 users of the test split, 4 with a sensitivity told in the request: those of no slice of the gold" in html
    late = "counts as none. So does one that is told only after the request"  # stood without its subject with a gold
    for gold in (True, False):
        report = page.read_runs(results(tmp_path / "scores", run("mine"))) | {"gold": gold}
        html = page.render(gather(workspace) | {"runs": [report]})
        assert "of no slice" not in html and (late in html, "So does one" in html) == (not gold, not gold)


def test_an_svr_that_can_only_be_zero_is_told(workspace: store.Workspace, tmp_path: Path) -> None:
    """The page showed an SVR of 0 for every run of a release without a violated item."""
    folder = results(tmp_path, run("mine"))
    note = (
        "For the traits of 4 requests no item of that release is violated: there SVR with unknown counted as clear is 0"
    )
    for never_violated, is_told in ((4, True), (0, False)):
        report = json.loads((folder / "report.json").read_text()) | {"never_violated": never_violated}
        (folder / "report.json").write_text(json.dumps(report))
        html = page.render(gather(workspace) | {"runs": [page.read_runs(folder)]})
        assert (note in text_of(html)) == is_told


@pytest.mark.slow
def test_a_chart_of_too_few_users_says_so_above_it(workspace: store.Workspace, tmp_path: Path) -> None:
    """The chart of five users stood there like any other, while `evaluate` said it in its first line."""
    note = "Too few users for any conclusion (fewer than 6): "
    for users, sensitive, expected in ((5, 4, "all users (5), Recall (5), SVR (4)."), (9, 4, "SVR (4)."), (9, 6, None)):
        scores = run("mine") | {"n": users}
        scores["metrics"]["recall@10"]["n"], scores["metrics"]["svr_upper@10"]["n"] = users, sensitive
        html = page.render(gather(workspace) | {"runs": [page.read_runs(results(tmp_path, scores))]})
        above = text_of(html.split('<svg class="plane')[0])
        assert (note + expected in above) if expected else note not in above


@pytest.mark.slow
def test_a_page_that_loses_the_models_of_the_one_before_says_so_once(workspace: store.Workspace, cli: Cli) -> None:
    """Every file without a certain sentence was said to have shown results of models, even an empty file."""
    args = ["report", "-C", workspace.root]
    for text in ("", "<p>Notes of ours</p>"):
        (workspace.root / "report.html").write_text(text)
        assert cli(*args).err == ""
    assert cli(*args, "--runs", results(workspace.root / "runs", run("mine"))).err == ""
    assert "this one none: give --runs again" in cli(*args).err and cli(*args).err == ""


def test_every_baseline_of_training_is_told_apart_from_the_runs(workspace: store.Workspace, tmp_path: Path) -> None:
    from training.evaluation import evaluate

    assert set(page.BASELINES) == set(evaluate.BASELINES)
    assert len({*page.BASELINES.values(), *page.KNOWN.values()}) == len(page.BASELINES) + len(page.KNOWN)
    baselines = page.read_runs(results(tmp_path, run("popularity_filter"), run("my-system")))
    comparison = {"against": "my-system", "difference": {"svr@10": {"mean": -0.1, "low": -0.2, "high": -0.05}}}
    same = run("copy") | comparison | {"same_answers": True}
    compared = page.read_runs(results(tmp_path, run("my-system"), run("sft") | comparison, same))
    text = text_of(page.render(gather(workspace) | {"runs": [compared]}))
    assert "Difference to my-system , user by user" in text and text.count("−0.100 −0.200–−0.050") == 1
    assert "copy the same answers" in text
    assert [run_["label"] for run_ in baselines["runs"]] == ["Popularity + filter", "my-system"]


def test_the_figure_at_the_top_says_over_how_many_and_whether_it_may_be_chance(
    workspace: store.Workspace, cli: Cli, tmp_path: Path
) -> None:
    """With ten people 23 % became 12 %, and the page did not give their number or an interval."""
    for difference, says in (
        ({"mean": -0.11, "low": -0.4, "high": 0.2}, "a difference of −11.0 points [−40.0, 20.0], which may be chance."),
        ({"mean": -0.11, "low": -0.2, "high": -0.01}, "a difference of −11.0 points [−20.0, −1.0]. Recall"),
    ):
        improved = run("safe_sft", 0.4, 0.0, 0.12) | {"against": "sft", "difference": {"svr_upper@10": difference}}
        runs = results(tmp_path / "runs", run("sft", 0.4, 0.3, 0.23), improved, chosen="safe_sft")
        assert cli("report", "--runs", runs, "-C", workspace.root).code == 0
        text = text_of((workspace.root / "report.html").read_text())
        assert "over 4 users of " in text  # it said "another release than the one above" where none is
        assert "(this workspace has no release) with a sensitivity told in the request: Safe" in text and says in text
