"""A project whose page somebody edited on the server: what is answered there is held back, and nothing else is lost."""

import pytest

from annotation import sent_pages, servers
from annotation.tools.tasks_and_answers import keyed_id
from saferec_builder.storage import tables, workspace as store
from tests.worlds import review_world
from tests.worlds.pushes import ALL, TWO
from tests.worlds.review_memory import Memory
from tests.worlds.review_world import Verdict
from tests.worlds.settings import review_settings

review = review_world.review


def open_for(memory: Memory, name: str) -> list[str]:
    return [task for task, (_, _, who) in memory.held.items() if who == name and task not in memory.answers]


def rows(ws: store.Workspace) -> set[tuple[str, str]]:
    """Who read what."""
    return set(store.read(ws, tables.REVIEWS).filter(trait="*").select("reviewer", "subject").iter_rows())


@pytest.mark.slow
@pytest.mark.parametrize("mended", ["by the next push", "by hand"])
def test_what_was_answered_on_an_edited_page_is_asked_anew(ws, review, memory, mended) -> None:
    """ann has answered one task when her page is edited, and answers another on it; bo's page is as it was."""
    review("push", *ALL)
    first, second, *_ = open_for(memory, "ann")
    memory.answer(first, Verdict())
    review("pull")
    hers, before = memory.held[first][0], rows(ws)
    memory.pages[hers] = "Yes means no."
    memory.answer(second, Verdict())
    memory.answer(open_for(memory, "bo")[0], Verdict())
    if mended == "by the next push":
        assert review("push", *ALL)["sent"]["ann"] == {"added": 2, "skipped": 1, "edited": 1, "taken_back": 2}
        told = review("pull")
        assert "edited_projects" not in told  # she has another one
    else:
        told = review("pull")
        assert told["edited_projects"] == ["ann"] and "makes new ones" in told["next"]
        del memory.pages[hers]
        told = review("pull")
    assert told["dropped"] == {"changed there": 1}
    (drop,) = store.read(ws, tables.DROPS).iter_rows(named=True)
    assert drop["detail"] == (
        "somebody edited the interface or the guidelines of its project "
        f"(answered {memory.touches[second].isoformat()}): it is asked anew (ann)"
    )
    assert {subject for who, subject in rows(ws) if who == "ann"} == {subject for _, subject in before}
    assert len(rows(ws)) == 2
    sent = review("push", *ALL)["sent"]["ann"]
    assert sent["added"] == (1 if mended == "by the next push" else 3)
    memory.pages.clear()
    anew = open_for(memory, "ann")
    assert len(anew) == 3 and all(memory.held[task][0] != hers for task in anew)
    (why,) = [task["ask"] for task in (memory.held[n][1] for n in anew) if "could not be taken" in task["ask"]]
    assert why.startswith("Your last answer could not be taken") and "somebody edited the interface" in why
    for task in anew:
        memory.answer(task, Verdict())
    told = review("pull")
    assert told["dropped"] == {} and len(rows(ws)) == 5
    assert review("pull")["added"] == 0
    again = review("push", *ALL)["sent"]
    assert {name: counts["added"] for name, counts in again.items()} == {"ann": 0, "bo": 0}
    assert "edited" not in again["ann"]


def test_a_project_of_before_the_record_is_taken_as_it_is_found(ws, review, memory, monkeypatch) -> None:
    """The version before kept no record of pages, and sent another one; what is edited from then on is seen."""
    with monkeypatch.context() as before:
        before.setattr(sent_pages, "note", lambda *_: None)
        review("push", *ALL)
    (hers,) = {project for project, _, who in memory.held.values() if who == "ann"}
    memory.pages[hers] = "of the version before"
    first, second, third, _ = open_for(memory, "ann")
    memory.answer(first, Verdict())
    assert review("pull")["dropped"] == {}
    review("push", *ALL)
    memory.answer(second, Verdict())
    assert review("pull")["dropped"] == {} and len(rows(ws)) == 2
    memory.pages[hers] = "Yes means no."
    memory.answer(third, Verdict())
    assert review("pull")["dropped"] == {"changed there": 1} and len(rows(ws)) == 2


def test_a_server_that_keeps_a_page_in_its_own_spelling_is_no_editor(ws, review, memory, monkeypatch) -> None:
    """Another version of a server may write the interface otherwise: every push would have opened new projects."""
    spelt = type(memory).project_page_there
    monkeypatch.setattr(type(memory), "project_page_there", lambda own, project: f"<!-- v2 -->{spelt(own, project)}")
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
    """Their task on this conversation."""
    return next(n for n, (_, task, name) in memory.held.items() if (name, task["subject"]) == (who, subject))


def asked(memory: Memory, subject: str) -> set[tuple[str, ...]]:
    """Who is asked about this conversation, and about which traits."""
    return {(who, *task["asked"]) for _, task, who in memory.held.values() if task["subject"] == subject}


def test_an_open_task_shows_what_was_proposed_since(ws, review, memory) -> None:
    """A model proposes after the rules: left as it was, the `*` of an open task would say `absent` of a card that was
    never shown. Who has answered is not asked anew: what they said was asked twice until it was pulled."""
    review("push", *TWO)
    propose(ws, "c2", ("gore", "long way"))
    memory.answer(of(memory, "ann", "c2"), Verdict())
    sent = review("push", *TWO)["sent"]
    assert sent["bo"] == {"added": 1, "skipped": 1, "taken_back": 1}
    assert sent["ann"] == {"added": 0, "skipped": 2}
    assert asked(memory, "c2") == {("ann", "accidents_disasters"), ("bo", "accidents_disasters", "gore")}
    assert asked(memory, "c1") == {("ann", "gore"), ("bo", "gore")}
    assert {(n["added"], n["skipped"]) for n in review("push", *TWO)["sent"].values()} == {(0, 2)}
    assert review("pull")["added"] == 2  # it counts, and ann is not asked once more
    assert review("push", *TWO)["sent"]["ann"] == {"added": 0, "skipped": 1}


