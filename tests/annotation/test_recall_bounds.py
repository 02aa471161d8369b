"""Bounds while people are still at it: what waits to be handed out is missed, and no bound is below the truth."""

from collections import Counter
from pathlib import Path

import polars as pl
import pytest

from annotation import recall_bounds as bounds
from annotation.routing import Plan, by_doubt, revoked, route, texts
from saferec_builder.core import taxonomy as traits
from saferec_builder.storage import tables
from tests.worlds import pushed_worlds as worlds
from tests.worlds.reviewing import SEVERE, TAXONOMY, TWO, answer, judged, no
from tests.worlds.routing import NO_DISPUTES, by_draw, conversations, designed, planned, proposals

IDS = [f"c{n}" for n in range(400)]
CLAIMED = IDS[:80]
TEXT = texts(conversations(*IDS))
PROPS = proposals(*((c, "torture", "present") for c in CLAIMED))
CLEAN = dict.fromkeys(TAXONOMY.slugs, "absent")
HELD_BACK = {  # 80 proposals, 10 of them for two people each; in all settings the draw is read to its end
    "budget": {"budget": 20},
    "caps": {"severe": SEVERE, "severe_a_day": 10},
    "opt-outs": {"avoid": frozenset({("bo", "torture")})},
    "nobody": {"avoid": frozenset({("ann", "torture"), ("bo", "torture")})},
}


def audits(*ids: str, why: str = "audit") -> pl.DataFrame:
    rows = [("sensitivity", c, "ann", "reviewer", "d", why, "b") for c in ids]
    return tables.ASSIGNMENTS.frame(rows)


def told(rows: pl.DataFrame, said: dict[str, dict], given: pl.DataFrame | None = None, **more) -> bounds.LabelBounds:
    """The bounds where all that is known, and nothing else, was given to somebody as an audit."""
    given, ids = audits(*said) if given is None else given, more.pop("current", IDS)
    return bounds.bounds(rows, ids, given, judged(**said), more.pop("gold", tables.GOLD.empty), TAXONOMY.slugs, **more)


def sent(plan: Plan, had: pl.DataFrame = tables.ASSIGNMENTS.empty) -> pl.DataFrame:
    return pl.concat([had, route(TEXT, PROPS, had, NO_DISPUTES, planned(plan, designed(TEXT, PROPS, plan)))])


def read(given: pl.DataFrame) -> dict[str, dict]:
    """What two people say who have read what they were given: every claim is right, and nothing else is there."""
    both = [c for c, n in Counter(given["subject"]).items() if n > 1]
    return {c: CLEAN | ({"torture": "present"} if c in CLAIMED else {}) for c in both}


@pytest.mark.parametrize("reason", HELD_BACK)
def test_what_is_proposed_and_held_back_counts_as_missed(reason: str):
    """No audit can come to it: it was taken for as clean as the rest, of which 32 or so were read."""
    audits = sent(Plan(("ann", "bo"), audit=0.1)).filter(why="audit")
    plan = Plan(("ann", "bo"), audit=0.1, **HELD_BACK[reason])
    given = sent(plan, audits)
    found = told(designed(TEXT, PROPS, plan), read(given), given)
    done = len({*read(given)} & {*CLAIMED})
    assert done == (10 if reason in ("budget", "caps") else 0)
    torture = found.traits["torture"]
    assert (torture.zone, torture.found, torture.open) == (320, done, 80 - done)
    assert torture.audited == audits["subject"].n_unique() > 20 and found.pooled.open == 80 - done
    assert torture.share is None or torture.share >= torture.open / 80
    unassigned = 80 - given.filter(pl.col("subject").is_in(CLAIMED))["subject"].n_unique()
    assert found.unassigned == unassigned == {"opt-outs": 0, "nobody": 80}.get(reason, 70)
    waits = f"{unassigned} of them wait to be assigned: `review push`"
    assert (waits in (bounds.lowers_most(found) or "")) == (unassigned > 0)
    assert WAITS in bounds.words(torture)


def test_what_was_handed_back_counts_as_missed_until_somebody_else_has_read_it():
    plan = Plan(("ann", "bo"), audit=0.1)
    given = sent(plan)
    bos = given.filter(reviewer="bo", why="proposed").head(30)
    rows = [dict.fromkeys(tables.REVIEWS.columns) | row for row in bos.select("kind", "subject", "reviewer").to_dicts()]
    reviews = tables.REVIEWS.frame(rows).with_columns(
        trait=pl.lit("*"), role=pl.lit("reviewer"), out=pl.lit(tables.HANDED_BACK)
    )
    back = revoked(given, PROPS, NO_DISPUTES, reviews, frozenset())
    assert back.height == 30
    kept = given.join(back, on=["kind", "subject", "reviewer"], how="anti")
    found = told(designed(TEXT, PROPS, plan), read(kept), given).traits["torture"]
    assert (found.zone, found.found, found.open) == (320, 50, 30)


