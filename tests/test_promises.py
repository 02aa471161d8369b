"""Nothing is promised on the pages on privacy and security that no test would miss."""

import pytest

from tests import promises


@pytest.mark.parametrize("page", ["privacy", "security"])
def test_every_unit_of_the_page_has_a_test_that_is_there(page: str) -> None:
    told, silent = promises.promises()[page], promises.silent()[page]
    units = list(promises.units(page))
    assert len(units) > 20 and {heading for heading, _ in units} >= set(silent)
    words = [" ".join(one.says.split()) for one in told]
    lost = [one for one in words if not any(one in text for _, text in units)]
    open_ = [
        text
        for heading, text in units
        if heading not in silent and not promises.TESTED.search(text) and not any(one in text for one in words)
    ]
    assert (lost, open_) == ([], [])
    named = {f"{path}::{test}" if test else path for _, text in units for path, test in promises.TESTED.findall(text)}
    assert [name for name in sorted(named | {t for one in told for t in one.tests}) if promises.missing(name)] == []
    assert all(one.tests for one in told)


def test_the_table_is_made_of_them() -> None:
    assert promises.PAGE.read_text(encoding="utf-8") == promises.page(), "run `python -m tests.promises`"
