"""Which answers of a review server count: that of the last text stands, and an edit of an earlier one says so."""

from datetime import UTC, datetime, timedelta

from annotation import servers
from annotation.page.tasks import Given
from annotation.review_state import gather
from annotation.tools.task_conversion import READ, Response
from annotation.tools.tasks_and_answers import Pulled, shown
from tests.worlds import review_page, review_world


def test_an_answer_that_is_edited_after_its_text_was_left_is_dropped_with_the_reason(ws) -> None:
    """Regression: it counted as an answer that was stored already."""
    page = review_page.tasks(ws, "ann", "bo")
    former = review_page.named(review_page.shown(page, "ann"), "c2")
    page.answer("ann", Given.model_validate(review_page.given(former)))
    review_world.grow(ws, "c2", "No snakes, they scare me.")
    task = next(t for t in review_page.shown(page, "ann") if "snakes" in t["turns"][0]["text"])
    page.answer("ann", Given.model_validate(review_page.given(task)))
    state = gather(ws)
    for hours, reasons in ((-1, []), (1, ["not the last text"])):  # as pulled before, and edited since
        time, asked = datetime.now(UTC) + timedelta(hours=hours), [card["trait"] for card in former["cards"]]
        response = Response(former["key"], "ann", "there", READ, asked, {0: "absent"}, time=time)
        response.taxonomy = state.taxonomy.digest
        pulled = Pulled(tool="label-studio")
        ours = servers._turns_of(state, shown(state.assignments, state.texts))
        servers._add_answers(pulled, [response], state, ours)
        assert [drop[3] for drop in pulled.drops] == reasons
