"""What a reviewer sees and does, in a real browser on the real servers; screenshots go to build/screens."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest

from annotation.servers import _mark
from annotation.tools.label_studio import HERE
from saferec_builder.storage import tables, workspace as store
from tests.worlds import chromium, review_world

pytestmark = pytest.mark.servers
FIELD = "[class^=span-annotation__field]"
WORDS = "cafe\u0301: I faint"  # after an emoji and a family of zero-width joiners, across a combining accent

RECTANGLE = """
([scope, words]) => {
  for (const root of document.querySelectorAll(scope)) {
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    let text = '', nodes = [];
    while (walker.nextNode()) { nodes.push([walker.currentNode, text.length]); text += walker.currentNode.data; }
    const at = text.indexOf(words);
    if (at < 0) continue;
    const place = (n) => {
      const [node, start] = nodes.filter(([_, s]) => s <= n).pop();
      const range = document.createRange();
      range.setStart(node, n - start); range.setEnd(node, n - start + 1);
      root.scrollIntoView({block: 'center'});
      const box = range.getBoundingClientRect();
      return [box.left, box.right, (box.top + box.bottom) / 2];
    };
    const [first, last] = [place(at), place(at + words.length - 1)];
    return {x1: first[0] + 1, y1: first[2], x2: last[1] - 1, y2: last[2]};
  }
  return null;
}
"""


@pytest.fixture
def page(browser) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1400, "height": 1250})
    context.set_default_timeout(90_000)
    yield context.new_page()
    context.close()


def drag(page: Any, scope: str, words: str) -> None:
    """Marks words as a person does, with the mouse."""
    box = page.evaluate(RECTANGLE, [scope, words])
    assert box, f"{words!r} is not on the page"
    page.mouse.move(box["x1"], box["y1"])
    page.mouse.down()
    page.mouse.move((box["x1"] + box["x2"]) / 2, box["y1"], steps=4)
    page.mouse.move(box["x2"], box["y2"], steps=8)
    page.mouse.up()


def wait(page: Any, true: Callable[[], bool]) -> None:
    """Waits until the server has what the page sent."""
    for _ in range(120):
        if true():
            return
        page.wait_for_timeout(500)
    page.screenshot(path=chromium.SCREENS / "stuck.png")
    raise AssertionError("the server never got it: see build/screens/stuck.png")


def pulled(ws: store.Workspace, subject: str) -> dict[str, tuple[str, list[str], str | None]]:
    rows = tables.last(store.read(ws, tables.REVIEWS).filter(subject=subject), "trait")
    for row in rows.iter_rows(named=True):
        for span in row["spans"] or []:
            assert review_world.TEXTS[subject][span["start"] : span["end"]] == span["quote"]
    return {r["trait"]: (r["verdict"], [s["quote"] for s in r["spans"] or []], r["form"]) for r in rows.to_dicts()}


# ---- Label Studio


@pytest.fixture
def studio(ws, label_studio, cli) -> review_world.LabelStudio:
    return review_world.LabelStudio.own(ws, label_studio)


def names_in(css: str) -> list[str]:
    """Returns the server's own classes that a style sheet names; they are those of its pinned version."""
    css = re.sub(r"/\*.*?\*/", "", css, flags=re.DOTALL)
    return sorted(set(re.findall(r'\[class\*="[^"]+"\]|\.(?:lsf|ant)-[\w-]+', css)))


def test_a_reviewer_works_in_label_studio(ws, studio, page, cli):
    words = ("-C", ws.root, "--json")
    assert cli("review", "push", "--reviewer", "ann", "--reviewer", "bo", *words).code == 0
    studio.log_in(page, "ann")
    project = studio.project("ann")
    task = next(t for t in studio._tasks("ann") if "blood" in t["data"]["turns"][0]["text"])
    page.goto(f"{studio.facts['url']}/projects/{project.id}/data?task={task['id']}")
    page.get_by_text("I faint when I see").first.wait_for()
    page.locator(".saferec-card", has_text="Blood and gore").wait_for()  # the trait's name, not its slug
    assert not page.get_by_text("gore", exact=True).count()
    checked, marked = page.locator(".saferec input:checked"), page.locator(".htx-highlight")
    assert not checked.count()  # no answer is preset, so nobody accepts a proposal unread
    assert marked.all_inner_texts() == ["blood"]
    css = (HERE / "interface.css").read_text()
    assert len(names_in(css)) > 20 and not [name for name in names_in(css) if not page.locator(name).count()]
    hidden = page.locator('[class*="time--"], .lsf-tabs-panel, [class*="authorFilter--"], .lsf-label__hotkey')
    assert hidden.count() > 20 and not any(element.is_visible() for element in hidden.all())
    page.screenshot(path=chromium.SCREENS / "label-studio-task.png")
    for key in "0123456789qwertasdgzxcvbiopjklm":  # keys hit by mistake mark nothing
        page.keyboard.press(key)
    drag(page, "[class*=dialoguetext]", "Something funny")
    assert marked.all_inner_texts() == ["blood"] and not checked.count()
    page.keyboard.press("Control+Enter")
    page.get_by_text("Please answer every card").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("y")
    page.get_by_text("Something else?").click()
    page.keyboard.press("f")
    page.keyboard.type("needles")
    page.keyboard.press("Enter")
    drag(page, "[class*=dialoguetext]", WORDS)
    page.screenshot(path=chromium.SCREENS / "label-studio-answer.png")
    page.keyboard.press("Control+Enter")
    wait(page, lambda: any(t["total_annotations"] for t in studio._tasks("ann")))
    result = cli("review", "pull", *words)
    assert result.code == 0, result.err
    reviews = pulled(ws, "c1")
    assert reviews["gore"] == ("present", ["blood"], "explicit"), result.err
    assert reviews["needles"] == ("present", [WORDS], None)
    assert reviews["*"][0] == "absent"
    assert store.read(ws, tables.REVIEWS)["seconds"].drop_nulls().len()
    page.goto(f"{studio.facts['url']}/projects/{project.id}/data?labeling=1")  # the queue that a reviewer works through
    page.locator(".saferec-card", has_text="Crashes and disasters").wait_for()
    guidelines = page.get_by_text("No quota is worth a bad night.")
    guidelines.wait_for()
    assert page.get_by_text("The last row").count() == 0  # only the guidelines for files say that
    page.keyboard.press("Escape")
    guidelines.wait_for(state="hidden")
    page.keyboard.press("Control+Space")
    wait(page, lambda: any(t["cancelled_annotations"] for t in studio._tasks("ann")))
    assert cli("review", "pull", *words).code == 0
    assert pulled(ws, "c2") == {"*": (None, [], None)}


