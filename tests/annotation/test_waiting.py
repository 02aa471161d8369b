"""The counts of waiting work are cached for the current state of the workspace, and for no other."""

from dataclasses import replace
from datetime import date

import polars as pl
import pytest

from annotation import review_state, waiting
from annotation.task_assignment import CONTROL
from annotation.waiting import Waiting
from saferec_builder.storage import tables, workspace as store
from tests.worlds.any_rows import rows
from tests.worlds.review_world import claim
from tests.worlds.reviewing import TWO, answer, no, yes
from tests.worlds.settings import review_settings


def test_what_was_remembered_is_what_would_be_counted(ws, cli, review, adjudicate, monkeypatch):
    """At each step of a round: two tasks of two readers, one answered by ann, both by all, labels, an opt-out."""
    counted = []

    def checked() -> Waiting:
        """Asks for the counts twice, and counts once more to compare."""
        count = waiting._count
        monkeypatch.setattr(waiting, "_count", lambda *given: counted.append(1) or count(*given))
        results = waiting.waiting(ws), waiting.waiting(ws), count(ws, date.today().isoformat())
        monkeypatch.setattr(waiting, "_count", count)
        assert results[0] == results[1] == results[2]
        return results[0]

    review("push", *TWO)
    assert checked() == Waiting(0, 0, 4, 0, 0, ["files"])
    cli("review", "opt-out", "ann", "gore", "-C", ws.root)  # in no table: the task with it waits for nobody
    assert checked().tasks == 3
    cli("review", "opt-out", "ann", "gore", "--remove", "-C", ws.root)
    assert checked().tasks == 4
    answer(ws, review, ann=yes)
    assert checked().tasks == 2
    answer(ws, review, bo=yes)
    assert (checked().tasks, checked().unlabelled > 0) == (0, True)
    adjudicate()
    assert checked() == Waiting(0, 0, 0, 0, 0)
    store.append(ws, tables.DROPS, rows(tables.DROPS, 1))  # as `release` does: nothing waits for that
    assert checked() == Waiting(0, 0, 0, 0, 0)
    assert len(counted) == 6  # asked for twice at each of the six steps


@pytest.mark.slow
def test_what_was_mined_and_proposed_since_the_push_is_to_be_handed_out(ws, review):
    """Whoever followed `next:` alone never assigned it."""
    assert (waiting.waiting(ws).unsent, waiting.waiting(ws).put_off) == (
        2,
        0,
    )  # c1 and c2 have a proposal, no place yet
    assert review("push", *TWO, "--budget", 2)["added"] == 2  # two readers of one unit each: it ends after the first
    assert (waiting.waiting(ws).unsent, waiting.waiting(ws).put_off) == (1, 1)
    review("push", *TWO)
    assert waiting.waiting(ws).unsent == 0
    mined = store.read(ws, tables.CONVERSATIONS)[:2].with_columns(
        conversation=pl.Series(["n1", "n2"]), source_id=pl.Series(["n1", "n2"])
    )
    store.append(ws, tables.CONVERSATIONS, mined)
    proposal = claim("c1", "gore", "present", "blood") | {"proposal": "n1", "subject": "n1"}
    store.append(ws, tables.PROPOSALS, pl.DataFrame([proposal], schema=tables.PROPOSALS.schema))
    assert waiting.waiting(ws).unsent == 1  # n1 has a proposal; no audit draws what nobody proposed
    review_settings(ws.root, audit=0.5, held_back=0)
    assert waiting.waiting(ws).unsent == 1  # it has the settings of before, and kept this count for the new ones
    assert waiting.waiting(store.Workspace.open(ws.root)).unsent == 4  # and c3, c4, n2 are not drawn yet


