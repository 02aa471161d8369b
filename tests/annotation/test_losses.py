"""Projects and answers that somebody deleted on a review server are named."""

import pytest

from saferec_builder.storage import tables, workspace as store
from tests.worlds import review_world
from tests.worlds.pushes import ALL


@pytest.mark.slow
def test_whose_project_was_deleted_is_named_until_it_is_there_again(workspace, cli, memory):
    review_world.fill(workspace)
    pull = ("review", "pull", "--url", "http://memory", "--token", "t", "-C", workspace.root, "--json")
    assert cli("review", "push", *ALL, "-C", workspace.root).code == 0
    (project,) = [place for place, name in memory.made.items() if "ann" in name]
    tasks_of_ann = [(remote, task["subject"]) for remote, (place, task, _) in memory.held.items() if place == project]
    memory.answer(dict((subject, r) for r, subject in tasks_of_ann)["c3"], review_world.Verdict())
    assert "next" not in cli(*pull).json
    del memory.made[project]
    for remote, _ in tasks_of_ann:
        memory.held.pop(remote)
    result = cli(*pull).json
    assert result["gone_unanswered"] == {"ann": 3} and "projects of ann are not on the server" in result["next"]
    assert cli("review", "push", *ALL, "-C", workspace.root).code == 0
    assert "next" not in cli(*pull).json


@pytest.mark.slow
def test_an_answer_that_was_pulled_and_is_gone_is_named_and_counts(workspace, cli, memory):
    review_world.fill(workspace)
    review = review_world.reviewing(cli, workspace)
    review("push", *ALL)
    for name in ("ann", "bo"):
        first = next(remote for remote, (_, _, reader) in memory.held.items() if reader == name)
        memory.answer(first, review_world.Verdict())
    assert "answers_gone_there" not in review("pull")
    reviews = store.read(workspace, tables.REVIEWS)
    del memory.answers[first]
    result = review("pull")
    assert (result["answers_gone_there"], result["added"]) == ({"bo": 1}, 0)
    assert store.read(workspace, tables.REVIEWS).equals(reviews)
