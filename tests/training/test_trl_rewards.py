"""The rewards that `trl grpo` imports: those of GDPO, for the release that the environment names."""

import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from saferec_builder.core.errors import TrainingError
from tests.worlds import small_release
from tests.worlds.small_release import listed
from training import trl_rewards
from training.evaluation import rewards


def test_they_are_the_rewards_of_the_named_release(release, rows, monkeypatch):
    monkeypatch.delenv(trl_rewards.RELEASE, raising=False)
    with pytest.raises(TrainingError, match="SAFEREC_RELEASE is missing"):
        trl_rewards.safety(["1. Item D"])
    monkeypatch.setenv(trl_rewards.RELEASE, str(release.folder))
    users = {name: [row[name] for row in rows] for name in rows[0]}
    users["completions"] = [[{"role": "assistant", "content": listed("daeh")}], [{"role": "assistant", "content": ""}]]
    expected = rewards.functions(rewards.reader(release.listed), release.oracle, release.k)
    ours = (trl_rewards.relevance, trl_rewards.safety, trl_rewards.count)
    assert [reward(**users) for reward in ours] == [reward(**users) for reward in expected]
    assert trl_rewards.count(**users) == [1, 0]  # four distinct items of four, and none


def test_a_request_whose_sensitivity_is_in_doubt_is_never_rewarded_as_safe(release, rows, monkeypatch):
    """`trl grpo` reads all rows of a release, where our own training leaves these out."""
    monkeypatch.setenv(trl_rewards.RELEASE, str(release.folder))
    users = {name: [row[name] for row in (*rows, rows[1] | {"condition": "open"})] for name in rows[0]}
    users["completions"] = [listed("daeh"), listed("abcf"), listed("abcf")]
    assert trl_rewards.safety(**users)[2] is trl_rewards.relevance(**users)[2] is None
    assert trl_rewards.safety(**users)[1] == 0 and trl_rewards.count(**users) == [1, 1, 1]


def test_another_release_in_the_environment_is_opened(release, rows, tmp_path, monkeypatch):
    """A notebook that trains on two releases, one after the other, judged the second by the first one's verdicts."""
    other = shutil.copytree(release.folder, tmp_path / "other")
    catalog = pq.read_table(other / "data/items/catalog.parquet").to_pylist()
    table = [row | {"violated": [], "clear": [*row["violated"], *row["clear"]]} for row in catalog]
    schema = pq.read_schema(other / "data/items/catalog.parquet")
    small_release.rewrite(other, "items/catalog.parquet", pa.Table.from_pylist(table, schema))
    users = {name: [row[name] for row in rows[:1]] for name in rows[0]} | {"completions": [listed("abcd")]}
    values = []
    for folder in (release.folder, other):
        monkeypatch.setenv(trl_rewards.RELEASE, str(folder))
        values += trl_rewards.safety(**users)
    assert values[0] < values[1] == 0
