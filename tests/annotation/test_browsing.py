"""Proposals and labels are shown beside their quotes; what no reviewer may get is not shown."""

import pytest

from annotation.browsing import browse, count_line
from saferec_builder.core.errors import SafeRecError
from saferec_builder.storage import tables, workspace as store
from tests.worlds.review_world import claim
from tests.worlds.reviewing import TWO, answer


def test_a_quote_stands_at_its_place_and_doubt_is_not_shown(ws):
    (row,) = browse(ws).to_dicts()  # c2's claim is unsure
    assert (row["conversation"], row["trait"], row["by"], row["turn"]) == ("c1", "gore", "rules", 0)
    assert row["text"][row["start"] : row["end"]] == "blood"
    assert browse(ws, trait="needles").is_empty() and browse(ws, "labels").is_empty()
    assert browse(ws, verdict="unsure")["conversation"].to_list() == ["c2"]


def test_the_newest_claim_of_each_proposer_counts(ws):
    newer = claim("c1", "gore", "absent", "blood") | {"proposal": "later", "spans": []}
    of_model = claim("c1", "gore", "present", "faint") | {"proposal": "other", "proposer": "a-model"}
    store.append(ws, tables.PROPOSALS, tables.PROPOSALS.frame([newer, of_model]))
    assert [row["by"] for row in browse(ws).to_dicts()] == ["a-model"]


def test_who_is_in_a_crisis_or_asked_to_be_removed_is_not_shown(ws):
    (ws.root / "removals.csv").write_text("source,source_id,author\nmessages,c1,\n")
    assert browse(ws).is_empty()


@pytest.mark.parametrize("words", [{"stage": "reviews"}, {"trait": "gorre"}, {"verdict": "absent"}])
def test_what_is_not_there_is_one_line(ws, words):
    with pytest.raises(SafeRecError, match=r"expected|gore"):
        browse(ws, **words)


def test_a_misspelt_trait_is_asked_back(ws):
    with pytest.raises(SafeRecError, match="unknown trait 'gor': did you mean gore"):
        browse(ws, trait="gor")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ("proposals", "present", 2_000, 10),
            "proposals that say present: 2,000 quotes, 10 shown; --limit 2000 shows all; --verdict unsure shows those"
            " that say unsure",
        ),
        (
            ("labels", "unsure", 0, 0),
            "labels that say unsure: 0 quotes, 0 shown; --verdict present shows those that say present",
        ),
        (("reported", "present", 1, 1), "reported: 1 turn, 1 shown"),
    ],
)
def test_the_last_line_names_the_options_that_show_the_rest(arguments, line):
    assert count_line(*arguments) == line


@pytest.mark.slow
def test_a_label_has_the_words_that_reviewers_agree_on(ws, review, adjudicate, cli):
    review("push", *TWO)
    answer(ws, review)
    assert browse(ws, "labels").is_empty()  # reviews are no labels yet
    adjudicate()
    label_rows = browse(ws, "labels", trait="gore").to_dicts()
    assert {(row["by"], row["text"][row["start"] : row["end"]]) for row in label_rows} == {("agreed", "blood")}
    output = cli("browse", "labels", "--trait", "gore", "-C", ws.root).out
    assert "I faint when I see »blood«. Something funny?" in output and "1 quote, 1 shown" in output
