"""axe-core on every state of the page, in light and dark, on a wide screen and a phone: nothing serious."""

from typing import Any

import pytest

from annotation.push import push
from annotation.review_destinations import ReviewPage
from annotation.tools.tasks_and_answers import Task
from saferec_builder.storage import tables, workspace as store
from tests.worlds import chromium, review_page, review_world
from tests.worlds.review_page import DRAWN

pytestmark = pytest.mark.servers
STATES = 14


@pytest.mark.slow
@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
def test_axe_finds_nothing_serious(browser: Any, workspace: store.Workspace, width: int, height: int) -> None:
    violations: dict[str, list[str]] = {}

    def look(tab: Any, state: str, words: str) -> None:
        tab.get_by_text(words).first.wait_for()
        for colours in ("dark", "light"):
            tab.emulate_media(color_scheme=colours)
            violations[f"{state}, {colours}"] = chromium.serious(tab)

    def opened(name: str | None) -> Any:
        words = {"viewport": {"width": width, "height": height}}
        tab = browser.new_context(**words, has_touch=width < 500, is_mobile=width < 500).new_page()
        tab.set_default_timeout(60_000)
        tab.goto(page.link(name) if name else page.served.address)
        return tab

    with _world(workspace) as page:
        ann, bo, cy = opened("ann"), opened("bo"), opened("cy")
        look(ann, "guidelines", "No quota is worth a bad night")
        press(ann, "Enter")
        look(ann, "task", "Practice 1 of 5")
        press(ann, "y")
        look(ann, "answered", "Practice 1 of 5")
        press(ann, "e")
        look(ann, "words", "Practice 1 of 5")
        press(ann, *["Enter"] * (width > 500), "a")  # on a phone no field has the focus
        look(ann, "list", "Horror and jump scares")
        press(ann, "Escape", "Enter")
        look(ann, "feedback", "What we would say")
        press(ann, "Enter", "n", "Enter", "Enter")
        look(ann, "severe", "May be hard to read (")
        while not bo.get_by_text("I see blood").count():  # the other conversations have no proposals
            press(bo, "Enter")
        look(bo, "rejected", "Your last answer could not be taken")
        press(bo, "Enter")
        look(bo, "done too early", "One more answer first")
        bo.context.set_offline(True)
        press(bo, "n", "n", "Enter")
        look(bo, "no connection", "your answer is kept here")
        bo.context.set_offline(False)
        press(cy, "Enter", *["s", "Enter"] * 5, "n")  # cy skips the practice
        look(cy, "votes", "What reviewers said")
        press(cy, "Enter")
        look(cy, "all read", "Nothing is left to read")
        look(opened(None), "no link", "This link is not valid")
        press(ann, "g")
        look(ann, "guidelines over a task", "No quota is worth a bad night")
    assert {state: bad for state, bad in violations.items() if bad} == {} and len(violations) == 2 * STATES


def press(tab: Any, *keys: str) -> None:
    for key in keys:
        tab.wait_for_timeout(DRAWN)
        tab.keyboard.press(key)


def _world(ws: store.Workspace) -> Any:
    """Ann practises; bo has answered before and has a rejected answer to two proposals; cy has a dispute."""
    review_world.fill(ws)
    more = [review_world.claim("c1", "needles", "present", "I faint")]
    store.append(ws, tables.PROPOSALS, tables.PROPOSALS.frame(more))
    ws = store.Workspace.open(ws.root)
    page = review_page.tasks(ws, "di", "bo")
    for name, verdict in (("di", "present"), ("bo", "absent")):
        task = review_page.named(review_page.shown(page, name), "c2")
        page.answer(name, review_page.Given.model_validate(review_page.given(task, verdict)))
    push(ws, ["ann", "bo", "di"], to=ReviewPage(), adjudicator="cy", everything=True)
    line = {"task": Task("sensitivity", "c1", "d-c1", "bo", "reviewer").id, "reviewer": "bo", "place": "bo.csv:2"}
    line |= {"reason": "quote not found", "detail": "gore: 'bloood'"}
    store.append(ws, tables.REJECTED, tables.REJECTED.frame([line]))
    return review_page.opened(ws, practice=True)
