"""Which conversations are in train, validation and test."""

from datetime import date

import polars as pl

from saferec_builder.mining import splits
from saferec_builder.storage import config
from tests.worlds.release_rows import split
from tests.worlds.release_world import conversation, conversations


def test_the_latest_requests_are_the_test():
    # 10 days, 20 % test and 20 % validation: days 8, 9 test; 6, 7 validation
    names = split([conversation(f"c{n}", "hi", day=n) for n in range(10)], validation=0.2, test=0.2)["split"].to_list()
    assert names == ["train"] * 6 + ["validation"] * 2 + ["test"] * 2


def test_dates_replace_the_shares():
    rows = [conversation(f"c{n}", "hi", day=n) for n in range(10)]  # day 0 is 2024-01-01
    names = split(rows, validation_from=date(2024, 1, 5), test_from=date(2024, 1, 8))["split"].to_list()
    assert names == ["train"] * 4 + ["validation"] * 3 + ["test"] * 3


def test_without_times_a_seeker_stays_together_and_nobody_moves_when_rows_come():
    rows = [conversation(f"c{n}", "hi", day=None, seeker=f"p{n // 2}") for n in range(400)]
    assigned = split(rows)
    names = assigned["split"].to_list()
    assert names[0::2] == names[1::2] and not assigned["straddles"].any()
    extended = split([*rows, *(conversation(f"d{n}", "hi", day=None, seeker=f"q{n}") for n in range(50))])
    assert extended["split"].to_list()[:400] == names
    # 200 seekers at 10 % each: 20 expected, standard deviation 4.2
    assert all(7 <= names[0::2].count(s) <= 33 for s in ("validation", "test"))


def test_without_times_and_people_those_who_name_one_work_first_stay_together():
    rows = [conversation(f"c{n}", "hi", day=None, seeker="ann" if n > 398 else None) for n in range(400)]
    frame = conversations(*rows).with_columns(seed=pl.Series([f"film {n // 2}" for n in range(400)]))
    names = splits.assign(frame, config.Splits())["split"].to_list()
    assert names[0:398:2] == names[1:398:2]
    assert all(7 <= names[0::2].count(s) <= 33 for s in ("validation", "test"))  # as of 200 seekers
    assert splits.rule(frame) == "seeker hash, else that of the first work named"


def test_who_was_released_keeps_their_split_and_anybody_else_the_latest():
    """10 days, 20 % test: days 8 and 9. Ann, Bo and a cluster of near-duplicates are on both sides of the cut."""
    seekers = {0: "ann", 9: "ann", 2: "bo", 8: "bo"}
    frame = conversations(*(conversation(f"c{n}", "hi", day=n, seeker=seekers.get(n)) for n in range(10)))
    clusters = frame.with_columns(cluster=pl.Series([None, "same", *[None] * 7, "same"]))

    def left(released: list[int]) -> list[str]:
        names = pl.Series([f"c{n}" for n in released], dtype=pl.String)
        split = splits.assign(clusters.with_columns(earlier=pl.col("conversation").is_in(names.implode())), shares)
        return split.filter("straddles")["conversation"].to_list()

    shares = config.Splits(validation=0.01, test=0.2)  # of ten rows none is in validation
    assert left([]) == ["c0", "c1", "c2"]  # ann's c0 and the duplicate c1 are left out for c9, bo's c2 for c8
    assert left([0, 1]) == ["c2", "c9"]  # released in train: the later ones are left out
    assert left([0, 9]) == ["c0", "c1", "c2"]  # both were released, as no release does: the latest stays
    # c9 is ann's, who was released in train, and in the cluster of c1, which was not: neither may be kept with it
    assert left([0]) == ["c1", "c2", "c9"]
    assert splits.assign(clusters, shares).filter("straddles")["conversation"].to_list() == ["c0", "c1", "c2"]


def test_the_rule_is_said_in_words():
    timed, timeless = conversation("c1", "hi", day=1), conversation("c2", "hi", day=None, source="redial")
    assert splits.rule(conversations(timed)) == "time"
    assert splits.rule(conversations(timeless)) == "seeker hash"
    assert "redial" in splits.rule(conversations(timed, timeless))
