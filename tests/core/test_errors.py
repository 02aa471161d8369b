"""Errors are a line for a person."""

from saferec_builder.core.errors import UsageError


def test_a_line_without_end_keeps_where_it_was_and_what_to_do() -> None:
    line = str(UsageError(f"traits.toml: {'9' * 9_000}: wanted a text"))
    assert line.startswith("traits.toml: 999") and line.endswith("99: wanted a text") and len(line) < 1_600
