"""The numbers of the report, each checked on rows that can be counted by eye."""

from itertools import pairwise

import polars as pl
import pytest

from annotation.agreement import alphas
from exports.report import report_statistics as figures
from saferec_builder.core import oracle as violations
from saferec_builder.storage import tables
from tests.worlds.release_world import conversation, conversations, label, labels
from tests.worlds.report_world import TAXONOMY, claim, drop, frame, reading, vote

A, B, C, D = (conversation(name, f"I am {name}, no blood please.") for name in "abcd")


def test_what_was_read_since_is_not_left_out() -> None:
    """After a failed run the page listed every text as left out, and some twice."""
    rows = [
        drop("mine", "x:3", "same id"),
        *(drop("propose", name, "budget reached") | {"source": "rules"} for name in "abc"),
        *(
            drop("propose", name, why) | {"source": "rules"}
            for name, why in (("a", "server error"), ("b", "no answer"))
        ),
        drop("propose", "a", "no usable answer") | {"source": "m"},  # another proposer has not read it
    ]
    older_reading = reading(B, version="rules-0")  # the rules have another version now
    drops = figures.left_out(frame(tables.DROPS, *rows), frame(tables.READINGS, older_reading, reading(A), reading(D)))
    assert [tuple(row.values()) for row in drops] == [
        ("mine", "same id", 1),
        ("propose", "budget reached", 1),
        ("propose", "no answer", 1),  # older rules than those of today have read it
        ("propose", "no usable answer", 1),
    ]


def test_every_step_of_the_funnel_balances() -> None:
    # 4 mined, 2 rows of the files left out; a and b read; b, c reviewed (c unread); b, c have a verdict;
    # the release holds a (without a verdict) and b, and only b can teach
    steps = figures.funnel(
        conversations(A, B, C, D),
        frame(
            tables.DROPS,
            drop("mine", "x:3", "same id"),
            drop("mine", "x:4", "same id"),
            drop("propose", "c", "no usable answer"),
            drop("release", "c", "straddles split"),
            drop("release", "a", "no linked item"),
        ),
        frame(tables.READINGS, reading(A), reading(B), reading(D, digest="of an older text")),
        frame(tables.ASSIGNMENTS, {"kind": "sensitivity", "subject": "a", "reviewer": "ann", "role": "reviewer"}),
        frame(tables.REVIEWS, vote(B), vote(C)),
        labels(label(B), label(C), label(A, verdict=None)),
        released={"conversations": {"a", "b"}, "grpo": {"b"}, "injected": set(), "asked": {"b"}, "sft": {"b"}},
        withheld={},
    )
    assert [(s["name"], s["count"], s["lost"], sum(s["joined"].values())) for s in steps] == [
        ("Found in the source files", 6, {}, 0),
        ("Mined", 4, {"same id": 2}, 0),
        ("Read by a proposer", 2, {"no usable answer": 1, "not read yet": 1}, 0),
        ("Reviewed", 2, {"assigned, no answer that stands": 1}, 1),
        ("With a verdict", 2, {}, 0),
        ("In the release", 2, {"straddles split": 1}, 1),
        ("Requests to train and test with", 1, {"no linked item": 1}, 0),
        ("With a list of items that are clear for them", 1, {}, 0),
    ]
    for before, step in pairwise(steps):
        assert step["count"] == before["count"] - sum(step["lost"].values()) + sum(step["joined"].values())


def test_the_funnel_names_what_is_withheld_and_what_was_added() -> None:
    # a, b mined, c withheld since; the earlier release has all three, one more request of a, and one with a sentence of
    # ours, for which no item is clear
    empty = [t.empty for t in (tables.DROPS, tables.READINGS, tables.ASSIGNMENTS, tables.REVIEWS)]
    steps = figures.funnel(
        conversations(A, B),
        *empty,
        labels(label(A), label(B)),
        released={
            "conversations": {"a", "b", "c"},
            "grpo": {"a", "b", "c-1", "ours"},
            "injected": {"ours"},
            "asked": {"a", "b", "c"},
            "sft": {"a", "b", "c-1"},
        },
        withheld={"c": "removed on request"},
    )
    by_name = {s["name"]: (s["count"], s["lost"], s["joined"]) for s in steps}
    assert by_name["Found in the source files"] == (3, {}, {})
    assert by_name["Mined"] == (2, {"removed on request": 1}, {})
    assert by_name["In the release"] == (3, {}, {"released before: removed on request": 1})
    rows, lost, joined = by_name["Requests to train and test with"]
    assert (rows, lost) == (4, {"its last answer only: further requests stay": 1})
    assert joined == {"a sentence of ours was added (injected)": 1, "further requests of a conversation": 1}
    assert by_name["With a list of items that are clear for them"] == (
        3,
        {"no item is clear for them, or no answer is known": 1},
        {},
    )


