"""A project whose page somebody edited on the server: its later answers are dropped, and nothing else is lost."""

import pytest

from annotation.review_state import gather
from saferec_builder.storage import tables, workspace as store
from tests.worlds import review_world
from tests.worlds.pushes import ALL, TWO
from tests.worlds.review_memory import Memory
from tests.worlds.review_world import Verdict
from tests.worlds.settings import review_settings

review = review_world.review


def open_for(memory: Memory, name: str, *subjects: str) -> list[str]:
    """Returns the tasks of this person without an answer, all or those on these conversations."""
    tasks = [remote for remote, (_, _, reader) in memory.held.items() if reader == name]
    chosen = subjects or review_world.TEXTS
    return [remote for remote in tasks if remote not in memory.answers and memory.held[remote][1]["subject"] in chosen]


def rows(ws: store.Workspace) -> set[tuple[str, str]]:
    """Returns who has read which conversation."""
    return set(store.read(ws, tables.REVIEWS).filter(trait="*").select("reviewer", "subject").iter_rows())


@pytest.mark.slow
@pytest.mark.parametrize("mended", ["by the next push", "by hand"])
def test_what_was_answered_on_an_edited_page_is_asked_anew(ws, review, memory, mended) -> None:
    """ann answers one task, her page is edited, and she answers another task on it; bo's page stays as it was."""
    review("push", *ALL)
    first, second, *_ = open_for(memory, "ann")
    memory.answer(first, Verdict())
    review("pull")
    project, earlier = memory.held[first][0], rows(ws)
    memory.pages[project] = "Yes means no."
    memory.answer(second, Verdict())
    memory.answer(open_for(memory, "bo")[0], Verdict())
    if mended == "by the next push":
        assert review("push", *ALL)["sent"]["ann"] == {"added": 2, "already_there": 1, "edited": 1, "taken_back": 2}
        result = review("pull")
        assert "edited_projects" not in result  # she has another project
    else:
        result = review("pull")
        assert result["edited_projects"] == ["ann"] and "makes new ones" in result["next"]
        del memory.pages[project]
        result = review("pull")
    assert result["dropped"] == {"changed there": 1}
    (drop,) = store.read(ws, tables.DROPS).iter_rows(named=True)
    assert drop["detail"] == (
        "somebody edited the interface or the guidelines of its project "
        f"(answered {memory.touches[second].isoformat()}): it is asked anew (ann)"
    )
    assert {subject for reader, subject in rows(ws) if reader == "ann"} == {subject for _, subject in earlier}
    assert len(rows(ws)) == 2
    sent = review("push", *ALL)["sent"]["ann"]
    assert sent["added"] == (1 if mended == "by the next push" else 3)
    memory.pages.clear()
    new_tasks = open_for(memory, "ann")
    assert len(new_tasks) == 3 and all(memory.held[task][0] != project for task in new_tasks)
    (ask,) = [task["ask"] for task in (memory.held[n][1] for n in new_tasks) if "could not be taken" in task["ask"]]
    assert ask.startswith("Your last answer could not be taken") and "somebody edited the interface" in ask
    for task in new_tasks:
        memory.answer(task, Verdict())
    result = review("pull")
    assert result["dropped"] == {} and len(rows(ws)) == 5
    assert review("pull")["added"] == 0
    counts_by_reader = review("push", *ALL)["sent"]
    assert {name: counts["added"] for name, counts in counts_by_reader.items()} == {"ann": 0, "bo": 0}
    assert "edited" not in counts_by_reader["ann"]


@pytest.mark.slow
def test_an_answer_that_an_earlier_version_could_read_stays_and_is_not_refused(ws, review, memory) -> None:
    """Regression: each pull dropped it as `not finished`, and told its author, though it was stored and counts."""
    review("push", *ALL)
    first, second, *_ = open_for(memory, "ann")
    memory.answer(first, Verdict())
    review("pull")
    memory.answer(second, Verdict())
    memory.words = {task: {"outcome": ""} for task in (first, second)}
    assert review("pull")["dropped"] == {"not finished": 1} and len(rows(ws)) == 1
    assert review("push", *ALL)["sent"]["ann"]["added"] == 1


@pytest.mark.slow
def test_a_server_that_keeps_a_page_in_its_own_spelling_is_no_editor(ws, review, memory, monkeypatch) -> None:
    """Another version of a server may spell the interface differently: every push would have opened new projects."""
    real = type(memory).project_page_there
    monkeypatch.setattr(type(memory), "project_page_there", lambda fake, project: f"<!-- v2 -->{real(fake, project)}")
    review("push", *ALL)
    task = open_for(memory, "ann")[0]
    memory.answer(task, Verdict())
    assert review("pull")["dropped"] == {} and len(rows(ws)) == 1
    assert "edited" not in review("push", *ALL)["sent"]["ann"]
    memory.pages[memory.held[task][0]] = "Yes means no."
    assert review("pull")["edited_projects"] == ["ann"]


def propose(ws: store.Workspace, subject: str, *claims: tuple[str, str]) -> None:
    rows = [review_world.claim(subject, trait, "present", quote) for trait, quote in claims]
    store.append(ws, tables.PROPOSALS, tables.PROPOSALS.frame(rows))


def of(memory: Memory, who: str, subject: str) -> str:
    """Returns this reviewer's task on this conversation."""
    return next(remote for remote, (_, task, name) in memory.held.items() if (name, task["subject"]) == (who, subject))


