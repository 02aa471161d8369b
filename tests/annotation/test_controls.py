"""Blind controls: which tasks come back to whom, how they were read, and what that says about the truth."""

import polars as pl
import pytest

from annotation import controls
from annotation.controls import Blind, blind_misses, breaks_at, of_the_truth, plant, readings, words
from annotation.gold_and_decoys import shown
from annotation.routing import Plan, texts, units
from saferec_builder.storage import tables
from tests.worlds import blind_worlds as worlds
from tests.worlds.routing import NO_DISPUTES, conversations, proposals

MANY = [f"c{n}" for n in range(40)]
FOUND = MANY[:10]  # ann and bo found needles there, and nothing had suggested it
NONE = tables.DECOYS.empty


def frame(columns: str, *rows: tuple[object, ...]) -> pl.DataFrame:
    filled = pl.DataFrame([("sensitivity", *row) for row in rows], schema=["kind", *columns.split()], orient="row")
    return filled.with_columns(pl.col(pl.Null).cast(pl.String))


def labels(*rows: tuple[str, str, str, str | None]) -> pl.DataFrame:
    return frame("subject trait method verdict", *rows)


def given(why: str, *who: tuple[str, str]) -> pl.DataFrame:
    rows = [("sensitivity", subject, reviewer, "reviewer", f"d-{subject}", why, "mon") for subject, reviewer in who]
    return tables.ASSIGNMENTS.frame(rows)


BEFORE = given("audit", *((c, name) for c in FOUND for name in ("ann", "bo")))
NEEDLES = frame("subject trait", *((c, "needles") for c in FOUND))


def planted(share: float = 0.2, found: pl.DataFrame = NEEDLES, new: pl.DataFrame | None = None, **plan) -> pl.DataFrame:
    """Returns a push of 30 conversations to ann, bo and di, with controls."""
    all_texts = texts(conversations(*MANY))
    new = given("proposed", *((c, name) for c in MANY[10:] for name in ("ann", "bo", "di"))) if new is None else new
    return plant(new, BEFORE, found, all_texts, Plan(("ann", "bo", "di"), **plan), share)


def test_only_what_people_found_by_themselves_comes_back():
    judged = labels(
        *[("c1", "needles", "agreed", "present"), ("c2", "needles", "adjudicated", "present")],
        *[("c3", "needles", "agreed", "present"), ("c4", "needles", "agreed", "present")],  # a claim, a decoy
        *[("c5", "needles", "auto", "present"), ("c6", "needles", "agreed", "absent")],
        ("c7", "gore", "unresolved", None),
    )
    claimed = proposals(("c3", "needles", "unsure"), ("c1", "gore", "present"))
    decoys = frame("subject reviewer trait", ("c4", "ann", "needles")).with_columns(spans=None).cast(NONE.schema)
    assert controls.supply(judged, claimed, decoys)["subject"].to_list() == ["c1", "c2"]


def test_controls_are_a_share_of_what_a_reviewer_has_and_lie_among_it():
    assigned = planted()
    # di has 30 tasks, so 7 of 37 are at most a fifth, and 8 of 38 are more; ann and bo found all controls themselves
    assert assigned.filter(why="control")["reviewer"].to_list() == ["di"] * 7
    places = assigned.filter(reviewer="di").with_row_index().filter(why="control")["index"].to_list()
    assert places[0] < 20 and places[-1] < 37 and places != list(range(30, 37))
    # there are only ten such conversations, and a push with five other tasks gets five
    assert planted(0.5).filter(why="control").height == 10
    few = given("proposed", *((c, "di") for c in MANY[10:15]))
    assert planted(0.5, new=few).filter(why="control").height == 5
    assert planted(0.5, new=few.clear()).is_empty()  # alone they would be noticed


def test_nobody_gets_a_control_that_they_know_or_may_not_see():
    def subjects(**plan) -> set[str]:
        return set(planted(0.5, **plan).filter(why="control")["subject"])

    known = frozenset(("sensitivity", c, "needles") for c in FOUND)
    assert subjects(known=known) == {*FOUND}
    assert subjects(known=known, avoid=frozenset({("di", "needles")})) == set()
    assert subjects(known=known | {("sensitivity", "c0", "gore")}, severe=frozenset({"gore"})) == {*FOUND[1:]}
    assert subjects(known=known, gold=frozenset({("sensitivity", "c0")})) == {*FOUND[1:]}


