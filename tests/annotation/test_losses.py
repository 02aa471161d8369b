"""Projects and answers that somebody deleted on a review server are named."""

import pytest

from saferec_builder.storage import tables, workspace as store
from tests.worlds import review_world
from tests.worlds.pushes import ALL


@pytest.mark.slow
def test_whose_answer_or_project_was_deleted_is_named_and_what_was_pulled_counts(workspace, cli, memory):
    review_world.fill(workspace)
    review = review_world.reviewing(cli, workspace)
    review("push", *ALL)
    remotes = {(name, task["subject"]): remote for remote, (_, task, name) in memory.held.items()}
    for name in ("ann", "bo"):
        memory.answer(remotes[name, "c3"], review_world.Verdict())
    pulled, reviews = review("pull"), store.read(workspace, tables.REVIEWS)
    assert pulled["added"] and "next" not in pulled and "answers_gone_there" not in pulled
    del memory.answers[remotes["bo", "c3"]]
    pulled = review("pull")
    assert (pulled["answers_gone_there"], pulled["added"]) == ({"bo": 1}, 0)
    (project,) = [place for place, name in memory.made.items() if name == "ann"]
    del memory.made[project]
    memory.held = {remote: held for remote, held in memory.held.items() if held[0] != project}
    pulled = review("pull")
    assert pulled["gone_unanswered"] == {"ann": 3} and "projects of ann are not on the server" in pulled["next"]
    assert store.read(workspace, tables.REVIEWS).equals(reviews)
    review("push", *ALL)  # makes the project again
    assert "next" not in review("pull")
