"""Progress lines: the amount done and the time left, and nothing for quick commands."""

from collections.abc import Callable, Iterator
from threading import Event

import pytest

from saferec_builder.core import progress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """The present time is the last entry."""
    times = [100.0]
    monkeypatch.setattr(progress, "monotonic", lambda: times[-1])
    return times


def said(clock: list[float], times: list[float], total: int, each: int = 1, done: int = 0) -> list[str]:
    """The lines for steps done at these times, `each` at once, starting at second 100."""
    lines: list[str] = []
    with progress.Lines(lines.append, "mine", "file", total, done) as bar:
        for time in times:
            clock.append(time)
            bar.update(each)
    return lines


def test_a_line_after_three_seconds_and_then_every_fifteen(clock: list[float]) -> None:
    """500 of 3,000 took 3 s, so 2,500 take 15 s; 1,250 took 18 s, so 1,750 take 25.2 s."""
    assert said(clock, [102.9, 103.0, 110.0, 117.9, 118.0, 132.9], 3000, 250) == [
        "mine: 500 of 3,000 files, about 15 s left",
        "mine: 1,250 of 3,000 files, about 26 s left",
    ]


def test_what_is_quick_or_nearly_done_says_nothing(clock: list[float]) -> None:
    """Step 2 of 3 ends at 4 s: 2 s are left; the last step ends when nothing is left."""
    assert said(clock, [101.0, 104.0, 140.0], 3) == []
    assert said(clock, [143.0], 2) == ["mine: 1 of 2 files, about 3 s left"]


def test_each_step_is_counted_when_it_is_done(clock: list[float]) -> None:
    lines = list[str]()
    for _ in progress.counted("ab", progress.lines(lines.append, "mine", "file")):
        clock.append(clock[-1] + 4)
    assert lines == ["mine: 1 of 2 files, about 4 s left"]
    assert [*progress.counted("ab", None)] == ["a", "b"]


def test_time_left_is_that_of_what_this_run_does(clock: list[float]) -> None:
    """Of 100 steps 60 were done before; 2 of 40 took 30 s, so 38 take 570 s."""
    assert said(clock, [102.0, 130.0], 100, done=60) == ["mine: 62 of 100 files, about 10 min left"]


def test_requests_that_are_sent_at_once_show_their_speed_after_two_rounds(clock: list[float]) -> None:
    """After one of 458 answers 71 minutes were left; the run took one. 40 took 51 s, so 418 take 533 s."""
    lines: list[str] = []
    with progress.Lines(lines.append, "propose", "step", 458, at_once=20) as bar:
        for time in (109.0, *[110.0] * 19, 130.0, *[144.0] * 18, 151.0):
            clock.append(time)
            bar.update()
    assert lines == [
        "propose: 1 of 458 steps",
        "propose: 21 of 458 steps",
        "propose: 40 of 458 steps, about 9 min left",
    ]


@pytest.mark.parametrize(
    ("took", "left"), [(9, "90 s"), (9.875, "99 s"), (10, "2 min"), (594, "99 min"), (600, "2 h"), (10_801, "31 h")]
)
def test_time_left_is_rounded_up_to_what_one_reads(clock: list[float], took: float, left: str) -> None:
    """One of eleven steps took this long: ten times as much is left."""
    assert said(clock, [100 + took], 11) == [f"mine: 1 of 11 files, about {left} left"]


def test_what_counts_no_steps_says_that_it_is_at_work_until_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.01)
    monkeypatch.setattr(progress, "EVERY", 0.02)
    lines, thrice = list[str](), Event()

    def say(line: str) -> None:
        lines.append(line)
        if len(lines) == 3:
            thrice.set()

    with pytest.raises(ValueError), progress.at_work(say, "release"):
        assert thrice.wait(60)
        raise ValueError
    count = len(lines)
    assert set(lines) == {"release: at work for 1 s"}
    assert not Event().wait(0.2) and len(lines) == count  # no line after a command has ended, even with an error