def test_a_control_looks_like_an_audit():
    ids = ("c1", "c2", "c3")
    text, claims = texts(conversations(*ids)), proposals(*((c, "gore", "present") for c in ids))
    tasks = [given("audit", ("c1", "di")), given("control", ("c2", "di")), given("held_back", ("c3", "di"))]
    reviews = tables.REVIEWS.empty.with_columns(out=pl.lit(None, pl.String))
    no_disputes = NO_DISPUTES.with_columns(said=pl.lit(None, pl.List(pl.String)))
    rows = units(pl.concat(tasks), text, claims, reviews, no_disputes, shown(NONE))
    assert rows["trait"].to_list() == ["*"] * 3
    assert rows.drop("subject", "digest", "why").unique().height == 1


def test_gold_that_is_warned_of_tells_nothing_of_the_truth():
    gold = [("sensitivity", "c1", ["gore", "needles"]), ("sensitivity", "c2", ["needles"])]
    gold = pl.DataFrame(gold, schema=tables.GOLD.schema, orient="row")
    rows = [(c, "ann", "reviewer", trait, "absent") for c in ("c1", "c2") for trait in ("gore", "needles")]
    votes = frame("subject reviewer role trait verdict", *rows)
    tasks, claims = given("gold", ("c1", "ann"), ("c2", "ann")), proposals()
    blind_readings = readings(tasks, votes, labels(), gold, claims, NONE, severe=["gore"])
    assert blind_readings.select("subject", "missed", "by_people").rows() == [("c1", True, False), ("c2", True, True)]


def test_who_corrects_an_answer_has_read_it_blind_all_the_same():
    """A missed control that was corrected after a talk no longer counted as missed: the bound on the truth fell."""
    gold = pl.DataFrame([("sensitivity", c, ["gore"]) for c in MANY[:5]], schema=tables.GOLD.schema, orient="row")
    answers = {  # the answers in order; `*` means absent
        "c0": [("*", "absent")],
        "c1": [("*", "absent"), ("gore", "present"), ("*", "absent")],
        "c2": [("gore", "present"), ("*", "absent")],
        "c3": [("gore", "present"), ("*", "absent"), ("gore", "absent")],
        "c4": [("gore", "unsure"), ("*", "absent"), ("gore", "present")],
    }
    rows = [(c, "ann", "reviewer", t, v, "d", "t1") for c, verdicts in answers.items() for t, v in verdicts]
    last = {c: [v for t, v in verdicts if t == "gore"][-1:] or ["absent"] for c, verdicts in answers.items()}
    votes = frame("subject reviewer role trait verdict", *((c, "ann", "reviewer", "gore", *v) for c, v in last.items()))
    tasks = given("gold", *((c, "ann") for c in answers))

    def missed(*more: tuple[str, ...]) -> list[bool]:
        history = frame("subject reviewer role trait verdict digest taxonomy", *rows, *more)
        return readings(tasks, votes, labels(), gold, proposals(), NONE, reviews=history)["missed"].to_list()

    assert missed() == [True, True, False, False, False]
    newer = [(*row[:5], "e", "t1") for row in rows if row[0] == "c1"][1:]  # the text has changed; c1 was read again
    assert missed(*newer) == [True, False, False, False, False]


def test_a_control_is_no_vote():
    votes = frame("subject reviewer trait", ("c1", "ann", "needles"), ("c1", "di", "needles"), ("c2", "di", "needles"))
    counted = controls.label_votes(votes, pl.concat([BEFORE, given("control", ("c1", "di"))]))
    assert counted.select("subject", "reviewer").rows() == [("c1", "ann"), ("c2", "di")]


def test_each_conversation_is_read_once_by_one_sensitivity():
    """Claimed gold shows who clicks through, but not who pastes the answer of the model that claimed it."""
    tasks = [given("gold", ("c1", "ann"), ("c2", "ann")), given("held_back", ("c3", "ann"), ("c4", "ann"))]
    tasks += [given("control", ("c5", "ann")), given("proposed", ("c6", "ann"))]
    gold_traits = {"c1": ["gore", "needles"], "c2": ["gore"], "c6": ["gore"]}
    gold = tables.GOLD.frame([("sensitivity", subject, slugs) for subject, slugs in gold_traits.items()])
    claims = proposals(*((c, "gore", "present") for c in ("c1", "c2", "c3", "c4")))
    judged = labels(("c3", "gore", "adjudicated", "present"), ("c5", "needles", "agreed", "present"))
    judged = pl.concat([judged, labels(("c4", "gore", "agreed", "absent"))])
    rows = [(c, "ann", "reviewer", t, "absent") for c in ("c1", "c2", "c3", "c4", "c6") for t in ("gore", "needles")]
    votes = frame("subject reviewer role trait verdict", *rows, ("c5", "ann", "reviewer", "needles", "unsure"))
    blind_readings = readings(pl.concat(tasks), votes, judged, gold, claims, NONE)
    # c1 by the unclaimed trait, c2 by the claim, c3's label says so, c4's does not, c5 is unsure, c6 was suggested
    expected = [("c1", "needles", True, True), ("c2", "gore", True, False), ("c3", "gore", True, False)]
    expected += [("c5", "needles", False, True)]
    assert blind_readings.select("subject", "trait", "missed", "by_people").rows() == expected