def test_a_trait_counts_its_present_labels_by_form() -> None:
    rows = figures.traits(
        labels(
            label(A, form="explicit"), label(B), label(C, form=None), label(D, verdict="absent"),
            label(A, "needles", verdict=None), label(B, "needles", verdict="unsure"),
        ),
        TAXONOMY,
    )  # fmt: skip
    by_slug = {row["slug"]: row for row in rows}
    # where no reader said how, it is not taken for implied: a report said "47 % are only implied" of forms left open
    gore = {"slug": "gore", "name": "Blood and gore", "present": 3, "explicit": 1, "implicit": 1, "unlabelled": 1}
    assert rows[0] == gore | {"absent": 1, "unsure": 0, "unresolved": 0}
    assert (by_slug["needles"]["unsure"], by_slug["needles"]["unresolved"], by_slug["needles"]["present"]) == (1, 1, 0)
    assert len(rows) == len(TAXONOMY.traits)


def test_a_proposer_is_measured_on_what_it_read_and_what_was_settled() -> None:
    # gore: a right, b wrong, c missed; d was not read, so its label is not a miss; needles: a claimed, without a label;
    # of b, which people settled as unsure, the page said that it had no verdict
    proposers = figures.proposers(
        frame(
            tables.PROPOSALS, claim(A), claim(B), claim(C, verdict="unsure"), claim(A, "needles"), claim(B, "needles")
        ),
        frame(tables.READINGS, reading(A), reading(B), reading(C)),
        labels(label(A), label(B, verdict="absent"), label(C), label(D), label(B, "needles", verdict="unsure")),
        TAXONOMY,
    )
    assert len(proposers) == 1
    total = proposers[0]["total"]
    assert [total[key] for key in ("right", "wrong", "missed", "unsure", "open")] == [1, 1, 1, 1, 1]
    assert total["precision"]["mean"] == 0.5 and "recall" not in total
    by_trait = {row["slug"]: row for row in proposers[0]["traits"]}
    assert list(by_trait) == ["gore", "needles"]
    assert (by_trait["needles"]["open"], by_trait["needles"]["precision"], proposers[0]["read"]) == (1, None, 3)


def test_a_claim_that_became_a_label_unread_does_not_bear_itself_out() -> None:
    # a was read and refused, b is `auto`: no claim that people judged is right; before, 1 of 2 counted as right
    total = figures.proposers(
        frame(tables.PROPOSALS, claim(A), claim(B)),
        frame(tables.READINGS, reading(A), reading(B)),
        labels(label(A, verdict="absent"), label(B, method="auto")),
        TAXONOMY,
    )[0]["total"]
    assert (total["right"], total["wrong"], total["open"], total["precision"]["mean"]) == (0, 1, 1, 0.0)


def test_precision_by_confidence_counts_each_settled_claim_in_one_band() -> None:
    # 1 and .9 in the last band (b is wrong), .6 in the second; the unsure label of d counts nowhere
    claims = [claim(A) | {"confidence": 1.0}, claim(B) | {"confidence": 0.9}, claim(C) | {"confidence": 0.6}]
    bands = figures.proposers(
        frame(tables.PROPOSALS, *claims, claim(D) | {"confidence": 0.85}),
        frame(tables.READINGS, *map(reading, (A, B, C, D))),
        labels(label(A), label(B, verdict="absent"), label(C), label(D, verdict="unsure")),
        TAXONOMY,
    )[0]["sure"]
    assert [(row["low"], row["high"], row["precision"]["mean"], row["n"]) for row in bands] == [
        (0.9, 1.0, 0.5, 2),
        (0.6, 0.8, 1.0, 1),
    ]


