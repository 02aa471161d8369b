"""What reaches a review server, who has it there, and which of the answers there count."""

from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest

from annotation import reviewer_opt_outs as opt_outs, servers
from annotation.page.tasks import Given, Tasks
from annotation.review_state import gather, still_open
from annotation.tools import task_conversion
from annotation.tools.task_conversion import READ, Response
from annotation.tools.tasks_and_answers import SAID_AGAIN, Pulled, base_id, shown
from saferec_builder.core.errors import ReviewError
from saferec_builder.erasure.review_server import on_team_servers
from saferec_builder.storage import tables, workspace as store
from tests.worlds import review_page, review_world
from tests.worlds.pushes import BO, DI, TWO
from tests.worlds.review_memory import Memory
from tests.worlds.review_world import Verdict

review = review_world.review


def reasons(ws: store.Workspace, task: dict[str, Any], hours: int) -> list[str]:
    """Why ann's answer to this task on a server, edited at that time from now, is dropped."""
    state, time = gather(ws), datetime.now(UTC) + timedelta(hours=hours)
    asked, pulled = [card["trait"] for card in task["cards"]], Pulled(tool="label-studio")
    response = Response(task["key"], "ann", "there", READ, asked, {0: "absent"}, time=time)
    response.taxonomy = state.taxonomy.digest
    servers._add_answers(pulled, [response], state, servers._turns_of(state, shown(state.assignments, state.texts)))
    return [drop[3] for drop in pulled.drops]


def left_text(ws: store.Workspace) -> tuple[Tasks, dict[str, Any], dict[str, Any]]:
    """Returns the page, ann's task of c2 that she has answered, and her task of its next text."""
    page = review_page.tasks(ws, "ann", "bo")
    former = review_page.named(review_page.shown(page, "ann"), "c2")
    page.answer("ann", Given.model_validate(review_page.given(former)))
    review_world.grow(ws, "c2", "No snakes, they scare me.")
    return page, former, next(t for t in review_page.shown(page, "ann") if "snakes" in t["turns"][0]["text"])


@pytest.mark.slow
@pytest.mark.parametrize("words", [{}, {"outcome": "rather_not", "verdicts": {}}], ids=["answered", "handed back"])
def test_an_answer_that_is_edited_after_its_text_was_left_is_dropped_with_the_reason(ws, words) -> None:
    """Regression: it counted as stored already; after a hand-back it was neither stored nor dropped."""
    page, former, task = left_text(ws)
    page.answer("ann", Given.model_validate(review_page.given(task, **words)))
    assert reasons(ws, former, hours=-1) == []  # as pulled before
    assert reasons(ws, former, hours=1) == ["not the last text"]  # edited since


def test_of_two_answers_to_one_task_the_last_counts_at_the_first_pull(ws) -> None:
    """Nobody proposed needles: ann marked it, and left it out in a second answer."""
    task = review_page.named(review_page.shown(review_page.tasks(ws, "ann", "bo"), "ann"), "c1")
    state, pulled = gather(ws), Pulled(tool="label-studio")
    fixed: dict[str, Any] = {"key": task["key"], "who": "ann", "asked": ["gore"], "taxonomy": state.taxonomy.digest}
    needles: dict[str, Any] = {"present": ["needles"], "spans": {"needles": [review_world.span("c1", "blood")]}}
    facts: list[dict[str, Any]] = [{}, {"outcome": READ} | needles, {"outcome": READ}, {}]  # {}: not finished
    responses = [Response(place=str(n), **fixed | each) for n, each in enumerate(facts)]
    servers._add_answers(pulled, responses, state, servers._turns_of(state, shown(state.assignments, state.texts)))
    assert [drop[2:4] for drop in pulled.drops] == [
        ("1", SAID_AGAIN),
        ("3", "not finished"),
    ]  # not the first
    assert pulled.answers["sensitivity", "c1", "needles", "ann", "reviewer"]["verdict"] == "absent"


def test_an_answer_to_a_task_that_nobody_was_given_is_dropped_with_the_reason(ws) -> None:
    pulled = Pulled(tool="argilla")
    servers._add_answers(pulled, [Response("task-x", "ann", "there")], gather(ws), lambda key: [])
    detail = "task 'task-x' was never pushed from this workspace"
    assert pulled.drops == [("review", "argilla", "there", "not pushed", detail)]


@pytest.mark.slow
def test_an_answer_can_be_edited_where_only_another_trait_was_answered_since(ws) -> None:
    """A sheet brought one row on the new text, and no edit on the server was taken any more."""
    _, former, _ = left_text(ws)
    last = store.read(ws, tables.REVIEWS).row(0, named=True)
    row = last | {"review": "of needles", "trait": "needles", "digest": "d-c2b", "tool": "files"}
    store.append(ws, tables.REVIEWS, tables.REVIEWS.frame([row]))
    assert reasons(ws, former, hours=1) == []


