"""The page of `review serve` as a person uses it, in real Chromium: keys, words, a lost connection, hostile text."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from annotation.page import links
from annotation.push import push
from annotation.review_destinations import ReviewPage
from annotation.tools.tasks_and_answers import Task
from saferec_builder.core import taxonomy
from saferec_builder.storage import tables, workspace as store
from tests.worlds import chromium, review_page, review_world, settings
from tests.worlds.model_replies import one_more, own_taxonomy
from tests.worlds.review_page import DRAWN, Opened, said
from tests.worlds.xss import LISTEN, PAYLOADS

pytestmark = pytest.mark.servers


@pytest.fixture
def page(workspace: store.Workspace) -> Iterator[Opened]:
    """The page for ann and bo: c1 has two proposals (one with quotes that overlap), c2 one, c3 and c4 none."""
    review_world.fill(workspace)
    more = review_world.claim("c1", "needles", "present", "I faint")
    more["spans"].append(review_world.span("c1", "faint when"))
    store.append(workspace, tables.PROPOSALS, tables.PROPOSALS.frame([more]))
    ws = store.Workspace.open(workspace.root)
    with review_page.opened(ws, "ann", "bo", everything=True) as opened:
        yield opened


def start(browser: Any, page: Opened, name: str = "ann", **words: Any) -> Any:
    """Opens the page in this person's browser, and closes the guidelines."""
    context = browser.new_context(**{"viewport": {"width": 1440, "height": 900}} | words)
    context.set_default_timeout(60_000)
    tab = context.new_page()
    tab.strange = []  # type: ignore[attr-defined]
    tab.on("pageerror", lambda fault: tab.strange.append(str(fault)))
    tab.on("console", lambda line: tab.strange.append(line.text) if line.type == "error" else None)
    tab.goto(page.link(name))
    tab.locator(".turn, .plain").first.wait_for()
    if tab.locator("#guidelines").is_visible():  # they are shown before the very first task
        tab.get_by_role("button", name="I have read this").click()
    return tab


def subject(tab: Any) -> str:
    return review_world.subject_of(tab.locator(".turn p").first.text_content())


def answer(tab: Any, keys: dict[str, list[str]]) -> None:
    """Presses the keys for the current conversation, and waits for the next."""
    current = subject(tab)
    tab.wait_for_timeout(DRAWN)
    for key in keys[current]:
        tab.keyboard.press(key)
    tab.wait_for_function(
        "(text) => document.querySelector('.turn p')?.textContent !== text", arg=review_world.TEXTS[current]
    )


def until(tab: Any, true: Any) -> None:
    for _ in range(600):
        if true():
            return
        tab.wait_for_timeout(100)
    tab.screenshot(path=chromium.SCREENS / "page-stuck.png")
    raise AssertionError("the workspace never got it: see build/screens/page-stuck.png")


def test_a_queue_is_answered_by_keys_in_as_many_actions_as_there_are_answers(browser: Any, page: Opened) -> None:
    tab = start(browser, page)
    assert "#" not in tab.url  # the link's secret stays out of the history
    keys = {"c1": ["y", "n", "Enter"], "c2": ["u", "Enter"], "c3": ["Enter"], "c4": ["Enter"]}  # 3, 2, 1 and 1 actions
    for _ in keys:
        answer(tab, keys)
        assert tab.evaluate("document.activeElement.id") == "talk"  # not lost with the button that ended the task
    tab.get_by_text("Nothing is left to read").wait_for()
    until(tab, lambda: len(said(page.ws)) == 7)  # three cards and four times `*`
    verdicts = said(page.ws)
    assert [verdicts["c1", t][0] for t in ("gore", "needles")] == ["present", "absent"]
    assert verdicts["c1", "gore"] == ("present", ["blood"])
    assert verdicts["c2", "accidents_disasters"] == ("unsure", ["crash"])
    assert all(verdicts[c, "*"] == ("absent", []) for c in keys)
    tab.keyboard.press("z")  # the last answer again, with the next `n`
    tab.get_by_text("Your last answer stands").wait_for()
    tab.wait_for_timeout(DRAWN)
    tab.keyboard.press("Enter")
    tab.get_by_text("Nothing is left to read").wait_for()
    assert tab.strange == []