def test_positives_stand_beside_each_alpha_and_few_are_told() -> None:
    # gore: ten units with a `present` among two votes, needles: one; a unit that one person read does not count
    vote_rows = [(f"c{n}", "gore", reviewer, "present") for n in range(10) for reviewer in ("ann", "bo")]
    vote_rows += [
        ("c0", "needles", "ann", "present"),
        ("c0", "needles", "bo", "absent"),
        ("c1", "needles", "ann", "present"),
    ]
    votes = pl.DataFrame(vote_rows, schema=["subject", "trait", "reviewer", "verdict"], orient="row")
    votes = votes.with_columns(kind=pl.lit("sensitivity"))
    agreement = figures.agreement(alphas(votes), TAXONOMY)
    assert {r["slug"]: (r["positives"], r["few"]) for r in agreement} == {"gore": (10, False), "needles": (1, True)}
    # `absent` against `unsure` was drawn as an alpha of 0, as if people had disagreed on who should not see it
    said = [("c0", "ann", "unsure"), ("c0", "bo", "absent"), ("c1", "ann", "absent"), ("c1", "bo", "absent")]
    votes = pl.DataFrame(said, schema=["subject", "reviewer", "verdict"], orient="row")
    votes = votes.with_columns(kind=pl.lit("sensitivity"), trait=pl.lit("needles"))
    assert alphas(votes)["alpha"].item() == pytest.approx(0.0)
    (row,) = figures.agreement(alphas(votes), TAXONOMY)
    assert (row["positives"], row["alpha"], row["low"], row["high"]) == (0, None, None, None)


def test_a_claim_on_an_older_text_is_neither_right_nor_wrong() -> None:
    older = dict(A, digest="older")
    claims, readings = frame(tables.PROPOSALS, claim(older)), frame(tables.READINGS, reading(older))
    total = figures.proposers(claims, readings, labels(label(A)), TAXONOMY)[0]["total"]
    assert [total[word] for word in ("right", "missed", "open")] == [0, 0, 1]


def test_the_precision_of_eight_of_ten_claims() -> None:
    # Clopper and Pearson: P(X >= 8 | 10, .4439) = P(X <= 8 | 10, .9748) = .025
    assert figures.proportion(8, 10) == pytest.approx({"mean": 0.8, "low": 0.4439, "high": 0.9748}, abs=1e-4)
    assert figures.proportion(0, 0) is None


def test_coverage_counts_items_and_not_the_item_that_nobody_knows() -> None:
    codes = [[violations.UNKNOWN] * len(TAXONOMY.traits) for _ in range(3)]
    gore = TAXONOMY.slugs.index("gore")
    codes[0][gore], codes[1][gore] = violations.VIOLATED, violations.CLEAR
    oracle = violations.oracle(list("xyz"), TAXONOMY.slugs, pl.DataFrame(codes, orient="row").to_numpy().astype("int8"))
    rows = figures.coverage(oracle, TAXONOMY)
    assert rows[0] == {"slug": "gore", "name": "Blood and gore", "violated": 1, "clear": 1, "unknown": 1}
    assert rows[1]["unknown"] == 3


def test_the_main_numbers_count_people_conversations_and_labels() -> None:
    talks = conversations(A | {"seeker": "p"}, B | {"seeker": "p", "source": "reddit"}, C)
    said = labels(
        label(A, form="explicit"), label(B), label(B, "needles", form=None), label(C, verdict="absent"),
        label(D, verdict=None),
    )  # fmt: skip
    votes = frame(tables.REVIEWS, vote(A, "ann"), vote(B, "ann"), vote(B, "bo"), vote(A, "cy") | {"kind": "item_flag"})
    linked, warnings = (pl.DataFrame({"warning": [*names]}) for names in ("wwx", "wxyz"))
    assert figures.headline(talks, said, votes, pl.DataFrame({"item": ["i"]}), linked, warnings) == {
        "conversations": 3,
        "sources": ["messages", "reddit"],
        "seekers": 1,
        "sensitivities": 3,
        "implicit": 1,
        "unlabelled": 1,
        "labelled": 3,
        "own": 2,
        "traits": 2,
        "catalog": 1,
        "warnings": 2,
        "unlinked": 2,
        "reviewers": 2,
    }
    assert figures.methods(said) == {"agreed": 4, "adjudicated": 0, "auto": 0, "unresolved": 1}
    facts = {"labels": {"gore": {"present": 2}, "needles": {}}, "counts": {"items": {"catalog": 3}}}
    assert figures.released(facts) == {"items": 3, "sensitivities": 2, "present": {"gore": 2, "needles": 0}}