# ---- a server in memory


def tasks(memory: Memory, name: str) -> list[dict[str, Any]]:
    return [task for _, task, reviewer in memory.held.values() if reviewer == name]


@pytest.mark.slow
def test_each_person_has_a_project_without_their_name_and_what_is_there_is_known(ws, review, memory) -> None:
    with pytest.raises(ReviewError, match="^memory holds nothing of this workspace: run `saferec-build review push` "):
        servers.fetch(gather(ws), memory)
    pushed = review("push", *TWO)
    assert pushed["sent"] == {name: {"added": 2, "already_there": 0} for name in ("ann", "bo")}
    assert review("push", *TWO)["sent"] == {name: {"added": 0, "already_there": 2} for name in ("ann", "bo")}
    secret = ws.secret.hex()
    mark = f"saferec-builder {tables.digest('workspace', secret)}"
    marks = {name: f"{mark} {tables.digest('reviewer', name, secret)}" for name in ("ann", "bo")}
    place_of = {name: place for place, name in memory.made.items()}
    assert {name: place.rpartition(" ")[0] for name, place in place_of.items()} == marks
    for remote in [remote for remote, (_, task, _) in memory.held.items() if task["subject"] == "c1"]:
        memory.answer(remote, Verdict())
    touched = servers.touched(ws, memory, {})
    assert {place: len(tasks) for place, tasks in touched.items()} == dict.fromkeys(place_of.values(), 1)
    ((first, _),) = touched[place_of["ann"]]
    pulled = servers.fetch(gather(ws), memory, {place_of["ann"]: [first]})
    assert {key[1:4] for key in pulled.answers} == {("c1", "gore", "ann"), ("c1", "*", "ann")}
    assert (pulled.tool, pulled.drops, pulled.vanished) == ("label_studio", [], {})
    review("pull")
    memory.answers.clear()
    assert servers.fetch(gather(ws), memory, {place_of["bo"]: ()}).vanished == {}  # only a part was read
    assert servers.fetch(gather(ws), memory).vanished == {"ann": 1, "bo": 1}
    memory.pages[place_of["bo"]] = "edited"
    assert servers.fetch(gather(ws), memory).edited == ["bo"]
    memory.delete(first)
    servers.settle(ws, memory)
    last = tables.last(store.read(ws, tables.SENT).filter(state="gone"), "task")
    assert last["remote"].to_list() == [first]
    left = [base_id(task["key"]) for task in tasks(memory, "bo")]
    assert servers.erase(ws, memory, [left[0], "task-unknown"]) == 1 and len(memory.held) == 2


@pytest.mark.slow
def test_what_is_withheld_is_taken_back_with_its_answers_where_it_is_erased(ws, review, memory) -> None:
    review("push", *TWO, "--all")
    for remote, (_, task, name) in memory.held.items():
        if task["subject"] in ("c1", "c2") and name == "ann":
            memory.answer(remote, Verdict())
    (ws.root / "removals.csv").write_text("source,source_id,author\nmessages,c1,\n")
    opt_outs.opt_out(ws, "bo", "accidents_disasters")
    sent = {"ann": {"taken_back": 1}, "bo": {"taken_back": 2}, "di": {"added": 1, "already_there": 0}}
    assert review("push", *DI, "--all")["sent"] == sent
    left = [("ann", "c2"), ("ann", "c3"), ("ann", "c4"), ("bo", "c3"), ("bo", "c4"), ("di", "c2")]
    assert memory.tasks() == dict.fromkeys(left, 1)


