"""The review tools that tests of the contract run with."""

from collections.abc import Callable

import pytest

from tests.worlds.review_world import Verdict

SERVERS = [pytest.param(name, marks=pytest.mark.servers) for name in ("label-studio", "argilla")]


def says(said: dict[str, dict[str, str]]) -> Callable[[str, list[str]], Verdict]:
    """Of each conversation these traits, with their quotes; of others nothing."""
    return lambda subject, asked: Verdict(said.get(subject, {}))
