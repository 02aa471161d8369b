"""What the page stores: the same rows as a pull, each answer once, and no answer to a question that was not asked."""

import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta

import polars as pl
import pytest

from annotation import pull, push, reviewer_opt_outs as opt_outs
from annotation.page import tasks
from annotation.page.tasks import Given, Stale, Tasks
from annotation.review_destinations import Files, ReviewPage
from annotation.review_history import aside
from annotation.review_state import gather, reported
from annotation.tools.tasks_and_answers import Refused
from saferec_builder.core import taxonomy
from saferec_builder.core.errors import UsageError
from saferec_builder.storage import tables, workspace as store
from tests.worlds import review_page, review_world
from tests.worlds.model_replies import one_more, own_taxonomy
from tests.worlds.review_page import given, named, said, shown


class SetBack(datetime):
    """A clock that somebody has set back by 90 minutes."""

    @classmethod
    def now(cls, tz=None):
        return datetime.now(tz) - timedelta(minutes=90)


def answer(page: Tasks, task: dict, name: str = "ann", **words) -> dict:
    return page.answer(name, Given.model_validate(given(task, **words)))


def pushed(ws: store.Workspace) -> tuple[Tasks, dict]:
    """Returns the page after a push to ann and bo, and ann's task on c1."""
    page = review_page.tasks(ws, "ann", "bo")
    return page, named(shown(page, "ann"), "c1")


def disputed(ws: store.Workspace, *adjudicators: str) -> Tasks:
    """Returns a page on which ann and bo differ on gore in c1, and the adjudicators have the task to rule."""
    page = review_page.tasks(ws, "ann", "bo")
    for name, verdict in (("ann", "present"), ("bo", "absent")):
        answer(page, named(shown(page, name), "c1"), name=name, verdict=verdict)
    for name in adjudicators:
        push.push(ws, ["ann", "bo"], to=ReviewPage(), adjudicator=name)
    return page


def rows(ws: store.Workspace) -> int:
    return store.read(ws, tables.REVIEWS).height


def test_an_answer_becomes_the_rows_of_a_pull(ws) -> None:
    page = review_page.tasks(ws, "ann", "bo")
    first = page.first("ann")
    assert (first["done"], first["left"]) == (0, 2)  # the two proposals
    assert all(task["cards"] and not task["cards"][0]["own"] for task in shown(page, "ann"))
    assert first["task"] == shown(page, "ann")[0]
    reply = answer(page, named(shown(page, "ann"), "c1"), note=" my\0data ")
    assert (reply["done"], reply["left"]) == (1, 1)
    assert said(ws) == {("c1", "gore"): ("present", ["blood"]), ("c1", "*"): ("absent", [])}
    (star,) = store.read(ws, tables.REVIEWS).filter(trait="*").to_dicts()
    assert (star["tool"], star["seconds"], star["note"], star["role"]) == ("page", 4.5, "my\ufffddata", "reviewer")
    assert page.first("bo")["left"] == 2 and page.first("mallory")["left"] == 0


@pytest.mark.slow
def test_a_trait_that_came_later_is_not_absent_by_an_answer_given_again(workspace: store.Workspace) -> None:
    own_taxonomy(workspace)
    path = workspace.root / "mine.toml"
    shutil.copy(taxonomy.EMBEDDED, path)
    ws = store.Workspace.open(workspace.root)
    review_world.fill(ws)
    page, task = pushed(ws)
    digest = answer(page, task)["taxonomy"]
    one_more(path)
    with pytest.raises(Stale, match="stored already"):  # the tab of the answer does not list drowning
        answer(page, task, "ann", verdict="absent", again=True)
    assert page.first("ann")["taxonomy"] != digest and ("c1", "drowning") not in said(ws)
    assert pl.Series(store.read(ws, tables.REVIEWS)["taxonomy"]).n_unique() == 1


