"""The rewards that `trl grpo` imports: those of GDPO, for the release that the environment names."""

import pytest

from saferec_builder.core.errors import TrainingError
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
