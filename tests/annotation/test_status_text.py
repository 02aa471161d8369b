"""The text of `review status`: tables as wide as a terminal, with a row for each trait and each reviewer."""

from dataclasses import replace

import polars as pl
import pytest

from annotation import status_text
from annotation.confidence_bounds import false_share
from annotation.progress import review_status
from saferec_builder.storage.workspace import Workspace


@pytest.fixture
def text(workspace: Workspace) -> list[str]:
    """Status with traits of several kinds, and two people with different figures."""
    status = review_status(workspace)
    counts = {"proposed": 1_234, "assigned": 7, "begun": 0, "read": 7, "disputed": 1}
    traits = pl.DataFrame([{"trait": "accidents_disasters", **counts}, {"trait": "gore", **counts}])
    traits = traits.vstack(traits[:1].with_columns(trait=pl.lit("needles")))
    alpha = [
        {"trait": "gore", "alpha": -0.001, "positives": 10},
        {"trait": "accidents_disasters", "alpha": None, "positives": 0},
        {"trait": "needles", "alpha": 0.5, "positives": 3},
    ]
    blind = {"blind_controls": 3, "blind_controls_missed": 1}
    ann = {
        "tasks": 14_145,
        "open": 3,
        "seconds": 22.0,
        "likely_right": 0.998,
        **blind,
        "flagged": ["decoys", "speed"],
    }
    people = {"ann": ann, "bo": {"tasks": 2, "open": 0, "rejected": 1}}
    return status_text.lines(replace(status, traits=traits, agreement=pl.DataFrame(alpha), reviewers=people))


def test_before_anybody_has_a_task_no_bound_is_spoken_of(workspace: Workspace) -> None:
    assert status_text.lines(review_status(workspace)) == ["nobody was given a task yet: `saferec-build review push`"]


def test_before_anybody_answered_nothing_is_said_to_be_found_or_not(workspace: Workspace) -> None:
    """It said "none found" about conversations that nobody had read."""
    counts = {"trait": "gore", "proposed": 4, "assigned": 4, "begun": 0, "read": 0, "disputed": 0}
    state = replace(review_status(workspace), traits=pl.DataFrame([counts]), reviewers={"ann": {"tasks": 4, "open": 4}})
    lines = status_text.lines(state)
    assert "nobody has answered yet: what labels miss is told once answers are in" in lines
    assert not [line for line in lines if "none found" in line or "missed" in line]
    begun = replace(state, traits=pl.DataFrame([counts | {"begun": 1}]))
    assert [line for line in status_text.lines(begun) if "missed at most" in line]


def test_each_trait_and_each_reviewer_has_a_row_under_its_heads(text: list[str]) -> None:
    """All reviewers were in one line of 300 characters; an alpha of -0.001 was shown as -0.00."""
    rows = {line.split()[0]: line.split() for line in text if line}
    assert rows["trait"] == ["trait", "proposed", "assigned", "begun", "read", "disputed", "alpha"]
    assert [line.split() for line in text if line.startswith("gore")][0] == [
        "gore",
        "1,234",
        "7",
        "0",
        "7",
        "1",
        "0.00",
    ]
    assert [line.split()[-1] for line in text if line.startswith("accidents_disasters")][0] == "n/a"
    (head,) = [line for line in text if line.startswith("reviewer")]
    assert head.split("  ")[0] == "reviewer" and "likely right" in head
    assert rows["ann"] == ["ann", "14,145", "3", "22", "0.998", "3", "1", "decoys,", "speed", "-"]
    assert rows["bo"] == ["bo", "2", "0", "-", "-", "-", "-", "-", "1"]
    assert max(map(len, text)) <= 120


def test_an_alpha_of_few_positives_says_how_few(text: list[str]) -> None:
    assert [line for line in text if line.startswith("needles")][0].endswith("  0.50 (3 positive)")


def test_what_blind_controls_are_stands_above_their_columns(text: list[str]) -> None:
    """A line mentioned controls, the columns were `blind` and `blind missed`, and neither was explained."""
    row = next(n for n, line in enumerate(text) if line.startswith(f"{status_text.OVERLOOKED}: not known (0 of 20"))
    assert text[row + 4] == "blind controls: conversations whose answer is known, read without a suggestion"
    assert "  blind controls  blind controls missed  " in text[row + 6]


def test_words_of_art_are_explained_below_their_tables(text: list[str]) -> None:
    """A newcomer asked what `with the model`, `audits` and `within the limit together` are."""
    below = "\n".join(text)
    for word in (
        "counted: ",
        "alpha: ",
        "audit: ",
        "; recheck: ",
        "proposed or drawn: ",
        "relative to these reviewers: ",
        "blind controls: ",
    ):
        assert word in below, word
    assert "missed at most 5 %, in all of these traits at once: 0 of 20 traits" in below


def test_errors_on_gold_are_a_sentence(workspace: Workspace) -> None:
    """It was `unit conversation, units_present 3, missed 0, missed_at_most 0.632, ...`."""
    bounds = review_status(workspace).bounds
    assert status_text.of_gold(bounds) == []
    gold = bounds.gold | {"units_present": 20, "missed": 1, "missed_at_most": 0.25, "units_absent": 0}
    line = "in gold conversations, whose answers are known, the labels miss a trait in 1 of 20 (<= 25.0 %)"
    assert status_text.of_gold(replace(bounds, gold=gold)) == [line]


def test_adjudicate_says_what_all_labels_miss_and_where_each_trait_stands(workspace: Workspace) -> None:
    """It printed all of `review status` once more, as 50 lines."""
    bounds = review_status(workspace).bounds
    lines = status_text.of_labels(replace(bounds, items=bounds, false_pooled=false_share(100, (0,) * 42)))
    assert [line.split(":")[0] for line in lines] == [
        "missed share of any sensitivity",
        "missed, with what readers overlook",
        "missed share of any flag of items",
        "labels `present` that are wrong",
        "what these words mean, and the same for each trait",
    ]
    assert lines[1].split(": ", 1)[1].startswith("not known (0 of 20 blind controls read")


def test_traits_of_which_the_same_is_said_are_one_line() -> None:
    """20 lines that said "none found" hid the one that did not."""
    rows = [["gore", "at most 9 %"], ["needles", "none"], ["war", "none"], ["any sensitivity", "at most 8 %"]]
    assert status_text.alike(rows) == rows  # two alike are listed by name
    three_alike = [*rows[:3], ["fire", "none"], rows[3]]
    assert status_text.alike(three_alike) == [
        ["gore", "at most 9 %"],
        ["3 traits", "none"],
        ["any sensitivity", "at most 8 %"],
    ]


def test_what_is_missed_stands_beside_what_is_false(text: list[str]) -> None:
    place = next(n for n, line in enumerate(text) if line.startswith("share of"))
    assert text[place].split("  ")[0] == "share of" and text[place].endswith("labelled wrongly at most")
    assert any(line.startswith("any sensitivity") for line in text[place:])
