"""What comes into a command is out or dropped."""

from saferec_builder.core.counts import Counts, many


def test_what_came_is_out_or_dropped() -> None:
    assert (Counts("mine", 2, 3).out, Counts("mine", 2, 3, {"torn": 4, "twice": 5}).came, Counts("").came) == (5, 14, 0)
    assert [many(n, "task waits", "tasks wait") for n in (1, 2_000)] == ["1 task waits", "2,000 tasks wait"]
