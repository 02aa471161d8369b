"""The text of `review status`: tables as wide as a terminal, with a row for each trait and each reviewer."""

from dataclasses import replace

import polars as pl
import pytest

from annotation import status_text
from annotation.confidence_bounds import Audit, bound, false_share
from annotation.controls import Blind
from annotation.progress import ReviewStatus
from annotation.recall_bounds import LabelBounds

CLEAN = bound(Audit(400, 1_000, (0,) * 900, left=100))  # at most 1.7 % are missed
SOME = bound(Audit(0, 1_000, (0,) * 400, left=600))
TRAITS = {"gore": CLEAN, "needles": SOME, "fire": SOME, "war": SOME}
WRONG = false_share(100, (0,) * 42)
ITEMS = LabelBounds({"gore": bound(Audit(40, 0, ()))}, bound(Audit(40, 0, ())), [], {})
BOUNDS = LabelBounds(TRAITS, CLEAN, ["gore"], {}, false={"gore": WRONG}, false_pooled=WRONG, items=ITEMS)
BOUNDS = replace(BOUNDS, blind=Blind.of(3, 1), apart=CLEAN.share)
COUNTS = {"proposed": 1_234, "assigned": 7, "begun": 0, "read": 0, "disputed": 1}


@pytest.fixture
def status() -> ReviewStatus:
    """Traits of several kinds, and people with different figures; nobody has answered."""
    traits = pl.DataFrame([{"trait": trait, **COUNTS} for trait in ("fire", "gore", "needles", "war")])
    alpha = [("gore", -0.001, 10), ("fire", 0.0, 0), ("needles", 0.5, 9)]
    alphas = pl.DataFrame(alpha, schema=["trait", "alpha", "positives"], orient="row")
    people = {"ann": {"tasks": 4, "open": 4}, "bo": {"tasks": 2, "open": 2, "rejected": 1}}
    return ReviewStatus(traits, alphas, people, BOUNDS, 0, {}, [], None, 0, [])


READ = """
trait    proposed  assigned  begun  read  disputed              alpha
fire        1,234         7      0     0         1                n/a
gore        1,234         7      0     0         1               0.00
needles     1,234         7      0     0         1  0.50 (9 positive)
war         1,234         7      0     0         1                n/a
counted: questions, each of one trait in one conversation (or item); assigned: of those proposed
begun, read: proposed or not, answered by some readers, by enough; disputed: these differ
alpha: how far readers agree, 1 always, 0 as by chance; n/a: nothing to compare, as when nobody says present
"""
MISSED = """
share of           missed at most                          labelled wrongly at most
gore               <= 0.3 % (relative to these reviewers)  <= 5.0 % (certified)
3 traits (1)       none found, in 6 conversations at most
any sensitivity    <= 0.3 % (relative to these reviewers)  <= 5.0 % (certified)
gore (items)       0 % (relative to these reviewers)
any flag of items  0 % (relative to these reviewers)
3 traits (1): needles, fire, war
missed at most 5 %, in all of these traits at once: 1 of 1 trait found
missed, with what readers overlook: not known (3 of 20 blind controls that nothing ever suggested are read)
none found, in N at most: nobody found it; of all here, read or not, it may be in so many
certified: 5 % at most; of what is missed, also 20 % at most with what readers overlook
relative to these reviewers: without what they overlook, which blind controls measure
blind controls: conversations whose answer is known, read without a suggestion
"""
WAITING = """
reviewer  tasks  open  rejected
ann           4     4         -
bo            2     2         1
rejected: open tasks whose last answer could not be taken
"""
BUSY = """
reviewer   tasks  open  seconds     found  overruled  blind controls missed        flagged  rejected
ann       14,145     3       22  45 of 50   14 of 19                 0 of 3  decoys, speed         -
bo             2     2        -         -          -                      -              -         1
seconds: of a task, the median
rejected: open tasks whose last answer could not be taken
found: of the labels `present` on what they answered, those that they called present, too
overruled: of the verdicts on which the adjudicator decided; of two who differ at least one is
the labels are made of these votes: what everybody overlooked counts for nobody
blind controls: of every kind, also those whose answer others were shown
flagged: by blind controls, gold (answers known beforehand) and decoys (wrong suggestions) alone
"""


def test_before_anybody_has_a_task_no_bound_is_spoken_of(status: ReviewStatus) -> None:
    nobody = ["nobody was given a task yet: `saferec-build review push`"]
    assert status_text.lines(replace(status, traits=status.traits.clear(), reviewers={})) == nobody
    assert status_text.lines(replace(status, reviewers={})) == [*READ.splitlines()[1:], "", *nobody]


def test_before_anybody_answered_nothing_is_said_to_be_found_or_not(status: ReviewStatus) -> None:
    """It said "none found" about conversations that nobody had read."""
    nobody = "\nnobody has answered yet: what labels miss is told once answers are in\n"
    assert "\n".join(status_text.lines(status)) == f"{READ}{nobody}{WAITING}".strip()
    for column in ("begun", "read"):
        begun = status.traits.with_columns(pl.when(trait="gore").then(1).otherwise(0).alias(column))
        text = "\n".join(status_text.lines(replace(status, traits=begun)))
        assert text.endswith(f"{MISSED}{WAITING}"[:-1])


