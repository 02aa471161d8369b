"""The rules of rating reasons and keywords: their precision is measured, and their patterns tell use from talk."""

from collections import Counter

import pytest

from saferec_builder.core import taxonomy
from saferec_builder.sources import class_rules
from tests import ROOT
from tests.worlds.csv_rows import rows_of


def test_every_precision_is_that_of_the_works_that_were_read():
    rows = rows_of(ROOT / "tests" / "data" / "class_readings.csv")
    readings = Counter((row["kind"], row["rule"], row["true"]) for row in rows)
    rules = {
        (r.kind, r.key if r.kind == "reason" else r.topic): (r.right, r.read) for r in class_rules.rules() if r.read
    }
    keys = {(kind, rule) for kind, rule, _ in readings}
    assert rules == {n: (readings[*n, "yes"], readings[*n, "yes"] + readings[*n, "no"]) for n in keys}
    assert class_rules.ClassRule("reason", "x", "y", 29, 29).precision == 0  # 29 of 29 may mean a true share of .9


def test_every_rule_answers_a_core_question_and_no_tag_was_read():
    core = {topic for trait in taxonomy.load().traits for topic in trait.core}
    assert {rule.topic for rule in class_rules.rules()} <= core
    assert {rule.read for rule in class_rules.rules() if rule.kind == "tag"} == {0}


REASONS = [
    ("R", "for strong bloody violence", {"names blood or gore", "rated R or NC-17, names violence"}),
    ("PG-13", "for violence", {"rated PG-13, names violence"}),
    (
        "PG-13",
        "for sequences of intense sci-fi violence",
        {"rated PG-13, names intense violence", "rated PG-13, names violence"},
    ),
    ("PG-13", "for intense grief, and violence", {"rated PG-13, names violence"}),  # the grief is intense
    ("R", "for a brief scene of violence", set()),  # one scene: blood is a guess
    ("R", "for descriptions of violent behavior", set()),  # described, not shown
    ("R", "for language and some druguse", {"names drug use", "names drugs"}),
    ("R", "for language and references to drug use", {"names drugs"}),  # talk about drugs is no drug use
    ("PG-13", "for drug content", {"names drugs"}),
    ("R", "for violence including a rape", {"names sexual violence", "rated R or NC-17, names violence"}),
    ("R", "for therapeutic grapes and category romance", set()),  # rape and gory are parts of words
]


@pytest.mark.parametrize(("rating", "reason", "names"), REASONS)
def test_what_a_reason_names(rating, reason, names):
    assert {rule.name for rule in class_rules.reasons() if rule.matches(rating, reason)} == names