def test_a_trait_is_added_with_words_after_an_emoji_and_none_without(ws) -> None:
    page, task = pushed(ws)
    body = given(task, "absent")
    place = review_world.span("c1", "I faint")
    spans = [{key: place[key] for key in ("turn", "start", "end")}]
    added = {"needles": {"verdict": "present", "form": "implicit", "spans": spans}}
    page.answer("ann", Given.model_validate(body | {"verdicts": body["verdicts"] | added}))
    assert said(ws)["c1", "needles"] == ("present", ["I faint"])
    assert said(ws)["c1", "gore"] == ("absent", [])  # its quote went with the verdict


def test_nothing_is_stored_of_an_answer_that_cannot_stand(ws) -> None:
    page, task = pushed(ws)
    for verdicts, why in (
        ({}, "not answered"),  # the card of gore was not answered
        ({"gore": {"verdict": "present", "spans": []}}, "no quote"),
        ({"gore": {"verdict": "present", "spans": [{"turn": 0, "start": 3, "end": 9_000}]}}, "quote not found"),
        ({"gore": {"verdict": "present", "spans": [{"turn": 7, "start": 0, "end": 1}]}}, "no such turn"),
        ({"gore": {"verdict": "present", "spans": [{"turn": 1, "start": 0, "end": 2}]}}, "not the seeker's words"),
        ({"gore": {"verdict": "absent"}, "dragons": {"verdict": "unsure"}}, "unknown trait"),
    ):
        with pytest.raises(Refused, match=why):
            answer(page, task, verdicts=verdicts)
    assert rows(ws) == 0
    answer(page, task)  # corrected
    assert said(ws)["c1", "gore"] == ("present", ["blood"])


@pytest.mark.slow
def test_an_answer_is_stored_once_for_each_sending_and_a_mind_may_change(ws) -> None:
    page, task = pushed(ws)
    answer(page, task)
    answer(page, task)  # sent again: the reply was lost
    assert rows(ws) == 2
    with pytest.raises(Stale, match="stored already"):  # another tab, where this task is still open
        answer(page, task, verdict="absent")
    with pytest.raises(Stale, match="no longer yours"):  # bo's own has another key
        answer(page, task, name="bo")
    for verdict in ("absent", "unsure", "absent"):  # the last is the first, whose reply was lost
        answer(page, task, verdict=verdict, again=True)
    assert said(ws)["c1", "gore"][0] == "unsure"  # it undoes no later one
    restarted = Tasks(ws)  # the server was killed: an answer whose reply was lost is neither lost nor stored twice
    count = rows(ws)
    answer(restarted, task, verdict="unsure", again=True)
    answer(restarted, task, verdict="unsure")
    assert (restarted.first("ann")["left"], rows(ws)) == (1, count)


def test_a_long_pull_keeps_nobody_else_waiting(ws) -> None:
    page = review_page.tasks(ws, "ann", "bo")
    with ThreadPoolExecutor() as pool, pull.ordered(ws):
        pool.submit(answer, page, named(shown(page, "ann"), "c1"))  # waits for the pull
        time.sleep(0.2)
        assert pool.submit(page.first, "bo").result(30)["left"] == 2


@pytest.mark.slow
def test_an_answer_that_was_asked_for_once_more_mends_the_rejection_and_may_be_changed(ws, monkeypatch) -> None:
    """The rejection was part of the task's key, and stayed for ever if the server stopped before it was erased."""
    task = named(shown(review_page.tasks(ws, "ann", "bo"), "ann"), "c1")
    line = {"task": task["text"], "reviewer": "ann", "place": "ann.csv:2", "reason": "no quote", "detail": "gore"}
    store.append(ws, tables.REJECTED, tables.REJECTED.frame([line]))
    page = Tasks(ws)
    with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr(tasks.rejections, "keep", lambda *_: 1 / 0)
        answer(page, task)
    answer(page, task)
    assert store.read(ws, tables.REJECTED).is_empty()
    answer(Tasks(ws), task, verdict="absent", again=True)
    assert said(ws)["c1", "gore"] == ("absent", [])