def test_gold_and_orders_that_nobody_was_given_are_open_too():
    plan = Plan(gold=frozenset({("sensitivity", "c100")}), orders=frozenset({("sensitivity", "c101")}))
    found = told(designed(TEXT, PROPS, plan), {})
    assert (found.pooled.zone, found.pooled.open, found.unassigned) == (318, 82, 82)


def test_what_has_no_place_in_the_design_is_open_and_it_is_said():
    """A workspace of an earlier program, or what was mined since: of 400 two are known, and one of these is found."""
    found = told(tables.DESIGN.empty, {"c0": CLEAN | {"torture": "present"}, "c1": CLEAN})
    assert (found.undrawn, found.pooled.open, found.pooled.found, found.pooled.share) == (400, 398, 1, 398 / 399)
    assert "400 conversations were mined since the last push" in (bounds.lowers_most(found) or "")


@pytest.mark.slow
def test_the_commands_say_what_waits_to_be_handed_out(ws, review, adjudicate):
    """Two proposals, and a budget for one; of the two others one is drawn. Everything that was given is read."""
    review("push", *TWO, "--all", "--budget", 2)
    answer(ws, review)
    missed = adjudicate()["missed_of_all"]
    assert (missed["open"], missed["zone"], missed["found"]) == (1, 2, 1)
    assert "1 of them wait to be assigned: `review push`" in review("status")["next"]
    review("push", *TWO, "--all")
    answer(ws, review, lambda row: None if row["verdict"] else no(row))
    missed = adjudicate()["missed_of_all"]
    assert (missed["open"], missed["audited"], missed["zone"]) == (0, 2, 2)


# ---- worlds with known truth


@pytest.mark.parametrize("setting", worlds.SETTINGS)
def test_no_bound_is_below_the_truth_at_any_look(setting: str):
    """A right bound errs in at most 5 % of worlds; before, the one of all sensitivities was too low in each of them."""
    wrong = [worlds.wrong(list(worlds.campaign(worlds.world(seed, 500), setting, 3, seed))) for seed in range(2)]
    assert not any(bounds.POOLED in those for those in wrong)
    assert sum(map(len, wrong)) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("setting", worlds.SETTINGS)
def test_few_bounds_are_below_the_truth_at_any_look(setting: str):
    # of 5 worlds at 5 %: 3 or more have a chance of 0.1 %; `make bench ONLY=pushes` runs 60
    counts: Counter[str] = Counter()
    for seed in range(100, 105):
        counts.update(worlds.wrong(list(worlds.campaign(worlds.world(seed), setting, 6, seed))))
    assert max(counts.values(), default=0) <= 2


@pytest.mark.slow
@pytest.mark.parametrize("setting", worlds.SETTINGS)
def test_what_adjudicate_prints_is_not_below_the_truth(setting: str, tmp_path: Path):
    looks = list(worlds.commanded(worlds.world(7), tmp_path / "ws", setting, 4, 7))
    assert bounds.POOLED not in worlds.wrong(looks) and len(worlds.wrong(looks)) <= 1
    assert looks[-1].at_most[bounds.POOLED] is not None


def test_the_traits_of_the_worlds_are_those_of_the_default_list():
    assert {*worlds.SLUGS} <= {*traits.load().slugs} and len(worlds.SEVERE) == 3


WAITS = "proposed or drawn have no sure label of it yet"


def world(present: int, audited: int, zone: int) -> tuple[pl.DataFrame, list[str], dict[str, dict[str, str | None]]]:
    """Some proposed conversations, all with gore, and a zone of which some were audited and found clean."""
    ids, props = [f"p{n}" for n in range(present)], proposals(*((f"p{n}", "gore", "present") for n in range(present)))
    zone_ = [f"z{n}" for n in range(zone)]
    rows = designed(texts(conversations(*ids, *zone_)), props, Plan())
    said = {c: CLEAN | {"gore": "present"} for c in ids} | {
        c: dict(CLEAN) for c in sorted(zone_, key=by_draw)[:audited]
    }
    return rows, ids + zone_, said


def test_a_clean_audit_certifies_and_an_open_one_does_not():
    rows, ids, said = world(200, 700, 1_500)
    found = told(rows, said, current=ids)
    gore = found.traits["gore"]
    assert gore.within and found.pooled.within and found.together == ["gore"]
    assert (gore.found, gore.zone, gore.audited) == (200, 1_500, 700)
    assert found.traits["needles"].share is None  # nobody has needles: no share of nothing
    # 700 of 1,500 audited: six would all be among the other 800 with a chance of .53^6 = .02
    assert bounds.words(found.traits["needles"]) == "none found, in 5 conversations at most"
    rows_, ids_, said_ = world(0, 700, 1_500)
    assert bounds.of_items(told(rows_, said_, current=ids_)) == {bounds.ANY_FLAG: "none found, in 5 items at most"}
    for c in [c for c in said if c.startswith("z")][:60]:
        said[c]["gore"] = None  # read, and nobody agreed
    open_ = told(rows, said, current=ids)
    assert not open_.traits["gore"].within
    assert f"60 {WAITS}" in bounds.words(open_.traits["gore"])  # no more reading helps
    assert "60 conversations" in (bounds.lowers_most(open_) or "")


