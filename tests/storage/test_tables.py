"""The list of tables."""

from saferec_builder.storage import tables


def test_every_table_is_listed() -> None:
    """docs/data-format.md and `status` know a table by this list alone."""
    made = [value for value in vars(tables).values() if isinstance(value, tables.Table)]
    assert {table.name: table for table in made} == tables.TABLES
