"""The whole pipeline: on the demo in one process, and on real ReDial dialogues from mining to load_dataset."""

import json
from pathlib import Path

import polars as pl
import pytest

from saferec_builder.storage import tables, workspace as store
from tests.conftest import Cli
from tests.worlds import line
from tests.worlds.csv_rows import as_proposed, edit

REVIEWERS = ("ann", "bo")


@pytest.mark.slow
def test_the_demo_runs_and_a_second_run_adds_nothing(tmp_path: Path, cli: Cli) -> None:
    folder = tmp_path / "demo"
    first = cli("demo", "--to", folder, "--generated", "60", "--no-training")
    assert first.code == 0, first.err
    assert str(folder / "releases" / "1.0.0") in first.out and str(folder / "report.html") in first.out
    expected = line.contents(folder)
    second = cli("demo", "--to", folder, "--generated", "60", "--no-training")
    assert second.code == 0, second.err
    for name, frame in line.contents(folder).items():
        assert frame.equals(expected[name]), name
    labels = store.read(store.Workspace.open(folder), tables.LABELS)
    assert labels["simulated"].all()


@pytest.mark.slow
def test_real_dialogues_go_through_the_whole_line(workspace: store.Workspace, cli: Cli, real_data: Path) -> None:
    redial, opts = real_data / "redial", ("-C", workspace.root, "--json")
    dumps = sorted(redial.glob("*.jsonl"))
    run(cli, "catalog", "add", "movielens", real_data / "movielens_small", *opts)
    run(cli, "catalog", "add", "redial", redial / "ievalm_id2info.json", *opts)
    # after the catalog: otherwise four of its titles are taken for names
    mined = run(cli, "mine", "redial", *dumps, *opts)
    # 1,600 rows with 1,550 distinct ids: 50 occur twice
    assert (mined["in"], mined["out"], mined["dropped"]) == (1600, 1550, {"same id": 50})
    run(cli, "propose", *opts)
    push = ("review", "push", "--tool", "files", "--reviewer", "ann", "--reviewer", "bo", "--adjudicator", "cy", *opts)
    run(cli, *push)
    reviewed = [edit(workspace.root / "review" / f"{name}.csv", as_proposed) for name in REVIEWERS]
    assert min(reviewed) > 0
    files = [workspace.root / "review" / f"{name}.csv" for name in REVIEWERS]
    run(cli, "review", "pull", "--tool", "files", *files, *opts)
    run(cli, "adjudicate", *opts)
    # there are items but no warnings: no item is known to be clear, and `release` refuses for this reason
    refused = cli("release", "1.0.0", *opts)
    assert refused.code == 1 and "no row could teach or test safety" in refused.err
    release = ("release", "1.0.0", "--allow", "no-safety")
    assert run(cli, *release, *opts)["out"] > 0
    run(cli, "publish", "1.0.0", "--to", workspace.root / "published", *opts)

    expected = line.contents(workspace.root)
    for command in (("mine", "redial", *dumps), ("propose",), ("adjudicate",), release):
        assert run(cli, *command, *opts)["added"] == 0, command
    contents = line.contents(workspace.root)
    assert [name for name in contents if not contents[name].equals(expected[name])] == []
    loads(workspace.root / "published", json.loads((workspace.releases / "1.0.0" / "manifest.json").read_text()))


def run(cli: Cli, *words: object) -> dict:
    result = cli(*words)
    assert result.code == 0, result.err
    counts = result.json
    assert counts["in"] == counts["out"] + sum(counts["dropped"].values()), counts
    assert counts["out"] == counts["added"] + counts["skipped"], counts
    return counts


def loads(folder: Path, manifest: dict) -> None:
    import datasets

    for config, splits in manifest["counts"].items():
        if not sum(splits.values()):
            continue  # nothing to load, and no entry in the card
        loaded = datasets.load_dataset(str(folder), config, cache_dir=str(folder.parent / "cache"))
        assert {s: loaded[s].num_rows for s in loaded} == {s: n for s, n in splits.items() if n}, config
    assert isinstance(pl.DataFrame(loaded[next(iter(loaded))].to_dict()), pl.DataFrame)
