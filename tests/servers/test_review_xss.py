"""No text by strangers runs as code in a reviewer's browser: every payload as a turn and in a title, two as a trait's
wording, in real Chromium before a real Label Studio and a real Argilla."""

from collections.abc import Iterator
from typing import Any

import pytest

from saferec_builder import catalog
from saferec_builder.storage import tables, workspace as store
from tests.worlds import chromium, review_world
from tests.worlds.settings import add_settings
from tests.worlds.xss import LISTEN, PAYLOADS

pytestmark = pytest.mark.servers
FIRST, TITLE = "A quiet film, please.", "The Quiet Film"
ASKED = ("Does this person let us see", "Would this item break")  # about the conversation, about the item
HOVER = """() => { for (const node of document.querySelectorAll("body *"))
  for (const kind of ["mouseover", "mouseenter", "focus", "toggle"])
    node.dispatchEvent(new MouseEvent(kind, {bubbles: true, cancelable: true})); }"""
PLANTED = "() => document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=pwned()>')"
TRAIT = """[[trait]]
slug = "gore"
name = '"><script>pwned()</script>'
definition = '''</Label><img src=x onerror=pwned()> "' & <!-- -->'''
topics = ["blood"]
"""


@pytest.fixture
def page() -> Iterator[Any]:
    """Escaping alone must hold: the server's own content security policy is bypassed."""
    with chromium.browser(chromium.OFFLINE) as browser:
        context = browser.new_context(viewport={"width": 1400, "height": 1250}, bypass_csp=True)
        context.set_default_timeout(180_000)
        context.add_init_script(LISTEN)
        yield context.new_page()


@pytest.fixture
def ws(workspace: store.Workspace) -> store.Workspace:
    """Payloads as the turns of a conversation, all of them in a film's title, and two in the taxonomy."""
    turns = [{"role": ("seeker", "recommender")[n % 2], "text": text, "items": []} for n, text in enumerate(PAYLOADS)]
    turns = [{"role": "seeker", "text": FIRST, "items": []}, *turns]
    row = {"conversation": "c1", "digest": "d1", "turns": turns, "source": "messages", "source_id": "c1"}
    store.append(workspace, tables.CONVERSATIONS, tables.CONVERSATIONS.frame([row]))
    film = {
        "source": "csv",
        "source_id": "1",
        "domain": "film",
        "title": " ".join([TITLE, *PAYLOADS]),
        "plot": PAYLOADS[0],
    }
    films = tables.CATALOG_ROWS.frame([film])
    store.append(workspace, tables.CATALOG_ROWS, films)
    claim = {"proposal": "p", "kind": "item_flag", "verdict": "present"}
    plot = {"turn": 0, "start": 0, "end": len(PAYLOADS[0]), "quote": PAYLOADS[0]}
    claim |= {"subject": catalog.merge(films)[0]["item"][0], "trait": "gore"}
    claim |= {"digest": tables.digest(PAYLOADS[0]), "spans": [plot]}
    quote = plot | {"turn": 1}
    other = claim | {"proposal": "q", "kind": "sensitivity", "subject": "c1", "digest": "d1", "spans": [quote]}
    store.append(workspace, tables.PROPOSALS, tables.PROPOSALS.frame([claim, other]))
    (workspace.root / "traits.toml").write_text(TRAIT)
    add_settings(workspace.root, "taxonomy", 'path = "traits.toml"')
    return store.Workspace.open(workspace.root)


def blank(text: str) -> str:
    """Removes white space, which a page may change."""
    return "".join(text.split())


def nothing_ran(page: Any) -> None:
    """Checks that every payload can be read, letter by letter, and none has run; a planted one is seen to run."""
    page.wait_for_timeout(2_000)
    page.evaluate(HOVER)
    page.wait_for_timeout(500)
    body = blank(page.evaluate("document.body.textContent"))
    assert not [text for text in PAYLOADS if blank(text) not in body]
    assert page.evaluate("window.hits") == 0
    page.evaluate(PLANTED)
    page.wait_for_function("window.hits > 0")  # a payload that ran would be seen, however slow the server is
    assert page.evaluate("window.hits") == 1  # and so would an image requested earlier


@pytest.mark.slow
def test_no_payload_runs_in_label_studio(ws: store.Workspace, label_studio: Any, page: Any, cli: Any) -> None:
    assert len(set(PAYLOADS)) >= 50
    studio = review_world.LabelStudio.own(ws, label_studio)
    assert cli("review", "push", "--reviewer", "ann", "--reviewer", "bo", "--all", "-C", ws.root).code == 0
    studio.log_in(page, "ann")
    project, tasks = studio.project("ann"), studio._tasks("ann")
    assert project is not None
    page.goto(f"{studio.facts['url']}/projects/{project.id}/data")  # the list shows texts too
    page.get_by_text(ASKED[0]).first.wait_for()
    assert page.evaluate("window.hits") == 0
    for question in ASKED:
        (task,) = [task for task in tasks if question in task["data"]["ask"]]
        page.goto(f"{studio.facts['url']}/projects/{project.id}/data?task={task['id']}")
        page.get_by_text(FIRST if question == ASKED[0] else TITLE).first.wait_for()
        nothing_ran(page)


@pytest.mark.slow
def test_no_payload_runs_in_argilla(ws: store.Workspace, argilla_server: Any, page: Any, cli: Any) -> None:
    tool = review_world.Argilla(ws, argilla_server.url, argilla_server.key)
    words = ("--reviewer", "ann", "--reviewer", "bo", "--all", *tool.push_words, "-C", ws.root)
    assert cli("review", "push", *words).code == 0
    tool.log_in(page)
    (project,) = tool.projects("ann")
    seen = set()
    for number in (1, 2):
        page.goto(f"{argilla_server.url}/dataset/{project.id}/annotation-mode?page={number}&status=pending")
        page.get_by_text("Conversation", exact=True).wait_for()
        page.get_by_text(ASKED[0]).or_(page.get_by_text(ASKED[1])).first.wait_for()
        (question,) = [text for text in ASKED if page.get_by_text(text).count()]
        page.get_by_text(FIRST if question == ASKED[0] else TITLE).first.wait_for()
        nothing_ran(page)
        seen.add(question)
    assert seen == set(ASKED)