def unsure_and_odd(tab: Any) -> None:
    """Says unsure to the first card, and leaves a note."""
    tab.wait_for_timeout(DRAWN)
    tab.keyboard.press("u")
    tab.locator("summary").click()
    tab.get_by_label("Note for the team").fill("odd")
    tab.get_by_label("Note for the team").blur()


def test_a_look_back_keeps_what_was_said_so_far(browser: Any, page: Opened) -> None:
    """Regression: `z` in the middle of a task went back to the last one, and lost the answers to this one."""
    tab = start(browser, page)
    answer(tab, SKIP)
    while (current := subject(tab)) not in ("c1", "c2"):
        answer(tab, SKIP)
    unsure_and_odd(tab)
    tab.keyboard.press("z")
    tab.get_by_text("Your last answer stands").wait_for()
    answer(tab, SKIP)
    assert subject(tab) == current
    answer(tab, {"c1": ["n", "Enter"], "c2": ["Enter"]})
    until(tab, lambda: (current, "*") in said(page.ws))
    reviews = store.read(page.ws, tables.REVIEWS).filter(subject=current).rows_by_key("trait", named=True, unique=True)
    first = {"c1": "gore", "c2": "accidents_disasters"}[current]
    assert reviews[first]["verdict"] == "unsure" and {row["note"] for row in reviews.values()} == {"odd"}
    assert tab.strange == []


def refused(tab: Any, cards: int) -> None:
    """Answers c2, which has changed meanwhile, and waits until it is shown again with so many cards."""
    tab.wait_for_timeout(DRAWN)
    tab.keyboard.press("Enter")
    tab.get_by_text("has changed").wait_for()
    to(tab, "c2", SKIP)
    tab.wait_for_function("(cards) => document.querySelectorAll('.card').length === cards", arg=cards)


def test_a_task_that_changed_meanwhile_keeps_what_still_fits(browser: Any, workspace: store.Workspace) -> None:
    """Regression: with another proposal, or a new taxonomy, the answer was refused and the task came back empty."""
    review_world.fill(workspace)
    own_taxonomy(workspace)
    path = workspace.root / "mine.toml"
    shutil.copy(taxonomy.EMBEDDED, path)
    with review_page.opened(store.Workspace.open(workspace.root), "ann", "bo") as page:
        tab = start(browser, page)
        to(tab, "c2", SKIP)
        unsure_and_odd(tab)
        one_more(path)
        refused(tab, 1)
        more = [review_world.claim("c2", "needles", "present", "long way")]
        store.append(page.ws, tables.PROPOSALS, tables.PROPOSALS.frame(more))
        push(store.Workspace.open(page.ws.root), ["ann", "bo"], to=ReviewPage())
        refused(tab, 2)
        answer(tab, {"c2": ["n", "Enter"]})  # only needles is left to answer
        until(tab, lambda: ("c2", "*") in said(page.ws))
    reviews = store.read(page.ws, tables.REVIEWS).filter(subject="c2").rows_by_key("trait", named=True, unique=True)
    expected = {"accidents_disasters": "unsure", "needles": "absent", "*": "absent"}
    assert {trait: row["verdict"] for trait, row in reviews.items()} == expected
    assert {row["note"] for row in reviews.values()} == {"odd"}


def test_a_second_enter_and_an_unread_end_answer_nothing(browser: Any, page: Opened) -> None:
    tab = start(browser, page, viewport={"width": 1440, "height": 220})  # the last turn is below
    tab.wait_for_timeout(DRAWN)
    tab.keyboard.press("Enter")
    tab.get_by_text("There was more below").or_(tab.get_by_text("One more answer first")).wait_for()
    tab.set_viewport_size({"width": 1440, "height": 900})
    while len(cards := tab.locator(".card").all()):
        for _ in cards:
            tab.keyboard.press("n")
        if tab.locator(".card").count() == 2:
            tab.keyboard.press("Enter")
            tab.keyboard.press("Enter")  # a double press, before the next task is read
        else:
            tab.locator("#done").dblclick()
        tab.wait_for_timeout(DRAWN)
    until(tab, lambda: {c for c, t in said(page.ws) if t == "*"} == {"c1", "c2"})
    tab.wait_for_timeout(DRAWN)
    assert {c for c, t in said(page.ws) if t == "*"} == {"c1", "c2"}