def test_an_adjudicator_in_label_studio_answers_before_the_votes(ws, studio, page, cli):
    words = ("-C", ws.root, "--json")
    assert cli("review", "push", "--reviewer", "ann", "--reviewer", "bo", *words).code == 0
    studio.answer("ann", lambda subject, asked: review_world.Verdict({"gore": "blood"} if subject == "c1" else {}))
    studio.answer("bo", lambda subject, asked: review_world.Verdict())
    assert cli("review", "pull", *words).code == 0
    assert cli("review", "push", "--adjudicator", "cy", *words).code == 0
    studio.log_in(page, "cy")
    (task,) = studio._tasks("cy")
    page.goto(f"{studio.facts['url']}/projects/{studio.project('cy').id}/data?task={task['id']}")
    page.locator(".saferec-card", has_text="Blood and gore").wait_for()
    votes = page.get_by_text("Reviewers said")
    page.wait_for_timeout(1_000)
    assert [vote.is_visible() for vote in votes.all()] == [False]
    page.keyboard.press("n")
    votes.wait_for(state="visible")
    page.keyboard.press("y")
    page.keyboard.press("Control+Enter")
    wait(page, lambda: studio._tasks("cy")[0]["total_annotations"])
    assert cli("review", "pull", *words).code == 0
    assert pulled(ws, "c1")["gore"] == ("present", ["blood"], "explicit")


# ---- Argilla


def test_a_reviewer_works_in_argilla(ws, argilla_server, page, cli):
    tool = review_world.Argilla(ws, argilla_server.url, argilla_server.key)
    options = (*tool.push_words, "-C", ws.root, "--json")
    assert cli("review", "push", "--reviewer", "ann", "--reviewer", "di", *options).code == 0
    passwords = json.loads((ws.root / "argilla-accounts.json").read_text())  # di had no account
    assert [*passwords] == ["di"] and (ws.root / "argilla-accounts.json").stat().st_mode & 0o777 == 0o600
    login = {"username": "di", "password": passwords["di"]}
    assert httpx2.post(f"{argilla_server.url}/api/v1/token", data=login, timeout=60).status_code == 201
    tool.log_in(page)
    (project,) = tool.server.projects(_mark(ws, "ann"))
    for number in (1, 2):  # of the two open tasks, the one with the emoji
        page.goto(f"{argilla_server.url}/dataset/{project.id}/annotation-mode?page={number}&status=pending")
        page.get_by_text("Conversation", exact=True).wait_for()
        page.locator(FIELD).first.wait_for()
        if "I faint" in page.locator(FIELD).first.inner_text():
            break
    for words in ("Blood and gore: ", "\u201cblood\u201d", "Proposal 1"):  # the proposal is on the first screen
        assert page.get_by_text(words).first.bounding_box()["y"] < 400, words
    page.screenshot(path=chromium.SCREENS / "argilla-task.png")
    page.keyboard.press("2")  # no: to the first card
    page.get_by_text(re.compile(r"^\s*\+\s*\d+\s*$")).locator("visible=true").first.click()  # the other traits
    page.locator("label[for='evidence-2dneedles']").click()
    drag(page, FIELD, WORDS)
    page.screenshot(path=chromium.SCREENS / "argilla-answer.png")
    page.get_by_text("Submit", exact=True).click()
    wait(page, lambda: any(r.get("responses") for r in tool._records("ann")))
    result = cli("review", "pull", *options)
    assert result.code == 0, result.err
    reviews = pulled(ws, "c1")
    assert reviews["gore"][0] == "absent", result.err
    assert reviews["needles"] == ("present", [WORDS], "implicit")
    assert reviews["*"][0] == "absent"
