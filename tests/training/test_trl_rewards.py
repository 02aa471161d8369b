"""The rewards that `trl grpo` imports: those of GDPO, for the release that the environment names."""

import pytest

from saferec_builder.core.errors import TrainingError
from tests.worlds import small_release
from tests.worlds.small_release import listed
from training import data, trl_rewards
from training.evaluation import rewards


def test_they_are_the_rewards_of_the_named_release(tmp_path, monkeypatch):
    monkeypatch.delenv(trl_rewards.RELEASE, raising=False)
    with pytest.raises(TrainingError, match="SAFEREC_RELEASE is missing"):
        trl_rewards.safety(["1. Item D"])
    release = data.open_release(small_release.write(tmp_path / "small"))
    monkeypatch.setenv(trl_rewards.RELEASE, str(release.folder))
    table = data.rows(release.folder, "grpo", "test")
    users = {name: [row[name] for row in table] for name in table[0]}
    users["completions"] = [[{"role": "assistant", "content": listed("daeh")}], [{"role": "assistant", "content": ""}]]
    expected = rewards.functions(rewards.reader(release.listed), release.oracle, release.k)
    ours = (trl_rewards.relevance, trl_rewards.safety, trl_rewards.count)
    assert [reward(**users) for reward in ours] == [reward(**users) for reward in expected]
    assert trl_rewards.count(**users) == [1, 0]  # four distinct items of four, and none