def test_who_answers_a_task_of_somebody_else_speaks_for_nobody(ws, review, memory) -> None:
    """The owner of the server answered a task of ann's: what was proposed in that text later never reached her."""
    review("push", *TWO)
    first = of(memory, "ann", "c2")
    memory.words[first] = {"who": "boss"}
    memory.answer(first, Verdict())
    assert review("pull")["dropped"] == {"not assigned": 1}
    propose(ws, "c2", ("gore", "long way"))
    assert review("push", *TWO)["sent"]["ann"] == {"added": 1, "skipped": 1}
    (again,) = [n for n in open_for(memory, "ann") if memory.held[n][1]["subject"] == "c2"]
    memory.answer(again, Verdict())
    propose(ws, "c2", ("needles", "crash"))
    assert review("push", *TWO)["sent"]["ann"]["added"] == 0  # this one is her own
    assert review("pull")["dropped"] == {"not assigned": 1}
    assert review("push", *TWO)["sent"]["ann"] == {"added": 0, "skipped": 1}


def test_a_task_that_somebody_else_answered_is_open_for_its_reader_again(ws, review, memory) -> None:
    """With an answer a server shows a task as done: ann's stayed closed, where nothing was proposed since."""
    review("push", *TWO)
    for n in (1, 2):  # somebody answers the second one as well
        (hers,) = [task for task in open_for(memory, "ann") if memory.held[task][1]["subject"] == "c2"]
        memory.words[hers] = {"who": f"boss-{n}"}
        memory.answer(hers, Verdict())
        assert review("pull")["dropped"] == {"not assigned": n}
        assert review("push", *TWO)["sent"] == {"ann": {"added": 1, "skipped": 1}, "bo": {"added": 0, "skipped": 2}}
        assert review("push", *TWO)["sent"]["ann"] == {"added": 0, "skipped": 2}
    (hers,) = [task for task in open_for(memory, "ann") if memory.held[task][1]["subject"] == "c2"]
    memory.answer(hers, Verdict())
    assert review("push", *TWO)["sent"]["ann"] == {"added": 0, "skipped": 2}
    assert review("pull")["dropped"] == {"not assigned": 2} and ("ann", "c2") in rows(ws)
    assert review("push", *TWO)["sent"]["ann"] == {"added": 0, "skipped": 1}


def test_an_answer_after_one_that_was_rejected_is_not_asked_again(ws, review, memory) -> None:
    """Answered anew but not pulled yet, the task was sent a third time once something else was proposed."""
    review("push", *TWO)
    first = of(memory, "ann", "c2")
    memory.answer(first, Verdict(outcome=""))
    assert review("pull")["dropped"] == {"not finished": 1}
    assert review("push", *TWO)["sent"]["ann"]["added"] == 1
    (again,) = [n for n in open_for(memory, "ann") if memory.held[n][1]["subject"] == "c2"]
    memory.answer(again, Verdict())
    propose(ws, "c2", ("gore", "long way"))
    assert review("push", *TWO)["sent"]["ann"] == {"added": 0, "skipped": 2}
    assert review("pull")["dropped"] == {}
    assert review("push", *TWO)["sent"]["ann"] == {"added": 0, "skipped": 1}


def test_a_warning_reaches_a_task_that_is_open(ws, review, memory) -> None:
    """Gold that holds something severe came later: the tasks on the server stayed as they were, without a warning."""
    review("push", *ALL)
    memory.answer(of(memory, "ann", "c3"), Verdict())
    (ws.root / "gold.jsonl").write_text('{"conversation": "c3", "traits": ["torture"]}\n')
    review_settings(ws.root, gold="gold.jsonl")
    assert [*review("push", *ALL)["sent"].values()] == [
        {"added": 0, "skipped": 4},
        {"added": 1, "skipped": 3, "taken_back": 1},
    ]
    assert memory.held[of(memory, "bo", "c3")][1]["ask"].startswith("May be hard to read. You may leave it.\n")
    assert [*review("push", *ALL)["sent"].values()] == [{"added": 0, "skipped": 4}] * 2


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
    assert sent == {"ann": {"added": 0, "skipped": 2}, "bo": {"added": 1, "skipped": 1, "taken_back": 1}}
    three = ("gore", "needles", "spiders_snakes")
    assert asked(memory, "c1") == {("ann", *three), ("bo", *sorted([*three, "horror_scares"]))}


def test_what_the_version_before_has_sent_is_asked_once(ws, review, memory, monkeypatch) -> None:
    """Its keys did not say which traits have a card: a task that asks the same stays, another one is replaced."""
    with monkeypatch.context() as before:
        before.setattr(servers, "keyed_id", lambda secret, tool, task, about: keyed_id(secret, tool, task, about[:1]))
        review("push", *TWO)
    assert {(n["added"], n["skipped"]) for n in review("push", *TWO)["sent"].values()} == {(0, 2)}
    propose(ws, "c2", ("gore", "long way"))
    sent = review("push", *TWO)["sent"]
    assert [*sent.values()] == [{"added": 1, "skipped": 1, "taken_back": 1}] * 2
    assert asked(memory, "c1") == {("ann", "gore"), ("bo", "gore")}
    assert {(n["added"], n["skipped"]) for n in review("push", *TWO)["sent"].values()} == {(0, 2)}
