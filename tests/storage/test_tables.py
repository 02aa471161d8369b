"""The list of tables."""

from saferec_builder.storage import tables


def test_every_table_is_listed() -> None:
    """docs/data-format.md and `status` know tables only from this list."""
    listed = [value for value in vars(tables).values() if isinstance(value, tables.Table)]
    assert {table.name: table for table in listed} == tables.TABLES


def test_the_last_word_of_each_proposer_counts_and_no_other_takes_it_away() -> None:
    """A model that claims nothing yet scores every trait `absent`: this removed the claims of the rules."""
    order = "rules present, small present, learned absent, small unsure, large present, large absent, learned absent"
    claims = [claim.split() for claim in order.split(", ")]
    unit = {"kind": "sensitivity", "subject": "c", "trait": "gore"}
    rows = [unit | {"proposal": str(n), "proposer": proposer, "verdict": v} for n, (proposer, v) in enumerate(claims)]
    last = tables.last_claims(tables.PROPOSALS.frame([dict.fromkeys(tables.PROPOSALS.schema) | row for row in rows]))
    assert last.select("proposer", "verdict").rows() == [("rules", "present"), ("small", "unsure")]
