"""Tests that every promise of the pages on privacy and security has a test."""

import pytest

from tests import promises


@pytest.mark.parametrize("page", ["privacy", "security"])
def test_every_unit_of_the_page_has_a_test_that_is_there(page: str) -> None:
    listed, silent = promises.promises()[page], promises.silent()[page]
    units = list(promises.units(page))
    assert len(units) > 20 and {heading for heading, _ in units} >= set(silent)
    phrases = [" ".join(promise.says.split()) for promise in listed]
    outdated = [phrase for phrase in phrases if not any(phrase in text for _, text in units)]
    untested = [
        text
        for heading, text in units
        if heading not in silent and not promises.TESTED.search(text) and not any(phrase in text for phrase in phrases)
    ]
    assert (outdated, untested) == ([], [])
    cited = {f"{path}::{test}" if test else path for _, text in units for path, test in promises.TESTED.findall(text)}
    named = cited | {t for promise in listed for t in promise.tests}
    assert [name for name in sorted(named) if promises.missing(name)] == []
    assert all(promise.tests for promise in listed)


def test_the_table_is_made_of_them() -> None:
    assert promises.PAGE.read_text(encoding="utf-8") == promises.page(), "run `python -m tests.promises`"
