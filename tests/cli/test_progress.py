"""A log gets a line now and then of what takes long, and nothing of what does not."""

import pytest

from saferec_builder.cli import progress


def test_a_log_has_a_line_every_twenty_seconds(capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[-1])
    with progress.bar("mine", "file")(3000) as bar:
        for at in (110.0, 119.9, 121.0, 130.0, 141.0, 170.0):  # lines after 21 and 41 s; with the last all is done
            clock.append(at)
            bar.update(500)
    out, err = capsys.readouterr()
    assert out == "" and err.splitlines() == [
        "mine: 1,500 of 3,000 files after 21 s",
        "mine: 2,500 of 3,000 files after 41 s",
    ]


def test_a_step_that_ends_in_time_says_nothing(capsys) -> None:
    with progress.bar("mine", "file")(3) as bar:
        for _ in range(3):
            bar.update()
    assert capsys.readouterr() == ("", "")
