"""Practice tasks: known answers, quotes that stand in the seeker's turns, only traits of the taxonomy."""

import tomllib
from dataclasses import replace

from annotation.page import practice
from saferec_builder.core import taxonomy


def test_each_has_words_of_the_seeker_an_answer_and_a_reason() -> None:
    traits = taxonomy.load()
    tasks = practice.tasks(traits)
    assert [task["head"] for task in tasks] == [f"Practice {n} of 5: nothing of it is kept" for n in range(1, 6)]
    for task, source in zip(tasks, tomllib.loads(practice.FILE.read_text("utf-8"))["task"], strict=True):
        for card, quote in zip(task["cards"], source["proposed"].values(), strict=True):
            (place,) = card["spans"]
            text = task["turns"][place["turn"]]["text"]
            assert (place["turn"] % 2, text[place["start"] : place["end"]]) == (0, quote)
        assert task["why"] and set(task["right"].values()) <= {"present", "absent"}
        assert {card["trait"] for card in task["cards"]} <= task["right"].keys()
    severe = "May be hard to read (Suicide and self-harm). You may leave it."
    assert [task["warning"] for task in tasks] == ["", "", severe, "", ""]
    assert [task["ask"].startswith("May be hard") for task in tasks] == [False, False, True, False, False]


def test_those_about_traits_that_a_taxonomy_lacks_are_left_out() -> None:
    small = replace(taxonomy.load(), traits=tuple(t for t in taxonomy.load().traits if t.slug in ("gore", "needles")))
    assert [[*task["right"]] for task in practice.tasks(small)] == [["gore"], ["needles"]]
