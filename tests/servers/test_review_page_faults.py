"""Faults around Done on the page, in real Chromium: every answer is stored once. `make soak` injects 200 faults.

And the time of an answer.
"""

import os
from collections import Counter, deque
from typing import Any

import pytest

from saferec_builder.storage import tables, workspace as store
from tests.worlds import review_page
from tests.worlds.review_page import DRAWN

FEW = int(os.environ.get("SAFEREC_FAULTS", "8"))
FAULTS = ("refuse", "fail", "done_but_500", "done_but_cut")  # as tests/servers/faulty.py has them
pytestmark = [pytest.mark.servers, pytest.mark.slow, pytest.mark.timeout(3_600)]


def test_no_fault_around_an_answer_loses_or_doubles_it(browser: Any, workspace: store.Workspace, injected: Any) -> None:
    films = review_page.films(workspace, FEW)
    plan, met = deque(FAULTS[n % len(FAULTS)] for n in range(FEW)), Counter[str]()
    hit: list[str] = []  # tasks that have met their fault

    def spoil(route: Any) -> None:
        task = route.request.post_data_json["task"]
        fault = "" if task in hit else plan.popleft()
        hit.append(task)
        met[fault] += 1
        response = route.fetch() if fault not in ("refuse", "fail") else None
        if fault in ("refuse", "done_but_cut"):
            route.abort()
        elif fault:
            route.fulfill(status=500, json={"why": "broken on purpose"})
        else:
            route.fulfill(response=response)

    with review_page.opened(store.Workspace.open(workspace.root), "ann", "bo", everything=True) as page:
        tab = browser.new_context().new_page()
        tab.set_default_timeout(60_000)
        tab.route("**/answer", spoil)
        tab.goto(page.link("ann"))
        tab.get_by_role("button", name="I have read this").click()
        for remaining in range(FEW - 1, -1, -1):
            tab.wait_for_timeout(DRAWN)
            tab.keyboard.press("Enter")
            tab.wait_for_function(
                "(left) => document.getElementById('count').textContent.endsWith(`${left} to go`)", arg=remaining
            )
        tab.get_by_text("Nothing is left to read").wait_for()
    assert met.pop("") == FEW and sum(met.values()) == FEW and max(met.values()) - min(met.values()) <= 1
    reviews = store.read(page.ws, tables.REVIEWS)
    assert sorted(reviews["subject"]) == films and set(reviews["reviewer"]) == {"ann"}
    injected("faults around an answer on the page", FEW)


def test_the_time_of_a_task_is_all_that_was_spent_on_it(browser: Any, workspace: store.Workspace) -> None:
    """Who looked at the guidelines, or back at an answer, lost the time before; a night in a hidden tab counted."""
    review_page.films(workspace, 1)
    with review_page.opened(store.Workspace.open(workspace.root), "ann", "bo", everything=True) as page:
        tab = browser.new_context().new_page()
        tab.set_default_timeout(60_000)
        tab.goto(page.link("ann"))
        read = tab.get_by_role("button", name="I have read this")
        began = tab.evaluate("performance.now()")
        read.click()
        tab.wait_for_timeout(2_000)

        def hide(milliseconds: int) -> None:
            for hidden in ("true", "false"):
                tab.evaluate(f"Object.defineProperty(document, 'hidden', {{ value: {hidden}, configurable: true }})")
                tab.evaluate("document.dispatchEvent(new Event('visibilitychange', { bubbles: true }))")
                tab.wait_for_timeout(milliseconds if hidden == "true" else 1_000)

        tab.keyboard.press("g")
        tab.wait_for_timeout(5_000)
        hide(0)  # the time with the guidelines is not the task's, also where the tab was hidden meanwhile
        read.click()
        hide(5_000)
        for key in ("Enter", "z", "Enter"):
            tab.wait_for_timeout(DRAWN)
            tab.keyboard.press(key)
            tab.get_by_text("Your last answer stands" if key == "z" else "Nothing is left to read").wait_for()
        passed = (tab.evaluate("performance.now()") - began) / 1000
    first, again = store.read(page.ws, tables.REVIEWS)["seconds"]
    assert 3 < first < again < passed - 10
