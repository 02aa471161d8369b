"""Lists of answers: safe for this person, filled by co-occurrence and popularity, short rather than unsafe."""

import numpy as np
import polars as pl

from exports import target_lists as targets
from saferec_builder import catalog
from saferec_builder.core import oracle as violations
from tests.worlds import release_world as world
from tests.worlds.release_rows import learn, letters, only
from tests.worlds.release_world import conversation, film, label


def test_a_safe_list_holds_only_what_is_clear_for_this_person():
    talk = conversation("c", "I faint at blood", f"Try {film('A')}, {film('D')} or {film('L')}", "ok", accepted="ADL")
    row = only([talk], [label(talk, quote="faint")])
    # A is violated, L unknown: one of three stays, four are added, by id; the raw list keeps all three
    safe, raw = ("".join(sorted(others, key=world.item)) for others in ("EFGHIJK", "BCEFGHIJK"))
    assert (letters(row["safe"]), row["safe_refilled"]) == (f"D{safe[:4]}", 4)
    assert (letters(row["raw"]), row["raw_refilled"], row["answer_domain"]) == (f"ADL{raw[:2]}", 2, "film")
    assert letters(row["safe_truth"]) == "D"


def test_a_trait_in_dispute_filters_the_targets_but_is_no_trait():
    talk = conversation("c", "I faint at blood", f"Try {film('A')} or {film('D')}", "ok", accepted="AD")
    said = [label(talk, quote="faint"), label(talk, "needles", verdict=None, reviews=["r"])]
    row = only([talk], said, voiced=["r"])
    # nobody was ever asked about needles, so all is unknown: the list stays short rather than unsafe
    assert (row["traits"], row["safe"], row["safe_refilled"]) == (["gore"], [], 0)
    # the truth to score against is filtered only by traits with the verdict `present`
    assert letters(row["safe_truth"]) == "D"


def test_lists_are_filled_by_company_then_popularity_of_the_training_split():
    rows = [
        conversation("a", "Hi", f"Try {film('D')} and {film('K')}", "ok", day=0),
        conversation("b", "Hi", f"Try {film('D')} and {film('K')}", "ok", day=1),
        conversation("d", "Hi", f"Try {film('D')} and {film('J')}", "ok", day=2),
        *(conversation(f"e{n}", "Hi", f"Try {film('I')}", "ok", day=3) for n in range(5)),
        conversation("v", f"I saw {film('I')}", f"Try {film('D')}", "ok", day=8),  # validation
        conversation("t", "Hi", f"Try {film('D')} and {film('H')}", "ok", day=9),  # test: H was never with D in train
    ]
    learned, _ = learn(rows)
    lists = dict(learned.select("conversation", "raw").iter_rows())
    # K occurs twice with D, J once; then popularity: I (5). H of the test split does not count: the rest is by id
    assert letters(lists["t"]) == "DHKJI"
    by_id = "".join(sorted("ABCEFGH", key=world.item))  # neither I, which was seen, nor L of popularity 0 comes before
    assert letters(lists["v"]) == f"DKJ{by_id[:2]}"


def bared(rows):
    """The rows without the columns of their lists."""
    return rows.drop("answer_domain", "safe", "safe_refilled", "raw", "raw_refilled", "safe_truth")


def test_items_of_another_domain_do_not_fill_a_list():
    domain = pl.when(source_id="E").then(pl.lit("game")).otherwise("domain")
    items, _ = catalog.merge(world.catalog().with_columns(domain=domain))
    rows, _ = learn([conversation("c", "Hi", f"Try {film('D')}", "ok")])
    unfilled = bared(rows)
    oracle = violations.oracle(items["item"].to_list(), ["gore"], np.ones((12, 1), np.int8))
    filled = targets.fill(unfilled, targets.candidates(unfilled, items, oracle), 12).row(0, named=True)
    assert len(filled["raw"]) == 11 and "E" not in letters(filled["raw"])


def test_what_is_remembered_of_each_kind_of_person_does_not_grow_with_the_catalog(monkeypatch):
    """Lists are the same whether one popular item is remembered or all: a list that needs more searches again."""
    talk = (f"I saw {film('L')} and {film('K')}", f"Try {film('D')}", "ok")
    rows = [conversation(f"c{n}", *talk, day=n) for n in range(4)]
    items, _ = catalog.merge(world.catalog())
    oracle = violations.oracle(items["item"].to_list(), ["gore", "needles"], np.ones((12, 2), np.int8))
    filled, _ = learn(rows)
    risks = pl.Series("at_risk", [[], ["gore"], ["needles"], ["gore", "needles"]])
    unfilled = bared(filled).with_columns(risks)
    expected = targets.fill(unfilled, targets.candidates(unfilled, items, oracle), 12)
    assert expected["safe"].list.len().to_list() == [10] * 4  # all but K and L, which were seen
    monkeypatch.setattr(targets, "_FEW", 1)
    shelf = targets.candidates(unfilled, items, oracle)
    assert targets.fill(unfilled, shelf, 12).equals(expected)
    assert {len(fits) for fits in shelf.fit.values()} == {1} and len(shelf.fit) == 4
