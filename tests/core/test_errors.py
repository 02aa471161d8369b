"""Errors are a line for a person."""

import time

import pytest

from saferec_builder.core.errors import KeyTwice, UsageError, strict_json


def test_a_line_without_end_keeps_where_it_was_and_what_to_do() -> None:
    line = str(UsageError(f"traits.toml: {'9' * 9_000}: wanted a text"))
    assert line.startswith("traits.toml: 999") and line.endswith("99: wanted a text") and len(line) < 1_600


def test_an_object_of_many_keys_ends_in_a_moment_even_if_the_last_comes_twice() -> None:
    """Each key was looked for among all: 12 seconds for these 550 kB, hours for the longest line that is read."""
    text = "{" + "".join(f'"key{n}":0,' for n in range(40_000)) + '"z":0,"z":1}'
    start = time.process_time()
    with pytest.raises(KeyTwice, match="'z' comes twice"):
        strict_json(text)
    assert time.process_time() - start < 3