def test_a_reader_of_plots_sees_what_is_known_of_an_item_and_from_where(ws) -> None:
    items = {review_world.item(n): f"{n}: a village, and blood." for n in range(2)}
    assert servers.sources(gather(ws)) == {}
    review_world.flag(ws, items, [], "blood")
    columns = ("ref", "topic", "kind", "source", "url", "yes", "no", "answer", "severity")
    refs = [f"item:{item}" for item in items]
    rows = [
        (refs[0], "a dog dies", "crowd", "dtdd", "http://d", 5, 1, None, None),
        (refs[0], "violence", "editorial", "csm", None, None, None, "yes", 3),
        (refs[1], "gore", "editorial", "imdb", None, None, None, None, 2),
        (refs[1], "gore", "review", "review", None, None, None, "yes", None),  # by our own readers
        ("item:another", "gore", "editorial", "imdb", None, None, None, "yes", None),
    ]
    warnings = [{"warning": str(n)} | dict(zip(columns, row, strict=True)) for n, row in enumerate(rows)]
    store.append(ws, tables.WARNINGS, tables.WARNINGS.frame(warnings))
    first, second = items
    known = ["a dog dies: 5 yes, 1 no (dtdd, http://d)", "violence: yes (csm)"]
    state = gather(ws)
    assert servers.sources(state) == {first: known, second: ["gore: severity 2 of 3 (imdb)"]}
    tasks = [
        ("item_flag", first, name, "reviewer", tables.digest(items[first]), "proposed", "b") for name in ("ann", "bo")
    ]
    assignments, nothing = tables.ASSIGNMENTS.frame(tasks), state.disputed.clear()
    units = still_open(state, assignments, nothing, frozenset({("ann", "animal_harm")}))
    sheets = task_conversion.sheets(
        units, state.texts, ws.taxonomy, servers.sources(state), lambda _, parts: str(parts)
    )
    told = {sheet.task.reviewer: "Known: a dog dies" in sheet.ask for sheet in sheets}
    assert told == {"ann": False, "bo": True}  # who opted out of a trait read of it above another's flag
    keys = {sheet.task.reviewer: sheet.key for sheet in sheets}  # another key: a task sent before is replaced
    assert "without known facts" in keys["ann"] and "without known facts" not in keys["bo"]


@pytest.mark.slow
def test_an_opt_out_reaches_the_server_also_where_others_are_named(review: Any, memory: Memory) -> None:
    """And again where the server was put back from a copy."""
    review("push", *TWO)
    backup = dict(memory.held)
    review("opt-out", "ann", "gore")
    sent = review("push", *BO, *DI)
    assert (sent["new"], sent["sent"]["ann"]) == ({"proposed": 1}, {"taken_back": 1})
    assert [task["asked"] for task in tasks(memory, "ann")] == [["accidents_disasters"]]
    for _ in range(2):
        memory.held = dict(backup)
        review("push", *TWO)
        assert [task["asked"] for task in tasks(memory, "ann")] == [["accidents_disasters"]]


@pytest.mark.slow
def test_what_a_restored_server_holds_again_is_known_to_be_there(
    ws: store.Workspace, review: Any, memory: Memory
) -> None:
    """Its backup is of before the push, so it gives the same ids once more. The ledger kept `gone` as its last word:
    each push said `found`, and `forget` did not ask for the server."""
    review("push", *TWO)
    ids = {base_id(task["key"]) for _, task, _ in memory.held.values()}
    memory.held, memory.number = {}, 0
    assert review("push", *TWO)["sent"]["bo"] == {"added": 2, "already_there": 0, "gone": 2}
    assert on_team_servers(ws, ids).height == 4
    assert review("push", *TWO)["sent"]["bo"] == {"added": 0, "already_there": 2}


@pytest.mark.slow
def test_nobody_reads_a_text_in_its_former_words_too(ws: store.Workspace, review: Any, memory: Memory) -> None:
    review("push", *TWO)
    old_keys = {task["key"] for task in tasks(memory, "ann") if task["asked"] == ["gore"]}
    rows = store.read(ws, tables.CONVERSATIONS).filter(conversation="c1")
    store.append(ws, tables.CONVERSATIONS, rows.with_columns(digest=pl.lit("d2-c1")))
    review("push", *TWO)
    keys = [task["key"] for task in tasks(memory, "ann") if task["asked"] == ["gore"]]
    assert len(keys) == 1 and not old_keys & set(keys)


@pytest.mark.slow
def test_a_page_of_another_layout_is_read_on_and_nobody_is_asked_twice(
    ws: store.Workspace, review: Any, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ann answered c1 on the old page but not c2; then a new version has a page with other controls."""
    review("push", *TWO)
    (done,) = [n for n, (_, task, name) in memory.held.items() if name == "ann" and task["asked"] == ["gore"]]
    memory.answers[done] = Verdict()
    monkeypatch.setattr(Memory, "place", lambda self, mark, role, cards: f"{mark} cards {role}")
    sent = review("push", *TWO)["sent"]
    assert sent["ann"] == {"added": 1, "already_there": 1, "taken_back": 1}
    assert sent["bo"] == {"added": 2, "already_there": 0, "taken_back": 2} and len(sent) == 2
    assert sorted(task["asked"] for task in tasks(memory, "ann")) == [["accidents_disasters"], ["gore"]]
    assert done in memory.held  # still in its place
    review("pull")
    assert store.read(ws, tables.REVIEWS).filter(reviewer="ann", subject="c1", trait="gore").height == 1
    assert review("push", *TWO)["added"] == 0