def read_by(*rows: tuple[str, str, bool]) -> pl.DataFrame:
    columns = ["subject", "reviewer", "missed"]
    return pl.DataFrame(rows, schema=columns, orient="row").with_columns(trait=pl.lit("gore"), by_people=True)


def test_what_two_readers_miss_is_counted_by_conversation():
    two_readers = read_by(
        ("c1", "ann", True), ("c1", "bo", True), ("c2", "ann", True), ("c2", "bo", False), ("c3", "di", True)
    )
    assert blind_misses(two_readers) == Blind(3, 2, None)  # c1 by both, c3 by its only reader; 3 are too few to tell
    three_readers = pl.concat([two_readers, read_by(("c1", "di", False), ("c4", "ann", False), ("c4", "di", False))])
    assert blind_misses(three_readers) == Blind(4, 2, None)  # two make a label: what only a third finds is missed
    # two of three readers make a label: of two readers, none found c1 and one found c2; a third may find it or not;
    # c3 has one reader, which tells nothing
    assert blind_misses(two_readers, readers=3) == Blind(2, 2, None)
    # only di found c1, so two of three missed it; nobody missed c4
    assert blind_misses(three_readers, readers=3) == Blind(3, 2, None)
    assert blind_misses(three_readers, readers=1) == Blind(4, 3, None)  # by the first reader alone: c1, c2, c3
    many = blind_misses(read_by(*((f"c{n}", name, n == 0) for n in range(20) for name in ("ann", "bo"))))
    # 1 of 20 with a chance of 2.5 % to be wrong at any look: 35.7 %
    assert (many.read, many.missed, many.rate) == (20, 1, pytest.approx(0.357, abs=0.001))


def test_the_share_of_the_truth():
    # of 100 present ones two readers would find at least 90, and the labels hold 96 % of those: 86.4
    blind = Blind(60, 2, 0.1)
    assert of_the_truth(0.04, blind) == pytest.approx(1 - 0.96 * 0.9)
    factor = breaks_at(0.04, blind)
    assert factor == pytest.approx((1 - 0.8 / 0.96) / 0.1)  # 1.67: then 1 - 0.96 * 0.8333 = 0.2 are missed
    assert words(0.04, blind) == (
        "<= 13.6 % relative to the truth, as far as missed ones are no harder than the blind controls"
        " (20 % up to 1.6 times as hard)"  # at 1.7 times, 1 - 0.96 * 0.83 = 20.3 %
    )
    text = words(0.04, Blind(19, 0, None))
    assert text == "not known (19 of 20 blind controls that nothing ever suggested are read)"
    assert breaks_at(0.3, blind) == breaks_at(1.0, blind) == 0 and of_the_truth(None, blind) is None


@pytest.mark.slow
@pytest.mark.parametrize("harder", [1, 2, 5])
def test_the_bound_on_the_truth_holds_as_far_as_it_says(harder):
    # at every look of each world; of 20 worlds one may be wrong, P(2 or more | 20, 0.05) = 0.26, and none is seen
    looks = [list(worlds.looks(seed, harder)) for seed in range(20)]
    assert sum(not all(look.covers(harder) for look in looks_of_world) for looks_of_world in looks) <= 1
    assert all(look.blind.rate is not None for looks_of_world in looks for look in looks_of_world[1:])


@pytest.mark.parametrize(("reader", "flagged"), [(worlds.PASTES, 1), (worlds.CLICKS, 1), (worlds.HONEST, 0)])
def test_twenty_controls_tell_who_reads(reader, flagged):
    # 200 readers: pasters miss 19 of 20, and 15 are enough, P(X < 15 | 20, 0.95) = 0.0003; honest ones 0.0025 at most
    flags = [worlds.ever_flagged(reader, seed) for seed in range(200)]
    assert abs(sum(flags) - 200 * flagged) <= 2
