"""Counts of a step, in words."""

import pytest

from saferec_builder.cli.output import say
from saferec_builder.core.counts import Counts


@pytest.mark.parametrize(
    ("value", "told"),
    [(["gore", "needles"], "gore, needles"), ([], "none"), ({}, "none"), ({"a": 1_000}, "a 1,000"), (0.25, "0.250")],
)
def test_figures_are_told_in_words(capsys, value, told):
    say(Counts("x", figures={"left_out": value}), False)
    assert capsys.readouterr().out.startswith(f"  left out: {told}\n")
