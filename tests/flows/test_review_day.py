"""A day of reviewing: opt-outs that reach every tool, answers that are taken back, no work that is lost."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from annotation import push as handing
from annotation.review_state import gather
from annotation.routing import Plan, found_units, revoked, route, texts
from annotation.tools.task_conversion import READ, Response
from saferec_builder.storage import tables, workspace as store
from tests.worlds import review_world
from tests.worlds.csv_rows import edit, rows_of, save
from tests.worlds.review_memory import Memory
from tests.worlds.review_team import ANN, BO, DI, FILES, TWO, given, rest
from tests.worlds.review_world import Verdict, taxonomy
from tests.worlds.reviewing import SEVERE
from tests.worlds.routing import MANY, NO_DISPUTES, conversations, proposals
from tests.worlds.settings import review_settings

review = review_world.review

pytestmark = pytest.mark.slow  # the whole pipeline, command by command


def tasks(memory: Memory, name: str) -> list[dict[str, Any]]:
    return [task for _, task, reviewer in memory.held.values() if reviewer == name]


def test_an_opt_out_reaches_the_server_also_where_others_are_named(review: Any, memory: Memory) -> None:
    review("push", *TWO)
    review("opt-out", "ann", "gore")
    sent = review("push", *BO, *DI)
    assert (sent["new"], sent["sent"]["ann"]) == ({"proposed": 1}, {"taken_back": 1})
    assert [task["asked"] for task in tasks(memory, "ann")] == [["accidents_disasters"]]


def test_nobody_reads_a_text_in_its_former_words_too(ws: store.Workspace, review: Any, memory: Memory) -> None:
    review("push", *TWO)
    old_keys = {task["key"] for task in tasks(memory, "ann") if task["asked"] == ["gore"]}
    rows = store.read(ws, tables.CONVERSATIONS).filter(conversation="c1")
    store.append(ws, tables.CONVERSATIONS, rows.with_columns(digest=pl.lit("d2-c1")))
    review("push", *TWO)
    keys = [task["key"] for task in tasks(memory, "ann") if task["asked"] == ["gore"]]
    assert len(keys) == 1 and not old_keys & set(keys)


def test_a_page_of_another_layout_is_read_on_and_nobody_is_asked_twice(
    ws: store.Workspace, review: Any, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ann answered c1 on the old page but not c2; then a new version has a page with other controls."""
    review("push", *TWO)
    (done,) = [n for n, (_, task, name) in memory.held.items() if name == "ann" and task["asked"] == ["gore"]]
    memory.answers[done] = Verdict()
    monkeypatch.setattr(Memory, "place", lambda self, mark, role, cards: f"{mark} cards {role}")
    sent = review("push", *TWO)["sent"]
    assert sent["ann"] == {"added": 1, "skipped": 1, "taken_back": 1}
    assert sent["bo"] == {"added": 2, "skipped": 0, "taken_back": 2} and len(sent) == 2
    assert sorted(task["asked"] for task in tasks(memory, "ann")) == [["accidents_disasters"], ["gore"]]
    assert done in memory.held  # still in its place
    review("pull")
    assert store.read(ws, tables.REVIEWS).filter(reviewer="ann", subject="c1", trait="gore").height == 1
    assert review("push", *TWO)["added"] == 0