def test_holes_and_what_is_unread_or_unsure_count_as_missed():
    # all 100 drawn, 10 of them open: the ten may all be missed, beside 40 found
    rows, ids, said = world(40, 100, 100)
    for c in [c for c in said if c.startswith("z")][:10]:
        said[c]["gore"] = None
    all_drawn = told(rows, said, current=ids)
    assert all_drawn.traits["gore"].share == all_drawn.pooled.share == 10 / 50
    # 100 found and 20 on which two people agreed that they are unsure: 20 of 120 may be missed
    rows, ids, said = world(120, 500, 500)
    for n in range(20):
        said[f"p{n}"]["gore"] = "unsure"
    found = told(rows, said, current=ids)
    assert found.traits["gore"].open == found.pooled.open == 20
    assert found.traits["gore"].share == found.pooled.share == 20 / 120
    assert bounds.words(found.traits["gore"]) == f"<= 16.7 % (20 {WAITS})"


def test_of_any_trait_fewer_wait_than_of_one_and_the_words_say_why():
    """13 of one trait, 7 of any, in the same words: where another trait is found, nothing of `any` waits."""
    rows, ids, said = world(40, 100, 100)
    for n in range(13):
        said[f"p{n}"] |= {"needles": None, "gore": "present" if n < 6 else None}
    found = told(rows, said, current=ids)
    needles, pooled = found.traits["needles"], found.pooled
    assert (needles.open, pooled.open) == (13, 7)
    assert f"13 {WAITS}" in bounds.words(needles)
    why = "7 proposed or drawn may hold one, as none is found and not all is sure yet"
    assert bounds.words(pooled) == f"<= 17.5 % ({why})"  # 33 are found
    assert (bounds.lowers_most(found) or "").startswith(why.replace("proposed", "conversations proposed", 1))


def test_gold_is_told_apart_from_the_audit():
    rows, ids, said = world(20, 50, 100)
    known = [("sensitivity", "p0", ["gore"]), ("sensitivity", "p1", ["gore", "needles"])]
    gold = tables.GOLD.frame(known)
    found = told(rows, said, current=ids, gold=gold)
    # gore in p0 and p1 found, needles in p1 missed; in neither an absent one is invented
    assert (found.gold["units_present"], found.gold["missed"], found.gold["units_absent"]) == (2, 1, 2)
    assert found.gold["missed_at_most"] == pytest.approx(bounds.certificates.rate(1, 2))


def test_errors_on_gold_count_by_conversation_as_they_come_together():
    """30 gold conversations with 4 traits each, of which a careless reading misses all or none: one text is one chance.
    Over single traits (24 of 120) the bound would be .34 and not .48, as if four times as much had been read."""
    traits = ["gore", "needles", "torture", "spiders"]
    gold = tables.GOLD.frame([("sensitivity", f"g{n}", traits) for n in range(30)])
    careless = {f"g{n}": dict.fromkeys(traits, "absent" if n < 6 else "present") for n in range(30)}
    found = bounds._on_gold(careless, gold, tuple(traits))
    assert (found["units_present"], found["missed"]) == (30, 6)
    assert found["missed_at_most"] == pytest.approx(bounds.certificates.rate(6, 30))
    assert (bounds.certificates.rate(24, 120), found["missed_at_most"]) == pytest.approx((0.338, 0.475), abs=1e-3)


def test_a_band_is_advised_where_scores_tell_something():
    ids = [f"c{n}" for n in range(2_000)]
    sure = pl.Series([0.6 if n < 40 else 0.9999 for n in range(2_000)])
    props = proposals(*((c, "gore", "absent") for c in ids)).with_columns(confidence=sure)
    size = bounds.band(props, ids, 150)
    assert 20 <= size <= 60
    assert bounds.band(props.head(0), ids, 150) == 0
    ranked = [subject for (_, subject), _ in by_doubt(props, ())]
    assert {*ranked[:40]} == {*ids[:40]}
    # after the first 40 nothing is worth it; after 30 others no more than the 10 that are left of these
    assert bounds.band(props, ranked[40:], 190) == 0
    assert 0 < bounds.band(props, ranked[30:], 180) <= 40
    assert bounds.band(props, [], 150) == 0  # all have their places
