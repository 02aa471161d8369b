"""Commands of review alone, without the forecast of a release that `review push` ends with."""

import pytest


@pytest.fixture(autouse=True)
def no_forecast(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes a fifth of each push; tests/test_planning.py tests what it says."""
    monkeypatch.setattr("saferec_builder.cli.review.warn", lambda ws: None)
