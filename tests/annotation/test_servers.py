"""Which answers of a review server count: that of the last text stands, and an edit of an earlier one says so."""

from datetime import UTC, datetime, timedelta
from typing import Any

from annotation import servers
from annotation.page.tasks import Given, Tasks
from annotation.review_state import gather
from annotation.tools.task_conversion import READ, Response
from annotation.tools.tasks_and_answers import Pulled, shown
from saferec_builder.storage import tables, workspace as store
from tests.worlds import review_page, review_world


def reasons(ws: store.Workspace, task: dict[str, Any], hours: int) -> list[str]:
    """Why ann's answer to this task on a server, edited at that time from now, is dropped."""
    state, time = gather(ws), datetime.now(UTC) + timedelta(hours=hours)
    asked, pulled = [card["trait"] for card in task["cards"]], Pulled(tool="label-studio")
    response = Response(task["key"], "ann", "there", READ, asked, {0: "absent"}, time=time)
    response.taxonomy = state.taxonomy.digest
    servers._add_answers(pulled, [response], state, servers._turns_of(state, shown(state.assignments, state.texts)))
    return [drop[3] for drop in pulled.drops]


def left_text(ws: store.Workspace) -> tuple[Tasks, dict[str, Any], dict[str, Any]]:
    """The page, ann's task of c2 that she has answered, and her task of its next text."""
    page = review_page.tasks(ws, "ann", "bo")
    former = review_page.named(review_page.shown(page, "ann"), "c2")
    page.answer("ann", Given.model_validate(review_page.given(former)))
    review_world.grow(ws, "c2", "No snakes, they scare me.")
    return page, former, next(t for t in review_page.shown(page, "ann") if "snakes" in t["turns"][0]["text"])


def test_an_answer_that_is_edited_after_its_text_was_left_is_dropped_with_the_reason(ws) -> None:
    """Regression: it counted as an answer that was stored already."""
    page, former, task = left_text(ws)
    page.answer("ann", Given.model_validate(review_page.given(task)))
    assert reasons(ws, former, hours=-1) == []  # as pulled before
    assert reasons(ws, former, hours=1) == ["not the last text"]  # edited since


def test_an_answer_that_is_edited_after_its_next_text_was_handed_back_is_dropped_with_the_reason(ws) -> None:
    """Regression: it was neither stored nor dropped, and the page refused the same edit."""
    page, former, task = left_text(ws)
    page.answer("ann", Given(task=task["key"], outcome="rather_not"))
    assert reasons(ws, former, hours=1) == ["not the last text"]


def test_an_answer_can_be_edited_where_only_another_trait_was_answered_since(ws) -> None:
    """A sheet brought one row on the new text, and no edit on the server was taken any more."""
    page = review_page.tasks(ws, "ann", "bo")
    former = review_page.named(review_page.shown(page, "ann"), "c2")
    page.answer("ann", Given.model_validate(review_page.given(former)))
    review_world.grow(ws, "c2", "No snakes, they scare me.")
    last = store.read(ws, tables.REVIEWS).row(0, named=True)
    row = last | {"review": "of needles", "trait": "needles", "digest": "d-c2b", "tool": "files"}
    store.append(ws, tables.REVIEWS, tables.REVIEWS.frame([row]))
    assert reasons(ws, former, hours=1) == []
