"""A value is described without its words."""

from saferec_builder.core.value_shapes import field_names, seen, shape


def test_a_shape_has_no_word_and_no_number_of_the_text() -> None:
    assert shape("5 Elm Street, Málaga") == "9 xxx xxxxxx, xxxxxx"
    assert seen("Málaga 5") == "found something like 'xxxxxx 9' (x: a letter, 9: a digit)"
    assert shape("y" * 60) == "x" * 40


def test_of_keys_only_those_are_told_that_a_field_would_have() -> None:
    assert field_names(["turns", "asker.id", "my name is Jane Roe", "x" * 31]) == "turns, asker.id, 2 more"
    assert field_names(["I have cancer"]) == "1 more" and field_names([]) == ""
