"""The text of an answer that has several parts."""

import pytest

from saferec_builder.core.json_value import JsonValue, text_of_parts


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (
            [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "1. A"}],
            "1. A",
        ),
        ([{"type": "text", "text": "1. A\n"}, {"type": "text", "text": "2. B"}], "1. A\n2. B"),
        ([{"type": "output_text"}], ""),
        ([], ""),
        ([{"title": "A"}], None),  # the parsed JSON of an answer
        ("1. A", None),
        (None, None),
    ],
)
def test_thoughts_are_no_part_of_the_text(content: JsonValue, text: str | None) -> None:
    assert text_of_parts(content) == text
