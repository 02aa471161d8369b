"""A day of reviewing: opt-outs that reach every tool, answers that are taken back, no work that is lost."""

from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from annotation import push as handing
from annotation.review_state import gather
from annotation.routing import Plan, found_units, revoked, route, texts
from saferec_builder.storage import tables, workspace as store
from tests.worlds import review_world
from tests.worlds.csv_rows import rows_of, save
from tests.worlds.pushes import ANN, DI, FILES, TWO, readers, rest
from tests.worlds.review_memory import Memory
from tests.worlds.reviewing import SEVERE
from tests.worlds.routing import MANY, NO_DISPUTES, conversations, proposals
from tests.worlds.settings import review_settings

review = review_world.review

pytestmark = pytest.mark.slow  # the whole pipeline, command by command


def test_a_wish_holds_for_what_another_reader_found(ws: store.Workspace, review: Any) -> None:
    """No proposal has needles: ann finds them in c1. Bo has c1 open and opts out of needles; di gets it instead."""
    review("push", *TWO, *FILES)
    rest(ws.root / "review" / "ann.csv", "needles", "blood")
    review("pull", *FILES, ws.root / "review" / "ann.csv")
    review("opt-out", "bo", "needles")
    assert review("push", *TWO, *DI, *FILES)["new"] == {"proposed": 1}
    assert readers(ws, "c1") == ["ann", "bo", "di"]
    assert not any("blood" in row["text"] for row in rows_of(ws.root / "review" / "bo.csv"))


def test_an_adjudicator_is_given_no_text_with_what_they_asked_not_to_see() -> None:
    """The dispute is about accidents; gore is only proposed and not disputed."""
    world = texts(conversations("c1", "c2"))
    claims = ("c1", "gore", "present"), ("c1", "accidents", "present")
    due = pl.DataFrame([("sensitivity", c, "accidents") for c in ("c1", "c2")], schema=NO_DISPUTES.schema, orient="row")
    plan, empty = Plan(adjudicator="cy", audit=0), tables.ASSIGNMENTS.empty
    assigned = route(world, proposals(*claims), empty, due, plan)
    assert sorted(assigned["subject"]) == ["c1", "c2"]
    avoid = frozenset({("cy", "gore")})
    assert route(world, proposals(*claims), empty, due, replace(plan, avoid=avoid))["subject"].to_list() == ["c2"]
    unread = tables.REVIEWS.empty.with_columns(out=pl.lit(None, pl.String))
    freed = revoked(assigned, found_units(proposals(*claims), unread, tables.GOLD.empty), due, unread, avoid)
    assert freed["subject"].to_list() == ["c1"]


def test_who_has_hard_tasks_only_gets_a_days_worth_every_day() -> None:
    """The cap of two in a row applies where other tasks wait; where none does, the daily cap of 30 applies."""
    world, claims = texts(conversations(*MANY[:70])), proposals(*((c, "torture", "present") for c in MANY[:70]))
    assigned, counts = tables.ASSIGNMENTS.empty, []
    for day in ("mon", "mon", "tue", "wed"):
        caps = {"severe": SEVERE, "severe_a_day": 30, "severe_in_a_row": 2}
        new = route(world, claims, assigned, NO_DISPUTES, Plan(("ann", "bo"), audit=0, batch=day, **caps))
        assigned = pl.concat([assigned, new])
        counts.append(new.height)
    assert counts == [60, 0, 60, 20]


def test_gold_goes_to_those_who_join_later_too() -> None:
    world, gold = texts(conversations("c1")), frozenset({("sensitivity", "c1")})
    first = route(world, proposals(), tables.ASSIGNMENTS.empty, NO_DISPUTES, Plan(("ann", "bo"), audit=0, gold=gold))
    later = route(world, proposals(), first, NO_DISPUTES, Plan(("bo", "di", "el"), audit=0, gold=gold))
    assert sorted(later["reviewer"]) == ["di", "el"]


def test_minutes_are_those_of_tasks_with_several_units(ws: store.Workspace, review: Any) -> None:
    """c1 has two claims. Ann needs 60 seconds for it, so 30 per unit: one minute is two units."""
    extra = tables.PROPOSALS.frame([review_world.claim("c1", "needles", "present", "blood")])
    store.append(ws, tables.PROPOSALS, extra)
    assert handing._units(gather(ws), 1) == 1  # nobody has answered: a minute each
    review("push", *ANN, *FILES)
    path = ws.root / "review" / "ann.csv"
    rest(path, "none")
    save(path, [row | {"seconds": "60"} for row in rows_of(path) if "blood" in row["text"]])
    review("pull", *FILES, path)
    assert handing._units(gather(ws), 1) == 2