@pytest.mark.slow
def test_a_task_that_was_handed_back_waits_for_a_third_reader(ws, cli, review):
    """`next:` went on to the release, though no push to these two could ever close it."""
    review("push", *TWO)
    assert waiting.waiting(ws).short == 0
    assert cli("review", "hand-back", "bo", "-C", ws.root).code == 0
    review("push", *TWO)
    assert waiting.waiting(ws).short == 2
    anns = store.read(ws, tables.ASSIGNMENTS).filter(reviewer="ann")
    store.append(ws, tables.ASSIGNMENTS, anns.with_columns(reviewer=pl.lit("ed"), why=pl.lit(CONTROL)))
    assert waiting.waiting(ws).short == 2  # a control is no vote
    review("push", *TWO, "--reviewer", "di")
    assert waiting.waiting(ws).short == 0


@pytest.mark.slow
def test_what_the_daily_cap_put_off_waits_for_tomorrow(ws, review):
    """`next:` led with a push that could hand out nothing that day."""
    review_settings(ws.root, audit=0, held_back=0, severe_a_day=1)
    claims = [claim(c, "torture", "present", word) for c, word in (("c1", "blood"), ("c2", "crash"), ("c3", "western"))]
    store.append(ws, tables.PROPOSALS, pl.DataFrame(claims, schema=tables.PROPOSALS.schema))
    team = store.Workspace.open(ws.root)
    assert waiting.waiting(team).capped == 0  # nobody has had any today
    review("push", *TWO)
    counts = waiting.waiting(team)
    assert (counts.unsent, counts.put_off, counts.capped) == (2, 2, 2)
    state = review_state.gather(team)
    assert waiting._capped(state, waiting._unsent(state), "2000-01-01") == 0


@pytest.mark.slow
def test_what_is_withheld_waits_for_no_label(ws, review, adjudicate):
    """After a removal `next:` said that people had said something, and `adjudicate` that they no longer agreed."""
    review("push", *TWO)
    answer(ws, review)
    adjudicate()
    (ws.root / "removals.csv").write_text("source,source_id,author\nmessages,c1,\n")
    assert waiting.waiting(ws).unlabelled == 0
    counts = adjudicate()
    assert (counts["unresolved"], counts["added"]) == (0, counts["withheld"]["removed on request"])


@pytest.mark.slow
def test_a_dispute_that_an_adjudicator_has_before_them_waits_for_no_push(ws, cli, review):
    """`next:` kept asking for an adjudicator who already had the task."""
    review("push", *TWO)
    answer(ws, review, ann=yes, bo=no)
    assert (waiting.waiting(ws).tasks, waiting.waiting(ws).disputed) == (0, 2)
    review("push", "--adjudicator", "cy")
    assert (waiting.waiting(ws).tasks, waiting.waiting(ws).disputed) == (2, 0)
    cli("review", "opt-out", "cy", "gore", "-C", ws.root)  # that task is withdrawn
    assert (waiting.waiting(ws).tasks, waiting.waiting(ws).disputed) == (1, 1)


def test_what_is_sure_enough_to_need_nobody_waits_for_no_push(ws):
    """Otherwise `next:` would advise a push for ever."""
    state = review_state.gather(ws)
    assert waiting._unsent(state).height == 2
    assert waiting._unsent(replace(state, auto=frozenset({("c1", "gore")}))).height == 1


def test_every_row_that_comes_is_another_state(workspace):
    """Rows of a table that is left out of the state would leave the old counts in use."""
    states = [store.state(workspace)]
    for table in tables.TABLES.values():
        store.append(workspace, table, rows(table, 1))
        state = store.state(workspace)
        assert state not in states, table.name
        states.append(state)


@pytest.mark.slow
def test_a_file_that_says_nothing_is_counted_anew(ws, review):
    review("push", *TWO)
    for text in ("", "[]", "{", '{"of": 3}', '{"of": "0", "figures": 1}'):
        (ws.root / "tables" / "waiting.json").write_text(text)
        assert waiting.waiting(ws).tasks == 4


@pytest.mark.slow
def test_the_tool_of_a_task_is_the_one_that_holds_it(ws, review, cli):
    cli("review", "push", "--tool", "page", *TWO, "-C", ws.root)
    assert waiting.waiting(ws).tools == ["page"]
    review("push", "--reviewer", "eve", "--all")  # in files
    assert waiting.waiting(ws).tools == ["files", "page"]