@pytest.mark.slow
def test_an_answer_may_be_changed_after_the_page_was_opened_anew(ws) -> None:
    """An open tab goes back with `z`: the new answer was refused, and lost."""
    task = named(shown(review_page.tasks(ws, "ann", "bo"), "ann"), "c1")
    answer(Tasks(ws), task)
    page = Tasks(ws)
    with pytest.raises(Stale, match="no longer yours"):
        answer(page, task, name="bo", verdict="absent", again=True)
    answer(page, task, verdict="absent", again=True)
    assert said(ws)["c1", "gore"] == ("absent", []) and page.first("ann")["left"] == 1
    answer(page, task, verdict="unsure", again=True)
    assert said(ws)["c1", "gore"][0] == "unsure"
    with pytest.raises(Stale, match="stored already, and stands"):  # of a tab that knows less than is stored
        answer(Tasks(ws), task, verdict="absent")
    assert said(ws)["c1", "gore"][0] == "unsure"


@pytest.mark.slow
def test_a_ruling_may_be_changed_after_the_page_was_opened_anew(ws) -> None:
    """That ruling settled the dispute, and its first answer is two rows: the change was refused, and lost."""
    disputed(ws, "cy")
    (task,) = shown(Tasks(ws), "cy")
    answer(Tasks(ws), task, name="cy", blind={"gore": {"verdict": "unsure"}})
    answer(Tasks(ws), task, name="cy", verdict="absent", again=True)
    assert said(ws, "cy") == {("c1", "gore"): ("absent", [])}
    assert store.read(ws, tables.REVIEWS).filter(reviewer="cy")["verdict"].to_list() == ["unsure", "present", "absent"]
    with pytest.raises(Stale, match="stored already, and stands"):  # of a tab that knows less than is stored
        answer(Tasks(ws), task, name="cy", verdict="unsure")
    assert gather(ws).disputed.is_empty()


