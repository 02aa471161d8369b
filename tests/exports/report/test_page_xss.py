"""Text from outside never runs as a script: every payload is put into every text of the page and run in Chromium.

The page is opened without its Content-Security-Policy, so that escaping alone must hold; then every element is
hovered, focused and clicked. A page that does not escape is opened first, which the detector must notice.
"""

import os
import re
from collections.abc import Iterator, Mapping
from itertools import cycle, repeat
from pathlib import Path
from typing import Any

import pytest

from exports.report import page
from exports.report.gather import gather
from saferec_builder.storage import workspace as store
from tests.worlds import chromium
from tests.worlds.report_world import results, run, world
from tests.worlds.xss import LISTEN, PAYLOADS

HOME = "https://report.invalid/"
STIR = """() => { for (const node of document.querySelectorAll("body *")) {
  if (node.closest("a[href^='#']")) continue;
  for (const kind of ["mouseover", "mouseenter", "focus", "click", "toggle"])
    node.dispatchEvent(new MouseEvent(kind, {bubbles: true, cancelable: true}));
} }"""
# fields that decide what the page draws, which are no text from outside
KEPT = {"kind", "role", "form", "before", "after"}


@pytest.fixture(scope="module")
def tab() -> Iterator[Any]:
    """A page of a phone's width that records dialogs and requested addresses and runs LISTEN first."""
    with chromium.browser() as browser:
        tab = browser.new_page(viewport={"width": 390, "height": 844})
        tab.asked = []
        tab.on("dialog", lambda box: (tab.asked.append(f"dialog {box.message}"), box.dismiss()))
        tab.add_init_script(LISTEN)
        tab.route("**/*", lambda route: (tab.asked.append(route.request.url), route.abort()))
        yield tab


def infect(value: Any, payloads: Iterator[str], name: str = "") -> Any:
    """Replaces every text in `value` by the next payload, names of reasons and verdicts included."""
    if isinstance(value, str):
        return value if name in KEPT else next(payloads)
    if isinstance(value, list | tuple):
        return [infect(item, payloads, name) for item in value]
    if name in ("lost", "joined"):
        return {next(payloads): sum(value.values())} if value else {}
    if isinstance(value, Mapping):
        return {key: infect(item, payloads, key) for key, item in value.items()}
    return value


def tags(html: str) -> list[str]:
    return re.findall(r"<[a-z]+[1-6]?", html)


def opened(tab: Any, html: str) -> tuple[int, list[str]]:
    """(how often a payload ran, the dialogs and addresses that the page requested)."""
    tab.asked.clear()
    tab.unroute(HOME)
    tab.route(HOME, lambda route: route.fulfill(body=html, content_type="text/html; charset=utf-8"))
    tab.goto(HOME, wait_until="domcontentloaded")
    tab.evaluate(STIR)
    return int(tab.evaluate("window.hits")), list(tab.asked)


@pytest.fixture
def figures(workspace: store.Workspace, tmp_path: Path) -> dict[str, Any]:
    """Everything that a page can show, also the changes between two releases and two runs."""
    runs = page.read_runs(results(tmp_path / "runs", run("sft"), run("safe_sft"), chosen="safe_sft"))
    changes = {"from": "1.0.0", "to": "2.0.0", "alarms": ["x"], "labels": [{"name": "x", "how": "x", "count": 1}]}
    flips = changes | {"rows": {"labels": {"added": 1, "removed": 0, "changed": 0}}}
    facts = gather(world(workspace)) | {"runs": [runs], "flips": flips}
    release: dict[str, Any] = dict.fromkeys(("name", "version", "created", "licence", "digest"), "x")
    release |= {"counts": {"conversations": {"train": 1}}}
    return facts | {"release": release, "demo": False, "simulated": True}


@pytest.mark.slow
def test_the_detector_sees_a_page_that_does_not_escape(tab: Any) -> None:
    assert len(set(PAYLOADS)) == len(PAYLOADS) >= 50
    executed = [bool(opened(tab, f"<!doctype html><body><p>{payload}</p>")[0]) for payload in PAYLOADS]
    assert sum(executed) >= 30, [payload for payload, hit in zip(PAYLOADS, executed, strict=True) if not hit]


@pytest.mark.slow
def test_no_payload_runs_wherever_it_stands(tab: Any, figures: dict[str, Any]) -> None:
    """The page's tags show each payload in every place. In the browser they take turns; `make soak` runs all places."""
    for payload in PAYLOADS:
        html, harmless = (page.render(infect(figures, repeat(text))) for text in (payload, "x" * len(payload)))
        assert tags(html) == tags(harmless), payload
    for start in range(0, len(PAYLOADS), 1 if os.environ.get("SAFEREC_SOAK") else 10):
        html = page.render(infect(figures, cycle([*PAYLOADS[start:], *PAYLOADS[:start]])))
        bare = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", html)
        assert opened(tab, bare) == (0, []), PAYLOADS[start]


def test_every_text_is_reached(figures: dict[str, Any]) -> None:
    html = page.render(infect(figures, repeat("zqx<b>\u202ezqx")))
    assert html.count("zqx&lt;b&gt;\ufffdzqx") >= 60 and "zqx<b>" not in html and "\u202e" not in html