def test_of_two_answers_to_one_task_the_last_counts_at_the_first_pull(
    ws: store.Workspace, review: Any, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody proposed needles: ann marked it, and left it out in a second answer."""
    review("push", *TWO)
    task = next(task for task in tasks(memory, "ann") if task["asked"] == ["gore"])
    fixed: dict[str, Any] = {"key": task["key"], "who": "ann", "outcome": READ, "asked": ["gore"]}
    spans = {"needles": [review_world.span("c1", "blood")]}
    responses = [Response(place="1", present=["needles"], spans=spans, **fixed), Response(place="2", **fixed)]
    monkeypatch.setattr(memory, "responses", lambda project, *_: responses if project.name == "ann" else [])
    review("pull")
    reviews = store.read(ws, tables.REVIEWS).filter(reviewer="ann", trait="needles")
    assert reviews["verdict"].to_list() == ["absent"]
    assert review("pull")["added"] == 0


@pytest.mark.parametrize("pulled_between", [True, False])
def test_what_was_added_to_a_file_can_be_taken_back(
    ws: store.Workspace, review: Any, tmp_path: Path, pulled_between: bool
) -> None:
    review("push", *TWO, *FILES)
    path, older = ws.root / "review" / "ann.csv", tmp_path / "older.csv"
    rest(path, "needles", "blood")
    shutil.copy(path, older)
    if pulled_between:
        review("pull", *FILES, path)
    rest(path, "none")
    review("pull", *FILES, older, path)
    last = tables.last(store.read(ws, tables.REVIEWS), "subject", "trait", "reviewer")
    verdicts = {tuple(row[:2]): row[2] for row in last.select("subject", "trait", "verdict").rows()}
    assert (verdicts["c1", "needles"], verdicts["c1", "gore"], verdicts["c1", "*"]) == ("absent", "present", "absent")
    assert ("c2", "needles") not in verdicts
    assert review("pull", *FILES, older, path)["added"] == 0


def test_a_wish_holds_for_what_gold_says(ws: store.Workspace, review: Any, tmp_path: Path) -> None:
    gold = tmp_path / "gold.jsonl"
    gold.write_text('{"conversation": "c3", "traits": ["needles"]}\n')
    review("opt-out", "ann", "needles")
    review_settings(ws.root, gold=str(gold))
    review("push", *TWO, *FILES)
    assert given(ws, "c3") == ["bo"]


def test_a_wish_holds_for_what_another_reader_found(ws: store.Workspace, review: Any) -> None:
    """No proposal has needles: ann finds them in c1. Bo has c1 open and opts out of needles; di gets it instead."""
    review("push", *TWO, *FILES)
    rest(ws.root / "review" / "ann.csv", "needles", "blood")
    review("pull", *FILES, ws.root / "review" / "ann.csv")
    review("opt-out", "bo", "needles")
    assert review("push", *TWO, *DI, *FILES)["new"] == {"proposed": 1}
    assert given(ws, "c1") == ["ann", "bo", "di"]
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


def test_a_decoy_goes_with_an_opt_out_of_its_trait(ws: store.Workspace, review: Any) -> None:
    review_settings(ws.root, decoys=0.5)
    review("push", *TWO, *FILES)
    (decoy,) = store.read(ws, tables.DECOYS).rows(named=True)
    path = ws.root / "review" / f"{decoy['reviewer']}.csv"
    assert decoy["trait"] in [row["trait"] for row in rows_of(path)]
    review("opt-out", decoy["reviewer"], decoy["trait"])
    review("push", *TWO, *FILES)
    assert decoy["trait"] not in [row["trait"] for row in rows_of(path)]


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


def test_a_name_in_other_letters_is_no_second_reader(ws: store.Workspace, cli: Any, review: Any) -> None:
    review("push", *ANN, *FILES)
    run = cli("review", "push", "--reviewer", "Ann", *FILES, "-C", ws.root)
    assert (run.code, run.err.count("\n"), "ann has tasks" in run.err) == (1, 1, True)
    assert "note" not in review("opt-out", "ann", "gore")
    assert "Ann has no tasks" in review("opt-out", "Ann", "gore")["note"]


def test_a_trait_that_leaves_the_taxonomy_stops_no_review(ws: store.Workspace, review: Any) -> None:
    """Gore leaves: it was proposed in c1, and bo, who has c1 open, answered on it. Nobody is asked about it again."""
    review("push", *TWO, *FILES)
    path = ws.root / "review" / "bo.csv"
    edit(path, lambda row: {"verdict": "absent" if row["trait"] == "gore" else ""})
    assert review("pull", *FILES, path)["added"] == 1
    path.unlink()  # its answer about gore can no longer be read
    taxonomy(ws, accidents_disasters="Crashes.", needles="Injections.")
    review("push", *TWO, *FILES)
    for name in ("ann", "bo"):
        rows = rows_of(ws.root / "review" / f"{name}.csv")
        pairs = {(review_world.subject_of(row["text"]), row["trait"]) for row in rows}
        assert pairs == {("c1", "*"), ("c2", "accidents_disasters"), ("c2", "*")}
    review("status")


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


def test_gold_that_says_something_else_than_before_is_told(
    ws: store.Workspace, review: Any, cli: Any, tmp_path: Path
) -> None:
    gold = tmp_path / "gold.jsonl"
    gold.write_text('{"conversation": "c3", "traits": ["gore"]}\n')
    review_settings(ws.root, gold=str(gold))
    review("push", *TWO, *FILES)
    review("push", *TWO, *FILES)
    gold.write_text('{"conversation": "c3", "traits": ["needles"]}\n')
    run = cli("review", "push", *TWO, *FILES, "-C", ws.root)
    assert (run.code, run.err.count("\n"), "c3 was gold for gore" in run.err) == (1, 1, True)


def test_a_server_put_back_from_a_copy_gives_up_again_what_was_taken_back(review: Any, memory: Memory) -> None:
    review("push", *TWO)
    backup = dict(memory.held)
    review("opt-out", "ann", "gore")
    for _ in range(2):
        review("push", *TWO)
        assert [task["asked"] for task in tasks(memory, "ann")] == [["accidents_disasters"]]
        memory.held = dict(backup)