def test_before_the_first_step_is_done_a_log_says_that_it_is_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """A single large file was read for 45 seconds without a line."""
    monkeypatch.setattr(progress, "PATIENCE", 0.01)
    lines, written = list[str](), Event()

    def say(line: str) -> None:
        lines.append(line)
        written.set()

    monkeypatch.setattr(progress, "EVERY", 0.02)
    with progress.Lines(say, "mine", "file", 1):
        assert written.wait(60)
    count = len(lines)
    assert not Event().wait(0.1) and lines == ["mine: at work for 1 s"] * count


def test_where_no_step_ends_for_long_a_log_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """`2 of 8 systems, about 10 s left` was the last line for minutes."""
    monkeypatch.setattr(progress, "PATIENCE", 0.01)
    monkeypatch.setattr(progress, "EVERY", 0.01)
    lines, written = list[str](), Event()

    def say(line: str) -> None:
        lines.append(line)
        if "of 8" in line:
            written.set()

    with progress.Lines(say, "scores", "system", 8) as bar:
        bar.update(2)
        assert written.wait(60)
    assert lines[-1] == "scores: 2 of 8 systems, at work for 1 s"


def test_of_two_only_the_inner_one_speaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """`at work for 4 min` and `at work for 24 s` stood side by side."""
    monkeypatch.setattr(progress, "PATIENCE", 0.01)
    monkeypatch.setattr(progress, "EVERY", 0.01)
    lines, inside, outside = list[str](), Event(), Event()

    def say(line: str) -> None:
        lines.append(line)
        (inside if line.startswith("inner") else outside).set()

    with progress.at_work(say, "outer"):
        with progress.at_work(say, "inner"):
            lines.clear()
            assert inside.wait(60)
        assert {line.partition(":")[0] for line in lines} == {"inner"}
        outside.clear()
        assert outside.wait(60)


def test_a_quick_command_says_nothing_of_it() -> None:
    lines = list[str]()
    with progress.at_work(lines.append, "status"):
        pass
    assert lines == []


def test_steps_that_flow_are_told_of_too_where_no_line_came(clock: list[float]) -> None:
    """A step that was done just after a look made the next look silent, for 40 seconds together."""
    lines: list[str] = []
    bar = progress.Lines(lines.append, "mine", "file", 9)
    assert bar._so_far() == ""
    bar.update()
    assert bar._so_far() == "1 of 9 files, "
    clock.append(104.0)
    bar.update()
    assert lines == []  # the look has said so within fifteen seconds
    begun = progress.Lines(lines.append, "mine", "file", 9)
    begun.update()
    assert begun._so_far() is None and begun._so_far() == "1 of 9 files, "  # it has just begun, and goes on


class Waits:
    """An Event that waits on a clock of its own; `meanwhile` happens during each wait, and then it is set."""

    def __init__(self, *meanwhile: Callable[[], object]) -> None:
        self.meanwhile, self.now = [*meanwhile], 100.0

    def wait(self, seconds: float) -> bool:
        self.now += seconds
        return not self.meanwhile or bool(self.meanwhile.pop(0)())

    def set(self) -> None: ...


def test_the_next_line_comes_fifteen_seconds_after_the_last_whoever_said_it(monkeypatch: pytest.MonkeyPatch) -> None:
    part, said = object(), list[tuple[float, str]]()
    waits = Waits(
        lambda: None,  # until 103
        lambda: progress._LAST.__setitem__(0, 110.0),  # until 118: a part spoke meanwhile
        lambda: progress._OPEN.append(part),  # until 125: a part is at work
        lambda: progress._OPEN.remove(part),  # until 126
    )
    monkeypatch.setattr(progress, "Event", lambda: waits)
    monkeypatch.setattr(progress, "perf_counter", lambda: waits.now)
    monkeypatch.setattr(progress, "_LAST", [0.0])
    with progress.at_work(lambda line: said.append((waits.now, line)), "run"):
        pass
    assert said == [(103.0, "run: at work for 3 s"), (126.0, "run: at work for 26 s")]