def asked(memory: Memory, subject: str) -> set[tuple[str, ...]]:
    """Returns who is asked about this conversation, and about which traits."""
    return {(reader, *task["asked"]) for _, task, reader in memory.held.values() if task["subject"] == subject}


@pytest.mark.slow
def test_an_open_task_shows_what_was_proposed_since(ws, review, memory) -> None:
    """A model proposes after the rules: in an unchanged open task, `*` would say `absent` for a card that was never
    shown. Whoever has answered is not asked again: before, the question came twice until the answer was pulled."""
    review("push", *TWO)
    propose(ws, "c2", ("gore", "long way"))
    memory.answer(of(memory, "ann", "c2"), Verdict())
    sent = review("push", *TWO)["sent"]
    assert sent["bo"] == {"added": 1, "already_there": 1, "taken_back": 1}
    assert sent["ann"] == {"added": 0, "already_there": 2}
    assert asked(memory, "c2") == {("ann", "accidents_disasters"), ("bo", "accidents_disasters", "gore")}
    assert asked(memory, "c1") == {("ann", "gore"), ("bo", "gore")}
    assert {(counts["added"], counts["already_there"]) for counts in review("push", *TWO)["sent"].values()} == {(0, 2)}
    assert review("pull")["added"] == 2  # the answer counts, and ann is not asked again
    assert review("push", *TWO)["sent"]["ann"] == {"added": 0, "already_there": 1}


@pytest.mark.slow
def test_a_task_that_somebody_else_answered_is_asked_of_its_reader_again(ws, review, memory) -> None:
    """A server shows a task with an answer as done: ann got neither hers nor later proposals on that text."""
    review("push", *TWO)
    for n in (1, 2):  # the second time something was proposed since
        (open_task,) = open_for(memory, "ann", "c2")
        memory.words[open_task] = {"who": f"boss-{n}"}
        memory.answer(open_task, Verdict())
        assert review("pull")["dropped"] == {"not assigned": n}
        propose(ws, "c2", *[("gore", "long way")] * (n - 1))
        assert review("push", *TWO)["sent"]["ann"] == {"added": 1, "already_there": 1}
        assert review("push", *TWO)["sent"]["ann"] == {"added": 0, "already_there": 2}
    memory.answer(*open_for(memory, "ann", "c2"), Verdict())
    propose(ws, "c2", ("needles", "crash"))
    assert review("push", *TWO)["sent"]["ann"] == {"added": 0, "already_there": 2}  # this answer is her own
    assert review("pull")["dropped"] == {"not assigned": 2} and ("ann", "c2") in rows(ws)
    assert gather(ws).left_out == {"not assigned": 4}  # what the boss said is kept, and counts nowhere
    assert review("push", *TWO)["sent"]["ann"] == {"added": 0, "already_there": 1}


@pytest.mark.slow
def test_an_answer_after_one_that_was_rejected_is_not_asked_again(ws, review, memory) -> None:
    """The task was answered again but not yet pulled: a new proposal made a push send it a third time."""
    review("push", *TWO)
    first = of(memory, "ann", "c2")
    memory.answer(first, Verdict(outcome=""))
    assert review("pull")["dropped"] == {"not finished": 1}
    assert review("push", *TWO)["sent"]["ann"]["added"] == 1
    memory.answer(*open_for(memory, "ann", "c2"), Verdict())
    propose(ws, "c2", ("gore", "long way"))
    assert review("push", *TWO)["sent"]["ann"] == {"added": 0, "already_there": 2}
    assert review("pull")["dropped"] == {}
    assert review("push", *TWO)["sent"]["ann"] == {"added": 0, "already_there": 1}


@pytest.mark.slow
def test_a_warning_reaches_a_task_that_is_open(ws, review, memory) -> None:
    """Gold with a severe trait came later: the tasks on the server stayed as they were, without a warning."""
    review("push", *ALL)
    memory.answer(of(memory, "ann", "c3"), Verdict())
    (ws.root / "gold.jsonl").write_text('{"conversation": "c3", "traits": ["torture"]}\n')
    review_settings(ws.root, gold="gold.jsonl")
    assert [*review("push", *ALL)["sent"].values()] == [
        {"added": 0, "already_there": 4},
        {"added": 1, "already_there": 3, "taken_back": 1},
    ]
    assert memory.held[of(memory, "bo", "c3")][1]["ask"].startswith("May be hard to read. You may leave it.\n")
    assert [*review("push", *ALL)["sent"].values()] == [{"added": 0, "already_there": 4}] * 2


def test_a_task_with_more_cards_than_its_project_takes_lies_in_the_other_one_only(
    ws, review, memory, monkeypatch
) -> None:
    """As on Argilla: up to three cards in one data set, up to eight in another. ann has answered in the first."""
    monkeypatch.setattr(memory, "place", lambda mark, role, cards: f"{mark} {3 if cards <= 3 else 8}")
    propose(ws, "c1", ("spiders_snakes", "blood"), ("needles", "blood"))
    review("push", *TWO)
    memory.answer(of(memory, "ann", "c1"), Verdict())
    propose(ws, "c1", ("horror_scares", "blood"))
    sent = review("push", *TWO)["sent"]
    assert sent == {"ann": {"added": 0, "already_there": 2}, "bo": {"added": 1, "already_there": 1, "taken_back": 1}}
    traits = ("gore", "needles", "spiders_snakes")
    assert asked(memory, "c1") == {("ann", *traits), ("bo", *sorted([*traits, "horror_scares"]))}