def word(tab: Any, text: str) -> dict[str, float]:
    box = tab.locator(".theirs i", has_text=text).first.bounding_box()
    return {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}


def drag(tab: Any, first: str, last: str) -> None:
    tab.mouse.move(**word(tab, first))
    tab.mouse.down()
    tab.mouse.move(**word(tab, last), steps=5)
    tab.mouse.up()


def to(tab: Any, wanted: str, keys: dict[str, list[str]]) -> None:
    for _ in range(4):
        if subject(tab) == wanted:
            return
        answer(tab, keys)


SKIP = {"c1": ["n", "n", "Enter"], "c2": ["n", "Enter"], "c3": ["Enter"], "c4": ["Enter"]}


def test_another_trait_gets_its_words_by_mouse_in_four_actions(browser: Any, page: Opened) -> None:
    tab = start(browser, page)
    to(tab, "c3", SKIP)
    drag(tab, "Any", "good")  # before a trait is chosen, then cancelled: no trait gets these words
    tab.keyboard.press("Escape")
    tab.get_by_role("button", name="Add another").click()
    tab.get_by_role("button", name="Blood and gore").click()
    drag(tab, "good", "western")
    tab.keyboard.press("e")  # other words are asked for, and not given
    tab.keyboard.press("Escape")
    assert tab.locator("#words").count() == 0
    tab.wait_for_timeout(DRAWN)
    tab.get_by_role("button", name="Done").click()
    until(tab, lambda: said(page.ws).get(("c3", "gore")) == ("present", ["good western"]))


