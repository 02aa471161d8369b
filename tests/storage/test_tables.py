"""The list of tables."""

from saferec_builder.storage import tables


def test_every_table_is_listed() -> None:
    """docs/data-format.md and `status` know a table by this list alone."""
    made = [value for value in vars(tables).values() if isinstance(value, tables.Table)]
    assert {table.name: table for table in made} == tables.TABLES


def test_the_last_word_of_each_proposer_counts_and_no_other_takes_it_away() -> None:
    """A model that claims nothing yet scores every trait `absent`: the rules' claims were gone with that."""
    said = [
        ("rules", "present"),
        ("small", "present"),
        ("learned", "absent"),
        ("small", "unsure"),
        ("large", "present"),
    ]
    said += [("large", "absent"), ("learned", "absent")]
    unit = {"kind": "sensitivity", "subject": "c", "trait": "gore"}
    rows = [unit | {"proposal": str(n), "proposer": who, "verdict": v} for n, (who, v) in enumerate(said)]
    found = tables.last_claims(tables.PROPOSALS.frame([dict.fromkeys(tables.PROPOSALS.schema) | row for row in rows]))
    assert found.select("proposer", "verdict").rows() == [("rules", "present"), ("small", "unsure")]