def test_each_trait_and_each_reviewer_has_a_row_under_its_heads(status: ReviewStatus) -> None:
    """All reviewers were in one line of 300 characters; an alpha of -0.001 was shown as -0.00; `blind controls` were 3
    of 20 above and 3 of 3 below, without a word on which these are."""
    ann = {"tasks": 14_145, "open": 3, "seconds": 22.0, "present": 50, "found": 45, "ruled": 19, "overruled": 14}
    ann |= {"blind_controls": 3, "blind_controls_missed": 0}
    people = status.reviewers | {"ann": ann | {"flagged": ["decoys", "speed"]}}
    people["bo"] = people["bo"] | {"flagged": []}
    text = "\n".join(status_text.lines(replace(status, reviewers=people)))
    assert text == f"{READ}{MISSED}{BUSY}".strip()


def test_adjudicate_says_what_all_labels_miss_and_where_each_trait_stands() -> None:
    """It printed all of `review status` once more, as 50 lines."""
    blind = "not known (3 of 20 blind controls that nothing ever suggested are read)"
    lines = [
        "missed share of any sensitivity: <= 0.3 % (relative to these reviewers)",
        f"missed, with what readers overlook: {blind}",
        "what these words mean, and the same for each trait: `saferec-build review status`",
    ]
    assert status_text.of_labels(replace(BOUNDS, items=None, false_pooled=None)) == lines
    more = ["missed share of any flag of items: 0 % (relative to these reviewers)"]
    more.append("labels `present` that are wrong: <= 5.0 % (certified)")
    assert status_text.of_labels(BOUNDS) == [*lines[:2], *more, lines[2]]
    # `<= 46 %` stood there without a word on what to do about it
    waits = replace(BOUNDS, pooled=replace(BOUNDS.pooled, open=3), unread=1)
    (step,) = [line for line in status_text.of_labels(waits) if line.startswith("what lowers these bounds most: ")]
    assert "3 conversations, proposed or drawn" in step and "1 conversation was drawn and is not read yet" in step
    # it asked for rechecks, and did not say that none would ever come
    line = status_text.of_labels(replace(BOUNDS, false_pooled=false_share(100, ())))[3]
    how = "; `review push --adjudicator NAME` hands them out, with [review] recheck above 0"
    assert line == f"labels `present` that are wrong: n/a (42 more rechecks){how}"


def test_reports_of_personal_data_say_what_to_do() -> None:
    assert status_text.of_reports([]) == []
    (line,) = status_text.of_reports(["c1", "c2"])
    # five were reported, and it said that `release` stops at their texts, of which it had but one
    remedy = "remove them (removals.csv or `saferec-build forget`), or allow them one by one: `release` stops at those"
    assert line == (
        "readers reported personal data in 2 conversations: c1, c2: look at them (`saferec-build browse reported`), "
        f"then {remedy} whose text it would hold"
    )


def test_traits_of_which_the_same_is_said_are_one_line() -> None:
    """20 lines that said "none found" hid the one that did not."""
    rows = [["gore", "at most 9 %"], ["needles", "none"], ["war", "none"], ["any sensitivity", "at most 8 %"]]
    assert status_text.alike(rows) == (rows, [])  # two alike are listed by name
    merged, named = status_text.alike([*rows[:3], ["fire", "none"], rows[3]])
    assert merged == [rows[0], ["3 traits (1)", "none"], rows[3]]
    assert named == ["3 traits (1): needles, war, fire"]  # nobody could tell which of two groups a trait was in
    many = [[f"a_long_name_{n:02}", "none"] for n in range(12)] + [[f"b{n}", "few"] for n in range(12)]
    lines = status_text.alike(many)[1]
    assert max(map(len, lines)) <= 80 and lines[-1].startswith("12 traits (2): b0, b1")


def test_errors_on_gold_are_a_sentence() -> None:
    """It was `unit conversation, units_present 3, missed 0, missed_at_most 0.632, ...`."""
    gold = BOUNDS.gold | {"units_present": 20, "missed": 1, "missed_at_most": 0.25, "invented_at_most": None}
    line = "in gold conversations, whose answers are known, the labels miss a trait in 1 of 20 (<= 25.0 %)"
    assert status_text.of_gold(replace(BOUNDS, gold=gold)) == [line]


def test_what_was_found_of_gold_is_not_explained_as_what_was_found_of_labels(status: ReviewStatus) -> None:
    """A reader of gold whose conversations have no label yet was told what labels are made of."""
    ann = {"tasks": 2, "open": 1, "gold": 2, "gold_found": 1, "gold_false_alarms": 0, "flagged": []}
    text = status_text.lines(replace(status, reviewers={"ann": ann}))
    assert [line.split() for line in text if line.startswith("ann")] == [["ann", "2", "1", "1", "of", "2", "0", "-"]]
    assert not [line for line in text if line.startswith(("found:", "false alarms:", "the labels"))]


def test_words_are_explained_where_they_are_used_alone(status: ReviewStatus) -> None:
    """Each output explained rechecks and drawn conversations, and none what is certified, gold or a decoy."""
    text = status_text.lines(replace(status, reviewers={"ann": {"tasks": 1, "open": 0}}))
    assert not [line for line in text if line.startswith(("audit:", "recheck:", "proposed or drawn:", "flagged:"))]
    few = replace(BOUNDS, traits={"gore": bound(Audit(1, 90, (1, 0)))}, false_pooled=false_share(100, ()))
    text = status_text.lines(replace(status, reviewers={"ann": {"tasks": 1, "open": 0}}, bounds=few))
    assert [line.partition(":")[0] for line in text if line.startswith(("audit:", "recheck:"))] == ["audit", "recheck"]