def test_a_clock_that_is_set_back_makes_no_answer_an_older_one(ws, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page said that the answer was stored, and it was not."""
    page, task = pushed(ws)
    answer(page, task)
    monkeypatch.setattr(tasks, "datetime", SetBack)
    answer(page, task, verdict="absent", again=True)
    assert said(ws)["c1", "gore"] == ("absent", [])


@pytest.mark.slow
def test_who_would_rather_not_hands_the_task_back_with_their_note(ws) -> None:
    """A report of personal data in such a note was lost."""
    page, task = pushed(ws)
    answer(page, task, outcome="rather_not", verdicts={}, note="Personal data: a ward")
    with pytest.raises(Stale, match="you would rather not, is stored"):  # of another tab: no answer stands
        answer(page, task)
    (row,) = store.read(ws, tables.REVIEWS).to_dicts()
    said = [row[name] for name in ("trait", "verdict", "note", "spans")]
    assert said == ["*", None, "handed back: Personal data: a ward", []]
    assert (gather(ws).left_out, reported(gather(ws))) == ({tables.HANDED_BACK: 1}, ["c1"])
    with pytest.raises(UsageError, match="ann has no reviews here"):  # it added 0 rows, and later answers counted
        opt_outs.set_aside(ws, "ann", reason="a test")
    assert Tasks(ws).first("ann")["left"] == 1
    assert push.push(ws, ["ann", "bo", "di"], to=ReviewPage()).assignments["reviewer"].to_list() == ["di"]


@pytest.mark.slow
def test_who_hands_an_answer_back_has_said_nothing_until_they_answer_anew(ws) -> None:
    """`z`, then `s`: only the `*` was taken back, and `present` still counted for labels."""
    page, task = pushed(ws)
    answer(page, task)
    answer(page, task, outcome="rather_not", verdicts={}, again=True)
    assert said(ws) == {("c1", "gore"): (None, []), ("c1", "*"): (None, [])}
    state = gather(ws)
    assert state.votes.is_empty() and state.left_out == {tables.HANDED_BACK: 2} and not aside(state.reviews)
    answer(page, task, again=True)  # exactly the first answer again
    assert gather(ws).votes.filter(trait="gore").select("reviewer", "verdict").rows() == [("ann", "present")]


@pytest.mark.slow
def test_a_ruling_that_is_handed_back_is_disputed_again_and_another_one_stays(ws) -> None:
    page = disputed(ws, "cy")
    (task,) = shown(page, "cy")
    answer(page, task, name="cy")
    assert gather(ws).disputed.is_empty()
    handed_back = Given.model_validate(given(task, outcome="rather_not", verdicts={}, again=True))
    sheet = page._answered[task["key"]]
    sheet = replace(sheet, units=[sheet.units[0] | {"trait": "needles"}])
    page._store(sheet, handed_back)  # later they are asked about another trait and hand that one back
    assert said(ws, "cy")["c1", "gore"] == ("present", ["blood"])
    answer(page, task, name="cy", outcome="rather_not", verdicts={}, again=True)
    assert gather(ws).disputed["trait"].to_list() == ["gore"]
    assert push.push(ws, ["ann", "bo"], to=ReviewPage(), adjudicator="di").assignments["reviewer"].to_list() == ["di"]


@pytest.mark.slow
def test_what_changes_in_the_workspace_changes_on_the_page(ws) -> None:
    page, task = pushed(ws)
    opt_outs.opt_out(ws, "ann", "gore")
    assert page.first("ann")["left"] == 1
    with pytest.raises(Stale, match="no longer yours"):
        answer(page, task)
    push.push(ws, ["ann", "bo"], to=ReviewPage(), everything=True)
    assert page.first("ann")["left"] == 3
    blind = named(shown(page, "ann"), "c3")
    assert (blind["cards"], blind["warning"]) == ([], "")
    answer(page, blind)
    assert page.first("bo")["left"] == 4
    mark = {"conversation": "c1", "digest": "d-c1", "revision": 0, "crisis": True}  # found while the page is open
    store.append(ws, tables.MARKS, tables.MARKS.frame([mark]))
    assert page.first("bo")["left"] == 3
    opt_outs.set_aside(ws, "ann", reason="a test")
    assert page.first("ann")["left"] == 0
    count = rows(ws)
    with pytest.raises(Stale, match="set aside: ask"):  # a task in an open tab brought their reviews back into labels
        answer(page, blind, note="once more", again=True)
    assert rows(ws) == count
    with pytest.raises(UsageError, match="nothing to pull"):
        pull.pull(ws, ReviewPage())


def test_a_wish_that_comes_while_an_answer_is_stored_is_heard(ws, monkeypatch: pytest.MonkeyPatch) -> None:
    """After its own rows the page took the state of the workspace as already read: it never saw the opt-out."""
    page = review_page.tasks(ws, "ann", "bo")
    task, append = named(shown(page, "ann"), "c2"), store.append

    def meanwhile(ws, table, *rows):
        stored = append(ws, table, *rows)
        opt_outs.opt_out(ws, "ann", "gore")  # concerns the task that is left
        return stored

    monkeypatch.setattr("annotation.page.tasks.workspace.append", meanwhile)
    answer(page, task)
    assert page.first("ann")["left"] == 0


@pytest.mark.slow
def test_an_adjudicator_rules_on_what_is_disputed_and_sees_what_was_said(ws) -> None:
    """Where di rules too, di's page still asked, and di's answer changed the label."""
    page = disputed(ws, "cy", "di")
    (task,), (of_di,) = shown(page, "cy"), shown(page, "di")
    assert task["rules"] and [card["trait"] for card in task["cards"]] == ["gore"]
    assert sorted(task["cards"][0]["said"]) == ["absent", "present, explicit: “blood”"]
    first_ruling = {"gore": {"verdict": "absent"}}  # before the votes were seen
    assert answer(page, task, name="cy", blind=first_ruling)["left"] == 0
    assert said(ws, "cy") == {("c1", "gore"): ("present", ["blood"])}
    rows = store.read(ws, tables.REVIEWS).filter(reviewer="cy")
    assert rows["verdict"].to_list() == ["absent", "present"]
    assert rows["seconds"].to_list() == [4.5, 4.5]  # the time of an adjudicator was stored nowhere
    assert page.left("di") == 0
    with pytest.raises(Stale, match="no longer yours"):
        answer(page, of_di, name="di", verdict="absent")
    assert gather(ws).disputed.is_empty()


@pytest.mark.slow
def test_what_a_sheet_holds_of_the_revised_text_keeps_no_other_answer_out(ws) -> None:
    answer(page := review_page.tasks(ws, "ann", "bo"), named(shown(page, "ann"), "c2"))
    review_world.grow(ws, "c2", "No snakes, they scare me.")
    last = store.read(ws, tables.REVIEWS).filter(trait="accidents_disasters").row(-1, named=True)
    in_a_sheet = last | {"review": "of needles", "trait": "needles", "digest": "d-c2b", "tool": "files"}
    store.append(ws, tables.REVIEWS, tables.REVIEWS.frame([in_a_sheet]))
    task = next(t for t in shown(page, "ann") if "snakes" in t["turns"][0]["text"])
    answer(page, task, verdict="absent")
    assert said(ws)["c2", "accidents_disasters"][0] == "absent"


@pytest.mark.slow
def test_an_answer_to_a_revised_text_can_be_changed_after_a_restart(ws) -> None:
    """Answers on the earlier text were counted too: the page said that the answer stands. And an answer to the earlier
    text, after `z`, was stored nowhere, and the page said nothing."""
    first_page = review_page.tasks(ws, "ann", "bo")
    earlier = named(shown(first_page, "ann"), "c2")
    answer(first_page, earlier)
    review_world.grow(ws, "c2", "No snakes, they scare me.")
    answer(first_page, earlier, again=True, verdict="unsure")  # nobody has answered the new text
    assert said(ws)["c2", "accidents_disasters"][0] == "unsure"
    page = Tasks(ws)
    task = next(t for t in shown(page, "ann") if "snakes" in t["turns"][0]["text"])
    answer(page, task)
    with pytest.raises(Stale, match="since it changed"):
        answer(first_page, earlier, again=True, verdict="unsure", seconds=5.0)
    answer(Tasks(ws), task, again=True, verdict="absent")
    assert said(ws)["c2", "accidents_disasters"] == ("absent", [])


@pytest.mark.slow
def test_who_joins_the_page_with_tasks_from_a_file_is_seen_at_once(ws) -> None:
    push.push(ws, ["ann", "bo"], to=Files())
    page = review_page.tasks(ws, "bo")
    assert page.first("ann")["left"] == 0
    push.push(ws, ["ann"], to=ReviewPage())  # nothing new is assigned
    assert page.first("ann")["left"] == 2


def test_a_push_to_the_page_is_assigned_once_and_a_killed_one_is_adopted(ws, monkeypatch) -> None:
    def killed(ws, send, new):
        send()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("annotation.outbox.sent", killed)  # after the tasks are on the page
        push.push(ws, ["ann", "bo"], to=ReviewPage())
    assert store.read(ws, tables.ASSIGNMENTS).is_empty()
    assert push.push(ws, ["ann", "bo"], to=ReviewPage()).counts.added == 0
    added = store.read(ws, tables.ASSIGNMENTS)
    assert sorted(added.select("reviewer", "subject").rows()) == [(r, c) for r in ("ann", "bo") for c in ("c1", "c2")]
    assert not added.filter(pl.col("why") != "proposed").height


def test_who_asks_to_be_removed_is_shown_to_nobody_and_no_answer_is_kept(ws) -> None:
    """An open page kept showing, and storing answers on, what removals.csv had named since."""
    page = review_page.tasks(ws, "ann", "bo")
    answered, task = (named(shown(page, "ann"), name) for name in ("c2", "c1"))
    answer(page, answered)
    count = rows(ws)
    (ws.root / "removals.csv").write_text("source,source_id,author\nmessages,c1,\nmessages,c2,\n")
    for former, words in ((task, {}), (answered, {"again": True})):  # former answers cannot change
        with pytest.raises(Stale, match="taken out: nobody reads it any more"):
            answer(page, former, **words)
    assert (shown(page, "ann"), page.first("bo")["left"], rows(ws)) == ([], 0, count)