def test_a_decoy_is_planted_only_where_its_reader_sees_it(ws: store.Workspace, review: Any, memory: Memory) -> None:
    """Tasks on a server are not sent again: nobody would see a decoy in them, and all would seem to reject it."""
    review("push", *TWO)
    review_settings(ws.root, decoys=0.5)
    review("push", *TWO)
    assert store.read(ws, tables.DECOYS).is_empty()


def test_a_push_says_what_waits_and_for_whom(ws: store.Workspace, review: Any) -> None:
    sent = review("push", *ANN, *FILES)
    assert (sent["new"], sent["still_to_assign"]) == ({"proposed": 2}, {"conversations": 2})
    assert sent["next"].startswith("2 lack some of their readers (2 each)")
    assert "still_to_assign" not in review("push", *TWO, *FILES)


def test_no_wish_is_passed_over(ws: store.Workspace, review: Any, cli: Any) -> None:
    """Two units for two people each: a minute each allows one for both, however large the budget is."""
    assert review("push", *TWO, "--budget", 100, "--minutes", 1, *FILES)["added"] == 1
    assert review("push", *TWO, "--budget", 2, "--minutes", 100, *FILES)["added"] == 2


def test_a_decoy_is_in_a_file_that_is_written_and_goes_with_an_opt_out_of_its_trait(ws, review) -> None:
    """Ann and bo have their files; a push that writes only that of di, who gets nothing, plants none: nobody can reject
    a decoy unseen."""
    review("push", *TWO, *FILES)
    review_settings(ws.root, decoys=0.5)
    review("push", *DI, *FILES)
    assert store.read(ws, tables.DECOYS).is_empty()
    review("push", *TWO, *FILES)
    (decoy,) = store.read(ws, tables.DECOYS).rows(named=True)
    path = ws.root / "review" / f"{decoy['reviewer']}.csv"
    assert decoy["trait"] in [row["trait"] for row in rows_of(path)]
    review("opt-out", decoy["reviewer"], decoy["trait"])
    review("push", *TWO, *FILES)
    assert decoy["trait"] not in [row["trait"] for row in rows_of(path)]


def test_what_is_asked_again_is_kept_from_who_would_rather_not_see_it(ws: store.Workspace, review: Any) -> None:
    """Both marked blood in c1 and finished it; then the word left the text. Bo opts out of gore. Di is asked about no
    trait by name, because no quote supports one any more: 1 row, the `*`."""
    review("push", *TWO, *FILES)
    for name in ("ann", "bo"):
        rest(ws.root / "review" / f"{name}.csv", "none")
    review("pull", *FILES, ws.root / "review")
    row = store.read(ws, tables.CONVERSATIONS).filter(conversation="c1")
    turns = [{"role": "seeker", "text": f"{review_world.TRICKY} I feel faint.", "items": []}]
    new = row.with_columns(digest=pl.lit("d2"), turns=pl.Series([turns], dtype=row.schema["turns"]))
    store.append(ws, tables.CONVERSATIONS, new)
    review("opt-out", "bo", "gore")
    result = review("push", *TWO, *DI, *FILES)
    assert (result["rows"], readers(ws, "c1")) == ({"ann": 2, "bo": 0, "di": 1}, ["ann", "bo", "di"])


def test_nobody_is_given_work_that_would_not_count(ws: store.Workspace, review: Any, cli: Any) -> None:
    review("push", *TWO, *FILES)
    files = review_world.Files(ws)
    files.answer("bo", lambda subject, asked: review_world.Verdict())
    review("pull", *FILES, files.folder / "bo.csv")
    review("set-aside", "bo", "--reason", "read nothing")
    for words in (TWO, ("--adjudicator", "bo")):
        run = cli("review", "push", *words, "--all", *FILES, "-C", ws.root)
        assert (run.code, run.err.count("\n")) == (1, 1)
    assert "bo: their work is set aside" in cli("review", "push", *TWO, *FILES, "-C", ws.root).err
