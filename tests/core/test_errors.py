"""Errors are a line for a person, and JSON and text from outside are read with care."""

import pytest

from saferec_builder.core import errors
from saferec_builder.core.errors import KeyTwice, UsageError


def test_a_long_line_keeps_where_it_was_and_what_to_do() -> None:
    text = "a" * 750 + "b" * 750
    assert str(UsageError(text)) == text
    assert str(UsageError(f"{text}c")) == f"{text[:750]} … {'b' * 749}c"


def test_a_refused_name_is_told_the_nearest_allowed_one() -> None:
    assert (
        errors.near(" Snack Baar", ("gore", "snack_bar")) == "did you mean snack_bar? expected one of gore, snack_bar"
    )
    assert errors.near("x", ("gore", "snack_bar")) == "expected one of gore, snack_bar"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(('{"a": 1, "b": {"a": 2}}', {"a": 1, "b": {"a": 2}}), ("[1]", None), ("{", None), (b'"\xff"', None)),
        *(('{"a": 1, "a": 1}', None), ('{"a":' * 100_000, None)),
    ],
)
def test_what_is_one_object_is_read_and_all_else_is_none(text: str | bytes, value: object) -> None:
    assert errors.whole_object(text) == value


def test_a_key_that_comes_twice_is_named() -> None:
    with pytest.raises(KeyTwice, match=f"^the key '{'b' * 60}' comes twice in one object$"):
        errors.strict_json(f'{{"a": 1, "{"b" * 61}": 2, "{"b" * 61}": 3}}')
    assert errors.fault_of('{"a": 1, "a": 2}') == "the key 'a' comes twice in one object"
    assert errors.fault_of('{"a": 1}') is None


def test_text_from_outside_is_one_safe_line() -> None:
    assert errors.line("a\x1b[1m\nb\tc") == "a\ufffd[1m b\tc"
    shown = errors.plain("a\x1b[2J\u202eb\x07\x00\ud800\n\tc שלום é\xa0👩\u200d👧")
    assert shown == "a\ufffd[2J\ufffdb\ufffd\ufffd\ufffd\n\tc שלום é\xa0👩\u200d👧"
    assert [errors.is_utf8(text) for text in ("a", "é", "\ud800")] == [True, True, False]


def test_an_object_of_many_keys_ends_in_a_moment_even_if_the_last_comes_twice() -> None:
    """Each key was looked for among all: 12 seconds for 40,000, ten minutes for these."""
    with pytest.raises(KeyTwice, match="'z' comes twice"):
        errors.strict_json("{" + "".join(f'"key{n}":0,' for n in range(300_000)) + '"z":0,"z":1}')
