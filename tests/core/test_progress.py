"""Who waits is told how much is done and how long it will still take, and nothing of what is quick."""

from collections.abc import Iterator
from threading import Event

import pytest

from saferec_builder.core import progress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """The time is the last of these."""
    now = [100.0]
    monkeypatch.setattr(progress, "monotonic", lambda: now[-1])
    return now


def said(clock: list[float], times: list[float], total: int, each: int = 1, done: int = 0) -> list[str]:
    """What is said of steps done at these times, so many at once, from second 100 on."""
    told: list[str] = []
    with progress.Lines(told.append, "mine", "file", total, done) as bar:
        for at in times:
            clock.append(at)
            bar.update(each)
    return told


def test_a_line_after_three_seconds_and_then_every_twenty(clock: list[float]) -> None:
    """500 of 3,000 took 4 s, so 2,500 take 20 s; 1,250 took 24 s, so 1,750 take 33.6 s."""
    assert said(clock, [102.9, 104.0, 110.0, 123.9, 124.0, 140.0], 3000, 250) == [
        "mine: 500 of 3,000 files, about 20 s left",
        "mine: 1,250 of 3,000 files, about 34 s left",
    ]


def test_what_is_quick_or_nearly_done_says_nothing(clock: list[float]) -> None:
    """The second at 4 s, of three: 2 s are left; the last when nothing is."""
    assert said(clock, [101.0, 104.0, 140.0], 3) == []


def test_time_left_is_that_of_what_this_run_does(clock: list[float]) -> None:
    """Of 100 steps 60 were done before; 2 of 40 took 30 s, so 38 take 570 s."""
    assert said(clock, [102.0, 130.0], 100, done=60) == ["mine: 62 of 100 files, about 10 min left"]


@pytest.mark.parametrize(
    ("took", "left"), [(10, "90 s"), (11, "99 s"), (12, "2 min"), (660, "99 min"), (667, "2 h"), (12_000, "30 h")]
)
def test_time_left_is_rounded_up_to_what_one_reads(clock: list[float], took: float, left: str) -> None:
    """One of ten steps took so long: nine times that is left."""
    assert said(clock, [100 + took], 10) == [f"mine: 1 of 10 files, about {left} left"]


def test_what_counts_no_steps_says_that_it_is_at_work_until_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.01)
    monkeypatch.setattr(progress, "EVERY", 0.02)
    said, thrice = list[str](), Event()

    def say(line: str) -> None:
        said.append(line)
        if len(said) == 3:
            thrice.set()

    with pytest.raises(ValueError), progress.at_work(say, "release"):
        assert thrice.wait(60)
        raise ValueError
    told = len(said)
    assert set(said) == {"release: at work for 1 s"}
    assert not Event().wait(0.2) and len(said) == told  # nothing is said of a command that ended, with an error too


def test_before_the_first_step_is_done_a_log_says_that_it_is_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """A single large file was read for 45 seconds without a word."""
    monkeypatch.setattr(progress, "PATIENCE", 0.01)
    said, told = list[str](), Event()

    def say(line: str) -> None:
        said.append(line)
        told.set()

    with progress.Lines(say, "mine", "file", 1) as bar:
        assert told.wait(60)
        bar.update()
    assert set(said) == {"mine: at work for 1 s"}


def test_a_quick_command_says_nothing_of_it() -> None:
    said = list[str]()
    with progress.at_work(said.append, "status"):
        pass
    assert said == []