def test_another_trait_gets_its_words_by_touch_and_by_keys(browser: Any, page: Opened) -> None:
    tab = start(browser, page, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    to(tab, "c1", SKIP)
    tab.wait_for_timeout(DRAWN)
    assert tab.locator(".card blockquote").all_text_contents() == ["blood", "I faint when"]  # "faint" was there twice
    for key in ("y", "y"):
        tab.keyboard.press(key)
    assert tab.evaluate("(typed) => locate(typed)?.start", "👨\u200d👩\u200d👧 cafe\u0301") == 3  # over line breaks
    tab.get_by_role("button", name="Add another").tap()
    tab.get_by_role("button", name="Horror").tap()
    for text in ("cafe\u0301", "faint"):  # after an emoji and a family of zero-width joiners, over a combining accent
        tab.touchscreen.tap(**word(tab, text))
    tab.get_by_role("button", name="Done").tap()
    until(tab, lambda: said(page.ws).get(("c1", "horror_scares"), ("",))[0] == "present")
    assert said(page.ws)["c1", "horror_scares"] == ("present", ["cafe\u0301: I faint"])
    assert said(page.ws)["c1", "needles"] == ("present", ["I faint", "faint when"])  # what is stored is not joined
    wide = start(browser, page)
    to(wide, "c3", SKIP)
    keys = ["a", *"blo", "Enter", *"west", "Enter", "Enter"]  # 11
    wide.wait_for_timeout(DRAWN)
    for key in keys:
        wide.keyboard.press(key)
    until(wide, lambda: said(page.ws).get(("c3", "gore")) == ("present", ["western"]))


def test_practice_is_explained_and_kept_nowhere(browser: Any, workspace: store.Workspace) -> None:
    """Five invented tasks; saying yes to everything and adding nothing is right in two."""
    review_world.fill(workspace)
    with review_page.opened(store.Workspace.open(workspace.root), "ann", "bo", practice=True) as page:
        tab = start(browser, page)
        agreed = []
        for n in range(1, 6):
            if tab.get_by_text("May be hard to read (").count():
                tab.wait_for_timeout(DRAWN)
                tab.keyboard.press("Enter")
            tab.get_by_text(f"Practice {n} of 5").wait_for()
            for key in ["y"] * tab.locator(".card").count():
                tab.keyboard.press(key)
            tab.wait_for_timeout(DRAWN)
            for _ in range(2):  # the second half of a double press does not skip the feedback
                tab.keyboard.press("Enter")
            agreed.append(tab.get_by_text("as we would.").count())
            assert tab.get_by_text("What we would say").count() and tab.locator(".plain p").first.inner_text()
            tab.wait_for_timeout(DRAWN)
            tab.keyboard.press("Enter")
        assert agreed == [1, 0, 0, 1, 0]
        assert subject(tab) in review_world.TEXTS and not said(page.ws)
        answer(tab, SKIP)
        until(tab, lambda: len(said(page.ws)) == 2)
        tab.reload()  # whoever has answered a task gets no practice
        tab.locator(".turn").first.wait_for()
        assert not tab.get_by_text("Practice").count() and tab.strange == []


def test_an_answer_that_was_rejected_elsewhere_says_why(browser: Any, workspace: store.Workspace) -> None:
    review_world.fill(workspace)
    ws = store.Workspace.open(workspace.root)
    push(ws, ["ann", "bo"], to=ReviewPage())
    task = Task("sensitivity", "c1", "d-c1", "ann", "reviewer").id
    line = {"task": task, "reviewer": "ann", "place": "ann.csv:2"}
    line |= {"reason": "quote not found", "detail": "gore: 'bloood'"}
    store.append(ws, tables.REJECTED, tables.REJECTED.frame([line]))
    with review_page.opened(ws) as page:
        tab, other = start(browser, page), start(browser, page, "bo")
        for view, count in ((tab, 1), (other, 0)):
            to(view, "c1", SKIP)
            assert view.get_by_text("(ann.csv:2): quote not found: gore: 'bloood'").count() == count


def test_what_is_severe_is_announced_and_an_adjudicator_answers_before_the_votes(
    browser: Any, workspace: store.Workspace
) -> None:
    review_world.fill(workspace)
    claims = [review_world.claim("c1", "sexual_violence", "present", "funny") | {"form": None}]
    store.append(workspace, tables.PROPOSALS, tables.PROPOSALS.frame(claims))
    with review_page.opened(store.Workspace.open(workspace.root), "ann", "bo") as page:
        for name, verdict in (("ann", "present"), ("bo", "absent")):
            web = page.browser(name)
            task = review_page.named(review_page.shown(page.served.tasks, name), "c1")
            assert web.post("/answer", json=review_page.given(task, verdict)).status_code == 200
        push(page.ws, ["ann", "bo"], to=ReviewPage(), adjudicator="cy")
        tab = start(browser, page, name="cy")
        tab.get_by_text("May be hard to read (").wait_for()
        assert tab.locator(".turn").count() == 0 and tab.get_by_text("Sexual violence").count()
        tab.wait_for_timeout(DRAWN)
        tab.keyboard.press("Enter")
        votes = tab.get_by_text("What reviewers said")
        assert tab.locator(".card").count() == 2 and votes.count() == 0
        tab.keyboard.press("n")
        assert votes.count() == 1 and tab.locator(".card", has_text="What").get_by_text("present").count() == 1
        tab.keyboard.press("n")
        gore = tab.locator(".card", has_text="Blood and gore")
        gore.get_by_role("button", name="Unsure").click()  # a new answer, once the votes are shown
        tab.locator("summary").click()
        tab.get_by_label("Note for the team").fill("x" * 4_001)  # it is refused, and the rest of the answer is kept
        tab.wait_for_timeout(DRAWN)
        tab.locator("#done").click()
        tab.get_by_text("at most 4000 characters").wait_for()
        tab.get_by_label("Note for the team").fill("short")
        tab.wait_for_timeout(DRAWN)
        tab.locator("#done").click()
        expected = {("c1", "gore"): ("unsure", ["blood"]), ("c1", "sexual_violence"): ("absent", [])}
        until(tab, lambda: said(page.ws, "cy") == expected)
        rows = store.read(page.ws, tables.REVIEWS).filter(reviewer="cy", trait="gore")
        assert rows["verdict"].to_list() == ["absent", "unsure"]


def test_a_lost_connection_keeps_the_answer_and_another_tab_is_told(browser: Any, page: Opened) -> None:
    tab = start(browser, page)
    first = subject(tab)
    other = tab.context.new_page()
    other.goto(page.served.address)
    other.locator(".turn").first.wait_for()
    tab.context.set_offline(True)
    tab.wait_for_timeout(DRAWN)
    for key in [*SKIP[first], "s", "y"]:  # the answer that waits is not changed
        tab.keyboard.press(key)
    tab.get_by_text("your answer is kept here").wait_for()
    assert not said(page.ws)
    tab.context.set_offline(False)
    until(tab, lambda: said(page.ws).get((first, "*")) == ("absent", []))
    height = store.read(page.ws, tables.REVIEWS).height
    other.bring_to_front()
    other.get_by_role("button", name="I have read this").click()
    other.wait_for_timeout(DRAWN)
    for key in SKIP[first]:
        other.keyboard.press(key)
    other.get_by_text("stored already").or_(other.get_by_text("in another tab")).wait_for()
    assert store.read(page.ws, tables.REVIEWS).height == height
    assert subject(other) == subject(tab)


def test_an_answer_waits_for_a_new_link_and_a_revoked_one_ends_what_is_open(
    browser: Any, page: Opened, cli: Any
) -> None:
    """Regression: a new link was made while ann read, and her next answer was lost."""
    tab = start(browser, page)
    link, (current, *_) = links.make(page.ws, ["ann"])["ann"], [subject(tab)]
    tab.wait_for_timeout(DRAWN)
    for key in SKIP[current]:
        tab.keyboard.press(key)
    tab.get_by_text("no longer").wait_for()
    other = tab.context.new_page()
    other.goto(link)
    other.locator(".turn").first.wait_for()
    until(tab, lambda: (current, "*") in said(page.ws))
    tab.locator(".turn").first.wait_for()
    assert subject(tab) != current
    assert cli("review", "link", "ann", "--revoke", "-C", page.ws.root).code == 0
    stored = said(page.ws)
    tab.wait_for_timeout(DRAWN)
    for key in SKIP[subject(tab)]:
        tab.keyboard.press(key)
    tab.get_by_text("no longer").wait_for()
    assert tab.locator(".turn").count() == 0 and said(page.ws) == stored
    tab.reload()
    tab.get_by_text("no longer").wait_for()


def test_no_payload_runs(browser: Any, workspace: store.Workspace) -> None:
    """Every payload as a turn, and two as a trait's wording; escaping alone must hold: the page's CSP is bypassed."""
    turns = [{"role": ("seeker", "recommender")[n % 2], "text": text, "items": []} for n, text in enumerate(PAYLOADS)]
    row = {"conversation": "c1", "digest": "d1", "turns": turns, "source": "messages", "source_id": "c1"}
    store.append(workspace, tables.CONVERSATIONS, tables.CONVERSATIONS.frame([row]))
    bad = '"><img src=x onerror=pwned()>'
    settings.taxonomy(workspace.root, gore=bad.replace('"', "'"))
    ws = store.Workspace.open(workspace.root)
    with review_page.opened(ws, "ann", "bo", everything=True) as page:
        context = browser.new_context(bypass_csp=True)
        context.add_init_script(LISTEN)
        tab = context.new_page()
        tab.goto(page.link("ann"))
        tab.get_by_role("button", name="I have read this").click()
        tab.keyboard.press("a")
        tab.wait_for_timeout(1_000)
        shown = tab.evaluate("document.body.textContent")
        assert not [text for text in PAYLOADS if text not in shown] and "onerror=pwned()>" in shown
        assert tab.evaluate("window.hits") == 0
        tab.evaluate("() => document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=pwned()>')")
        tab.wait_for_function("window.hits > 0")  # a payload that ran would be seen
