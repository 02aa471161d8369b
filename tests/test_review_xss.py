"""Nothing that strangers wrote runs in a reviewer's browser: every payload as a turn, two as a trait's wording, in real
Chromium before a real Label Studio."""

import shutil
from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest

from saferec_builder import store, tables
from tests import review_world
from tests.test_report_xss import LISTEN, PAYLOADS

pytestmark = pytest.mark.servers
FIRST = "A quiet film, please."
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
    """Escaping alone must hold: a policy of the server's own is passed by."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if not program:
        pytest.skip("part not run: chromium (install: apt-get install chromium)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as player:
        made = player.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
        )
        context = made.new_context(viewport={"width": 1400, "height": 1250}, bypass_csp=True)
        context.set_default_timeout(180_000)
        context.add_init_script(LISTEN)
        yield context.new_page()
        made.close()


@pytest.fixture
def ws(workspace: store.Workspace) -> store.Workspace:
    """One conversation whose turns are the payloads, and a taxonomy that would like to run too."""
    turns = [{"role": ("seeker", "recommender")[n % 2], "text": text, "items": []} for n, text in enumerate(PAYLOADS)]
    turns = [{"role": "seeker", "text": FIRST, "items": []}, *turns]
    row = dict.fromkeys(tables.CONVERSATIONS.columns) | {"conversation": "c1", "digest": "d1", "turns": turns}
    row |= {"source": "messages", "source_id": "c1"}
    store.append(workspace, tables.CONVERSATIONS, pl.DataFrame([row], schema=tables.CONVERSATIONS.schema))
    (workspace.root / "traits.toml").write_text(TRAIT)
    toml = workspace.root / "saferec.toml"
    toml.write_text(toml.read_text().replace("[taxonomy]\n", '[taxonomy]\npath = "traits.toml"\n'))
    return store.open_workspace(workspace.root)


def nothing_ran(page: Any) -> None:
    page.wait_for_timeout(2_000)
    page.evaluate(HOVER)
    page.wait_for_timeout(500)
    assert "pwned()" in page.inner_text("body")  # it is there to be read
    assert page.evaluate("window.hits") == 0
    page.evaluate(PLANTED)
    page.wait_for_timeout(1_000)
    assert page.evaluate("window.hits") == 1  # it would have been seen


def test_no_payload_runs_in_label_studio(ws: store.Workspace, label_studio: Any, page: Any, cli: Any) -> None:
    from annotation import managed

    home, facts = label_studio
    (ws.root / "label-studio").symlink_to(home)
    assert cli("review", "push", "--reviewer", "ann", "--reviewer", "bo", "--all", "-C", ws.root).code == 0
    account = (managed.state(home) or {})["accounts"]["ann"]
    page.goto(facts["url"] + "/user/login/")
    page.fill("input[name=email]", account["email"])
    page.fill("input[name=password]", account["password"])
    page.click("button[type=submit]")
    page.wait_for_url(lambda url: "login" not in url)
    studio = review_world.LabelStudio(ws, home, facts)
    project, (task,) = studio.project("ann"), studio._tasks("ann")
    assert project is not None
    page.goto(f"{facts['url']}/projects/{project.id}/data")  # the list shows texts too
    page.get_by_text("Does this person").first.wait_for()
    assert page.evaluate("window.hits") == 0
    page.goto(f"{facts['url']}/projects/{project.id}/data?task={task['id']}")
    page.get_by_text(FIRST).first.wait_for()
    nothing_ran(page)
